//! Sessions that are lost, paused and cut.

use crate::kit::*;
use leasehold_conformance::proxy::Traffic;
use leasehold_core::{DistributedLockExt, Health, LockBackend, LockClient, LossCause, Renewal};
use leasehold_test_stores::servers::ZooKeeperServer;
use std::time::Duration;
use tokio::time::Instant;

/// Until the server has deleted this node.
async fn deleted(look: &Look, node: &str) -> Instant {
    let (_, _, watcher) = look.0.get_and_watch_data(node).await.unwrap();
    answered(watcher.changed()).await;
    Instant::now()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_that_is_cut_off_knows_it_before_the_server_frees_the_lock() {
    let server = server();
    let proxy = proxy_to(&server).await;
    let client = client(&url_of(&proxy));
    let look = Look::at(&server).await;
    for _ in 0..3 {
        let guard = answered(client.acquire("job")).await.unwrap();
        let node = look.only_node("job").await;
        let lost = tokio::spawn({
            let lease = guard.lease().clone();
            async move {
                let loss = lease.lost().await;
                (Instant::now(), loss)
            }
        });
        proxy.set(Traffic::BlackHole);
        let cut_off = Instant::now();

        let freed = deleted(&look, &node).await;
        let (lost, loss) = answered(lost).await.unwrap();

        assert!(lost < freed, "lost {:?} after the cut, freed {:?}", lost - cut_off, freed - cut_off);
        assert_eq!(loss.cause(), LossCause::Unreachable);
        assert!(!guard.is_held());
        drop(guard);
        proxy.cut();
        proxy.set(Traffic::Pass);
    }
}

#[tokio::test]
async fn a_session_that_is_over_ends_its_holds_with_that_cause_and_the_next_has_a_new_one() {
    let server = server();
    let look = Look::at(&server).await;
    let proxy = proxy_to(&server).await;
    let backend = backend(&url_of(&proxy));
    let (one, two) = (claim("one"), claim("two"));
    let first = hold(&backend, &one).await;
    hold(&backend, &two).await;
    let node = look.only_node("one").await;
    proxy.set(Traffic::BlackHole);
    deleted(&look, &node).await;
    proxy.cut();
    proxy.set(Traffic::Pass);

    for claim in [&one, &two] {
        let cause = eventually(async || match renew(&backend, claim).await {
            Ok(Renewal::Lost(cause)) => Some(cause),
            Ok(renewal) => panic!("{renewal:?}"),
            Err(_) => None,
        })
        .await;
        assert_eq!(cause, LossCause::SessionOver);
    }
    release(&backend, &one).await;
    let next = claim("one");
    assert!(hold(&backend, &next).await > first);
}

#[tokio::test]
async fn a_waiter_whose_session_has_ended_does_not_get_the_lock_by_its_old_node() {
    let server = server();
    let look = Look::at(&server).await;
    let proxy = proxy_to(&server).await;
    let (holder, waiting) = (backend(&server.url()), backend(&url_of(&proxy)));
    let (held, waiter) = (claim("job"), claim("job"));
    hold(&holder, &held).await;
    busy(&waiting, &waiter).await;
    proxy.set(Traffic::BlackHole);
    eventually(async || (look.line("job").await.len() == 1).then_some(())).await;
    let behind = claim("job");
    busy(&holder, &behind).await;
    proxy.cut();
    proxy.set(Traffic::Pass);

    // Told that its session is over, it stands at the end of the line with a new one.
    changed(&waiting, &waiter).await;
    eventually(async || waiting.try_acquire(&waiter).await.ok()).await;
    release(&holder, &held).await;
    changed(&holder, &behind).await;
    hold(&holder, &behind).await;
    busy(&waiting, &waiter).await;
    release(&holder, &behind).await;
    changed(&waiting, &waiter).await;
    hold(&waiting, &waiter).await;
}

/// Each time that it asks is a connection to each server, which are many if a thousand wait.
#[tokio::test]
async fn a_waiter_whose_session_is_over_asks_in_its_own_time_while_there_is_no_server() {
    let mut server = server();
    let waiting = backend(&format!("{}&connect_timeout=500ms", short(&server)));
    let (held, waiter) = (claim("job"), claim("job"));
    hold(&waiting, &held).await;
    busy(&waiting, &waiter).await;
    server.kill();
    // Who is told of that is told once. On a slow machine it may be told to ask before, for another reason, and then of this
    // while it asks.
    let is_over = |renewal| matches!(renewal, Ok(Renewal::Lost(LossCause::SessionOver)));
    eventually(async || is_over(renew(&waiting, &held).await).then_some(())).await;
    for _ in 0..3 {
        answered(waiting.try_acquire(&waiter)).await.unwrap_err();
        let asked = Instant::now();
        changed(&waiting, &waiter).await;
        assert!(asked.elapsed() >= Duration::from_millis(100), "{:?}", asked.elapsed());
    }
    server.restart(true).unwrap();
    eventually(async || waiting.try_acquire(&waiter).await.ok()).await;
}

#[tokio::test]
async fn a_lost_connection_puts_at_risk_at_once_and_a_reconnect_takes_it_back() {
    let server = server();
    let proxy = proxy_to(&server).await;
    let client = client(&format!("zk://{}?session_timeout=40s", proxy.address()));
    let guard = client.acquire("job").await.unwrap();
    assert_eq!(guard.health(), Health::Held);

    proxy.set(Traffic::BlackHole);
    proxy.cut();
    // The next proof would be ten seconds away.
    within(Duration::from_secs(1), async {
        while guard.health() == Health::Held {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert_eq!(guard.health(), Health::AtRisk);
    proxy.cut();
    proxy.set(Traffic::Pass);

    eventually(async || (guard.health() == Health::Held).then_some(())).await;
    assert!(guard.is_held());
    guard.release().await.unwrap();
}

/// So that others can be tried before the server ends the session.
#[tokio::test]
async fn a_silent_connection_is_given_up_after_a_fifth_of_the_session_that_was_given() {
    let server = ZooKeeperServer::start_with(&["maxSessionTimeout=4000"]).unwrap();
    let proxy = proxy_to(&server).await;
    let backend = backend(&format!("zk://{}?session_timeout=11s", proxy.address()));
    hold(&backend, &claim("job")).await;
    proxy.set(Traffic::BlackHole);
    // 800 ms, and not 2.2 s.
    within(Duration::from_millis(1500), backend.suspects()).await;
}

#[tokio::test]
async fn a_server_that_pauses_for_less_than_a_session_costs_nothing() {
    let server = server();
    let (holder, waiter) = (client(&format!("{}?session_timeout=6s", server.url())), backend(&server.url()));
    let guard = holder.acquire("job").await.unwrap();
    let waiting = claim("job");
    busy(&waiter, &waiting).await;
    server.pause();
    tokio::time::sleep(Duration::from_millis(2500)).await;
    server.resume();
    assert!(guard.is_held());
    eventually(async || (guard.health() == Health::Held).then_some(())).await;
    // The watch has lived through the reconnect, if there was one.
    guard.release().await.unwrap();
    changed(&waiter, &waiting).await;
    hold(&waiter, &waiting).await;
}

#[tokio::test]
async fn a_server_that_is_killed_and_started_again_keeps_holds_and_waiters() {
    let mut server = server();
    let url = format!("{}?session_timeout=8s", server.url());
    let (holder, waiter) = (client(&url), backend(&url));
    let guard = holder.acquire("job").await.unwrap();
    let (token, waiting) = (guard.token().unwrap(), claim("job"));
    busy(&waiter, &waiting).await;

    server.kill();
    server.restart(true).unwrap();

    eventually(async || (guard.health() == Health::Held).then_some(())).await;
    assert!(guard.is_held());
    guard.release().await.unwrap();
    changed(&waiter, &waiting).await;
    assert!(hold(&waiter, &waiting).await > token);
}

#[tokio::test]
async fn belief_is_bounded_by_the_session_and_not_by_the_ttl() {
    let server = server();
    let client = client(&format!("{}?session_timeout=4s", server.url()));
    let guard = client.acquire("job").await.unwrap();
    assert!(guard.remaining() <= Duration::from_secs(3), "{:?}", guard.remaining());
    tokio::time::sleep(Duration::from_millis(2200)).await;
    assert!(guard.remaining() > Duration::from_millis(800), "{:?}", guard.remaining());
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_guard_that_is_dropped_during_an_outage_frees_the_lock_after_it() {
    let server = server();
    warm_up(&server).await;
    let look = Look::at(&server).await;
    let proxy = proxy_to(&server).await;
    let backend = backend(&format!("zk://{}?session_timeout=10s&timeout=500ms", proxy.address()));
    let client = LockClient::builder(backend)
        .with_defaults(leasehold_core::AcquireOptions::new().with_ttl(Duration::from_millis(900)))
        .build();
    let guard = client.acquire("job").await.unwrap();
    proxy.set(Traffic::BlackHole);
    drop(guard);
    // Longer than the ttl, shorter than the session.
    tokio::time::sleep(Duration::from_millis(2500)).await;
    look.only_node("job").await;
    proxy.cut();
    proxy.set(Traffic::Pass);
    let start = Instant::now();
    eventually(async || look.line("job").await.is_empty().then_some(())).await;
    assert!(start.elapsed() < Duration::from_secs(7), "only the end of the session has freed it");
}

/// A backend that outlives the runtime of its session makes another one.
#[test]
fn a_session_ends_with_its_runtime_and_another_runtime_gets_another_session() {
    let server = server();
    let backend = backend(&short(&server));
    let run = |work: &dyn Fn(&tokio::runtime::Runtime)| {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        work(&runtime);
    };
    let (first, waiting) = (claim("one"), claim("one"));
    run(&|runtime| {
        runtime.block_on(hold(&backend, &first));
        runtime.block_on(busy(&backend, &waiting));
    });
    run(&|runtime| {
        runtime.block_on(async {
            // At once, and not by the next renewal.
            assert_eq!(answered(backend.suspects()).await, [first.owner()]);
            changed(&backend, &waiting).await;
            assert_eq!(renew(&backend, &first).await.unwrap(), Renewal::Lost(LossCause::SessionOver));
            hold(&backend, &claim("two")).await;
        });
    });
}
