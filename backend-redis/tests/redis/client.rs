//! What users see of all this: faults met through the client.

use crate::kit::{Look, client, keys, name, proxy_to, server, url_of};
use leasehold_conformance::proxy::{Proxy, Traffic};
use leasehold_core::{AcquireOptions, DistributedLockExt, Health, LossCause, Wait};
use leasehold_test_stores::servers::RedisServer;
use std::time::{Duration, Instant};
use tokio::time::timeout;

const QUICK: &str = "?timeout=400ms&connect_timeout=400ms";
/// A bound for what happens at once, on a noisy machine; far below the lease of 30 s that would end it otherwise.
const SOON: Duration = Duration::from_secs(10);

/// Waits until the server has granted the lock, although the reply does not arrive.
async fn granted_unheard(server: &RedisServer) -> String {
    loop {
        if let Some(owner) = server.get(&keys("job").lock) {
            return owner;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Breaks the connection on which a reply is held back, so that it is lost for good.
fn lose_the_reply(proxy: &Proxy) {
    proxy.cut();
    proxy.set(Traffic::Pass);
}

#[tokio::test]
async fn acquisition_with_a_lost_reply_finds_its_grant() {
    let server = server();
    let proxy = proxy_to(&server).await;
    let locks = client(&url_of(&proxy, ""));
    locks.acquire("warm").await.unwrap().release().await.unwrap();

    proxy.set(Traffic::HoldReplies);
    let waiting = locks.clone();
    let acquisition = tokio::spawn(async move {
        let options = AcquireOptions::new().with_wait(SOON);
        waiting.acquire_with(&name("job"), &options).await
    });
    let owner = granted_unheard(&server).await;
    let token = server.get(&keys("job").token);
    lose_the_reply(&proxy);
    let guard = acquisition.await.unwrap().unwrap();
    assert_eq!(Some(guard.token().unwrap().to_string()), token, "the grant that nobody heard of");
    assert_eq!(server.get(&keys("job").lock), Some(owner));
    guard.release().await.unwrap();
}

#[tokio::test]
async fn dropped_acquisition_leaves_no_lock() {
    let server = server();
    let proxy = proxy_to(&server).await;
    let locks = client(&url_of(&proxy, ""));
    locks.acquire("warm").await.unwrap().release().await.unwrap();

    proxy.set(Traffic::HoldReplies);
    let waiting = locks.clone();
    let acquisition = tokio::spawn(async move { waiting.acquire("job").await });
    granted_unheard(&server).await;
    acquisition.abort();
    assert!(acquisition.await.unwrap_err().is_cancelled());
    lose_the_reply(&proxy);
    let next = timeout(SOON, client(&server.url()).acquire("job")).await.unwrap().unwrap();
    next.release().await.unwrap();
}

#[tokio::test]
async fn release_with_a_lost_reply_succeeds() {
    let server = server();
    let proxy = proxy_to(&server).await;
    let locks = client(&url_of(&proxy, ""));
    locks.acquire("warm").await.unwrap().release().await.unwrap();
    let guard = locks.acquire("job").await.unwrap();

    proxy.set(Traffic::HoldReplies);
    let release = tokio::spawn(guard.release());
    while server.get(&keys("job").lock).is_some() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    lose_the_reply(&proxy);
    release.await.unwrap().unwrap();
}

#[tokio::test]
async fn holder_without_answers_gives_up_before_its_lease_ends() {
    let server = server();
    let locks = client(&format!("{}{QUICK}", server.url()));
    let lease = Duration::from_secs(2);
    let options = AcquireOptions::new().with_ttl(lease).with_wait(Wait::No);
    let start = Instant::now();
    let guard = locks.acquire_with(&name("job"), &options).await.unwrap();
    let granted = Instant::now();
    server.pause();

    let loss = timeout(SOON, guard.lost()).await.unwrap();
    assert_eq!(loss.cause(), LossCause::Unreachable);
    assert_eq!(guard.health(), Health::Ended);
    assert!(granted.elapsed() > Duration::from_millis(1500), "not at the first trouble");
    server.resume();
    // The server may still find renewals in its buffers: the next owner gets the lock all the same, and not before the end.
    let next = timeout(SOON, client(&server.url()).acquire("job")).await.unwrap().unwrap();
    assert!(start.elapsed() >= lease);
    next.release().await.unwrap();
}

#[tokio::test]
async fn interruption_shorter_than_the_lease_loses_nothing() {
    let server = server();
    let proxy = proxy_to(&server).await;
    let locks = client(&url_of(&proxy, QUICK));
    let options = AcquireOptions::new().with_ttl(Duration::from_secs(6));
    let guard = locks.acquire_with(&name("job"), &options).await.unwrap();
    let token = guard.token().unwrap();
    proxy.set(Traffic::BlackHole);
    // Renewals begin at a third of the lease; one of them fails.
    while guard.health() != Health::AtRisk {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    proxy.set(Traffic::Pass);
    let healed = async {
        while guard.health() != Health::Held {
            assert!(guard.is_held());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(SOON, healed).await.unwrap();
    assert_eq!(guard.token().unwrap(), token);
    guard.release().await.unwrap();
}
