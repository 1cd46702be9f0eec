//! Sessions that end, pause and are cut off.

use crate::kit::*;
use leasehold_conformance::proxy::Traffic;
use leasehold_core::{DistributedLockExt, Health, LockBackend, LockClient, LossCause, Renewal};
use leasehold_test_stores::servers::ZooKeeperServer;
use std::time::Duration;
use tokio::time::Instant;

/// Waits until the server has deleted this node.
async fn deleted(look: &Look, node: &str) -> Instant {
    let (_, _, watcher) = look.0.get_and_watch_data(node).await.unwrap();
    answered(watcher.changed()).await;
    Instant::now()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holder_that_is_cut_off_is_lost_before_the_server_frees_the_lock() {
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
async fn ended_session_ends_its_holds_and_is_replaced() {
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
async fn waiter_whose_session_has_ended_goes_on_at_the_end() {
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

    changed(&waiting, &waiter).await;
    let told = eventually(async || {
        waiting
            .try_acquire(&waiter)
            .await
            .err()
            .filter(|error| error.to_string().contains("goes on at the end"))
    })
    .await;
    assert!(told.is_outage(), "{told}");
    // Once, and then it has its place.
    busy(&waiting, &waiter).await;
    release(&holder, &held).await;
    changed(&holder, &behind).await;
    hold(&holder, &behind).await;
    busy(&waiting, &waiter).await;
    release(&holder, &behind).await;
    changed(&waiting, &waiter).await;
    hold(&waiting, &waiter).await;
}

/// Each attempt is a connection to each server. A thousand waiters would make many.
#[tokio::test]
async fn waiter_without_a_server_pauses_between_attempts() {
    let mut server = server();
    let waiting = backend(&format!("{}&connect_timeout=500ms", short(&server)));
    let (held, waiter) = (claim("job"), claim("job"));
    hold(&waiting, &held).await;
    busy(&waiting, &waiter).await;
    server.kill();
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
async fn hold_is_at_risk_from_a_lost_connection_to_the_reconnect() {
    let server = server();
    let proxy = proxy_to(&server).await;
    let client = client(&format!("zk://{}?session_timeout=40s", proxy.address()));
    let guard = client.acquire("job").await.unwrap();
    assert_eq!(guard.health(), Health::Held);

    proxy.set(Traffic::BlackHole);
    proxy.cut();
    // The next renewal is ten seconds away.
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

/// The release of a hold whose session has ended waits for a new session.
#[tokio::test]
async fn release_without_a_server_delays_no_renewal_of_other_claims() {
    let server = server();
    let proxy = proxy_to(&server).await;
    let backend = backend(&url_of(&proxy));
    let claims = [claim("one"), claim("two")];
    hold(&backend, &claims[0]).await;
    hold(&backend, &claims[1]).await;
    proxy.set(Traffic::BlackHole);
    let over = Renewal::Lost(LossCause::SessionOver);
    eventually(async || (renew(&backend, &claims[1]).await.ok()? == over).then_some(())).await;
    let mut release = backend.release(&claims[0], Duration::ZERO);
    assert!(futures_util::poll!(&mut release).is_pending());

    let renewed = within(Duration::from_secs(2), backend.renew(&claims)).await;

    assert_eq!(*renewed[1].as_ref().unwrap(), over);
    assert!(renewed[0].as_ref().is_err_and(leasehold_core::Error::is_outage), "{renewed:?}");
}

/// Another server can be tried before the session ends.
#[tokio::test]
async fn silent_connection_is_given_up_after_a_fifth_of_a_short_session() {
    let server = ZooKeeperServer::start_with(&["maxSessionTimeout=4000"]).unwrap();
    let proxy = proxy_to(&server).await;
    let backend = backend(&format!("zk://{}?session_timeout=11s", proxy.address()));
    hold(&backend, &claim("job")).await;
    proxy.set(Traffic::BlackHole);
    // 800 ms, and not 2.2 s.
    within(Duration::from_millis(1500), backend.suspects()).await;
}

#[tokio::test]
async fn server_pause_shorter_than_the_session_costs_nothing() {
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
    // The watch is set again after a reconnect.
    guard.release().await.unwrap();
    changed(&waiter, &waiting).await;
    hold(&waiter, &waiting).await;
}

#[tokio::test]
async fn restarted_server_keeps_holds_and_waiters() {
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
async fn guard_dropped_during_an_outage_frees_the_lock_after_it() {
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
fn session_ends_with_its_runtime_and_the_next_runtime_gets_another() {
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
            // The end of the session is told at once, and not by the next renewal.
            assert_eq!(answered(backend.suspects()).await, [first.owner()]);
            changed(&backend, &waiting).await;
            assert_eq!(renew(&backend, &first).await.unwrap(), Renewal::Lost(LossCause::SessionOver));
            hold(&backend, &claim("two")).await;
        });
    });
}
