//! A password is in no output, and in nobody else's hands.

use crate::support::{CommandOutput, Place, Process};
use leasehold_test_stores::servers::RedisServer;
use std::time::{Duration, Instant};

const CANARY: &str = "S3CR3T-CANARY";

fn with_password(server: &RedisServer) -> String {
    server.url().replace("//", &format!("//:{CANARY}@"))
}

#[test]
fn url_with_a_password_is_refused_on_the_command_line() {
    let place = Place::new();
    for url in [format!("redis://u:{CANARY}@h"), format!("redis://h?password={CANARY}")] {
        let said = place.say(["-u", &url, "run", "x", "--", "true"]);
        said.code(64);
        assert!(!said.err.contains(CANARY), "{}", said.err);
        assert!(
            said.err.contains("LEASEHOLD_URL") && said.err.contains("LEASEHOLD_PASSWORD_FILE"),
            "{}",
            said.err
        );
    }
}

#[test]
fn no_output_has_the_password() {
    let server = RedisServer::start_with(&["--requirepass", CANARY]).unwrap();
    let wrong = RedisServer::start_with(&["--requirepass", "another"]).unwrap();
    let mut dead = RedisServer::start().unwrap();
    dead.kill();
    let verbs: [&[&str]; 10] = [
        &["run", "-v", "x", "--", "env"],
        &["run", "x", "--", "no-such-command"],
        &["hold", "-v", "-n", "x"],
        &["try", "x"],
        &["ls", "--json"],
        &["inspect", "--json", "x"],
        &["release", "--force", "--yes", "x"],
        &["init"],
        &["config", "show"],
        &["config", "check"],
    ];
    for url in [with_password(&server), with_password(&wrong), with_password(&dead)] {
        let place = Place::with_store(url);
        for words in verbs {
            let mut command = place.command(words);
            command.env("LEASEHOLD_LOG", "trace").stdin(std::process::Stdio::piped());
            let said = CommandOutput::of(&command.output().unwrap());
            assert!(!format!("{said:?}").contains(CANARY), "{words:?}: {said:?}");
        }
    }
}

#[test]
fn password_reaches_the_command_only_with_pass_env() {
    let server = RedisServer::start_with(&["--requirepass", CANARY]).unwrap();
    let place = Place::with_store(with_password(&server));
    let said = place.say(["run", "x", "--", "env"]);
    assert!(!said.code(0).out.contains("LEASEHOLD_URL="), "{}", said.out);
    let said = place.say(["run", "--pass-env", "x", "--", "env"]);
    assert!(said.code(0).out.contains(CANARY), "{}", said.out);
}

#[test]
fn password_is_not_visible_in_the_process_list() {
    let server = RedisServer::start_with(&["--requirepass", CANARY]).unwrap();
    let place = Place::with_store(with_password(&server));
    let mut run = place.start(["run", "x", "--", "sh", "-c", "echo pid $$; exec sleep 1000"]);
    let command = run.process_line("pid ");
    let shown = |process: Process, file: &str| {
        let text = std::fs::read(format!("/proc/{}/{file}", process.number())).unwrap();
        String::from_utf8_lossy(&text).contains(CANARY)
    };
    // Everybody may read a command line; an environment is for its own user.
    for process in [run.process(), run.watchdog(), command] {
        assert!(!shown(process, "cmdline"), "{process:?}");
    }
    assert!(!shown(command, "environ"));
}

