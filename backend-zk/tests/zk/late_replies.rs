//! Replies that come too late for their call, on a connection that stays up: no reconnect tells the waiter to ask again.

use crate::kit::*;
use futures_util::future::join_all;
use leasehold_conformance::proxy::{Proxy, Traffic};
use leasehold_core::{Claim, ErrorKind, LockBackend, LossCause, Renewal};
use leasehold_test_stores::servers::ZooKeeperServer;
use leasehold_zk::ZooKeeperBackend;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The time for all requests of one call.
const LIMIT: Duration = Duration::from_millis(500);
/// Less than the fallback interval of a waiter.
const SOON: Duration = Duration::from_secs(3);
/// The shortest pause between two attempts of a waiter without a watch.
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

/// A waiter whose blocker has gone, and whose list of the queue was not answered in time.
async fn with_late_list(server: &ZooKeeperServer) -> (Proxy, Arc<ZooKeeperBackend>, Claim) {
    let (proxy, waiting) = patient(server).await;
    let (holding, held, waiter) = (backend(&server.url()), claim("job"), claim("job"));
    hold(&holding, &held).await;
    busy(&waiting, &waiter).await;
    release(&holding, &held).await;
    changed(&waiting, &waiter).await;
    proxy.set(Traffic::HoldReplies);
    not_answered(&waiting, &waiter).await;
    (proxy, waiting, waiter)
}

#[tokio::test]
async fn list_that_is_answered_too_late_is_repeated_soon() {
    let server = server();
    let (proxy, waiting, waiter) = with_late_list(&server).await;
    proxy.set(Traffic::Pass);
    within(SOON, waiting.changed(&waiter)).await;
    hold(&waiting, &waiter).await;
}

#[tokio::test]
async fn check_of_the_blocker_that_is_answered_too_late_keeps_the_watch() {
    let server = server();
    let (proxy, waiting) = patient(&server).await;
    let (holding, held, waiter) = (backend(&server.url()), claim("job"), claim("job"));
    hold(&holding, &held).await;
    busy(&waiting, &waiter).await;
    proxy.set(Traffic::HoldReplies);
    not_answered(&waiting, &waiter).await;
    proxy.set(Traffic::Pass);
    assert!(stays_quiet(&waiting, &waiter).await, "its watch is still set");
    release(&holding, &held).await;
    within(SOON, waiting.changed(&waiter)).await;
    hold(&waiting, &waiter).await;
}

#[tokio::test]
async fn create_that_is_answered_too_late_is_found_soon() {
    let server = server();
    let look = Look::at(&server).await;
    let (proxy, backend) = patient(&server).await;
    // This makes the session, and the directory of the lock.
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

#[tokio::test]
async fn waiter_without_answers_pauses_between_attempts() {
    let server = server();
    let (proxy, waiting, waiter) = with_late_list(&server).await;
    for _ in 0..3 {
        // The late replies keep the connection alive.
        proxy.set(Traffic::Pass);
        let asked = Instant::now();
        within(SOON, waiting.changed(&waiter)).await;
        assert!(asked.elapsed() >= PAUSE, "{:?}", asked.elapsed());
        proxy.set(Traffic::HoldReplies);
        not_answered(&waiting, &waiter).await;
    }
}

/// A release without an answer is repeated. If all that are late were sent, a slow server would have more to answer at each try.
#[tokio::test]
async fn releases_without_answers_are_sent_a_few_at_a_time() {
    const RELEASES: usize = 200;
    let server = server();
    let look = Look::at(&server).await;
    let (proxy, waiting) = patient(&server).await;
    let holding = backend(&server.url());
    hold(&holding, &claim("job")).await;
    let waiters: Vec<Claim> = (0..RELEASES).map(|_| claim("job")).collect();
    join_all(waiters.iter().map(|waiter| busy(&waiting, waiter))).await;

    proxy.set(Traffic::HoldReplies);
    let ended =
        answered(join_all(waiters.iter().map(|waiter| waiting.release(waiter, Duration::ZERO)))).await;

    assert!(ended.iter().all(|answer| answer.as_ref().is_err_and(|error| error.is_outage())), "{ended:?}");
    let sent = RELEASES + 1 - look.line("job").await.len();
    assert!((1..=64).contains(&sent), "{sent} of {RELEASES} releases were sent within {LIMIT:?}");
    proxy.set(Traffic::Pass);
    for waiter in &waiters {
        eventually(async || waiting.release(waiter, Duration::ZERO).await.ok()).await;
    }
    assert_eq!(look.line("job").await.len(), 1);
}

/// As after a reconnect, where the watches are set again before anything else is asked.
#[tokio::test]
async fn renewal_whose_watch_fires_before_its_proof_is_answered_is_lost() {
    let server = server();
    let look = Look::at(&server).await;
    let (proxy, backend) = patient(&server).await;
    let claim = claim("job");
    hold(&backend, &claim).await;
    // The first renewal sets the watch.
    assert_eq!(renew(&backend, &claim).await.unwrap(), Renewal::Renewed);
    proxy.set(Traffic::HoldReplies);
    look.delete(&look.only_node("job").await).await;
    let mut renewal = backend.renew(std::slice::from_ref(&claim));
    assert!(futures_util::poll!(&mut renewal).is_pending());

    proxy.set(Traffic::Pass);

    assert_eq!(answered(renewal).await.remove(0).unwrap(), Renewal::Lost(LossCause::Gone));
}

#[tokio::test]
async fn renewal_whose_watch_fires_for_another_renewal_is_lost_too() {
    let server = server();
    let look = Look::at(&server).await;
    let (backend, claim) = (backend(&server.url()), claim("job"));
    hold(&backend, &claim).await;
    assert_eq!(renew(&backend, &claim).await.unwrap(), Renewal::Renewed);
    let [mut first, mut second] = [(); 2].map(|()| backend.renew(std::slice::from_ref(&claim)));
    assert!(futures_util::poll!(&mut first).is_pending());
    look.delete(&look.only_node("job").await).await;
    changed(&backend, &claim).await;
    // It takes the signal.
    assert!(futures_util::poll!(&mut second).is_pending());

    for renewal in [first, second] {
        assert_eq!(answered(renewal).await.remove(0).unwrap(), Renewal::Lost(LossCause::Gone));
    }
}
