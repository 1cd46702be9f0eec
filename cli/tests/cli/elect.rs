//! `leasehold elect`: a command that runs whenever this host leads.

use crate::support::{Place, Running, gone, until};
use rustix::process::Signal;
use serde_json::Value;

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
    std::thread::sleep(std::time::Duration::from_millis(600));
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
