//! The link under faults: what breaks is noticed in time, said truthfully, and made good by the next call.

use crate::kit::{
    Look, attempt_fails, backend, claim, client, hold, keys, proxy_to, release, renew, server, url_of,
};
use futures_util::FutureExt;
use leasehold_conformance::proxy::Traffic;
use leasehold_core::{Attempt, DistributedLockExt, ErrorKind, LockBackend, Release, Renewal};
use leasehold_test_stores::servers::RedisServer;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Short time-outs, and a bound that a noisy machine keeps: a request ends after 1 to 1¼ of them.
const QUICK: &str = "?timeout=400ms&connect_timeout=400ms";
const QUICK_ENDS_WITHIN: Duration = Duration::from_millis(1500);

fn quick(server: &RedisServer) -> String {
    format!("{}{QUICK}", server.url())
}

#[tokio::test(flavor = "multi_thread")]
async fn restarted_server_is_found_again() {
    let mut server = server();
    let backend = backend(&server.url());
    let first = claim("job");
    hold(&backend, &first).await;
    server.restart(false).unwrap();

    let mut outcomes = Vec::new();
    for _ in 0..2 {
        outcomes.push(backend.try_acquire(&first).await);
    }
    // The first call may have met the broken connection before the backend had noticed; the second cannot.
    if let Err(error) = &outcomes[0] {
        assert_eq!(error.kind(), ErrorKind::Indeterminate);
    }
    assert!(matches!(outcomes[1], Ok(Attempt::Granted(_))), "{outcomes:?}");
}

#[tokio::test]
async fn connection_that_breaks_while_idle_costs_no_call() {
    let server = server();
    let proxy = proxy_to(&server).await;
    let backend = backend(&url_of(&proxy, ""));
    let claim = claim("job");
    hold(&backend, &claim).await;
    for _ in 0..20 {
        proxy.cut();
        while is_connected(proxy.address().port()) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // The kernel has heard of it; the link's own task hears of it in the next turns of this thread.
        for _ in 0..200 {
            tokio::task::yield_now().await;
        }
        assert_eq!(renew(&backend, &claim).await.unwrap(), Renewal::Renewed);
    }
}

/// True while a connection to this port is open at both ends, as far as the kernel of who made it knows.
fn is_connected(port: u16) -> bool {
    let remote_and_established = format!(":{port:04X} 01 ");
    std::fs::read_to_string("/proc/net/tcp").unwrap().contains(&remote_and_established)
}

#[tokio::test]
async fn silent_server_leaves_the_outcome_unknown_in_time_and_a_retry_finds_it() {
    let server = server();
    let backend = backend(&quick(&server));
    hold(&backend, &claim("warm")).await;
    let claim = claim("job");

    server.pause();
    let start = Instant::now();
    let (kind, told) = attempt_fails(&backend, &claim).await;
    let took = start.elapsed();
    assert_eq!(kind, ErrorKind::Indeterminate);
    assert!(told.contains("no answer within 400ms"), "{told}");
    assert!(took >= Duration::from_millis(400) && took < QUICK_ENDS_WITHIN, "{took:?}");

    // Now it takes connections, by its kernel, and answers none.
    let start = Instant::now();
    let (kind, told) = attempt_fails(&backend, &claim).await;
    assert_eq!(kind, ErrorKind::Unavailable);
    assert!(told.contains("it accepted a connection, but did not answer within 400ms"), "{told}");
    assert!(start.elapsed() < QUICK_ENDS_WITHIN);

    server.resume();
    let token = hold(&backend, &claim).await;
    let record = server.get(&keys("job").holder).unwrap();
    assert!(record.starts_with(&format!("{} {token} ", claim.owner().to_hex())), "{record}");
}

#[tokio::test]
async fn silent_server_is_reported_to_all_callers() {
    let server = server();
    let backend = backend(&quick(&server));
    hold(&backend, &claim("warm")).await;
    server.pause();
    let mut tasks = JoinSet::new();
    let start = Instant::now();
    for i in 0..32 {
        let backend = Arc::clone(&backend);
        tasks.spawn(async move { attempt_fails(&backend, &claim(&format!("job/{i}"))).await.0 });
    }
    for kind in tasks.join_all().await {
        assert_eq!(kind, ErrorKind::Indeterminate);
    }
    assert!(start.elapsed() < QUICK_ENDS_WITHIN);
}

