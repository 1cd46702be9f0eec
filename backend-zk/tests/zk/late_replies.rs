//! Replies that come too late for their call, over a connection that lives on: there is none anew that would tell anybody to
//! ask again.

use crate::kit::*;
use leasehold_conformance::proxy::{Proxy, Traffic};
use leasehold_core::{Claim, ErrorKind, LockBackend};
use leasehold_test_stores::servers::ZooKeeperServer;
use leasehold_zk::ZooKeeperBackend;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A call is given up after this.
const LIMIT: Duration = Duration::from_millis(500);
/// Less than the interval after which a waiter asks without having been told.
const SOON: Duration = Duration::from_secs(3);
/// What passes at least between two questions.
const PAUSE: Duration = Duration::from_millis(100);

/// A backend behind a proxy, whose connection is given up after four seconds of silence.
async fn patient(server: &ZooKeeperServer) -> (Proxy, Arc<ZooKeeperBackend>) {
    warm_up(server).await;
    let proxy = proxy_to(server).await;
    let limit = LIMIT.as_millis();
    let backend = backend(&format!("zk://{}?session_timeout=40s&timeout={limit}ms", proxy.address()));
    (proxy, backend)
}

async fn not_answered(backend: &ZooKeeperBackend, claim: &Claim) {
    let error = answered(backend.try_acquire(claim)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error}");
}

/// A waiter whose turn has come, and that has looked in vain: by a look that takes more than the line, as it has not proved
/// its session for long.
async fn looks_in_vain(server: &ZooKeeperServer) -> (Proxy, Arc<ZooKeeperBackend>, Claim) {
    let (proxy, waiting) = patient(server).await;
    let (holding, held, waiter) = (backend(&server.url()), claim("job"), claim("job"));
    hold(&holding, &held).await;
    busy(&waiting, &waiter).await;
    busy(&waiting, &waiter).await;
    release(&holding, &held).await;
    changed(&waiting, &waiter).await;
    proxy.set(Traffic::HoldReplies);
    not_answered(&waiting, &waiter).await;
    (proxy, waiting, waiter)
}

/// It is the first in line, so everybody waits for it.
#[tokio::test]
async fn a_look_that_is_answered_too_late_is_made_again_soon() {
    let server = server();
    let (proxy, waiting, waiter) = looks_in_vain(&server).await;
    proxy.set(Traffic::Pass);
    within(SOON, waiting.changed(&waiter)).await;
    hold(&waiting, &waiter).await;
}

/// It had heard nothing when it asked, and who leaves while it asks may not be heard either.
#[tokio::test]
async fn a_look_at_the_one_in_front_that_is_answered_too_late_is_made_again_soon() {
    let server = server();
    let (proxy, waiting) = patient(&server).await;
    let (holding, held, waiter) = (backend(&server.url()), claim("job"), claim("job"));
    hold(&holding, &held).await;
    busy(&waiting, &waiter).await;
    proxy.set(Traffic::HoldReplies);
    not_answered(&waiting, &waiter).await;
    proxy.set(Traffic::Pass);
    within(SOON, waiting.changed(&waiter)).await;
    busy(&waiting, &waiter).await;
    release(&holding, &held).await;
    within(SOON, waiting.changed(&waiter)).await;
    hold(&waiting, &waiter).await;
}

#[tokio::test]
async fn a_create_that_is_answered_too_late_is_found_soon() {
    let server = server();
    let look = Look::at(&server).await;
    let (proxy, backend) = patient(&server).await;
    // Makes the session, and the directory of the lock.
    let (first, claim) = (claim("job"), claim("job"));
    hold(&backend, &first).await;
    release(&backend, &first).await;
    proxy.set(Traffic::HoldReplies);
    not_answered(&backend, &claim).await;
    let made = look.only_node("job").await;
    proxy.set(Traffic::Pass);
    within(SOON, backend.changed(&claim)).await;
    hold(&backend, &claim).await;
    assert_eq!(look.only_node("job").await, made);
}

/// A server that is slow has enough to do.
#[tokio::test]
async fn who_is_not_answered_keeps_a_pause_each_time() {
    let server = server();
    let (proxy, waiting, waiter) = looks_in_vain(&server).await;
    for _ in 0..3 {
        // What comes too late keeps the connection.
        proxy.set(Traffic::Pass);
        let asked = Instant::now();
        within(SOON, waiting.changed(&waiter)).await;
        assert!(asked.elapsed() >= PAUSE, "{:?}", asked.elapsed());
        proxy.set(Traffic::HoldReplies);
        not_answered(&waiting, &waiter).await;
    }
}

/// The library would keep what is asked until there is one again: of a thousand who wait, a thousand requests at once.
#[tokio::test]
async fn who_has_no_connection_is_told_when_there_is_one() {
    let server = server();
    let (proxy, waiting, waiter) = looks_in_vain(&server).await;
    proxy.set(Traffic::BlackHole);
    proxy.cut();
    // Found out by now.
    not_answered(&waiting, &waiter).await;
    let asks = tokio::time::timeout(LIMIT * 2, waiting.changed(&waiter)).await;
    assert!(asks.is_err(), "there is nobody to ask");
    proxy.cut();
    proxy.set(Traffic::Pass);
    changed(&waiting, &waiter).await;
    eventually(async || waiting.try_acquire(&waiter).await.ok()).await;
}
