//! `release.lua`, branch by branch.

use crate::kit::{Look, TTL, backend, busy, claim, hold, keys, release, server};
use leasehold_core::{ErrorKind, LockBackend, Release};
use std::time::Duration;

const LINGER: Duration = Duration::from_secs(20);

#[tokio::test]
async fn release_frees_at_once_and_keeps_the_last_token() {
    let server = server();
    let backend = backend(&server.url());
    let claim = claim("job");
    hold(&backend, &claim).await;
    assert_eq!(release(&backend, &claim).await, Release::Released);
    assert_eq!(server.keys(), [keys("job").token]);
    assert_eq!(release(&backend, &claim).await, Release::NotHeld);
}

#[tokio::test]
async fn another_owners_lock_is_not_released() {
    let server = server();
    let backend = backend(&server.url());
    let holder = claim("job");
    hold(&backend, &holder).await;
    assert_eq!(release(&backend, &claim("job")).await, Release::NotHeld);
    assert_eq!(backend.release(&claim("job"), LINGER).await.unwrap(), Release::NotHeld);
    assert_eq!(server.get(&keys("job").lock), Some(holder.owner().to_hex()));
    assert!(server.pttl(&keys("job").holder) > 50_000);
}

#[tokio::test]
async fn lingering_release_keeps_others_out_without_an_owner() {
    let server = server();
    let backend = backend(&server.url());
    let last = claim("job");
    hold(&backend, &last).await;
    assert_eq!(backend.release(&last, LINGER).await.unwrap(), Release::Released);

    let keys = keys("job");
    assert_eq!(server.get(&keys.lock).as_deref(), Some("released"));
    let record = server.get(&keys.holder).unwrap();
    assert!(record.starts_with("released ") && !record.contains(&last.owner().to_hex()), "{record}");
    assert!((10_000..=20_000).contains(&server.pttl(&keys.lock)), "the rest of the lease does not count");
    assert!((10_000..=20_000).contains(&server.pttl(&keys.holder)));
    assert!(busy(&backend, &claim("job")).await.unwrap() <= LINGER);
    // The last holder is refused too: a lingering lock has no owner.
    assert!(busy(&backend, &last).await.is_some());
    assert_eq!(release(&backend, &last).await, Release::NotHeld);
    assert_eq!(server.get(&keys.lock).as_deref(), Some("released"));
}

#[tokio::test]
async fn linger_may_outlast_the_lease_and_ends_by_itself() {
    let server = server();
    let backend = backend(&server.url());
    let last = claim("job");
    hold(&backend, &last).await;
    backend.release(&last, TTL * 3).await.unwrap();
    assert!(server.pttl(&keys("job").lock) > 170_000);

    let brief = claim("brief");
    hold(&backend, &brief).await;
    backend.release(&brief, Duration::from_millis(1)).await.unwrap();
    while server.get(&keys("brief").lock).is_some() {
        tokio::task::yield_now().await;
    }
    hold(&backend, &claim("brief")).await;
}

/// The promise is made when the lock is taken, and must not need memory when it is to be kept.
#[tokio::test]
async fn lingering_release_keeps_others_out_although_memory_is_full() {
    let server = server();
    let backend = backend(&server.url());
    let last = claim("job");
    hold(&backend, &last).await;
    assert_eq!(server.command(&["CONFIG", "SET", "maxmemory", "1"]).unwrap(), "+OK");
    assert_eq!(backend.release(&last, TTL * 3).await.unwrap(), Release::Released);
    let keys = keys("job");
    assert_eq!(server.get(&keys.lock).as_deref(), Some("released"));
    assert!(server.get(&keys.holder).unwrap().starts_with("released "));
    assert!(server.pttl(&keys.lock) > 170_000 && server.pttl(&keys.holder) > 170_000);
}

#[tokio::test]
async fn release_of_a_vanished_lock_lets_others_in_at_once() {
    let server = server();
    let backend = backend(&server.url());
    let first = claim("job");
    hold(&backend, &first).await;
    server.del(&keys("job").lock);
    assert!(busy(&backend, &claim("job")).await.is_some());

    assert_eq!(release(&backend, &first).await, Release::NotHeld);
    hold(&backend, &claim("job")).await;
}

#[tokio::test]
async fn foreign_data_at_the_lock_key_is_not_released() {
    let server = server();
    let backend = backend(&server.url());
    let first = claim("job");
    hold(&backend, &first).await;
    server.del(&keys("job").lock);
    server.command(&["HSET", &keys("job").lock, "field", "1"]).unwrap();
    assert_eq!(release(&backend, &first).await, Release::NotHeld);
    assert_eq!(server.command(&["TYPE", &keys("job").lock]).unwrap(), "+hash");
    assert_eq!(server.get(&keys("job").holder), None, "its own record goes");
}

#[tokio::test]
async fn record_of_another_kind_is_an_error_and_no_release() {
    let server = server();
    let backend = backend(&server.url());
    server.command(&["RPUSH", &keys("job").holder, "x"]).unwrap();
    let error = backend.release(&claim("job"), Duration::ZERO).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured);
}
