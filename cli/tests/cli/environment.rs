//! What the command finds in its environment.

use crate::support::{CommandOutput, Place, Running, full_pipe};
use leasehold_test_stores::servers::RedisServer;
use std::collections::BTreeMap;
use std::fs::File;
use std::process::Stdio;

fn environment(said: &CommandOutput) -> BTreeMap<String, String> {
    let pairs = said.out.lines().filter_map(|line| line.split_once('='));
    let ours = pairs.filter(|(name, _)| name.starts_with("LEASEHOLD"));
    ours.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[test]
fn environment_of_the_command_describes_its_lock() {
    let place = Place::new();
    let said = place.say(["run", "--ttl", "1m 30s", "a b", "--", "env"]);
    let mut told = environment(&said);
    assert_eq!(told.remove("LEASEHOLD_HELD").as_deref(), Some("1"));
    assert_eq!(told.remove("LEASEHOLD_NAME").as_deref(), Some("a b"));
    assert_eq!(told.remove("LEASEHOLD_BACKEND").as_deref(), Some("sqlite"));
    assert_eq!(told.remove("LEASEHOLD_TTL_MS").as_deref(), Some("90000"));
    let token: u64 = told.remove("LEASEHOLD_TOKEN").unwrap().parse().unwrap();
    assert!(token > 0);
    let acquired_at = told.remove("LEASEHOLD_ACQUIRED_AT").unwrap();
    assert!(acquired_at.starts_with("20") && acquired_at.ends_with('Z'), "{acquired_at}");
    let stack = told.remove("LEASEHOLD_STACK").unwrap();
    assert!(stack.ends_with(&format!(":{token}:a%20b")), "{stack}");
    assert_eq!(told, BTreeMap::new());
}

#[test]
fn tokens_grow_from_run_to_run() {
    let place = Place::new();
    let token = || {
        let said = place.say(["-q", "run", "x", "--", "sh", "-c", "echo $LEASEHOLD_TOKEN"]);
        said.out.trim().parse::<u64>().unwrap()
    };
    let (first, second) = (token(), token());
    assert!(first < second, "{first} {second}");
}

#[test]
fn nested_command_has_the_inner_lock_and_a_stack_of_both() {
    let place = Place::new();
    let said = place
        .command(["-q", "run", "outer", "--", env!("CARGO_BIN_EXE_leasehold"), "run", "inner", "--", "env"])
        .output()
        .unwrap();
    let told = environment(&CommandOutput::of(&said));
    assert_eq!(told["LEASEHOLD_NAME"], "inner");
    let stack = &told["LEASEHOLD_STACK"];
    let names: Vec<&str> = stack.split(',').map(|entry| entry.rsplit(':').next().unwrap()).collect();
    assert_eq!(names, ["outer", "inner"]);
    assert!(stack.ends_with(&format!("{}:inner", told["LEASEHOLD_TOKEN"])));
}

#[test]
fn token_fd_gets_the_token_and_is_closed_to_the_command() {
    let place = Place::new();
    let script = r#""$0" -q run --token-fd 3 x -- sh -c 'echo $LEASEHOLD_TOKEN; ls /proc/self/fd' 3>token"#;
    let said = place.shell(script);
    let token = std::fs::read_to_string(place.path().join("token")).unwrap();
    assert_eq!(said.out, format!("{token}{}", place.shell("ls /proc/self/fd 3>&-").out));
}

/// The caller must know the token that it asked for before the command does anything.
#[test]
fn unwritable_token_fd_prevents_the_start_of_the_command() {
    let place = Place::new();
    let (_unread, full) = full_pipe();
    let no_space = File::options().write(true).open("/dev/full").unwrap();
    let cases = [
        (full.into(), "it is full, and nobody reads it"),
        (Stdio::from(no_space), "No space left on device (os error 28)"),
    ];
    for (descriptor, cause) in cases {
        let mut command = place.command(["run", "--token-fd", "0", "x", "--", "echo", "ran"]);
        command.stdin(descriptor);
        let said = Running::start(command).wait();
        assert_eq!((said.code, said.out.as_str()), (Some(70), ""), "{said:?}");
        let words = format!(
            "error[E_INTERNAL]: cannot write the token to the descriptor of --token-fd\n  cause    {cause}\n"
        );
        assert!(said.err.contains(&words), "{}", said.err);
        assert!(!place.is_held("x"));
    }
}

#[test]
fn token_fd_without_a_reader_does_not_prevent_the_run() {
    let place = Place::new();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = place.command(["-q", "run", "--token-fd", "0", "x", "--", "echo", "ran"]);
    command.stdin(writer);
    Running::start(command).wait().expect(0, "ran\n", "");
}

#[test]
fn signal_dispositions_are_the_same_with_and_without_a_lock() {
    let place = Place::new();
    let signals = |said: CommandOutput| -> Vec<(String, u64)> {
        let sets = said.out.lines().filter_map(|line| line.split_once(":\t"));
        let sets = sets.filter(|(name, _)| ["SigBlk", "SigIgn", "SigCgt"].contains(name));
        // Without the real-time signals: the C library has two of its own among them, and ignores them as it likes.
        sets.map(|(name, set)| (name.to_owned(), u64::from_str_radix(set, 16).unwrap() & 0x7fff_ffff))
            .collect()
    };
    for trap in ["true", "trap '' HUP", "trap '' TERM INT QUIT HUP"] {
        let bare = place.shell(&format!("{trap}; cat /proc/self/status"));
        let locked = place.shell(&format!("{trap}; \"$0\" -q run x -- cat /proc/self/status"));
        assert_eq!(signals(locked), signals(bare), "{trap}");
    }
}

/// What the file names by `password_env` is not there any more, and nobody has set it wrong.
#[test]
fn nested_run_without_its_password_is_pointed_to_pass_env() {
    let server = RedisServer::start_with(&["--requirepass", "open sesame"]).unwrap();
    let place = Place::new();
    let profile = format!("[profile.p]\nurl = \"{}\"\npassword_env = \"REDIS_PW\"\n", server.url());
    place.file("leasehold.toml", &format!("default = \"p\"\n{profile}"));
    let nested = [env!("CARGO_BIN_EXE_leasehold"), "run", "inner", "--", "true"];
    let run = |options: &[&str]| {
        let mut command = place.command([&["run"], options, &["outer", "--"], &nested[..]].concat());
        command.env("REDIS_PW", "open sesame");
        Running::start(command).wait()
    };
    let told = run(&[]);
    assert!(told.code(78).err.contains("\n  help     give --pass-env to the leasehold run that"), "{told:?}");
    assert!(!place.say(["try", "x"]).code(78).err.contains("--pass-env"));
    run(&["--pass-env"]).code(0);
}