#[test]
fn variable_named_by_password_env_is_kept_from_the_command() {
    let server = RedisServer::start_with(&["--requirepass", CANARY]).unwrap();
    let place = Place::new();
    place.file(
        "leasehold.toml",
        &format!("default = \"p\"\n[profile.p]\nurl = \"{}\"\npassword_env = \"REDIS_PW\"\n", server.url()),
    );
    let run = || {
        let mut command = place.command(["run", "x", "--", "env"]);
        command.env("REDIS_PW", CANARY);
        command
    };
    let said = CommandOutput::of(&run().output().unwrap());
    assert!(!said.code(0).out.contains("REDIS_PW"), "{}", said.out);
    // Also if the password is taken from elsewhere.
    place.file("password", CANARY);
    let said = CommandOutput::of(&run().env("LEASEHOLD_PASSWORD_FILE", "password").output().unwrap());
    assert!(!said.code(0).out.contains("REDIS_PW"), "{}", said.out);
}

#[test]
fn url_without_a_secret_reaches_nested_commands() {
    let place = Place::with_store("sqlite:locks.db");
    let nested = env!("CARGO_BIN_EXE_leasehold");
    let said =
        place.say(["run", "outer", "--", nested, "run", "inner", "--", "sh", "-c", "echo $LEASEHOLD_URL"]);
    said.expect(0, "sqlite:locks.db\n", "");
}

/// It would lock for itself, in a file that nobody else looks at.
#[test]
fn nested_run_without_its_url_is_refused_the_default_store() {
    let server = RedisServer::start_with(&["--requirepass", CANARY]).unwrap();
    let place = Place::with_store(with_password(&server));
    let nested = env!("CARGO_BIN_EXE_leasehold");
    let said = place.say(["run", "outer", "--", nested, "run", "inner", "--", "true"]);
    assert!(said.code(78).err.contains("LEASEHOLD_URL was removed"), "{}", said.err);
    assert!(said.err.contains("--pass-env") && !place.default_store().exists(), "{}", said.err);
    place.say(["run", "--pass-env", "outer", "--", nested, "run", "inner", "--", "true"]).code(0);
    place.say(["run", "outer", "--", nested, "-u", "sqlite:x.db", "run", "inner", "--", "true"]).code(0);
}

/// The run that takes its place has removed it, too.
#[test]
fn nested_run_below_a_reentrant_one_is_refused_the_default_store() {
    let server = RedisServer::start_with(&["--requirepass", CANARY]).unwrap();
    let place = Place::with_store(with_password(&server));
    let nested = env!("CARGO_BIN_EXE_leasehold");
    let inner = [nested, "run", "--reentrant", "outer", "--", nested, "run", "inner", "--", "true"];
    let said = place.say([&["run", "--pass-env", "outer", "--"], &inner[..]].concat());
    assert!(said.code(78).err.contains("LEASEHOLD_URL was removed"), "{}", said.err);
    assert!(!place.default_store().exists());
}

/// All that a Redis keeps, in the clear: what `DUMP` answers is compressed, and a word may be cut in two there.
const EVERYTHING: &str = "
    local read = { string = { 'GET' }, hash = { 'HGETALL' }, zset = { 'ZRANGE', 0, -1 } }
    local all = {}
    for _, key in ipairs(redis.call('KEYS', '*')) do
        local how = read[redis.call('TYPE', key).ok]
        all[#all + 1] = { key, redis.call(how[1], key, unpack(how, 2)) }
    end
    return all";

#[test]
fn arguments_of_the_command_are_not_told_to_others() {
    let (place, server) = Place::with_redis();
    let script = format!("echo ready; : -p{CANARY}; exec sleep 1000");
    let words = ["run", "x", "--", "sh", "-c", &script];
    let mut run = place.start(words);
    run.line("ready");
    // A waiter has an entry in the store as well.
    let _waiter = place.start(words);
    let start = Instant::now();
    let kept = loop {
        let kept = server.command(&["EVAL", EVERYTHING, "0"]).unwrap();
        if kept.contains(":queue") {
            break kept;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "nobody waits: {kept}");
        std::thread::sleep(Duration::from_millis(10));
    };
    // What is to be told, is: it is the right place to look at.
    assert!(kept.contains("\"doing\":\"sh"), "{kept}");
    assert!(!kept.contains(CANARY), "{kept}");
}
