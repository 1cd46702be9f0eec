//! The recipe on one well server: who holds, who waits, who is told.

use crate::kit::*;
use leasehold_core::{LockBackend, LossCause, Release, Renewal};
use std::time::{Duration, Instant};

#[tokio::test]
async fn a_free_lock_is_granted_and_its_node_is_that_of_curator() {
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
async fn asked_again_the_holder_has_the_same_grant_and_the_same_node() {
    let server = server();
    let (backend, claim) = (backend(&server.url()), claim("job"));
    let first = hold(&backend, &claim).await;
    assert_eq!(hold(&backend, &claim).await, first);
    Look::at(&server).await.only_node("job").await;
}

#[tokio::test]
async fn a_waiter_is_told_when_the_holder_goes_and_has_a_larger_token() {
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
async fn only_the_next_in_line_is_told() {
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
async fn a_waiter_in_front_that_leaves_grants_nothing() {
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
async fn asked_without_news_a_waiter_stays_where_it_is() {
    let server = server();
    let (one, other) = (backend(&server.url()), backend(&server.url()));
    let (holder, waiter) = (claim("job"), claim("job"));
    hold(&one, &holder).await;
    busy(&other, &waiter).await;
    let before = server.counter("zk_packets_received").unwrap();
    busy(&other, &waiter).await;
    let asked = server.counter("zk_packets_received").unwrap() - before;
    // One read, and the pings of three sessions.
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
async fn another_backend_can_take_a_claim_back_by_its_owner_alone() {
    let server = server();
    let claim = claim("job");
    hold(&backend(&server.url()), &claim).await;
    let maker = backend(&server.url());
    assert_eq!(renew(&maker, &claim).await.unwrap(), Renewal::Lost(LossCause::Gone));
}

#[tokio::test]
async fn tokens_grow_when_the_directory_is_made_anew() {
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
async fn a_hundred_claims_are_renewed_by_one_request() {
    let server = server();
    let backend = backend(&server.url());
    let claims: Vec<_> = (0..100).map(|number| claim(&format!("job/{number}"))).collect();
    for claim in &claims {
        hold(&backend, claim).await;
    }
    // Holders begin to listen to their nodes a moment after the grant.
    let before = eventually(async || {
        let counted = server.counter("zk_packets_received").unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
        let now = server.counter("zk_packets_received").unwrap();
        // The question itself is one.
        (now - counted <= 1).then_some(now)
    })
    .await;
    let answers = answered(backend.renew(&claims)).await;
    let asked = server.counter("zk_packets_received").unwrap() - before;
    assert!(answers.into_iter().all(|answer| answer.unwrap() == Renewal::Renewed));
    assert!(asked <= 4, "{asked} requests for a hundred claims");
}

#[tokio::test]
async fn a_hold_of_a_moment_costs_three_requests() {
    const PAIRS: u64 = 50;
    let server = server();
    let backend = backend(&server.url());
    let mut slow = 0;
    let pair = async || {
        let (claim, begun) = (claim("job"), Instant::now());
        hold(&backend, &claim).await;
        answered(backend.release(&claim, Duration::ZERO)).await.unwrap();
        begun.elapsed()
    };
    pair().await;
    let before = server.counter("zk_packets_received").unwrap();
    for _ in 0..PAIRS {
        slow += u64::from(pair().await >= Duration::from_millis(20));
    }
    let asked = server.counter("zk_packets_received").unwrap() - before;
    // To stand in line, to list it, to leave; a holder for longer also listens. And a ping or two of the session.
    assert!(asked <= 3 * PAIRS + slow + 5, "{asked} requests for {PAIRS} holds, of which {slow} were slow");
}

#[tokio::test]
async fn closing_frees_everything_at_once() {
    let server = server();
    let (one, other) = (backend(&server.url()), backend(&server.url()));
    hold(&one, &claim("job")).await;
    answered(one.close()).await.unwrap();
    within(Duration::from_secs(3), hold(&other, &claim("job"))).await;
    assert_eq!(one.try_acquire(&claim("job")).await.unwrap_err().kind(), leasehold_core::ErrorKind::Closed);
}
