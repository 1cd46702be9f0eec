use super::*;
use crate::scripts::ACQUIRE;

/// The error that the server sends in this line.
fn error(line: &str) -> ServerError {
    match redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap() {
        redis::Value::ServerError(error) => error,
        other => panic!("{other:?}"),
    }
}

fn told(line: &str) -> (ErrorKind, String) {
    let refusal = refusal(&error(line), Request::Script(&ACQUIRE));
    (refusal.kind(), refusal.to_string())
}

/// Lines as servers send them, one for each row, and what they mean.
const LINES: &[(&str, ErrorKind, &str)] = &[
    (
        "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
        Unavailable,
        "long script",
    ),
    ("LOADING Redis is loading the dataset in memory", Unavailable, "loading"),
    ("ERR invalid password", Denied, "it does not accept this user with this password"),
    ("NOPROTO unsupported protocol version", Misconfigured, "it does not speak this protocol"),
    (
        "ERR unknown command 'CONFIG', with args beginning with: 'GET' 'maxmemory-policy'",
        Misconfigured,
        "it does not know CONFIG",
    ),
    (
        "OOM command not allowed when used memory > 'maxmemory'. script: 219bb33e, on @user_script:1.",
        Unavailable,
        "memory is full",
    ),
    (
        "READONLY You can't write against a read only replica. script: 219bb33e, on @user_script:1.",
        Unavailable,
        "a replica, and locks are granted by its primary alone",
    ),
    (
        "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
        Unavailable,
        "lost its primary",
    ),
    ("NOREPLICAS Not enough good replicas to write.", Unavailable, "too few of its replicas"),
    (
        "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
        Unavailable,
        "cannot write to its disk",
    ),
    ("CLUSTERDOWN Hash slot not served", Unavailable, "its cluster"),
    ("TRYAGAIN Multiple keys request during rehashing of slot", Unavailable, "moving these keys"),
    ("MOVED 3999 127.0.0.1:6381", Misconfigured, "a node of a cluster"),
    ("ASK 3999 127.0.0.1:6381", Misconfigured, "a node of a cluster"),
    ("CROSSSLOT Keys in request don't hash to the same slot", Misconfigured, "several slots"),
    ("NOAUTH Authentication required.", Denied, "wants a password"),
    ("WRONGPASS invalid username-password pair or user is disabled.", Denied, "does not accept this user"),
    ("DENIED Redis is running in protected mode because protected mode is enabled", Denied, "protected mode"),
    (
        "WRONGTYPE Operation against a key holding the wrong kind of value",
        Misconfigured,
        "data of another program",
    ),
    ("TOKENS used up", Misconfigured, "tokens of this name are used up"),
    ("ERR DB index is out of range", Misconfigured, "no database of this index"),
    ("ERR SELECT is not allowed in cluster mode", Misconfigured, "database 0 only"),
    ("ERR max number of clients reached", Unavailable, "as many clients"),
    (
        "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?",
        Denied,
        "no password for this user",
    ),
    ("ERR Client sent AUTH, but no password is set", Denied, "no password for this user"),
];

#[test]
fn every_known_error_has_its_kind_and_its_words() {
    for (line, kind, words) in LINES {
        let (found, message) = told(line);
        assert_eq!(found, *kind, "{line}");
        assert!(message.contains(words), "{line}: {message}");
    }
}

#[test]
fn every_row_of_the_tables_has_a_line_that_tests_it() {
    for (sign, _, _, help) in BY_CODE.iter().chain(BY_TEXT) {
        assert!(LINES.iter().any(|(line, ..)| line.contains(sign)), "{sign}");
        assert!(!help.is_empty(), "{sign}");
    }
}

