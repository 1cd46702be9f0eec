//! The proof of a session: when a grant needs one of its own, and from when belief is counted.

use crate::kit::*;
use leasehold_core::{Attempt, Claim, DistributedLockExt, LockBackend};
use leasehold_test_stores::servers::ZooKeeperServer;
use leasehold_zk::ZooKeeperBackend;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The time between a look at what remains and a look at the clock.
const SHORTLY: Duration = Duration::from_millis(200);

/// The packets of the attempt by which a waiter is granted a lock, a while after it began to wait.
async fn packets_of_a_turn(server: &ZooKeeperServer, wait: Duration) -> u64 {
    // A proof is fresh for a tenth of three quarters of 40 s: 3 s. Such a session sends a ping every 1.5 s.
    let url = format!("{}?session_timeout=40s", server.url());
    let (one, other) = (backend(&url), backend(&url));
    let (holder, waiter) = (claim("job"), claim("job"));
    hold(&one, &holder).await;
    busy(&other, &waiter).await;
    sleep(wait).await;
    release(&one, &holder).await;
    changed(&other, &waiter).await;
    let before = server.counter("zk_packets_received").unwrap();
    hold(&other, &waiter).await;
    let packets = server.counter("zk_packets_received").unwrap() - before;
    release(&other, &waiter).await;
    // Without the question for the counter.
    packets - 1
}

#[tokio::test]
async fn waiter_with_a_fresh_proof_only_lists_the_queue() {
    assert_eq!(packets_of_a_turn(&server(), Duration::ZERO).await, 1);
}

#[tokio::test]
async fn waiter_with_an_old_proof_makes_another_in_the_same_round_trip() {
    assert_eq!(packets_of_a_turn(&server(), Duration::from_millis(3100)).await, 2);
}

/// Another claim of the session has just written.
#[tokio::test]
async fn write_of_another_claim_is_a_proof_too() {
    let server = server();
    let url = format!("{}?session_timeout=40s", server.url());
    let (one, other) = (backend(&url), backend(&url));
    let (holder, waiter) = (claim("job"), claim("job"));
    hold(&one, &holder).await;
    busy(&other, &waiter).await;
    sleep(Duration::from_millis(3100)).await;
    hold(&other, &claim("another")).await;
    release(&one, &holder).await;
    changed(&other, &waiter).await;
    let before = server.counter("zk_packets_received").unwrap();
    hold(&other, &waiter).await;
    assert_eq!(server.counter("zk_packets_received").unwrap() - before, 2, "the list, and the question");
}

/// The lease that a waiter is granted.
async fn granted_lease(backend: &ZooKeeperBackend, claim: &Claim) -> Duration {
    changed(backend, claim).await;
    match answered(backend.try_acquire(claim)).await.unwrap() {
        Attempt::Granted(grant) => grant.lease.unwrap(),
        Attempt::Busy(busy) => panic!("busy: {busy:?}"),
    }
}

#[tokio::test]
async fn lease_is_shorter_by_the_age_of_the_proof() {
    let server = server();
    let url = format!("{}?session_timeout=40s", server.url());
    let (one, other) = (backend(&url), backend(&url));
    let (holder, waiter) = (claim("job"), claim("job"));
    hold(&one, &holder).await;
    busy(&other, &waiter).await;
    let (waits, age) = (Instant::now(), Duration::from_millis(1500));
    sleep(age).await;
    release(&one, &holder).await;
    let (lease, whole) = (granted_lease(&other, &waiter).await, Duration::from_secs(30));
    assert!(lease <= whole - age, "{lease:?}");
    assert!(lease + waits.elapsed() + SHORTLY >= whole || lease == whole, "{lease:?}");
}

#[tokio::test]
async fn hold_is_counted_from_before_the_proof() {
    let server = server();
    let url = format!("{}?session_timeout=20s", server.url());
    let (one, other, look) = (client(&url), Arc::new(client(&url)), Look::at(&server).await);
    let guard = one.acquire("job").await.unwrap();
    let waiter = tokio::spawn({
        let other = Arc::clone(&other);
        async move { other.acquire("job").await }
    });
    eventually(async || (look.line("job").await.len() == 2).then_some(())).await;
    let waits = Instant::now();
    sleep(Duration::from_millis(900)).await;
    guard.release().await.unwrap();
    let guard = answered(waiter).await.unwrap().unwrap();
    let (remaining, waited) = (guard.remaining(), waits.elapsed());
    assert!(remaining + waited <= Duration::from_secs(15) + SHORTLY, "{remaining:?} after {waited:?}");
}
