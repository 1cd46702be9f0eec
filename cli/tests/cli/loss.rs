//! Losses on a real Redis: the record deleted, the server stopped, cut off, killed.

use crate::support::{Place, Process, Running, gone, until};
use leasehold::client::{Clock, SystemClock};
use leasehold_conformance::proxy::{Proxy, Traffic};
use leasehold_test_stores::servers::RedisServer;
use std::time::Duration;

/// etcdctl lock lets the command run on when its lease is revoked, beside the next holder's, and exits with 0.
#[test]
fn command_is_gone_before_the_next_holder_when_the_key_is_deleted() {
    let (place, server) = Place::with_redis();
    let (first, command) = start(&place, "3s");
    assert_eq!(server.command(&["DEL", "leasehold:x"]).unwrap(), ":1");
    let mut second = place.start(["run", "x", "--", "sh", "-c", "echo mine; exec sleep 1000"]);
    second.line("mine");
    assert!(!command.lives());
    let said = first.wait();
    said.code(80);
    assert!(said.err.contains("was lost"), "{}", said.err);
}

#[test]
fn command_is_gone_within_its_lease_when_the_server_is_stopped() {
    let (place, server) = Place::with_redis();
    let (first, command) = start(&place, "1500ms");
    server.pause();
    let lease_end = SystemClock::new().now().plus(Duration::from_millis(1500));
    gone(&[command]);
    assert!(SystemClock::new().now() < lease_end, "the lease was over before the command was");
    let said = first.wait();
    said.code(80);
    assert!(said.err.contains("error[E_LOST]: lock \"x\" was lost after "), "{}", said.err);
    assert!(said.err.contains("  help     nobody else could hold the lock while it ran"), "{}", said.err);
}

#[test]
fn command_is_gone_within_its_lease_when_the_server_is_killed() {
    let (place, mut server) = Place::with_redis();
    let (first, command) = start(&place, "1500ms");
    server.kill();
    let lease_end = SystemClock::new().now().plus(Duration::from_millis(1500));
    gone(&[command]);
    assert!(SystemClock::new().now() < lease_end, "the lease was over before the command was");
    first.wait().code(80);
}

#[tokio::test(flavor = "multi_thread")]
async fn command_is_gone_before_the_next_holder_when_the_network_is_cut() {
    let server = RedisServer::start().unwrap();
    let proxy = Proxy::to(([127, 0, 0, 1], server.port()).into()).await.unwrap();
    let here = Place::with_store(format!("redis://{}", proxy.address()));
    let there = Place::with_store(server.url());
    let (first, command) = start(&here, "1500ms");
    proxy.set(Traffic::BlackHole);
    let mut second = there.start(["run", "x", "--", "sh", "-c", "echo mine; exec sleep 1000"]);
    second.line("mine");
    assert!(!command.lives());
    first.wait().code(80);
}

#[tokio::test(flavor = "multi_thread")]
async fn command_survives_an_outage_shorter_than_the_lease() {
    let server = RedisServer::start().unwrap();
    let proxy = Proxy::to(([127, 0, 0, 1], server.port()).into()).await.unwrap();
    let place = Place::with_store(format!("redis://{}?timeout=100ms", proxy.address()));
    let mut command =
        place.command(["run", "--ttl", "6s", "x", "--", "sh", "-c", "echo ready; read go; exit 5"]);
    command.stdin(std::process::Stdio::piped());
    let mut run = Running::start(command);
    run.line("ready");
    proxy.set(Traffic::BlackHole);
    run.warned("warning: the lease of \"x\" was not renewed, ");
    proxy.set(Traffic::Pass);
    proxy.cut();
    run.write("go\n");
    run.wait().code(5);
}

/// Grace and reserve are 4 s together, so without a renewal it would be stopped after 7.88 s; and of a lease with nothing to fear
/// somebody looks once in a second, after 7 s and after 8.
#[tokio::test(flavor = "multi_thread")]
async fn renewal_shortly_before_the_stop_is_in_time() {
    let server = RedisServer::start().unwrap();
    let proxy = Proxy::to(([127, 0, 0, 1], server.port()).into()).await.unwrap();
    let place = Place::with_store(format!("redis://{}?timeout=20s", proxy.address()));
    let script = "echo ready; read go; exit 5";
    let mut command = place.command(["run", "--ttl", "12s", "x", "--", "sh", "-c", script]);
    command.stdin(std::process::Stdio::piped());
    let mut run = Running::start(command);
    run.line("ready");
    let began = tokio::time::Instant::now();
    proxy.set(Traffic::HoldReplies);
    tokio::time::sleep_until(began + Duration::from_millis(7400)).await;
    proxy.set(Traffic::Pass);
    tokio::time::sleep_until(began + Duration::from_millis(8500)).await;
    run.write("go\n");
    run.wait().code(5);
}

/// A command that ignores TERM.
fn start(place: &Place, ttl: &str) -> (Running, Process) {
    let script = "trap '' TERM; echo pid $$; while :; do sleep 1000; done";
    let mut run = place.start(["run", "--ttl", ttl, "x", "--", "sh", "-c", script]);
    let command = run.process_line("pid ");
    (run, command)
}

/// Its end is the only word that its caller gets.
#[test]
fn hold_ends_with_its_lease_although_the_store_is_silent() {
    let (place, server) = Place::with_redis();
    let mut hold = place.start(["hold", "--ttl", "1500ms", "x"]);
    hold.line("{");
    server.pause();
    let lease_end = SystemClock::new().now().plus(Duration::from_millis(1500));
    hold.wait().code(80);
    assert!(SystemClock::new().now() < lease_end.plus(Duration::from_millis(300)));
}

/// The next caller must not wait for a lease of a minute that has no holder.
#[tokio::test(flavor = "multi_thread")]
async fn grant_with_a_lost_reply_is_taken_back_before_the_exit() {
    let server = RedisServer::start().unwrap();
    let is_granted = || server.command(&["EXISTS", "leasehold:x"]).unwrap() == ":1";
    // The replies before it are those of the connection. Several may come as one piece, and then one too few is kept back
    // to be that of the grant: it is tried again.
    let mut number = 0;
    for _ in 0..40 {
        let proxy = Proxy::to(([127, 0, 0, 1], server.port()).into()).await.unwrap();
        let place = Place::with_store(format!("redis://{}?connect_timeout=200ms", proxy.address()));
        proxy.set(Traffic::HoldRepliesFrom(number));
        let mut run = place.start(["run", "-n", "--ttl", "60s", "x", "--", "echo", "granted and heard"]);
        let mut granted = false;
        until("it is granted or gives up", || {
            granted = is_granted();
            granted || !run.is_running()
        });
        proxy.cut();
        proxy.set(Traffic::Pass);
        let said = run.wait();
        if said.out.contains("granted and heard") {
            continue;
        }
        said.code(69);
        assert!(!is_granted(), "the grant was left");
        if granted {
            return;
        }
        number += 1;
    }
    panic!("never granted");
}
