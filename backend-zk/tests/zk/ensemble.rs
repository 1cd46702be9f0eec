//! Three servers, of which some die.

use crate::kit::*;
use leasehold_conformance::servers::ZooKeeperEnsemble;
use leasehold_core::{DistributedLockExt, Health, LockBackend};
use std::time::Duration;

fn ensemble() -> (ZooKeeperEnsemble, usize) {
    let ensemble = ZooKeeperEnsemble::start().unwrap();
    let leader = ensemble.wait_until_served(3).unwrap();
    (ensemble, leader)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_dies_costs_no_hold_and_no_waiter() {
    let (mut ensemble, leader) = ensemble();
    let url = format!("{}?session_timeout=6s", ensemble.url());
    let (holder, waiter) = (client(&url), backend(&url));
    let guard = holder.acquire("job").await.unwrap();
    let (token, waiting) = (guard.token().unwrap(), claim("job"));
    busy(&waiter, &waiting).await;

    ensemble.kill(leader);
    ensemble.wait_until_served(2).unwrap();

    eventually(async || (guard.health() == Health::Held).then_some(())).await;
    assert_eq!(guard.token().unwrap(), token);
    guard.release().await.unwrap();
    changed(&waiter, &waiting).await;
    assert!(hold(&waiter, &waiting).await > token);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_quorum_nobody_gets_the_lock_and_the_holder_is_sure_of_nothing() {
    let (ensemble, leader) = ensemble();
    let others: Vec<usize> = (0..3).filter(|member| *member != leader).collect();
    let url = format!("{}?session_timeout=2s&timeout=500ms&connect_timeout=1s", ensemble.url());
    let (holder, other) = (client(&url), backend(&url));
    let guard = holder.acquire("job").await.unwrap();
    for member in &others {
        ensemble.pause(*member);
    }

    within(Duration::from_secs(3), guard.lost()).await;
    assert!(answered(other.try_acquire(&claim("job"))).await.is_err());
    assert!(answered(other.try_acquire(&claim("other"))).await.is_err());
    for member in &others {
        ensemble.resume(*member);
    }
    ensemble.wait_until_served(3).unwrap();

    drop(guard);
    let next = claim("job");
    within(Duration::from_secs(20), async {
        while !matches!(other.try_acquire(&next).await, Ok(leasehold_core::Attempt::Granted(_))) {
            other.changed(&next).await;
        }
    })
    .await;
}