#[test]
fn missing_right_is_named_from_the_text_of_each_version() {
    let lines = [
        ("NOPERM this user has no permissions to run the 'evalsha' command", "EVALSHA"),
        ("NOPERM User locker has no permissions to run the 'config|get' command", "CONFIG GET"),
        ("ERR The user executing the script can't run this command or subcommand 'time'", "TIME"),
        (
            "ERR ACL failure in script: User locker has no permissions to run the 'set' command script: 70c3, on @user_script:2.",
            "SET",
        ),
    ];
    for (line, command) in lines {
        assert_eq!(told(line), (Denied, format!("this user may not run {command}")), "{line}");
    }
    let in_line = (1..99).find(|line| ACQUIRE.command_in_line(*line) == Some("EXISTS")).unwrap();
    let line = format!(
        "ERR The user executing the script can't run this command or subcommand script: 70c3, on @user_script:{in_line}."
    );
    assert_eq!(told(&line).1, "this user may not run EXISTS");
    for line in [
        "NOPERM this user has no permissions to access one of the keys used as arguments",
        "NOPERM No permissions to access a key",
        "ERR ACL failure in script: No permissions to access a key script: 7539, on @user_script:17.",
        "ERR The user executing the script can't access at least one of the keys mentioned in the command arguments script: 7539, on @user_script:1.",
    ] {
        assert_eq!(told(line), (Denied, "this user may not use the keys of this lock".to_owned()));
    }
}

#[test]
fn unknown_command_is_named_without_its_arguments() {
    let lines = [
        "ERR unknown command 'EVALSHA', with args beginning with: '70c3' '3' 'leasehold:job' '0123456789abcdef0123456789abcdef'",
        "ERR unknown command `EVALSHA`, with args beginning with: `70c3`",
        "ERR Unknown Redis command called from script script: 70c3, on @user_script:7.",
    ];
    for line in lines {
        let (kind, message) = told(line);
        assert_eq!(kind, Misconfigured);
        assert!(message.starts_with("it does not know ") && !message.contains("0123"), "{message}");
    }
    assert_eq!(told(lines[0]).1, "it does not know EVALSHA");
}

/// By a proxy, in its own words.
#[test]
fn refusal_that_names_no_command_is_of_the_one_that_was_sent() {
    for (sent, command) in
        [("AUTH", "AUTH"), ("INFO", "INFO"), ("CONFIG", "CONFIG GET"), ("SUBSCRIBE", "SUBSCRIBE")]
    {
        let told = |line: &str| refusal(&error(line), Request::Command(sent));
        let (denied, unknown) = (told("NOPERM no permission"), told(&format!("ERR unknown command {sent}")));
        assert_eq!(denied.to_string(), format!("this user may not run {command}"));
        assert_eq!(unknown.to_string(), format!("it does not know {command}"));
        assert!(unknown.help().is_some_and(|help| !help.contains("7.0")), "its version was not seen");
        assert_eq!(told("NOPERM access denied").to_string(), format!("this user may not run {command}"));
    }
    assert_eq!(told("NOPERM no permission").1, "this user may not use the keys of this lock");
    assert_eq!(told("ERR unknown command EVALSHA").1, "it does not know a command that locks need");
}

#[test]
fn only_a_hash_at_the_lock_key_is_redissons() {
    for key in ["job", "leasehold:job", "leasehold:job:holder", "{shop}:job"] {
        let told = foreign_data(key, Some("hash")).to_string();
        assert!(told.contains("Redisson owns this name"), "{told}");
    }
    for beside in ["holder", "token", "queue", "owners"] {
        for key in [format!("{{leasehold:job}}:{beside}"), format!("{{shop}}:{{job}}:{beside}")] {
            let error = foreign_data(&key, Some("hash"));
            assert!(error.to_string().starts_with(&format!("the key {key:?} holds a hash, ")), "{error}");
            assert!(!error.to_string().contains("Redisson"), "{error}");
            assert_eq!(error.help(), Some("look who writes it, or delete it"));
        }
    }
}

#[test]
fn unknown_error_is_an_unknown_outcome_and_shows_no_owner_id() {
    let owner = "0123456789abcdef0123456789abcdef";
    let (kind, message) = told(&format!("upstream failure for {owner}, id={owner}"));
    assert_eq!(kind, ErrorKind::Indeterminate);
    assert_eq!(message, "it answered with an error: upstream failure for 01234567…, id=01234567…");
    assert_eq!(told("ERR something new").0, ErrorKind::Indeterminate);
    assert_eq!(told("ERR").1, "it answered with an error: ERR");
}
