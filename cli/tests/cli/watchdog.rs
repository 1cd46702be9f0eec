//! The main promise: the command is really stopped, whichever process is killed or suspended.

use crate::support::{Place, Process, Running, Stubborn, TTL, gone, until};
use leasehold::client::{Clock, SystemClock};
use rustix::process::Signal;
use std::process::{Command, Stdio};
use std::time::Duration;

#[test]
fn killed_leasehold_leaves_no_command_to_the_next_holder() {
    let stubborn = Stubborn::start(&[]);
    stubborn.run.signal(Signal::KILL);
    assert!(!stubborn.overlapped());
}

#[test]
fn killed_leasehold_stops_a_command_with_a_term_handler_at_once() {
    let place = Place::new();
    let mut run =
        place.start(["run", "--ttl", "1h", "x", "--", "sh", "-c", "sleep 1000 & echo pid $!; wait"]);
    let child = run.process_line("pid ");
    let watchdog = run.watchdog();
    let command = watchdog.child().unwrap();
    run.signal(Signal::KILL);
    gone(&[child, command, watchdog]);
    // No process was left to give the lock back; its lease ends it.
    assert!(place.is_held("x"));
}

#[test]
fn stopped_leasehold_loses_its_command_within_the_lease() {
    let stubborn = Stubborn::start(&[]);
    let clock = SystemClock::new();
    stubborn.run.signal(Signal::STOP);
    // A renewal may have been confirmed just before.
    let lease_end = clock.now().plus(TTL);
    gone(&stubborn.processes);
    assert!(clock.now() < lease_end, "the lease was over before the command was");
    assert!(!stubborn.overlapped());
    stubborn.run.signal(Signal::CONT);
    let said = stubborn.run.wait();
    said.code(80);
    assert!(said.err.contains("error[E_LOST]: lock \"x\" was lost after "), "{}", said.err);
    assert!(said.err.contains(" was killed"), "{}", said.err);
}

#[test]
fn killed_watchdog_makes_leasehold_kill_the_group() {
    let stubborn = Stubborn::start(&[]);
    stubborn.run.watchdog().signal(Signal::KILL);
    let said = stubborn.run.wait();
    assert!(!stubborn.processes.iter().any(|process| process.lives()));
    said.code(70);
    assert!(said.err.contains("error[E_INTERNAL]: the watchdog was killed\n"), "{}", said.err);
    assert!(!stubborn.place.is_held("x"));
}

/// As by the kernel, for lack of memory, in a wait of days.
#[test]
fn watchdog_killed_before_the_grant_is_replaced() {
    let place = Place::new();
    let mut holder = place.hold("x");
    let waiter = place.start(["run", "x", "--", "echo", "ran"]);
    waiter.warned("waiting: ");
    let watchdog = waiter.watchdog();
    watchdog.signal(Signal::KILL);
    gone(&[watchdog]);
    holder.end_input();
    holder.wait().code(0);
    assert_eq!(waiter.wait().code(0).out, "ran\n");
}

/// The watchdog has seen its end, within the lease; nobody was there to give the lock back, and it ended after it.
#[test]
fn stopped_leasehold_keeps_the_code_of_a_command_that_ends_in_time() {
    for limit in [None, Some("2s")] {
        let place = Place::new();
        let mut command = place.command(["run", "-v", "--ttl", "3s"]);
        command.args(limit.into_iter().flat_map(|limit| ["--max-hold", limit]));
        command.args(["x", "--", "sh", "-c", "echo ready; read line; exit 3"]);
        command.stdin(Stdio::piped());
        let mut run = Running::start(command);
        run.line("ready");
        run.warned("started pid");
        run.signal(Signal::STOP);
        until("it stands still", || run.process().is_stopped());
        run.write("go\n");
        until("the lease has ended", || !place.is_held("x"));
        run.signal(Signal::CONT);
        let said = run.wait();
        assert!(!said.code(3).err.contains("lost"), "{}", said.err);
    }
}

