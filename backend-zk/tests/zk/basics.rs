//! The recipe on one healthy server.

use crate::kit::*;
use leasehold_core::{LockBackend, LossCause, Release, Renewal};
use std::time::{Duration, Instant};

#[tokio::test]
async fn free_lock_is_granted_with_a_node_in_curators_layout() {
    let server = server();
    let (backend, claim) = (backend(&server.url()), claim("job"));

    let token = hold(&backend, &claim).await;

    let look = Look::at(&server).await;
    let node = look.only_node("job").await;
    let owner = claim.owner().to_hex();
    let plain = node.replace('-', "");
    assert!(plain.contains(&format!("/_c_{owner}lock0000000000")), "{node}");
    let (data, stat) = look.0.get_data(&node).await.unwrap();
    assert_eq!(String::from_utf8(data).unwrap(), HOLDER);
    assert_eq!(token.get(), stat.czxid.unsigned_abs());
    assert_ne!(stat.ephemeral_owner, 0);
}

#[tokio::test]
async fn holder_that_asks_again_has_the_same_grant_and_node() {
    let server = server();
    let (backend, claim) = (backend(&server.url()), claim("job"));
    let first = hold(&backend, &claim).await;
    assert_eq!(hold(&backend, &claim).await, first);
    Look::at(&server).await.only_node("job").await;
}

#[tokio::test]
async fn waiter_is_told_of_a_release_and_has_a_larger_token() {
    let server = server();
    let (holder, waiter) = (backend(&server.url()), backend(&server.url()));
    let (first, second) = (claim("job"), claim("job"));
    let token = hold(&holder, &first).await;
    busy(&waiter, &second).await;
    assert!(stays_quiet(&waiter, &second).await);

    assert_eq!(release(&holder, &first).await, Release::Released);
    changed(&waiter, &second).await;

    assert!(hold(&waiter, &second).await > token);
    assert_eq!(renew(&waiter, &second).await.unwrap(), Renewal::Renewed);
}

#[tokio::test]
async fn release_tells_only_the_next_waiter() {
    let server = server();
    let backend = backend(&server.url());
    let line: Vec<_> = (0..5).map(|_| claim("job")).collect();
    hold(&backend, &line[0]).await;
    for waiter in &line[1..] {
        busy(&backend, waiter).await;
    }

    release(&backend, &line[0]).await;
    changed(&backend, &line[1]).await;

    for waiter in &line[2..] {
        assert!(stays_quiet(&backend, waiter).await);
    }
    hold(&backend, &line[1]).await;
}

#[tokio::test]
async fn waiter_in_front_that_leaves_grants_nothing() {
    let server = server();
    let (one, other) = (backend(&server.url()), backend(&server.url()));
    let (holder, front, back) = (claim("job"), claim("job"), claim("job"));
    hold(&one, &holder).await;
    busy(&one, &front).await;
    busy(&other, &back).await;

    assert_eq!(release(&one, &front).await, Release::NotHeld);
    changed(&other, &back).await;
    busy(&other, &back).await;
    assert!(stays_quiet(&other, &back).await);

    release(&one, &holder).await;
    changed(&other, &back).await;
    hold(&other, &back).await;
}

#[tokio::test]
async fn waiter_that_asks_without_a_signal_makes_one_request() {
    let server = server();
    let (one, other) = (backend(&server.url()), backend(&server.url()));
    let (holder, waiter) = (claim("job"), claim("job"));
    hold(&one, &holder).await;
    busy(&other, &waiter).await;
    let before = server.counter("zk_packets_received").unwrap();
    busy(&other, &waiter).await;
    let asked = server.counter("zk_packets_received").unwrap() - before;
    // The check of the blocker, and the pings of three sessions.
    assert!(asked <= 4, "{asked} requests");
    release(&one, &holder).await;
    changed(&other, &waiter).await;
    hold(&other, &waiter).await;
}

#[tokio::test]
async fn release_is_idempotent_and_leaves_nothing() {
    let server = server();
    let (backend, claim) = (backend(&server.url()), claim("job"));
    assert_eq!(release(&backend, &claim).await, Release::NotHeld);
    hold(&backend, &claim).await;
    assert_eq!(release(&backend, &claim).await, Release::Released);
    assert_eq!(release(&backend, &claim).await, Release::NotHeld);
    let look = Look::at(&server).await;
    assert_eq!(look.line("job").await, [""; 0]);
    eventually(async || look.children(BASE).await.is_empty().then_some(())).await;
}

#[tokio::test]
async fn claim_of_another_backend_is_not_renewed() {
    let server = server();
    let claim = claim("job");
    hold(&backend(&server.url()), &claim).await;
    let maker = backend(&server.url());
    assert_eq!(renew(&maker, &claim).await.unwrap(), Renewal::Lost(LossCause::Gone));
}

#[tokio::test]
async fn tokens_grow_when_the_directory_is_made_again() {
    let server = server();
    let backend = backend(&server.url());
    let look = Look::at(&server).await;
    let mut last = None;
    for _ in 0..3 {
        let claim = claim("job");
        let token = hold(&backend, &claim).await;
        assert!(Some(token) > last, "{token} after {last:?}");
        last = Some(token);
        assert!(look.only_node("job").await.ends_with("0000000000"));
        release(&backend, &claim).await;
        look.wipe(&format!("{BASE}/job")).await;
    }
}

#[tokio::test]
async fn hundred_claims_are_renewed_by_one_request() {
    let server = server();
    let backend = backend(&server.url());
    let claims: Vec<_> = (0..100).map(|number| claim(&format!("job/{number}"))).collect();
    for claim in &claims {
        hold(&backend, claim).await;
    }
    let packets = async || {
        let before = server.counter("zk_packets_received").unwrap();
        let answers = answered(backend.renew(&claims)).await;
        assert!(answers.into_iter().all(|answer| answer.unwrap() == Renewal::Renewed));
        server.counter("zk_packets_received").unwrap() - before
    };
    let (first, next) = (packets().await, packets().await);
    // The first renewal also sets the watches. The question for the counter is a packet too, and perhaps a ping.
    assert!((101..=110).contains(&first), "{first} packets");
    assert!(next <= 4, "{next} packets for a hundred claims");
}

#[tokio::test]
async fn short_hold_costs_three_requests() {
    const PAIRS: u64 = 50;
    let server = server();
    let backend = backend(&server.url());
    let pair = async || {
        let claim = claim("job");
        hold(&backend, &claim).await;
        answered(backend.release(&claim, Duration::ZERO)).await.unwrap();
    };
    pair().await;
    let (before, start) = (server.counter("zk_packets_received").unwrap(), Instant::now());
    for _ in 0..PAIRS {
        pair().await;
    }
    let packets = server.counter("zk_packets_received").unwrap() - before;
    // Create, list and delete; and the pings of a session of ten seconds, some each second.
    let pings = 5 + 2 * start.elapsed().as_secs();
    assert!(packets <= 3 * PAIRS + pings, "{packets} packets for {PAIRS} holds, {pings} pings allowed");
}

#[tokio::test]
async fn close_frees_all_locks_at_once() {
    let server = server();
    let (one, other) = (backend(&server.url()), backend(&server.url()));
    hold(&one, &claim("job")).await;
    answered(one.close()).await.unwrap();
    within(Duration::from_secs(3), hold(&other, &claim("job"))).await;
    assert_eq!(one.try_acquire(&claim("job")).await.unwrap_err().kind(), leasehold_core::ErrorKind::Closed);
}
