//! Every message: what is wrong, with the value and the limit, and what to do next.

use crate::support::Place;
use leasehold_test_stores::servers::RedisServer;
use std::ffi::OsStr;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::ffi::OsStrExt;

/// The whole of what is said, for a command line and an environment.
fn said(place: &Place, words: &[&str]) -> String {
    place.say(words).err
}

/// A build with the feature opens the connection instead.
#[cfg(not(feature = "zookeeper-tls"))]
#[test]
fn zookeeper_over_tls_is_refused_with_the_feature_to_build_with() {
    let place = Place::with_store("zk+tls://localhost/app");
    place.say(["run", "x", "--", "true"]).expect(
        78,
        "",
        "error[E_MISCONFIGURED]: env LEASEHOLD_URL: the backend of \"zk+tls://\" is not compiled in\n  \
         help     cargo build --features zookeeper-tls\n",
    );
}

#[test]
fn invalid_value_is_reported_with_its_own_message() {
    let place = Place::with_store("sqlite:locks.db");
    let long = "x".repeat(513);
    let cases: [(&[&str], &str); 23] = [
        (
            &["run", "--grace", "-1s", "x", "--", "true"],
            "error[E_INVALID]: invalid value '-1s' for '--grace <TIME>': \"-1s\": expected number at 0; write it like 30s",
        ),
        (
            &["run", "-E", "-1", "x", "--", "true"],
            "error[E_INVALID]: invalid value '-1' for '--conflict-exit-code <CODE>': -1 is not in 0..=255",
        ),
        (
            &["run", "--token-fd", "-1", "x", "--", "true"],
            "error[E_INVALID]: invalid value '-1' for '--token-fd <N>': -1 is not in 0..=2147483647",
        ),
        (
            &["man", "/nowhere"],
            "error[E_INVALID]: invalid directory: cannot write to /nowhere\n  cause    No such file or directory (os error 2)\n  help     name one that exists and is yours\n",
        ),
        (
            &["run", "", "--", "true"],
            "error[E_INVALID]: invalid lock name: it is empty\n  help     give it at least one character\n",
        ),
        (
            &["run", &long, "--", "true"],
            "error[E_INVALID]: invalid lock name: 513 bytes, limit 512\n  help     shorten it, or use a digest of it\n",
        ),
        (
            &["try", "a\nb"],
            "error[E_INVALID]: invalid lock name: control character U+000A at byte 1\n  help     take it out, or percent-encode it\n",
        ),
        (
            &["run"],
            "error[E_INVALID]: invalid lock name: there is none\n  help     write it first, then two dashes and the command: NAME -- COMMAND\n",
        ),
        (
            &["run", "x"],
            "error[E_INVALID]: invalid command: there is none\n  help     the command stands behind two dashes: leasehold run NAME -- COMMAND\n",
        ),
        (
            &["run", "x", "--", ""],
            "error[E_INVALID]: invalid command: it is empty\n  help     name a program\n",
        ),
        (
            &["run", "--ttl", "30", "x", "--", "true"],
            "error[E_INVALID]: invalid ttl: \"30\" has no unit\n  help     write 30s or 30ms\n",
        ),
        (
            &["run", "--ttl", "0s", "x", "--", "true"],
            "error[E_INVALID]: invalid ttl: 0ns, at least 50ms\n  help     lengthen it\n",
        ),
        (
            &["run", "--ttl", "1ns", "x", "--", "true"],
            "error[E_INVALID]: invalid ttl: 1ns, at least 50ms\n  help     lengthen it\n",
        ),
        (
            &["run", "--ttl", "25h", "x", "--", "true"],
            "error[E_INVALID]: invalid ttl: 90000s, at most 86400s\n  help     shorten it: a lease that is renewed need not outlast the work\n",
        ),
        (
            &["run", "--ttl", "584942417355y", "x", "--", "true"],
            "error[E_INVALID]: invalid ttl: \"584942417355y\": number is too large or cannot be represented",
        ),
        (
            &["run", "--ttl", "-5s", "x", "--", "true"],
            "error[E_INVALID]: invalid ttl: \"-5s\": expected number at 0\n  help     write it like 30s, 1500ms or 1m 30s\n",
        ),
        (
            &["run", "--hold-at-least", "12s", "--max-hold", "10s", "x", "--", "true"],
            "error[E_INVALID]: invalid hold_at_least: 12s is longer than max_hold 10s\n  help     make it the shorter of the two\n",
        ),
        (
            &["run", "--max-hold", "0s", "x", "--", "true"],
            "error[E_INVALID]: invalid max_hold: it is zero\n  help     give it a time, or leave it out\n",
        ),
        (
            &["run", "--info", &format!("k={}", "x".repeat(1024)), "x", "--", "true"],
            "error[E_INVALID]: invalid holder info: ",
        ),
        (
            &["run", "--status-fd", "77", "x", "--", "true"],
            "error[E_INVALID]: invalid status-fd: descriptor 77 is not open\n  help     open it when you call: 77>FILE\n",
        ),
        (
            &["run", "x", "--", "no-such-command"],
            "error[E_COMMAND]: cannot execute \"no-such-command\": it was not found\n  help     check its spelling, and PATH\n",
        ),
        (
            &["run", "x", "--", "echo hi"],
            "error[E_COMMAND]: cannot execute \"echo hi\": it was not found\n  help     it has a blank in it: a line of shell stands behind -c: leasehold run NAME -c 'COMMAND …'\n",
        ),
        (
            &["run", "x", "--", "/tmp"],
            "error[E_COMMAND]: cannot execute \"/tmp\": it is a directory\n  help     name a program\n",
        ),
    ];
    for (words, expected) in cases {
        let said = said(&place, words);
        assert!(said.starts_with(expected), "{words:?}: {said}");
        assert!(!expected.ends_with('\n') || said == expected, "{words:?}: {said}");
    }
    assert!(!place.path().join("locks.db").exists(), "something was created");
}