/// The requests for 100,000 leases in one go would keep a server busy for longer than one request may take.
#[tokio::test]
async fn renewals_of_many_leases_wait_for_each_other_and_not_in_the_server() {
    let server = server();
    let backend = backend(&quick(&server));
    let claims: Vec<_> = (0..100).map(|i| claim(&format!("job/{i}"))).collect();
    for claim in &claims {
        hold(&backend, claim).await;
    }
    server.pause();
    let mut tasks = JoinSet::new();
    for claim in claims {
        let backend = Arc::clone(&backend);
        tasks.spawn(async move { renew(&backend, &claim).await.map_err(|error| error.kind()) });
    }
    let first = tasks.join_next().await.unwrap().unwrap();
    assert_eq!(first, Err(ErrorKind::Indeterminate), "it was sent, and has no answer");
    server.resume();
    let others = tasks.join_all().await;
    let unknown = others.iter().filter(|answer| **answer == Err(ErrorKind::Indeterminate)).count();
    let renewed = others.iter().filter(|answer| **answer == Ok(Renewal::Renewed)).count();
    assert_eq!((1 + unknown, renewed), (64, 36), "{others:?}");
}

#[tokio::test]
async fn call_into_a_black_hole_ends_in_time() {
    let server = server();
    let proxy = proxy_to(&server).await;
    let backend = backend(&url_of(&proxy, QUICK));
    proxy.set(Traffic::BlackHole);
    let start = Instant::now();
    assert_eq!(attempt_fails(&backend, &claim("job")).await.0, ErrorKind::Unavailable);
    assert!(start.elapsed() < QUICK_ENDS_WITHIN);

    proxy.set(Traffic::Pass);
    hold(&backend, &claim("job")).await;
    proxy.set(Traffic::BlackHole);
    let start = Instant::now();
    assert_eq!(attempt_fails(&backend, &claim("other")).await.0, ErrorKind::Indeterminate);
    assert!(start.elapsed() < QUICK_ENDS_WITHIN);
}

#[tokio::test]
async fn request_and_connect_time_outs_are_kept_independently() {
    let server = server();
    let proxy = proxy_to(&server).await;
    let slow_to_answer = backend(&url_of(&proxy, "?timeout=60s&connect_timeout=300ms"));
    proxy.set(Traffic::BlackHole);
    let start = Instant::now();
    let (kind, told) = attempt_fails(&slow_to_answer, &claim("job")).await;
    assert!(kind == ErrorKind::Unavailable && told.contains("did not answer within 300ms"), "{told}");
    assert!(start.elapsed() < QUICK_ENDS_WITHIN, "{:?}", start.elapsed());

    proxy.set(Traffic::Pass);
    let slow_to_connect = backend(&url_of(&proxy, "?timeout=300ms&connect_timeout=60s"));
    hold(&slow_to_connect, &claim("job")).await;
    proxy.set(Traffic::HoldReplies);
    let start = Instant::now();
    let (kind, told) = attempt_fails(&slow_to_connect, &claim("job")).await;
    assert!(kind == ErrorKind::Indeterminate && told.contains("no answer within 300ms"), "{told}");
    assert!(start.elapsed() < QUICK_ENDS_WITHIN, "{:?}", start.elapsed());
}

#[tokio::test]
async fn grant_with_a_lost_reply_is_found_by_the_same_owner() {
    let server = server();
    let proxy = proxy_to(&server).await;
    let backend = backend(&url_of(&proxy, QUICK));
    // The server has the scripts then, so that the first request is the only one.
    let warm = claim("warm");
    hold(&backend, &warm).await;
    release(&backend, &warm).await;
    let claim = claim("job");

    proxy.set(Traffic::HoldReplies);
    assert_eq!(attempt_fails(&backend, &claim).await.0, ErrorKind::Indeterminate);
    assert_eq!(server.get(&keys("job").lock), Some(claim.owner().to_hex()), "it was granted");
    let granted = server.get(&keys("job").token);
    proxy.set(Traffic::Pass);
    assert_eq!(Some(hold(&backend, &claim).await.to_string()), granted);

    proxy.set(Traffic::HoldReplies);
    let lost = backend.release(&claim, Duration::ZERO).await.unwrap_err();
    assert_eq!(lost.kind(), ErrorKind::Indeterminate);
    assert_eq!(server.get(&keys("job").lock), None, "it was released");
    proxy.set(Traffic::Pass);
    assert_eq!(release(&backend, &claim).await, Release::NotHeld);
}

