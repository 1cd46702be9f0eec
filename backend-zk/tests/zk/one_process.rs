//! Claims of one process that stand one behind the other: the one in front tells the next, and nobody looks whose turn it is. And
//! everything that must not be taken for that.

use crate::kit::*;
use leasehold_conformance::proxy::Traffic;
use leasehold_conformance::servers::ZooKeeperServer;
use leasehold_core::{Attempt, Claim, ErrorKind, Grant, LockBackend, Release};
use leasehold_zk::ZooKeeperBackend;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
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

/// True if it was believed from when the one in front was deleted, and not from a look.
fn was_told(grant: &Grant) -> bool {
    assert!(!grant.handed_over, "counted from a moment that is known");
    let lease = grant.lease.unwrap();
    assert!(lease <= LEASE, "{lease:?}");
    lease < LEASE
}

/// Goes on with a call until it waits for an answer, and no further.
async fn begin(mut call: Pin<&mut impl Future>) {
    let is_pending = poll_fn(|context| Poll::Ready(call.as_mut().poll(context).is_pending())).await;
    assert!(is_pending, "it was to wait for an answer");
}

fn requests(server: &ZooKeeperServer) -> u64 {
    server.counter("zk_packets_received").unwrap()
}

/// A node of the line by its place, as a path.
async fn node(look: &Look, place: usize) -> String {
    format!("{BASE}/job/{}", look.in_order("job").await[place])
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
    eventually(async || (server.counter("zk_watch_count").unwrap() == 4).then_some(())).await;
    for _ in 0..20 {
        // The question is a packet of its own.
        let before = requests(&server);
        release(&backend, &line.remove(0)).await;
        let grant = granted(&backend, &line[0]).await;
        line.push(claim("job"));
        busy(&backend, &line[3]).await;
        assert_eq!(requests(&server) - before - 1, 3, "to delete a node, to make one and to listen to it");
        assert!(grant.token > last, "{:?} after {last:?}", grant.token);
        last = grant.token;
    }
}

/// Long after it has come to stand there: whoever tells it has had an answer of the leader.
#[tokio::test]
async fn who_has_waited_for_long_need_not_ask_either() {
    let server = server();
    let backend = of_one_process(&server);
    let (first, second) = (claim("job"), claim("job"));
    hold(&backend, &first).await;
    busy(&backend, &second).await;
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
    let (first, second) = (claim("job"), claim("job"));
    hold(&backend, &first).await;
    busy(&backend, &second).await;
    release(&backend, &first).await;
    sleep(OLD).await;
    assert!(!was_told(&granted(&backend, &second).await));
}

/// The server tells a session of its own node before it answers the delete of the one in front.
#[tokio::test]
async fn who_has_lost_its_node_is_not_granted() {
    let (server, look) = fixture().await;
    let (backend, other) = (of_one_process(&server), backend(&server.url()));
    let [first, second, third] = [claim("job"), claim("job"), claim("job")];
    hold(&backend, &first).await;
    busy(&backend, &second).await;
    busy(&other, &third).await;
    look.delete(&node(&look, 1).await).await;
    release(&backend, &first).await;
    busy(&backend, &second).await;
    changed(&other, &third).await;
    granted(&other, &third).await;
}

/// Also if the one that follows is the first to ask.
#[tokio::test]
async fn who_follows_a_waiter_that_hears_of_its_end_is_told() {
    let (server, look) = fixture().await;
    let backend = of_one_process(&server);
    let [first, second, third] = [claim("job"), claim("job"), claim("job")];
    hold(&backend, &first).await;
    busy(&backend, &second).await;
    busy(&backend, &third).await;
    look.delete(&node(&look, 1).await).await;
    within(SOON, backend.changed(&third)).await;
    busy(&backend, &third).await;
    release(&backend, &first).await;
    within(SOON, backend.changed(&third)).await;
    granted(&backend, &third).await;
}

/// It has forgotten that it was told of its own node, and listens to nothing any more.
#[tokio::test]
async fn who_could_not_finish_its_look_is_not_granted_by_a_word() {
    let server = server();
    warm_up(&server).await;
    let (proxy, look) = (proxy_to(&server).await, Look::at(&server).await);
    let one = format!("zk://{}?session_timeout=10s&timeout=500ms", proxy.address());
    let (backend, other) = (backend(&one), backend(&server.url()));
    let [first, second, third] = [claim("job"), claim("job"), claim("job")];
    hold(&backend, &first).await;
    busy(&backend, &second).await;
    // Asked without news, after which a look has to hear from the leader.
    busy(&backend, &second).await;
    busy(&other, &third).await;
    look.delete(&node(&look, 1).await).await;
    changed(&backend, &second).await;
    changed(&other, &third).await;
    busy(&other, &third).await;
    proxy.set(Traffic::HoldReplies);
    let error = answered(backend.try_acquire(&second)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error}");
    proxy.set(Traffic::Pass);
    release(&backend, &first).await;
    changed(&other, &third).await;
    granted(&other, &third).await;
    busy(&backend, &second).await;
}

