//! More locks in one process than its session can watch.

use crate::kit::*;
use futures_util::future::join_all;
use leasehold_core::{Claim, LockBackend, LossCause, Renewal};
use leasehold_zk::ZooKeeperBackend;

/// The paths of so many watches do not fit into one request of the library.
const HOLDS: usize = 2_000;
const WAITERS: usize = 1_000;

async fn all_hold(backend: &ZooKeeperBackend, claims: &[Claim]) {
    for some in claims.chunks(100) {
        join_all(some.iter().map(|claim| hold(backend, claim))).await;
    }
}

async fn all_wait(backend: &ZooKeeperBackend, claims: &[Claim]) {
    for some in claims.chunks(100) {
        join_all(some.iter().map(|claim| busy(backend, claim))).await;
    }
}

fn claims(lock: &str, number: usize) -> Vec<Claim> {
    (0..number).map(|number| claim(&format!("a-lock-of-a-usual-length-{lock}-{number:04}"))).collect()
}

/// The core renews with one call for each batch of holds.
#[tokio::test]
async fn renewals_that_come_together_share_a_proof() {
    const CALLS: usize = 20;
    let server = server();
    let backend = backend(&server.url());
    let held = claims("held", CALLS);
    all_hold(&backend, &held).await;
    // The first renewal sets the watches.
    answered(backend.renew(&held)).await;
    let before = server.counter("zk_packets_received").unwrap();
    for renewed in join_all(held.iter().map(|claim| renew(&backend, claim))).await {
        assert_eq!(renewed.unwrap(), Renewal::Renewed);
    }
    // The proof of the first, and one for all that came while it was under way. The question is one too, and perhaps a ping.
    let packets = server.counter("zk_packets_received").unwrap() - before;
    assert!(packets <= 4, "{packets} packets");
}

/// The library loses the session of a process with more watches than fit into one request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_connection_costs_nothing_with_more_locks_than_watches() {
    let server = server();
    let proxy = proxy_to(&server).await;
    let ours = backend(&format!("zk://{}?session_timeout=40s&timeout=10s", proxy.address()));
    let theirs = backend(&format!("{}?session_timeout=40s&timeout=10s", server.url()));
    let (held, wanted) = (claims("held", HOLDS), claims("wanted", WAITERS));
    all_hold(&ours, &held).await;
    all_hold(&theirs, &wanted).await;
    // Waiters of a thousand locks, and a thousand of one lock.
    let waiters: Vec<_> = wanted.iter().map(|of| claim(of.name().as_str())).collect();
    let line: Vec<_> = (0..WAITERS).map(|_| claim(wanted[0].name().as_str())).collect();
    all_wait(&ours, &waiters).await;
    all_wait(&ours, &line).await;

    proxy.cut();

    eventually(async || {
        let renewed = answered(ours.renew(&held)).await;
        let lost = renewed.iter().find(|renewal| matches!(renewal, Ok(Renewal::Lost(_))));
        assert!(lost.is_none(), "{lost:?}");
        renewed.iter().all(Result::is_ok).then_some(())
    })
    .await;
    for (held, waiter) in
        wanted.iter().zip(&waiters).rev().step_by(100).chain(wanted.iter().zip(&waiters).take(1))
    {
        release(&theirs, held).await;
        comes_to_hold(&ours, waiter).await;
    }
    release(&ours, &waiters[0]).await;
    for waiter in &line[..10] {
        comes_to_hold(&ours, waiter).await;
        release(&ours, waiter).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleted_node_without_a_watch_is_found_by_a_renewal() {
    let server = server();
    let look = Look::at(&server).await;
    let backend = backend(&format!("{}?session_timeout=40s&timeout=10s", server.url()));
    let held = claims("held", HOLDS);
    all_hold(&backend, &held).await;
    answered(backend.renew(&held)).await;
    let watched = server.counter("zk_watch_count").unwrap();
    assert!((300..HOLDS as u64).contains(&watched), "{watched} watches");
    let last = held.last().unwrap();
    look.delete(&look.only_node(last.name().as_str()).await).await;
    assert_eq!(renew(&backend, last).await.unwrap(), Renewal::Lost(LossCause::Gone));
    // A released hold gives its watch to another.
    for claim in &held[..100] {
        release(&backend, claim).await;
    }
    let unwatched = &held[HOLDS - 2];
    renew(&backend, unwatched).await.unwrap();
    assert!(server.ask("wchp").unwrap().contains(unwatched.name().as_str()));
}