#[test]
fn stopped_watchdog_makes_leasehold_kill_the_command_at_a_loss() {
    let stubborn = Stubborn::start(&[]);
    stubborn.run.watchdog().signal(Signal::STOP);
    stubborn.place.say(["-q", "release", "--force", "--yes", "x"]).code(0);
    let said = stubborn.run.wait();
    assert!(!stubborn.processes.iter().any(|process| process.lives()));
    said.code(80);
}

#[test]
fn command_is_killed_by_the_kernel_when_both_are_killed() {
    let stubborn = Stubborn::start(&[]);
    let watchdog = stubborn.run.watchdog();
    let command = watchdog.child().unwrap();
    stubborn.run.signal(Signal::STOP);
    watchdog.signal(Signal::KILL);
    gone(&[command]);
    // What the command had started itself lives on, a shell that sleeps in a process of its own.
    for process in stubborn.processes.into_iter().filter(|process| process.lives()) {
        until("it sleeps", || process.child().is_some());
        let sleeping = process.child();
        process.signal(Signal::KILL);
        sleeping.into_iter().for_each(|sleeping| sleeping.signal(Signal::KILL));
    }
}

#[test]
fn signal_to_all_processes_does_not_end_the_watchdog() {
    let place = Place::new();
    let mut run = place.start([
        "run",
        "x",
        "--",
        "bash",
        "-c",
        "trap 'echo got TERM' TERM; echo ready; while :; do sleep 0.01; done",
    ]);
    run.line("ready");
    let watchdog = run.watchdog();
    for signal in [
        Signal::TERM,
        Signal::INT,
        Signal::HUP,
        Signal::QUIT,
        Signal::TSTP,
        Signal::TTIN,
        Signal::TTOU,
        Signal::USR1,
    ] {
        watchdog.signal(signal);
    }
    watchdog.child().unwrap().signal(Signal::TERM);
    run.signal(Signal::TERM);
    run.line("got TERM");
    assert!(watchdog.lives() && !watchdog.is_stopped());
    assert!(run.is_running());
}

#[test]
fn forced_release_stops_the_command_long_before_its_lease_ends() {
    let place = Place::new();
    let mut run = place.start([
        "run",
        "--ttl",
        "9s",
        "--grace",
        "0s",
        "x",
        "--",
        "sh",
        "-c",
        "echo pid $$; exec sleep 1000",
    ]);
    let command = run.process_line("pid ");
    place.say(["-q", "release", "--force", "--yes", "x"]).code(0);
    let since = SystemClock::new().now();
    gone(&[command]);
    // A loss is heard with the next renewal, when a third of the lease is over; two thirds were left of it at least.
    let took = SystemClock::new().now().since(since);
    assert!(took < Duration::from_millis(4_500), "{took:?}");
    run.wait().code(80);
}

#[test]
fn on_lost_kill_leaves_no_time_for_a_term_handler() {
    let place = Place::new();
    let script = "trap 'echo listened; exit' TERM; echo pid $$; while :; do sleep 0.01; done";
    let mut run = place.start(["run", "--ttl", "900ms", "--on-lost", "kill", "x", "--", "sh", "-c", script]);
    let command = run.process_line("pid ");
    place.say(["-q", "release", "--force", "--yes", "x"]).code(0);
    let said = run.wait();
    assert!(!said.code(80).out.contains("listened"));
    assert!(!command.lives());
}