#[tokio::test]
async fn who_could_not_finish_its_look_looks_when_it_is_asked_again() {
    let server = server();
    warm_up(&server).await;
    let (proxy, look) = (proxy_to(&server).await, Look::at(&server).await);
    let backend = backend(&format!("zk://{}?session_timeout=10s&timeout=500ms", proxy.address()));
    let (first, second) = (claim("job"), claim("job"));
    hold(&backend, &first).await;
    busy(&backend, &second).await;
    busy(&backend, &second).await;
    look.delete(&node(&look, 1).await).await;
    changed(&backend, &second).await;
    proxy.set(Traffic::HoldReplies);
    let error = answered(backend.try_acquire(&second)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error}");
    proxy.set(Traffic::Pass);
    busy(&backend, &second).await;
    assert_eq!(look.line("job").await.len(), 2, "it stands in line again");
}

/// What it was told of before the outage is not forgotten after it.
#[tokio::test]
async fn who_could_not_finish_its_look_looks_again_when_there_is_a_connection() {
    let server = server();
    warm_up(&server).await;
    let proxy = proxy_to(&server).await;
    let backend = backend(&format!("zk://{}?session_timeout=10s&timeout=500ms", proxy.address()));
    let [first, second, third] = [claim("job"), claim("job"), claim("job")];
    hold(&backend, &first).await;
    busy(&backend, &second).await;
    busy(&backend, &third).await;
    busy(&backend, &third).await;
    release(&backend, &second).await;
    changed(&backend, &third).await;
    proxy.set(Traffic::HoldReplies);
    let error = answered(backend.try_acquire(&third)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error}");
    proxy.cut();
    proxy.set(Traffic::Pass);
    within(SOON, backend.changed(&third)).await;
    eventually(async || backend.try_acquire(&third).await.ok()).await;
    release(&backend, &first).await;
    within(SOON, backend.changed(&third)).await;
    granted(&backend, &third).await;
}

#[tokio::test]
async fn a_word_for_an_earlier_node_is_none_for_the_next() {
    let (server, look) = fixture().await;
    let (backend, other) = (of_one_process(&server), backend(&server.url()));
    let [first, again, foreign, between] = [claim("job"), claim("job"), claim("job"), claim("job")];
    hold(&backend, &first).await;
    busy(&backend, &again).await;
    look.delete(&node(&look, 1).await).await;
    changed(&backend, &again).await;
    busy(&other, &foreign).await;
    busy(&backend, &between).await;
    // It follows another now, and the one that it followed does not know.
    busy(&backend, &again).await;
    assert_eq!(look.line("job").await.len(), 4);
    release(&backend, &first).await;
    busy(&backend, &again).await;
    changed(&other, &foreign).await;
    granted(&other, &foreign).await;
}

/// Who came last of this process is not the one in front, if somebody else came in between.
#[tokio::test]
async fn who_stands_behind_another_process_is_not_told() {
    let server = server();
    let (backend, other) = (of_one_process(&server), backend(&server.url()));
    let [first, second, foreign, third] = [claim("job"), claim("job"), claim("job"), claim("job")];
    hold(&backend, &first).await;
    busy(&backend, &second).await;
    busy(&other, &foreign).await;
    busy(&backend, &third).await;
    release(&backend, &first).await;
    assert!(was_told(&granted(&backend, &second).await));
    release(&backend, &second).await;
    assert!(stays_quiet(&backend, &third).await);
    busy(&backend, &third).await;
    granted(&other, &foreign).await;
    release(&other, &foreign).await;
    changed(&backend, &third).await;
    granted(&backend, &third).await;
}

/// Its delete was applied, and nobody has heard of it yet, when the directory was made anew, where the numbers have come as far.
#[tokio::test]
async fn the_next_number_in_another_directory_is_not_behind_it() {
    let (server, look) = fixture().await;
    let (backend, other) = (of_one_process(&server), backend(&server.url()));
    let [before, first, second] = [claim("job"), claim("job"), claim("job")];
    let [foreign, passing] = [claim("job"), claim("job")];
    hold(&backend, &before).await;
    busy(&backend, &first).await;
    release(&backend, &before).await;
    granted(&backend, &first).await;

    let mut leaving = pin!(backend.release(&first, Duration::ZERO));
    begin(leaving.as_mut()).await;
    eventually(async || look.line("job").await.is_empty().then_some(())).await;
    look.wipe(&format!("{BASE}/job")).await;
    hold(&other, &foreign).await;
    busy(&other, &passing).await;
    release(&other, &passing).await;
    busy(&backend, &second).await;
    assert!(node(&look, 1).await.ends_with("2"), "one after that of who is leaving");

    assert_eq!(answered(leaving).await.unwrap(), Release::Released);
    busy(&backend, &second).await;
    release(&other, &foreign).await;
    changed(&backend, &second).await;
    granted(&backend, &second).await;
}