#[tokio::test]
async fn renewal_with_a_lost_reply_is_unknown_for_each_claim_though_done() {
    let server = server();
    let proxy = proxy_to(&server).await;
    let backend = backend(&url_of(&proxy, QUICK));
    let claims = [claim("a"), claim("b")];
    for claim in &claims {
        hold(&backend, claim).await;
        renew(&backend, claim).await.unwrap();
    }
    let longer = claims.map(|claim| crate::kit::again_for(&claim, crate::kit::TTL * 2));
    proxy.set(Traffic::HoldReplies);
    for answer in backend.renew(&longer).await {
        assert_eq!(answer.unwrap_err().kind(), ErrorKind::Indeterminate);
    }
    assert!(server.pttl(&keys("a").lock) > 60_000 && server.pttl(&keys("b").lock) > 60_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn storm_of_broken_connections_never_lets_two_in() {
    let server = server();
    let proxy = Arc::new(proxy_to(&server).await);
    let inside = Arc::<AtomicUsize>::default();
    let done = Arc::<AtomicUsize>::default();
    let mut workers = JoinSet::new();
    let end = Instant::now() + Duration::from_secs(2);
    for _ in 0..8 {
        let locks = client(&url_of(&proxy, QUICK));
        let (inside, done) = (Arc::clone(&inside), Arc::clone(&done));
        workers.spawn(async move {
            while Instant::now() < end {
                let Ok(guard) = locks.acquire("job").await else {
                    continue;
                };
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two are in");
                tokio::task::yield_now().await;
                inside.fetch_sub(1, Ordering::SeqCst);
                done.fetch_add(1, Ordering::SeqCst);
                drop(guard.release().await);
            }
        });
    }
    while Instant::now() < end {
        proxy.cut();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    while let Some(worker) = workers.join_next().await {
        worker.unwrap();
    }
    assert!(done.load(Ordering::SeqCst) > 0, "somebody got through");

    // When it is over, whatever it left behind is taken back, not waited for: a lease lasts 30 s.
    let after = client(&url_of(&proxy, QUICK));
    let guard = timeout(Duration::from_secs(10), after.acquire("job")).await.unwrap().unwrap();
    guard.release().await.unwrap();
}

#[tokio::test]
async fn dropped_call_harms_no_other() {
    let server = server();
    let backend = backend(&format!("{}?timeout=100ms", server.url()));
    let claim = claim("job");
    hold(&backend, &claim).await;
    let connection = || {
        let clients = server.command(&["CLIENT", "LIST"]).unwrap();
        let ours = clients.lines().find(|line| line.contains("name=leasehold"));
        ours.unwrap().split(' ').next().unwrap().to_owned()
    };
    let before = connection();
    for _ in 0..50 {
        assert!(backend.try_acquire(&claim).now_or_never().is_none(), "asked, and dropped");
        assert_eq!(renew(&backend, &claim).await.unwrap(), Renewal::Renewed);
    }
    // Longer than the time-out of a request: the dropped calls no longer wait for their answers.
    tokio::time::sleep(Duration::from_millis(250)).await;
    assert_eq!(renew(&backend, &claim).await.unwrap(), Renewal::Renewed);
    assert_eq!(connection(), before);
}

#[tokio::test]
async fn scripts_forgotten_by_the_server_are_sent_again() {
    let server = server();
    let backend = backend(&server.url());
    let claim = claim("job");
    hold(&backend, &claim).await;
    assert_eq!(server.calls("eval"), 1);
    server.command(&["SCRIPT", "FLUSH"]).unwrap();

    assert_eq!(renew(&backend, &claim).await.unwrap(), Renewal::Renewed);
    hold(&backend, &claim).await;
    hold(&backend, &claim).await;
    assert_eq!(server.calls("eval"), 4, "each of the three scripts once");
    assert_eq!(server.calls("script|load"), 0);
}

/// Such as the branch of a `select!` while another one runs.
#[tokio::test]
async fn call_that_is_not_polled_holds_up_no_other() {
    let server = server();
    let backend = backend(&quick(&server));
    let first = claim("first");
    server.pause();
    let mut parked = backend.try_acquire(&first);
    assert!((&mut parked).now_or_never().is_none());
    server.resume();
    hold(&backend, &claim("second")).await;
    assert!(matches!(parked.await, Ok(Attempt::Granted(_))));
}
