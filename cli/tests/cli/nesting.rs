//! Locks within locks.

use crate::support::{CommandOutput, Place};

const LEASEHOLD: &str = env!("CARGO_BIN_EXE_leasehold");

#[test]
fn nested_run_of_the_same_lock_is_refused_as_a_deadlock() {
    let place = Place::new();
    let said = place.say(["run", "x", "--", LEASEHOLD, "run", "x", "--", "true"]);
    said.code(64);
    assert!(
        said.err.ends_with(
            "error[E_INVALID]: \"x\" is held by a command that this one runs under: you would deadlock with yourself\n  \
             help     take it once, on the outside; or run the inner command with --reentrant\n"
        ),
        "{}",
        said.err
    );
}

#[test]
fn nested_run_two_locks_further_in_is_refused_as_a_deadlock() {
    let place = Place::new();
    let words = ["-q", "run", "x", "--", LEASEHOLD, "run", "y", "--", LEASEHOLD, "hold", "x"];
    place.say(words).code(64);
}

#[test]
fn nested_run_of_the_same_name_in_another_store_acquires() {
    let place = Place::new();
    let said = place.say([
        "-q",
        "run",
        "x",
        "--",
        LEASEHOLD,
        "-u",
        "sqlite:other.db",
        "run",
        "x",
        "--",
        "echo",
        "in",
    ]);
    said.expect(0, "in\n", "");
}

#[test]
fn daemon_started_under_a_lock_acquires_it_after_the_release() {
    let place = Place::new();
    let said = place.say(["-q", "run", "x", "--", "sh", "-c", "echo $LEASEHOLD_STACK"]);
    let mut later = place.command(["run", "x", "--", "echo", "mine"]);
    later.env("LEASEHOLD_STACK", said.out.trim());
    CommandOutput::of(&later.output().unwrap()).expect(0, "mine\n", "");
    // Also while somebody else holds it: that is no deadlock, it is a wait.
    let _holder = place.hold("x");
    let mut busy = place.command(["-qq", "run", "-n", "x", "--", "true"]);
    busy.env("LEASEHOLD_STACK", said.out.trim());
    CommandOutput::of(&busy.output().unwrap()).expect(75, "", "");
}

/// It ends by itself, and is no deadlock.
#[test]
fn released_lock_still_kept_from_others_is_no_deadlock() {
    let place = Place::new();
    let kept = ["-q", "run", "--hold-at-least", "1m", "x", "--", "sh", "-c", "echo $LEASEHOLD_STACK"];
    let said = place.say(kept);
    let mut later = place.command(["-q", "run", "-n", "x", "--", "true"]);
    later.env("LEASEHOLD_STACK", said.out.trim());
    let later = CommandOutput::of(&later.output().unwrap());
    assert!(later.code(75).err.contains("\"x\" is released, and others are kept out for "), "{later:?}");
}