#[test]
fn parser_error_says_which_values_are_valid() {
    let place = Place::new();
    let cases: [(&[&str], &str); 7] = [
        (
            &["run", "-w", "soon", "x", "--", "true"],
            "error[E_INVALID]: invalid value 'soon' for '--wait <TIME>': \"soon\": expected number at 0; write it like 30s, 1500ms or 1m 30s\n",
        ),
        (
            &["run", "--grace", "5", "x", "--", "true"],
            "error[E_INVALID]: invalid value '5' for '--grace <TIME>': \"5\" has no unit; write 5s or 5ms\n",
        ),
        (
            &["run", "--info", "a", "x", "--", "true"],
            "error[E_INVALID]: invalid value 'a' for '--info <KEY=VALUE>': write it as KEY=VALUE\n",
        ),
        (
            &["run", "--on-lost", "cry", "x", "--", "true"],
            "error[E_INVALID]: invalid value 'cry' for '--on-lost <HOW>'\n  help     possible values: term, kill, warn\n",
        ),
        (
            &["run", "x", "echo", "hi"],
            "error[E_INVALID]: invalid command: there is none\n  help     the command stands behind two dashes: leasehold run NAME -- echo …\n",
        ),
        (&["rum"], "error[E_INVALID]: unrecognized subcommand 'rum'\n"),
        (
            &["release", "x"],
            "error[E_INVALID]: the following required arguments were not provided: --force\n  usage    ",
        ),
    ];
    for (words, expected) in cases {
        let said = said(&place, words);
        assert!(said.starts_with(expected), "{words:?}: {said}");
    }
}

#[test]
fn lock_name_that_is_not_utf8_is_refused() {
    let place = Place::new();
    let odd = OsStr::from_bytes(b"a\xff");
    let expected =
        "error[E_INVALID]: invalid lock name: it is not UTF-8\n  help     use UTF-8, or percent-encode it\n";
    for verb in ["try", "inspect", "hold"] {
        place.say([OsStr::new(verb), odd]).expect(64, "", expected);
    }
    let words = [OsStr::new("run"), odd, OsStr::new("--"), OsStr::new("true")];
    place.say(words).expect(64, "", expected);
}

