//! An ensemble of three, some of which fail.

use crate::kit::*;
use leasehold_core::{DistributedLockExt, Health, LockBackend};
use leasehold_test_stores::servers::ZooKeeperEnsemble;
use std::time::Duration;
use tokio::time::sleep;

fn ensemble() -> (ZooKeeperEnsemble, usize) {
    let ensemble = ZooKeeperEnsemble::start().unwrap();
    let leader = ensemble.wait_until_served(3).unwrap();
    (ensemble, leader)
}

/// Pauses the followers. The leader takes itself for one for another second and a half.
fn cut_off(ensemble: &ZooKeeperEnsemble, leader: usize) {
    (0..3).filter(|member| *member != leader).for_each(|member| ensemble.pause(member));
}

/// The followers may have elected another leader, which may have ended the session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leader_without_followers_proves_no_hold() {
    let (ensemble, leader) = ensemble();
    let url = format!("zk://127.0.0.1:{}?session_timeout=1s", ensemble.ports()[leader]);
    let guard = client(&url).acquire("job").await.unwrap();
    cut_off(&ensemble, leader);
    // Three quarters of a second after the last proof. The leader alone would answer for twice as long.
    within(Duration::from_millis(1400), guard.lost()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leader_without_followers_grants_nothing() {
    let (ensemble, leader) = ensemble();
    let url = format!("zk://127.0.0.1:{}?session_timeout=2s&timeout=500ms", ensemble.ports()[leader]);
    warm_up_at(&url).await;
    let (one, other) = (backend(&url), backend(&url));
    let [held, released, waiter] = [claim("held"), claim("job"), claim("job")];
    hold(&one, &held).await;
    hold(&one, &released).await;
    busy(&other, &waiter).await;
    // Longer than a proof is fresh.
    sleep(Duration::from_millis(700)).await;
    release(&one, &released).await;
    cut_off(&ensemble, leader);
    sleep(Duration::from_millis(200)).await;
    assert!(answered(one.try_acquire(&held)).await.is_err(), "it may have been ended");
    assert!(answered(other.try_acquire(&waiter)).await.is_err(), "its turn has come at a leader that was");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_leader_costs_no_hold_and_no_waiter() {
    let (mut ensemble, leader) = ensemble();
    // A session that outlasts an election on a busy machine.
    let url = format!("{}?session_timeout=20s", ensemble.url());
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
async fn ensemble_without_a_quorum_grants_nothing_and_its_holder_is_lost() {
    let (ensemble, leader) = ensemble();
    let others: Vec<usize> = (0..3).filter(|member| *member != leader).collect();
    let url = format!("{}?session_timeout=2s&timeout=500ms&connect_timeout=1s", ensemble.url());
    warm_up_at(&url).await;
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
