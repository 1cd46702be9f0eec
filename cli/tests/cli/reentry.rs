//! `run --reentrant`: a command under the hold of a command above it.

use crate::support::{CommandOutput, Place, Process, Running, Traced, gone, until};
use leasehold_test_stores::servers::RedisServer;
use nix::libc::SYS_rt_sigaction;
use rustix::process::Signal;
use std::process::{Command, Stdio};

const LEASEHOLD: &str = env!("CARGO_BIN_EXE_leasehold");

fn words<'a>(outer: &[&'a str], inner: &[&'a str]) -> Vec<&'a str> {
    [&["-q", "run"], outer, &["--", LEASEHOLD, "-q", "run", "--reentrant"], inner].concat()
}

#[test]
fn inner_command_runs_under_the_hold_above_and_releases_nothing() {
    let place = Place::new();
    let inner = r#""$0" -q run --reentrant x -- sh -c 'echo $LEASEHOLD_TOKEN $LEASEHOLD_NAME; exit 3'"#;
    let script = format!("echo $LEASEHOLD_TOKEN $LEASEHOLD_NAME; {inner}; echo $?; \"$0\" -q try x; echo $?");
    let said = place.shell(&format!("\"$0\" -q run x -- bash -c '{}' \"$0\"", script.replace('\'', r"'\''")));
    let lines: Vec<&str> = said.code(0).out.lines().collect();
    assert_eq!(lines[0], lines[1], "the same token and name");
    assert_eq!((lines[2], lines.last()), ("3", Some(&"75")), "{lines:?}");
}

#[test]
fn inner_command_describes_the_lock_that_it_runs_under() {
    let place = Place::new();
    let nested = [LEASEHOLD, "-q", "run", "y", "--", LEASEHOLD, "-q", "run", "--reentrant", "x", "--", "env"];
    let said = place.say([&["-q", "run", "x", "--"], &nested[..]].concat());
    let told =
        |variable: &str| said.code(0).out.lines().find_map(|line| line.strip_prefix(variable)).unwrap();
    assert_eq!(told("LEASEHOLD_NAME="), "x");
    let stack = told("LEASEHOLD_STACK=");
    assert!(stack.contains(&format!(":{}:x", told("LEASEHOLD_TOKEN="))), "{stack}");
}

#[test]
fn lock_without_a_holder_above_is_acquired() {
    let place = Place::new();
    let said = place.say(["-q", "run", "--reentrant", "x", "--", LEASEHOLD, "-q", "try", "x"]);
    said.code(75);
    assert!(!place.is_held("x"), "it was released");
}

#[test]
fn hold_above_that_was_lost_is_not_passed_on() {
    let place = Place::new();
    let inner = r#""$0" -q release --force --yes x; "$0" run --reentrant x -- echo ran; echo code $?"#;
    let said = place.say(["-q", "run", "x", "--", "bash", "-c", inner, LEASEHOLD]);
    assert!(said.out.contains("code 80\n") && !said.out.contains("ran"), "{said:?}");
    assert!(
        said.err.contains("error[E_LOST]: lock \"x\" of a command that this one runs under was lost"),
        "{said:?}"
    );
}

#[test]
fn hold_above_in_another_store_is_not_passed_on() {
    let place = Place::new();
    let said = place.say(words(&["-u", "sqlite:other.db", "x"], &["x", "--", "echo", "ran"]));
    assert!(said.code(64).err.contains("holds \"x\" in another store") && said.out.is_empty(), "{said:?}");
}

/// A daemon keeps the variable of the lock under which it was started.
#[test]
fn hold_in_another_store_of_no_command_above_is_no_obstacle() {
    let place = Place::new();
    let stale =
        place.say(["-q", "-u", "sqlite:other.db", "run", "x", "--", "sh", "-c", "echo $LEASEHOLD_STACK"]);
    let mut later = place.command(["-q", "run", "--reentrant", "x", "--", "echo", "ran"]);
    later.env("LEASEHOLD_STACK", stale.out.trim());
    CommandOutput::of(&later.output().unwrap()).expect(0, "ran\n", "");
}

#[test]
fn token_of_one_lock_of_a_set_above_is_told() {
    let place = Place::new();
    let inner = "exec \"$0\" -q run --reentrant --token-fd 3 b -- sh -c 'echo $LEASEHOLD_TOKENS' 3>token";
    let said = place.say(["-q", "run", "a", "b", "--", "sh", "-c", inner, LEASEHOLD]);
    let tokens: serde_json::Value = serde_json::from_str(&said.code(0).out).unwrap();
    assert_eq!(std::fs::read_to_string(place.path().join("token")).unwrap(), format!("{}\n", tokens["b"]));
}

/// An inner run that waits for the store's word on the hold above: the store is stopped.
fn looking() -> (Running, Process, RedisServer, Place) {
    let server = RedisServer::start().unwrap();
    let place = Place::with_store(format!("{}?timeout=60s&connect_timeout=60s", server.url()));
    let inner = "echo pid $$; read go; exec \"$0\" -q run --reentrant x -- echo ran";
    let mut command = place.command(["run", "x", "--", "sh", "-c", inner, LEASEHOLD]);
    command.stdin(Stdio::piped());
    let mut run = Running::start(command);
    let inner = run.process_line("pid ");
    server.pause();
    run.write("go\n");
    until("it listens", || inner.listens_to(Signal::TSTP));
    (run, inner, server, place)
}

#[test]
fn signal_ends_the_look_at_the_hold_above() {
    let (run, inner, server, _place) = looking();
    inner.signal(Signal::TERM);
    gone(&[inner]);
    server.resume();
    assert_eq!(run.wait().code(143).out.lines().count(), 1, "it ran");
}

/// The exec forgets a signal that a handler has taken. The last calls before it set what signals do.
#[test]
fn signal_shortly_before_the_command_takes_the_place_of_the_inner_run_is_not_lost() {
    let (run, inner, server, _place) = looking();
    let mut traced = Traced::hold(inner);
    server.resume();
    traced.go_to_call(SYS_rt_sigaction);
    inner.signal(Signal::TERM);
    traced.let_go();
    assert_eq!(run.wait().code(143).out.lines().count(), 1, "it ran");
}

#[test]
fn command_in_place_of_the_inner_run_has_no_trace_of_it() {
    let place = Place::new();
    let show = "grep SigBlk /proc/self/status; orphan=$( (sleep 1000 >&- & echo $!) ); \
        grep -q \"PPid:\t$$\" /proc/$orphan/status && echo adopted; kill $orphan";
    let bare = place.say(["-q", "run", "x", "--", "bash", "-c", show]);
    let said = place.say(words(&["x"], &["x", "--", "bash", "-c", show]));
    assert_eq!(said.code(0).out, bare.code(0).out);
    assert_eq!(said.out.lines().count(), 1, "{said:?}");
}

#[test]
fn shared_hold_above_is_not_passed_on() {
    let place = Place::new();
    let said = place.say(words(&["--shared", "x"], &["x", "--", "echo", "ran"]));
    assert!(said.code(64).err.contains("\"x\" is held shared above") && said.out.is_empty(), "{said:?}");
}

/// The variables alone are no proof: the loss of that hold would not stop this command.
#[test]
fn hold_of_a_process_that_is_not_above_is_waited_for() {
    let place = Place::new();
    let show = "env | grep ^LEASEHOLD_; exec sleep 1000";
    let mut holder = place.start(["-q", "run", "x", "--", "sh", "-c", show]);
    let mut stranger = place.command(["-qq", "run", "-n", "--reentrant", "x", "--", "echo", "ran"]);
    for _ in 0..7 {
        let line = holder.line("LEASEHOLD_");
        let (name, value) = line.split_once('=').unwrap();
        stranger.env(format!("LEASEHOLD_{name}"), value);
    }
    CommandOutput::of(&stranger.output().unwrap()).expect(75, "", "");
}

#[test]
fn hold_above_that_cannot_be_looked_at_is_not_passed_on() {
    let place = Place::new();
    let inner = r#"mount -t tmpfs none /proc && exec "$0" run --reentrant x -- echo ran"#;
    let mut run = Command::new("unshare");
    run.args(["-rm", LEASEHOLD, "-q", "run", "x", "--", "sh", "-c", inner, LEASEHOLD]);
    place.settle(&mut run);
    let said = CommandOutput::of(&run.output().unwrap());
    assert!(
        said.err.contains("invalid --reentrant: the processes above") || said.err.contains("watchdog"),
        "{said:?}"
    );
    assert!(said.out.is_empty(), "{said:?}");
}

#[test]
fn option_that_needs_a_hold_of_its_own_is_refused() {
    let place = Place::new();
    for options in [&["--shared"][..], &["--permits", "2"], &["--strict-release"], &["--status-fd", "1"]] {
        let said = place.say([&["run", "--reentrant"], options, &["x", "--", "echo", "ran"]].concat());
        assert!(said.code(64).err.contains("cannot be used with") && said.out.is_empty(), "{said:?}");
    }
    let several = place.say(["run", "--reentrant", "a", "b", "--", "echo", "ran"]);
    assert!(several.code(64).err.contains("invalid --reentrant: with several names"), "{several:?}");
}
