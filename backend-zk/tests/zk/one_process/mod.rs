//! Claims of one process that stand one behind the other: the one in front tells the next, and nobody looks whose turn
//! it is. And everything that must not be taken for that.

mod meanwhile;
mod not_believed;
mod told_to_look;

use crate::kit::*;
use leasehold_core::{Attempt, Claim, Grant, LockBackend};
use leasehold_test_stores::servers::ZooKeeperServer;
use leasehold_zk::ZooKeeperBackend;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::task::{spawn, yield_now};
use tokio::time::sleep;

/// What a whole lease is in these tests: three quarters of the session's time.
const SESSION: &str = "?session_timeout=4s";
const LEASE: Duration = Duration::from_secs(3);
/// A third of the lease, and a little.
const OLD: Duration = Duration::from_millis(1100);
/// Less than the interval after which a waiter asks without having been told.
const SOON: Duration = Duration::from_secs(3);

fn of_one_process(server: &ZooKeeperServer) -> Arc<ZooKeeperBackend> {
    backend(&format!("{}{SESSION}", server.url()))
}

async fn attempt(backend: &ZooKeeperBackend, claim: &Claim) -> Attempt {
    answered(backend.try_acquire(claim)).await.unwrap()
}

async fn granted(backend: &ZooKeeperBackend, claim: &Claim) -> Grant {
    match attempt(backend, claim).await {
        Attempt::Granted(grant) => grant,
        Attempt::Busy(busy) => panic!("busy: {busy:?}"),
    }
}

/// It is told that its turn has come, before it would look by itself, and is right to believe that.
async fn has_its_turn(backend: &ZooKeeperBackend, claim: &Claim) -> Grant {
    within(SOON, backend.changed(claim)).await;
    granted(backend, claim).await
}

/// True if it was believed from when the one in front was deleted, and not from a look.
fn was_told(grant: &Grant) -> bool {
    assert!(!grant.handed_over, "counted from a moment that is known");
    let lease = grant.lease.unwrap();
    assert!(lease <= LEASE, "{lease:?}");
    lease < LEASE
}

/// A claim whose turn has come, and that has been told so and has not asked.
async fn told(backend: &ZooKeeperBackend) -> Claim {
    let [first, second] = in_line(backend).await;
    release(backend, &first).await;
    second
}

/// Goes on with a call until it waits for an answer, and no further.
async fn begin(mut call: Pin<&mut impl Future>) {
    let is_pending = poll_fn(|context| Poll::Ready(call.as_mut().poll(context).is_pending())).await;
    assert!(is_pending, "it was to wait for an answer");
}

/// Until its session has been told of all that has happened: the server keeps the order.
async fn heard_all(backend: &ZooKeeperBackend) {
    let another = claim("another");
    hold(backend, &another).await;
    release(backend, &another).await;
}

fn requests(server: &ZooKeeperServer) -> u64 {
    server.counter("zk_packets_received").unwrap()
}

/// The holder and the next one, however many wait.
async fn only_two_listen(server: &ZooKeeperServer) {
    eventually(async || (server.counter("zk_watch_count").unwrap() == 2).then_some(())).await;
}

/// A node of the line by its place, as a path.
async fn node(look: &Look, place: usize) -> String {
    format!("{BASE}/job/{}", look.in_order("job").await[place])
}

async fn fixture() -> (ZooKeeperServer, Look) {
    let server = server();
    let look = Look::at(&server).await;
    (server, look)
}

#[tokio::test]
async fn a_turn_costs_no_more_requests_than_a_lock_that_nobody_else_wants() {
    let server = server();
    let backend = backend(&server.url());
    let mut line: Vec<Claim> = (0..4).map(|_| claim("job")).collect();
    let mut last = hold(&backend, &line[0]).await;
    for waiter in &line[1..] {
        busy(&backend, waiter).await;
    }
    only_two_listen(&server).await;
    for _ in 0..20 {
        // The question is a packet of its own.
        let before = requests(&server);
        release(&backend, &line.remove(0)).await;
        let grant = granted(&backend, &line[0]).await;
        line.push(claim("job"));
        busy(&backend, &line[3]).await;
        assert_eq!(requests(&server) - before - 1, 3, "to delete a node, to make one and to listen to one");
        assert!(grant.token > last, "{:?} after {last:?}", grant.token);
        last = grant.token;
    }
}

/// The requests of a session are carried out in their order: what the one asks that has left is not to come between.
#[tokio::test]
async fn who_is_handed_the_lock_goes_on_before_who_has_left() {
    let server = server();
    let backend = of_one_process(&server);
    let [first, second] = in_line(&backend).await;
    let next = spawn({
        let backend = Arc::clone(&backend);
        async move { has_its_turn(&backend, &second).await }
    });
    yield_now().await;
    assert!(!next.is_finished(), "it was to wait");
    release(&backend, &first).await;
    assert!(next.is_finished(), "it was to go first");
    assert!(was_told(&next.await.unwrap()));
}

/// Long after it has come to stand there: whoever tells it has had an answer of the leader.
#[tokio::test]
async fn who_has_waited_for_long_need_not_ask_either() {
    let server = server();
    let backend = of_one_process(&server);
    let [first, second] = in_line(&backend).await;
    sleep(OLD).await;
    // Asked without news, it stays where it is.
    busy(&backend, &second).await;
    let before = requests(&server);
    release(&backend, &first).await;
    assert!(was_told(&granted(&backend, &second).await));
    assert_eq!(requests(&server) - before - 1, 1);
}

#[tokio::test]
async fn a_word_of_long_ago_is_not_believed_without_the_leader() {
    let server = server();
    let backend = of_one_process(&server);
    let told = told(&backend).await;
    sleep(OLD).await;
    assert!(!was_told(&granted(&backend, &told).await));
}

/// The runtime's clock stands still while the host sleeps, and the session does not.
#[tokio::test]
async fn a_word_from_before_the_host_slept_is_not_believed_without_a_proof() {
    let server = server();
    let backend = of_one_process(&server);
    let told = told(&backend).await;
    tokio::time::pause();
    std::thread::sleep(OLD);
    tokio::time::resume();
    // The client may have given up its connection for its silence, and not have another one at once.
    let attempt = eventually(async || backend.try_acquire(&told).await.ok()).await;
    let Attempt::Granted(grant) = attempt else { panic!("{attempt:?}") };
    assert!(!was_told(&grant));
}
