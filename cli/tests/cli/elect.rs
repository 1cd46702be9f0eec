//! `leasehold elect`: a command that runs whenever this host leads.

use crate::support::{Place, Process, Running, Shell, gone, until};
use rustix::process::Signal;
use serde_json::Value;
use std::time::{Duration, Instant};

/// A candidate whose command says its term, and goes on until it is stopped.
fn candidate(place: &Place, options: &[&str]) -> Running {
    let script = "echo term $LEASEHOLD_TERM; exec sleep 1000";
    place.start([&["elect", "--ttl", "1500ms"], options, &["job", "--", "sh", "-c", script]].concat())
}

#[test]
fn command_that_succeeds_runs_again_in_a_later_term() {
    let place = Place::new();
    // The first ends by itself; the second is there when the signal comes.
    let script =
        "test $LEASEHOLD_TERM = $LEASEHOLD_TOKEN && echo term $LEASEHOLD_TERM; mkdir led || exec sleep 1000";
    let mut elect = place.start(["elect", "job", "--", "sh", "-c", script]);
    let terms = [elect.line("term "), elect.line("term ")].map(|term| term.parse::<u64>().unwrap());
    assert!(terms[0] < terms[1], "{terms:?}");
    elect.signal(Signal::TERM);
    let said = elect.wait();
    said.code(143);
    assert_eq!(said.err.matches("no store is configured").count(), 1, "{said:?}");
}

#[test]
fn command_that_fails_ends_the_candidate_unless_it_restarts() {
    let place = Place::new();
    place.say(["-q", "elect", "job", "--", "sh", "-c", "exit 5"]).expect(5, "", "");
    assert!(!place.is_held("job"), "it resigned");
    let script = "echo term $LEASEHOLD_TERM; exit 5";
    let mut elect = place.start(["elect", "--restart", "job", "--", "sh", "-c", script]);
    assert_ne!(elect.line("term "), elect.line("term "));
    elect.signal(Signal::INT);
    until("it ends", || !elect.is_running());
}

#[test]
fn candidate_that_leads_once_ends_with_its_command() {
    let place = Place::new();
    place.say(["-q", "elect", "--once", "job", "--", "echo", "led"]).expect(0, "led\n", "");
    let mut elect = candidate(&place, &["--once"]);
    elect.line("term ");
    place.say(["-q", "release", "--force", "--yes", "job"]).code(0);
    let said = elect.wait();
    assert!(said.code(80).err.contains("error[E_LOST]: lock \"job\" was lost"), "{said:?}");
}

#[test]
fn signal_ends_the_command_and_the_candidate() {
    let place = Place::new();
    let script = "trap 'echo bye; exit 0' TERM; echo term $LEASEHOLD_TERM; while :; do sleep 0.1; done";
    let mut elect = place.start(["-q", "elect", "job", "--", "sh", "-c", script]);
    elect.line("term ");
    elect.signal(Signal::TERM);
    let said = elect.wait();
    assert!(said.code(0).out.ends_with("bye\n"), "{said:?}");
    assert!(!place.is_held("job"));
}

#[test]
fn lost_leadership_stops_the_command_and_the_candidate_campaigns_again() {
    let place = Place::new();
    let mut elect = candidate(&place, &[]);
    let first: u64 = elect.line("term ").parse().unwrap();
    place.say(["-q", "release", "--force", "--yes", "job"]).code(0);
    let second: u64 = elect.line("term ").parse().unwrap();
    assert!(first < second);
    assert!(elect.has_warned("error[E_LOST]: lock \"job\" was lost"), "it says so");
}

#[test]
fn standby_leads_after_the_leader_was_killed_and_not_before_its_command_is_gone() {
    let (place, _server) = Place::with_redis();
    let script = "trap '' TERM; echo pid $$; while :; do sleep 1000; done";
    let mut leader = place.start(["elect", "--ttl", "1500ms", "job", "--", "sh", "-c", script]);
    let command = leader.process_line("pid ");
    let mut standby = candidate(&place, &[]);
    until("it waits", || standby.process().child().is_some());
    leader.signal(Signal::KILL);
    standby.line("term ");
    assert!(!command.lives());
    drop(leader);
}

#[test]
fn stopped_leader_is_replaced_and_runs_nothing_when_it_goes_on() {
    let (place, _server) = Place::with_redis();
    let mut leader = candidate(&place, &[]);
    let first: u64 = leader.line("term ").parse().unwrap();
    let command = leader.watchdog().child().unwrap();
    leader.signal(Signal::STOP);
    let mut standby = candidate(&place, &[]);
    let second: u64 = standby.line("term ").parse().unwrap();
    gone(&[command]);
    assert!(first < second);
    leader.signal(Signal::CONT);
    leader.warned("was lost");
    assert!(leader.is_running(), "it campaigns again");
    standby.signal(Signal::TERM);
    standby.wait().code(143);
    let third: u64 = leader.line("term ").parse().unwrap();
    assert!(second < third);
}

/// A standby outlasts the wait of its configuration, and a store that it cannot reach yet.
#[test]
fn candidate_waits_without_a_limit_and_before_its_store_is_there() {
    let (place, mut server) = Place::with_redis();
    let leader = place.hold("job");
    let mut command = place.command(["-q", "elect", "--once", "job", "--", "echo", "led"]);
    command.env("LEASEHOLD_WAIT", "200ms");
    let mut standby = Running::start(command);
    until("it waits", || place.say(["inspect", "job"]).out.contains("waiting"));
    std::thread::sleep(Duration::from_millis(600));
    assert!(standby.is_running(), "the wait of the configuration ended it");
    drop(leader);
    standby.wait().code(0);

    server.kill();
    let mut early = place.start(["elect", "--once", "job", "--", "echo", "led"]);
    early.warned("still waiting for \"job\"");
    server.restart(false).unwrap();
    early.line("led");
    early.wait().code(0);
}

