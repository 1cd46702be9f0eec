//! Between the order to start the command and the report that it runs.

use crate::support::{Place, Running, Stubborn, TTL, Traced, gone, until};
use leasehold::client::{Clock, SystemClock};
use nix::libc::SYS_sendto;
use rustix::process::Signal;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

/// A watchdog to be, with an order to say that it ran, and the other end of its link.
fn ordered(place: &Place, on_lost: &str, lease_end: u64) -> (Command, UnixStream) {
    let (mut leasehold, link) = UnixStream::pair().unwrap();
    let times = r#""grace":{"secs":0,"nanos":0},"reserve":{"secs":1,"nanos":0}"#;
    let terms = format!(r#"{{"on_lost":"{on_lost}",{times},"dies_with_holder":true}}"#);
    let start = format!(
        r#"{{"removed":[],"environment":[],"waits_for_all":false,"terms":{terms},"lease_end":{lease_end}}}"#
    );
    let word = |word: &str| serde_json::json!({ "Unix": word.as_bytes() });
    let program =
        serde_json::json!({ "file": word("/bin/echo"), "name": word("echo"), "arguments": [word("ran")] });
    writeln!(leasehold, r#"{{"Prepare":{program}}}"#).unwrap();
    writeln!(leasehold, r#"{{"Start":{start}}}"#).unwrap();
    let mut watchdog = place.command(["0"]);
    watchdog.arg0("lh-watchdog").stdin(OwnedFd::from(link));
    (watchdog, leasehold)
}

/// The watchdog may hear the order late, when a lock that ends with its holder is somebody else's already.
/// What is left alone shows whether it ran.
#[test]
fn order_of_a_killed_leasehold_starts_nothing() {
    let place = Place::new();
    let (watchdog, leasehold) = ordered(&place, "Warn", u64::MAX);
    drop(leasehold);
    Running::start(watchdog).wait().expect(0, "", "");
}

/// As if both were stopped between the grant and the start. To warn is to leave alone what runs, and nothing does yet.
#[test]
fn order_after_the_lease_starts_nothing_under_any_on_lost() {
    let place = Place::new();
    for on_lost in ["Term", "Kill", "Warn"] {
        let (watchdog, leasehold) = ordered(&place, on_lost, 1);
        Running::start(watchdog).wait().expect(0, "", "");
        let mut report = String::new();
        BufReader::new(leasehold).read_line(&mut report).unwrap();
        assert_eq!(report, "\"TooLate\"\n", "{on_lost}");
    }
}

/// As if the disk did not answer on which it is: its exec is what the watchdog waits for.
#[test]
fn slow_start_of_a_killed_leasehold_does_not_begin_after_the_lease() {
    let place = Place::new();
    let mut holder = place.hold("x");
    let run = place.start(["-v", "run", "--ttl", "1500ms", "x", "--", "echo", "ran"]);
    run.warned("waiting: ");
    let watchdog = Traced::hold(run.watchdog());
    holder.end_input();
    let command = watchdog.hold_its_child();
    run.signal(Signal::KILL);
    until("the lease is over", || !place.is_held("x"));
    assert!(command.gives_up());
}

/// A command that works, as it does from its first moment on, and its watchdog, which is about to report that it runs.
fn unreported(ttl: Duration, place: Place) -> (Stubborn, Traced) {
    let mut holder = place.hold("x");
    let mut watchdog = None;
    let stubborn = Stubborn::under_lease(ttl, place, &[], |process| {
        let watchdog = watchdog.insert(Traced::hold(process));
        holder.end_input();
        watchdog.go_to_fork();
        watchdog.go_to_call(SYS_sendto);
    });
    (stubborn, watchdog.unwrap())
}

#[test]
fn watchdog_killed_before_its_report_leaves_nothing_of_the_command() {
    let (stubborn, mut watchdog) = unreported(TTL, Place::new());
    watchdog.kill();
    let said = stubborn.run.wait();
    assert!(!stubborn.processes.iter().any(|process| process.lives()));
    said.code(70);
    assert!(said.err.contains("error[E_INTERNAL]: the watchdog was killed"), "{}", said.err);
    assert!(!stubborn.place.is_held("x"));
}

/// The lease is not confirmed meanwhile either: the lock is free when it ends. The lease is long, because half of a reserve is
/// left for the kill, a twenty-fourth of the lease: on a busy machine a process may stand still for that part of a short lease.
#[test]
fn watchdog_stopped_before_its_report_lets_no_command_outlive_the_lease() {
    let (place, redis) = Place::with_redis();
    let ttl = TTL * 4;
    let (stubborn, watchdog) = unreported(ttl, place);
    drop(redis);
    let clock = SystemClock::new();
    let lease_end = clock.now().plus(ttl);
    gone(&stubborn.processes);
    assert!(clock.now() < lease_end, "the lease was over before the command was");
    drop(watchdog);
    stubborn.run.wait().code(70);
}
