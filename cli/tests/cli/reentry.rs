//! `run --reentrant`: a command under the hold of a command above it.

use crate::support::{CommandOutput, Place};
use std::process::Command;

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