#[test]
fn lock_name_with_a_leading_dash_is_accepted() {
    let place = Place::new();
    let said = place.say(["-q", "run", "--", "-n", "--", "sh", "-c", "printf '%s\n' $LEASEHOLD_NAME"]);
    said.expect(0, "-n\n", "");
    place.say(["-q", "run", "-c", "printf '%s\n' $LEASEHOLD_NAME", "--", "-n"]).expect(0, "-n\n", "");
    let mut holder = place.start(["hold", "--", "-n"]);
    holder.line("{\"name\":\"-n\"");
    place.say(["try", "--", "-n"]).code(75);
}

#[test]
fn arguments_of_the_command_need_not_be_text() {
    let place = Place::new();
    let odd = OsStr::from_bytes(b"a\xff b");
    let mut words = ["-q", "run", "x", "--", "printf", "%s"].map(OsStr::new).to_vec();
    words.push(odd);
    let output = place.command(words).output().unwrap();
    assert_eq!(output.stdout, b"a\xff b");
}

#[test]
fn unknown_scheme_is_reported_with_the_nearest_one() {
    let place = Place::new();
    let err = said(&place, &["-u", "reddis://h", "run", "x", "--", "true"]);
    assert!(err.starts_with("error[E_MISCONFIGURED]: no backend for \"reddis://\"\n  help     did you mean \"redis\"? compiled in: "), "{err}");
}

#[test]
fn unwritable_state_directory_is_reported() {
    let place = Place::new();
    // A file where the directory should be: root, who runs this in a container, is not stopped by permissions.
    place.file("state/leasehold", "");
    let said = place.say(["run", "x", "--", "true"]);
    said.code(78);
    assert!(said.err.contains(&place.path().join("state/leasehold").display().to_string()), "{}", said.err);
}

#[test]
fn unreadable_configuration_file_is_reported() {
    let place = Place::new();
    std::fs::create_dir(place.path().join("leasehold.toml")).unwrap();
    let said = place.say(["run", "x", "--", "true"]);
    said.code(78);
    assert!(said.err.contains("leasehold.toml"), "{}", said.err);
    let missing = place.say(["--config", "/no/such/file.toml", "run", "x", "--", "true"]);
    missing.code(78);
    assert!(missing.err.contains("/no/such/file.toml"), "{}", missing.err);
}

#[test]
fn quiet_says_one_line_and_quieter_none() {
    let place = Place::new();
    let _holder = place.hold("x");
    let quiet = place.say(["-q", "run", "-n", "x", "--", "true"]);
    assert_eq!((quiet.code, quiet.err.lines().count()), (Some(75), 1));
    place.say(["-qq", "run", "-n", "x", "--", "true"]).expect(75, "", "");
}

#[test]
fn colours_are_for_terminals_or_on_request() {
    let place = Place::new();
    assert!(!said(&place, &["run"]).contains('\x1b'));
    assert!(said(&place, &["--color", "always", "run"]).contains("\x1b["));
}

/// What it says in an error is put into ours, on whose terminal it could write what it likes.
#[test]
fn control_characters_of_a_server_error_are_escaped() {
    let redis = RedisServer::start().unwrap();
    let place = Place::with_store(format!("redis://{}", that_refuses_scripts(redis.port())));
    for verb in [&["run", "-n", "x", "--", "true"][..], &["try", "x"], &["hold", "-w", "1", "x"]] {
        let said = place.say([&["-v", "--color", "never"], verb].concat());
        let coloured = place.say([&["-v", "--color", "always"], verb].concat());
        assert!(said.err.contains("owned"), "{said:?}");
        let ours = ["\x1b[1m\x1b[31m", "\x1b[1m\x1b[33m", "\x1b[36m", "\x1b[0m"];
        let rest = ours.iter().fold(coloured.err.clone(), |rest, ours| rest.replace(ours, ""));
        assert!(!rest.contains(|c: char| c.is_control() && c != '\n'), "{rest:?}");
    }
}

