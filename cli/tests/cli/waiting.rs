//! Verbs that look again and again: `wait`, `ls --watch`, and `elect --watch`.

use crate::support::{Place, until};
use leasehold_test_stores::servers::RedisServer;
use rustix::process::Signal;

#[test]
fn waiter_for_a_free_lock_ends_when_it_is_free_and_takes_nothing() {
    let place = Place::new();
    let mut holder = place.hold("x");
    let limited = place.say(["wait", "-w", "300ms", "x"]);
    assert!(limited.code(75).err.contains("error[E_TIMED_OUT]: \"x\" is held by ada@"), "{limited:?}");
    let mut waiter = place.start(["-q", "wait", "x"]);
    assert!(waiter.is_running());
    holder.end_input();
    holder.wait().code(0);
    waiter.wait().expect(0, "", "");
    assert!(!place.is_held("x"));
}

#[test]
fn waiter_for_a_free_lock_outlasts_an_outage() {
    let (place, mut server) = Place::with_redis();
    let _holder = place.hold("x");
    let mut waiter = place.start(["wait", "x"]);
    waiter.warned("leasehold: waiting: \"x\" is held by ");
    server.kill();
    waiter.warned("still waiting for \"x\": ");
    assert!(waiter.is_running());
    server.restart(false).unwrap();
    waiter.wait().code(0);
}

#[test]
fn watched_list_outlasts_an_outage() {
    let (place, mut server) = Place::with_redis();
    let mut list = place.start(["ls", "--watch", "--names"]);
    let holder = place.hold("early");
    list.line("early");
    server.kill();
    list.warned("warning: still listing the locks: ");
    drop(holder);
    server.restart(false).unwrap();
    let _holder = place.hold("later");
    list.line("later");
}

#[test]
fn signal_ends_a_look_that_the_store_does_not_answer() {
    let server = RedisServer::start().unwrap();
    let place = Place::with_store(format!("{}?timeout=60s&connect_timeout=60s", server.url()));
    server.pause();
    for words in [&["wait", "x"][..], &["ls", "--watch"], &["elect", "--watch", "x"]] {
        let waiter = place.start_apart(words);
        until("it listens", || waiter.process().listens_to(Signal::TSTP));
        waiter.signal(Signal::TERM);
        waiter.wait().expect(143, "", "");
    }
}

/// The lock of the name is another one, as for `try`.
#[test]
fn wait_for_a_permit_or_as_a_reader_ends_when_that_is_free() {
    let place = Place::new();
    let mut permit = place.start(["hold", "--permits", "1", "pool"]);
    permit.line("{");
    let full = place.say(["wait", "-w", "0", "--permits", "1", "pool"]);
    assert!(full.code(75).err.contains("slot 0 of \"pool\" is held by ada@"), "{full:?}");
    place.say(["-q", "wait", "-w", "0", "--permits", "2", "pool"]).expect(0, "", "");
    place.say(["-q", "wait", "-w", "0", "pool"]).expect(0, "", "");
    let mut reader = place.start(["hold", "--shared", "page"]);
    reader.line("{");
    place.say(["-q", "wait", "-w", "0", "--shared", "page"]).expect(0, "", "");
    place.say(["-q", "wait", "-w", "0", "page"]).code(75);
}

#[test]
fn wait_on_a_pipe_is_told_once() {
    let place = Place::new();
    let _holder = place.hold("x");
    let verbs =
        [&["run", "-w", "3", "x", "--", "true"][..], &["hold", "-w", "3", "x"], &["wait", "-w", "3", "x"]];
    let waiters = verbs.map(|words| (place.start(words), place.start([&["-q"], words].concat())));
    for (waiter, quiet) in waiters {
        let (said, quiet) = (waiter.wait(), quiet.wait());
        assert_eq!(said.err.matches("leasehold: waiting: \"x\" is held by ada@").count(), 1, "{said:?}");
        assert!(!said.err.contains('\r'), "{said:?}");
        assert!(!quiet.err.contains("waiting"), "{quiet:?}");
    }
}

#[test]
fn watched_list_shows_a_lock_that_came_later() {
    let place = Place::new();
    place.say(["-q", "run", "warm", "--", "true"]);
    let mut list = place.start(["ls", "--watch"]);
    let _holder = place.hold("later");
    list.line("later ");
    list.signal(Signal::TERM);
    list.wait().code(143);
}