/// And is said to the end, also to who wants to hear of failures only.
#[test]
fn on_lost_warn_leaves_the_command_alone() {
    let place = Place::new();
    let status = place.path().join("status");
    let mut command = Command::new("sh");
    command
        .args(["-c", "exec 3>\"$0\"; exec \"$@\""])
        .arg(&status)
        .arg(env!("CARGO_BIN_EXE_leasehold"))
        .args([
            "-q",
            "run",
            "--status-fd",
            "3",
            "--ttl",
            "900ms",
            "--on-lost",
            "warn",
            "x",
            "--",
            "sh",
            "-c",
            "echo ready; read go; exit 5",
        ]);
    place.settle(&mut command);
    command.stdin(Stdio::piped());
    let mut run = Running::start(command);
    run.line("ready");
    place.say(["-q", "release", "--force", "--yes", "x"]).code(0);
    run.warned("warning: lock \"x\" was lost: the store no longer has it\n");
    run.write("go\n");
    let said = run.wait();
    assert!(!said.code(5).err.contains("help"), "{}", said.err);
    let told = std::fs::read_to_string(status).unwrap();
    assert_eq!(told, "{\"outcome\":\"ended\",\"command\":5,\"code\":5,\"lost\":true}\n");
}

#[test]
fn command_with_a_term_handler_has_the_whole_grace() {
    let place = Place::new();
    let script = "trap 'sleep 0.5; echo cleaned up; exit 3' TERM; echo ready; while :; do sleep 0.01; done";
    let mut run = place.start(["run", "--ttl", "6s", "--grace", "1s", "x", "--", "bash", "-c", script]);
    run.line("ready");
    place.say(["-q", "release", "--force", "--yes", "x"]).code(0);
    let said = run.wait();
    assert!(said.code(80).out.contains("cleaned up"));
    assert!(said.err.contains(" has ended, "), "{}", said.err);
}

/// `timeout` makes a process group of its own, as every job of an interactive shell is one.
#[test]
fn process_that_left_the_group_is_stopped_too() {
    let place = Place::new();
    let script = "timeout 1000 sh -c 'trap \"\" TERM; echo inner $$; while :; do sleep 1000; done' & setsid sh -c 'echo daemon $$; exec sleep 1000' & wait";
    let mut run = place.start(["run", "--ttl", "900ms", "x", "--", "bash", "-c", script]);
    let numbers =
        [run.line(""), run.line("")].map(|line| Process::parse(line.split_whitespace().last().unwrap()));
    place.say(["-q", "release", "--force", "--yes", "x"]).code(0);
    run.wait().code(80);
    assert!(!numbers.iter().any(|process| process.lives()));
}

#[test]
fn suspended_command_is_stopped_at_a_loss() {
    let place = Place::new();
    let mut run =
        place.start(["run", "--ttl", "900ms", "x", "--", "sh", "-c", "echo pid $$; exec sleep 1000"]);
    let command = run.process_line("pid ");
    command.signal(Signal::STOP);
    until("it is suspended", || command.is_stopped());
    place.say(["-q", "release", "--force", "--yes", "x"]).code(0);
    run.wait().code(80);
    assert!(!command.lives());
}

#[test]
fn max_hold_stops_the_command_and_releases_the_lock() {
    let place = Place::new();
    let began = SystemClock::new().now();
    let mut run =
        place.start(["run", "--max-hold", "600ms", "x", "--", "sh", "-c", "echo pid $$; exec sleep 1000"]);
    let command = run.process_line("pid ");
    let said = run.wait();
    assert!(!command.lives());
    assert!(SystemClock::new().now().since(began) >= Duration::from_millis(300));
    said.code(80);
    assert!(said.err.contains(": it was held for as long as its holder allowed\n"), "{}", said.err);
    assert!(said.err.contains("  help     raise --max-hold, or split the work\n"), "{}", said.err);
    assert!(!place.is_held("x"));
}

#[test]
fn short_leases_are_renewed_for_as_long_as_the_command_runs() {
    let stubborn = Stubborn::start(&["--grace", "0s"]);
    until("three leases would have ended", || SystemClock::new().now().since(stubborn.began) > TTL * 3);
    assert!(stubborn.processes.iter().all(|process| process.lives()));
    assert!(stubborn.place.is_held("x"));
}