#[test]
fn watcher_prints_a_line_for_each_change_of_the_leader() {
    let place = Place::new();
    let mut watcher = place.start(["elect", "--watch", "job"]);
    let mut next = || serde_json::from_str::<Value>(&format!("{{{}", watcher.line("{"))).unwrap();
    let nobody = next();
    assert_eq!(
        (&nobody["name"], &nobody["term"], &nobody["leader"]),
        (&"job".into(), &Value::Null, &Value::Null)
    );
    let mut elect = candidate(&place, &[]);
    let term: u64 = elect.line("term ").parse().unwrap();
    let leader = next();
    assert_eq!((leader["term"].as_u64(), &leader["leader"]["user"]), (Some(term), &"ada".into()));
    assert!(leader["since"].as_str().unwrap().starts_with("20"), "{leader}");
    elect.signal(Signal::TERM);
    elect.wait().code(143);
    assert_eq!(next()["leader"], Value::Null);
    watcher.signal(Signal::TERM);
    watcher.wait().code(143);
}

/// A reload that an operator tells all hosts is for the command, and a standby runs none.
#[test]
fn signals_for_the_command_end_no_standby_without_a_terminal() {
    let place = Place::new();
    let mut leader = place.hold("job");
    let script = "echo led; exec sleep 1000";
    let mut standby = place.start_apart(["elect", "job", "--", "sh", "-c", script]);
    standby.warned("waiting: ");
    for signal in [Signal::HUP, Signal::USR1, Signal::USR2] {
        standby.signal(signal);
    }
    leader.end_input();
    leader.wait().code(0);
    standby.line("led");
    // The command has no handler.
    standby.signal(Signal::HUP);
    standby.wait().code(129);
}

#[test]
fn hangup_of_its_terminal_ends_a_standby() {
    let place = Place::new();
    let _leader = place.hold("job");
    let mut shell = Shell::start(&place);
    shell.types("sh -c 'echo pid $$; exec $LH -v elect job -- true'");
    shell.sees("pid ");
    let standby = Process::parse(&shell.sees("\n"));
    until("it listens", || standby.listens_to(Signal::TSTP));
    standby.signal(Signal::USR1);
    standby.signal(Signal::HUP);
    shell.prompted();
    assert_eq!(shell.runs("echo rc=$?"), "rc=129\n");
}

/// The watchdog finds that it is too late to start the command: its order has waited for two thirds of the lease.
#[test]
fn signal_before_a_start_that_comes_too_late_ends_the_candidate() {
    let place = Place::new();
    let mut leader = place.hold("job");
    let elect = place.start_apart(["elect", "-v", "--ttl", "12s", "job", "--", "echo", "ran"]);
    elect.warned("waiting: ");
    let watchdog = elect.watchdog();
    watchdog.signal(Signal::STOP);
    until("it stands still", || watchdog.is_stopped());
    leader.end_input();
    leader.wait().code(0);
    until("it leads", || place.is_held("job"));
    let led = Instant::now();
    // After the signal a start has five seconds.
    sleep_until(led + Duration::from_secs(6));
    elect.signal(Signal::TERM);
    sleep_until(led + Duration::from_millis(9_500));
    watchdog.signal(Signal::CONT);
    let said = elect.wait();
    assert!(said.code(143).err.contains("its lease is nearly over") && said.out.is_empty(), "{said:?}");
}

fn sleep_until(moment: Instant) {
    std::thread::sleep(moment.saturating_duration_since(Instant::now()));
}

#[test]
fn watcher_of_a_store_that_is_not_there_says_so_and_goes_on() {
    let (place, mut server) = Place::with_redis();
    server.kill();
    let mut watcher = place.start(["elect", "--watch", "job"]);
    watcher.warned("warning: still looking for the leader of \"job\": ");
    server.restart(false).unwrap();
    watcher.line("{\"name\":\"job\",\"term\":null");
    watcher.signal(Signal::TERM);
    let said = watcher.wait();
    assert_eq!(said.code(143).err.matches("warning: ").count(), 1, "{said:?}");
}

#[test]
fn bad_candidate_is_refused_before_anything_runs() {
    let place = Place::new();
    let cases: [(&[&str], &str); 7] = [
        (&["-n", "job", "--", "echo", "ran"], "invalid -n: a candidate waits while another one leads"),
        (&["--on-lost", "warn", "job", "--", "echo", "ran"], "invalid --on-lost: warn, for a candidate"),
        (&["job"], "invalid command: there is none"),
        (&["--watch"], "invalid election: there is no name"),
        (&["--watch", "job", "--", "echo"], "cannot be used with"),
        (&["--once", "--restart", "job", "--", "echo"], "cannot be used with"),
        (&["job", "other", "--", "echo", "ran"], "unexpected argument 'other'"),
    ];
    for (words, message) in cases {
        let said = place.say([&["elect"], words].concat());
        assert!(said.code(64).err.contains(message) && said.out.is_empty(), "{words:?}: {said:?}");
    }
}
