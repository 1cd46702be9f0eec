//! More locks in one process than the client library could listen to.

use crate::kit::*;
use futures_util::future::join_all;
use leasehold_conformance::proxy::Traffic;
use leasehold_core::{Claim, LockBackend, LockName, LossCause, Release, Renewal};
use leasehold_zk::ZooKeeperBackend;
use std::pin::pin;
use std::time::Duration;

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

/// As the core renews: so many calls at once for so many holds.
#[tokio::test]
async fn renewals_that_come_together_share_a_proof() {
    const CALLS: usize = 20;
    let server = server();
    let backend = backend(&server.url());
    let held = claims("held", CALLS);
    all_hold(&backend, &held).await;
    eventually(async || (server.counter("zk_watch_count").unwrap() == CALLS as u64).then_some(())).await;
    let before = server.counter("zk_packets_received").unwrap();
    for renewed in join_all(held.iter().map(|claim| renew(&backend, claim))).await {
        assert_eq!(renewed.unwrap(), Renewal::Renewed);
    }
    // That of the first, and that of all who came while it was under way. The question is one too, and perhaps a ping.
    let asked = server.counter("zk_packets_received").unwrap() - before;
    assert!(asked <= 4, "{asked} requests");
}

/// The library loses the session of a process with more watches than it can set anew in one request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_connection_costs_nothing_however_many_hold_and_wait() {
    let server = server();
    let proxy = proxy_to(&server).await;
    let ours = backend(&format!("zk://{}?session_timeout=40s&timeout=10s", proxy.address()));
    let theirs = backend(&format!("{}?session_timeout=40s&timeout=10s", server.url()));
    let (held, wanted) = (claims("held", HOLDS), claims("wanted", WAITERS));
    all_hold(&ours, &held).await;
    all_hold(&theirs, &wanted).await;
    // Each for a lock of its own, and all for one.
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
async fn a_node_that_is_deleted_is_missed_though_nobody_listens_to_it() {
    let server = server();
    let look = Look::at(&server).await;
    let backend = backend(&format!("{}?session_timeout=40s&timeout=10s", server.url()));
    let held = claims("held", HOLDS);
    all_hold(&backend, &held).await;
    eventually(async || (server.counter("zk_watch_count").unwrap() > 500).then_some(())).await;
    let watched = server.counter("zk_watch_count").unwrap();
    assert!(watched < HOLDS as u64, "{watched}: this tests nothing");
    let last = held.last().unwrap();
    look.delete(&look.only_node(last.name().as_str()).await).await;
    eventually(async || match renew(&backend, last).await.unwrap() {
        Renewal::Lost(LossCause::Gone) => Some(()),
        Renewal::Renewed => None,
        renewal => panic!("{renewal:?}"),
    })
    .await;
    // There is room again where others have left.
    for claim in &held[..100] {
        release(&backend, claim).await;
    }
    let deaf = &held[HOLDS - 2];
    eventually(async || {
        renew(&backend, deaf).await.unwrap();
        (server.ask("wchp").unwrap().contains(deaf.name().as_str())).then_some(())
    })
    .await;
}

/// Who does not listen to its own node does not know that it is still there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_hears_nothing_of_its_own_node_is_not_first_by_a_word() {
    let server = server();
    let look = Look::at(&server).await;
    let url = format!("{}?session_timeout=40s&timeout=10s", server.url());
    let (ours, theirs) = (backend(&url), backend(&url));
    all_hold(&ours, &claims("held", HOLDS)).await;
    let [first, second] = in_line(&ours).await;
    let node = look.in_order("job").await.pop().unwrap();
    let third = one_behind(&theirs).await;
    look.delete(&format!("{BASE}/job/{node}")).await;
    changed(&theirs, &third).await;
    busy(&theirs, &third).await;

    release(&ours, &first).await;

    changed(&theirs, &third).await;
    hold(&theirs, &third).await;
    busy(&ours, &second).await;
    release(&theirs, &third).await;
    comes_to_hold(&ours, &second).await;
}

/// Who leaves has looked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_hears_nothing_of_its_own_node_is_first_by_a_word_that_says_that_it_is_there() {
    let server = server();
    let ours = backend(&format!("{}?session_timeout=40s&timeout=10s", server.url()));
    all_hold(&ours, &claims("held", HOLDS)).await;
    let line = in_line::<20>(&ours).await;
    // Until those who found room listen: each question is one packet.
    let received = || server.counter("zk_packets_received").unwrap();
    eventually(async || {
        let before = received();
        tokio::time::sleep(Duration::from_millis(100)).await;
        (received() - before <= 2).then_some(())
    })
    .await;
    let before = received();
    for pair in line.windows(2) {
        release(&ours, &pair[0]).await;
        hold(&ours, &pair[1]).await;
    }
    let asked = received() - before;
    assert!(asked < 3 * line.len() as u64, "{asked} requests: somebody has listed the line");
}

/// Nobody has an answer that would have come first: there was none of a request that has it listen.
#[tokio::test]
async fn who_finds_no_room_at_its_turn_is_looked_for_in_the_same_breath() {
    let server = server();
    let (proxy, look) = (proxy_to(&server).await, Look::at(&server).await);
    let theirs = backend(&server.url());
    let backend = backend(&format!("zk://{}?session_timeout=40s&timeout=5s", proxy.address()));
    // Who waits listens by the time that it is answered, and a few such paths are more than is listened to of its own.
    let long = |number| claim(&format!("{number:x<width$}", width = LockName::MAX_BYTES));
    for wanted in (0..160).map(long) {
        hold(&theirs, &wanted).await;
        busy(&backend, &claim(wanted.name().as_str())).await;
    }
    let line = in_line::<3>(&backend).await;
    release(&backend, &line[0]).await;
    hold(&backend, &line[1]).await;
    assert!(!server.ask("wchp").unwrap().contains("/job/"), "there is room: this tests nothing");
    let node = format!("{BASE}/job/{}", look.in_order("job").await[0]);
    let before = proxy.request_bytes();

    proxy.set(Traffic::HoldReplies);
    let mut leaving = pin!(backend.release(&line[1], Duration::ZERO));
    // Two requests, each with a path of this length.
    let both = 2 * node.len() as u64;
    let asks = eventually(async || (proxy.request_bytes() - before >= both).then_some(()));
    tokio::select! {
        () = asks => {}
        left = leaving.as_mut() => panic!("{left:?}, and nobody was looked for meanwhile"),
    }

    proxy.set(Traffic::Pass);
    assert_eq!(answered(leaving).await.unwrap(), Release::Released);
    hold(&backend, &line[2]).await;
}