/// A Redis that answers every script with an error of its own words.
fn that_refuses_scripts(port: u16) -> SocketAddr {
    const ERROR: &[u8] = b"-ERR \x1b]0;owned\x07\x1b[2Jno\xc2\x9b2J such \x1b[1mscript\r\n";
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let serve = move |client: TcpStream| {
        let redis = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let (mut replies, mut to_client) = (redis.try_clone().unwrap(), client.try_clone().unwrap());
        std::thread::spawn(move || std::io::copy(&mut replies, &mut to_client));
        let mut asked = [0; 65536];
        while let Ok(length @ 1..) = (&client).read(&mut asked) {
            let is_script = asked[..length].windows(4).any(|word| word == b"EVAL");
            let answer =
                if is_script { (&client).write_all(ERROR) } else { (&redis).write_all(&asked[..length]) };
            if answer.is_err() {
                break;
            }
        }
    };
    std::thread::spawn(move || {
        for client in listener.incoming() {
            std::thread::spawn(move || serve(client.unwrap()));
        }
    });
    address
}

/// Not after all has been measured.
#[test]
fn unwritable_result_file_is_refused_before_the_run() {
    let place = Place::new();
    for words in [["bench", "--json", "/nowhere/x"], ["conformance", "--junit", "/nowhere/x"]] {
        let said = place.say(words.into_iter().chain(["redis://127.0.0.1:1"]));
        assert!(said.code(64).err.contains("/nowhere/x: "), "{}", said.err);
    }
}

#[test]
fn verb_of_another_program_is_answered_with_the_one_that_is_meant() {
    let place = Place::new();
    for (verb, meant) in
        [("status", "leasehold inspect NAME"), ("lock", "leasehold run NAME"), ("list", "leasehold ls")]
    {
        let said = place.say([verb, "x"]);
        assert!(
            said.code(64).err.contains(&format!("there is no {verb:?}")) && said.err.contains(meant),
            "{said:?}"
        );
    }
}

/// `leasehold` fits the limit of the system, and its command, with some variables more, does not.
#[test]
fn environment_too_large_for_the_command_is_named_as_the_cause() {
    let place = Place::new();
    // Arguments and environment have a quarter of the limit of the stack, and each of them 128 KiB.
    let filled = "ulimit -s 2048; for i in 1 2 3 4; do export A$i=$(printf %0100000d 0); done";
    let run = |size: usize| {
        place.shell(&format!("{filled}; export B=$(printf %0{size}d 0); exec \"$0\" -q run x -- true"))
    };
    let (mut fits, mut too_large) = (1, 131_000);
    while too_large - fits > 1 {
        let size = usize::midpoint(fits, too_large);
        let said = run(size);
        let is_started = said.err.is_empty() || said.err.starts_with("error[");
        if is_started { fits = size } else { too_large = size }
    }
    let said = run(fits);
    let message = "error[E_COMMAND]: cannot execute \"true\": Argument list too long (os error 7)\n";
    said.expect(126, "", message);
}

#[test]
fn address_without_brackets_is_named_as_the_cause() {
    let place = Place::new();
    let said = place.say(["-u", "redis://::1:6379", "run", "x", "--", "true"]);
    assert!(said.code(64).err.contains("brackets") || said.err.contains("[::1]"), "{said:?}");
    assert!(!said.err.contains("password"), "{said:?}");
}

#[test]
fn relative_home_is_named_as_the_cause() {
    let place = Place::new();
    let said = place.shell("env -u XDG_STATE_HOME HOME=relative \"$0\" run x -- true");
    assert!(said.code(78).err.contains("HOME is no absolute path"), "{said:?}");
}