#[tokio::test]
async fn who_was_the_last_itself_stands_in_line_again_once() {
    let (server, look) = fixture().await;
    let backend = of_one_process(&server);
    let (first, second) = (claim("job"), claim("job"));
    hold(&backend, &first).await;
    busy(&backend, &second).await;
    look.delete(&node(&look, 1).await).await;
    changed(&backend, &second).await;
    busy(&backend, &second).await;
    assert!(node(&look, 1).await.ends_with("2"));
}

/// Who was seen in front stands behind by now.
#[tokio::test]
async fn a_line_of_a_moment_ago_is_not_relied_on() {
    let (server, look) = fixture().await;
    let backend = of_one_process(&server);
    let [first, second, last, third] = [claim("job"), claim("job"), claim("job"), claim("job")];
    hold(&backend, &first).await;
    busy(&backend, &second).await;
    busy(&backend, &last).await;
    // Nobody is known to be the last now, so the line is listed with the same request.
    release(&backend, &last).await;
    let mut attempt = pin!(backend.try_acquire(&third));
    begin(attempt.as_mut()).await;
    eventually(async || (look.line("job").await.len() == 3).then_some(())).await;
    look.delete(&node(&look, 1).await).await;
    changed(&backend, &second).await;
    busy(&backend, &second).await;

    assert!(matches!(answered(attempt).await.unwrap(), Attempt::Busy(_)));
    release(&backend, &first).await;
    within(SOON, backend.changed(&third)).await;
    granted(&backend, &third).await;
}

#[tokio::test]
async fn who_follows_one_that_leaves_the_line_stays_in_it() {
    let server = server();
    let backend = of_one_process(&server);
    let [first, second, third] = [claim("job"), claim("job"), claim("job")];
    hold(&backend, &first).await;
    busy(&backend, &second).await;
    busy(&backend, &third).await;
    release(&backend, &second).await;
    changed(&backend, &third).await;
    busy(&backend, &third).await;
    assert!(stays_quiet(&backend, &third).await);
    release(&backend, &first).await;
    changed(&backend, &third).await;
    assert!(was_told(&granted(&backend, &third).await), "it follows the one in front of both");
}

/// Its holder may not give it back for hours.
#[tokio::test]
async fn who_follows_a_holder_that_was_deleted_is_told() {
    let (server, look) = fixture().await;
    let backend = of_one_process(&server);
    let (first, second) = (claim("job"), claim("job"));
    hold(&backend, &first).await;
    busy(&backend, &second).await;
    look.delete(&node(&look, 0).await).await;
    within(SOON, backend.changed(&second)).await;
    granted(&backend, &second).await;
    assert_eq!(release(&backend, &first).await, Release::NotHeld);
}

/// What it listens to is the node of another process. Nobody tells it that its own is gone, nor the one that follows it, as long as it
/// makes no difference.
#[tokio::test]
async fn who_follows_a_waiter_that_was_deleted_comes_first_in_its_turn() {
    let (server, look) = fixture().await;
    let (backend, other) = (of_one_process(&server), backend(&server.url()));
    let [foreign, front, back] = [claim("job"), claim("job"), claim("job")];
    hold(&other, &foreign).await;
    busy(&backend, &front).await;
    busy(&backend, &back).await;
    look.delete(&node(&look, 1).await).await;
    assert!(stays_quiet(&backend, &back).await);
    release(&other, &foreign).await;
    changed(&backend, &front).await;
    busy(&backend, &front).await;
    within(SOON, backend.changed(&back)).await;
    granted(&backend, &back).await;
}

/// Nobody knows whether it is gone.
#[tokio::test]
async fn who_follows_one_whose_release_was_not_answered_looks() {
    let server = server();
    warm_up(&server).await;
    let proxy = proxy_to(&server).await;
    let backend = backend(&format!("{}&timeout=700ms", url_of(&proxy)));
    let (first, second) = (claim("job"), claim("job"));
    hold(&backend, &first).await;
    busy(&backend, &second).await;
    proxy.set(Traffic::HoldReplies);
    let error = answered(backend.release(&first, Duration::ZERO)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error}");
    proxy.cut();
    proxy.set(Traffic::Pass);
    within(SOON, backend.changed(&second)).await;
    let next = eventually(async || backend.try_acquire(&second).await.ok()).await;
    assert!(matches!(next, Attempt::Granted(_)), "{next:?}");
}

#[tokio::test]
async fn who_follows_one_whose_release_was_dropped_looks() {
    let server = server();
    let backend = of_one_process(&server);
    let (first, second) = (claim("job"), claim("job"));
    hold(&backend, &first).await;
    busy(&backend, &second).await;
    {
        let mut release = pin!(backend.release(&first, Duration::ZERO));
        begin(release.as_mut()).await;
    }
    within(SOON, backend.changed(&second)).await;
    let mut next = attempt(&backend, &second).await;
    if matches!(next, Attempt::Busy(_)) {
        within(SOON, backend.changed(&second)).await;
        next = attempt(&backend, &second).await;
    }
    assert!(matches!(next, Attempt::Granted(_)), "{next:?}");
}

async fn fixture() -> (ZooKeeperServer, Look) {
    let server = server();
    let look = Look::at(&server).await;
    (server, look)
}
