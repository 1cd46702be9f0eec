//! Together with other programs that lock in the common layout, `SET key value NX PX`, and with people who delete keys.

use crate::kit::{
    Look, TTL, backend, busy, claim, claim_for, client, hold, keys, release, renew, server, with_prefix,
};
use leasehold_core::{AcquireOptions, DistributedLockExt, ErrorKind, LockBackend, LossCause, Renewal};
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// How redis-py, node-redlock and redsync release: their own value only.
const FOREIGN_RELEASE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";

#[tokio::test]
async fn foreign_program_does_not_get_a_lock_of_ours() {
    let server = server();
    let backend = with_prefix(&server.url(), "").unwrap();
    let ours = claim("order:7");
    hold(&backend, &ours).await;
    let foreign = || server.command(&["SET", "order:7", "foreign", "NX", "PX", "60000"]).unwrap();
    assert_eq!(foreign(), "$-1");
    assert_eq!(server.command(&["EVAL", FOREIGN_RELEASE, "1", "order:7", "foreign"]).unwrap(), ":0");

    release(&backend, &ours).await;
    assert_eq!(foreign(), "+OK");
}

#[tokio::test]
async fn lock_of_a_foreign_program_is_not_granted() {
    let server = server();
    let backend = with_prefix(&server.url(), "").unwrap();
    assert_eq!(server.command(&["SET", "order:7", "foreign", "NX", "PX", "60000"]).unwrap(), "+OK");
    let ours = claim("order:7");
    assert!(busy(&backend, &ours).await.unwrap() > Duration::from_secs(50));
    assert_eq!(renew(&backend, &ours).await.unwrap(), Renewal::Lost(LossCause::Taken));
    release(&backend, &ours).await;
    assert_eq!(server.get("order:7").as_deref(), Some("foreign"));

    assert_eq!(server.command(&["EVAL", FOREIGN_RELEASE, "1", "order:7", "foreign"]).unwrap(), ":1");
    hold(&backend, &ours).await;
}

#[tokio::test]
async fn deleted_lock_is_not_granted_before_its_lease_would_have_ended() {
    let server = server();
    let backend = backend(&server.url());
    let lease = Duration::from_millis(600);
    let start = Instant::now();
    hold(&backend, &claim_for("job", lease)).await;
    server.del(&keys("job").lock);

    let next = claim("job");
    let hint = busy(&backend, &next).await.unwrap();
    assert!(hint <= lease, "{hint:?}");
    assert_eq!(server.get(&keys("job").lock), None, "the attempt is undone");
    loop {
        let asked_at = start.elapsed();
        if let leasehold_core::Attempt::Granted(_) = backend.try_acquire(&next).await.unwrap() {
            assert!(start.elapsed() >= lease, "granted after {:?}", start.elapsed());
            break;
        }
        assert!(asked_at < lease + Duration::from_secs(5), "not granted");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn holder_of_a_deleted_lock_is_told_before_another_is_granted() {
    let server = server();
    let (first, second) = (client(&server.url()), client(&server.url()));
    let options = AcquireOptions::new().with_ttl(Duration::from_secs(3));
    let name = crate::kit::name("job");
    let guard = first.acquire_with(&name, &options).await.unwrap();
    let token = guard.token().unwrap();
    server.del(&keys("job").lock);

    // Its next renewal, at a third of the lease, finds it gone; it gives up what it has, which lets the next one in.
    let waiting = tokio::spawn(async move { second.acquire("job").await });
    let loss = timeout(Duration::from_secs(3), guard.lost()).await.unwrap();
    assert_eq!(loss.cause(), LossCause::Gone);
    assert!(!waiting.is_finished(), "the record keeps others out until its holder gives up");
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    let next = timeout(Duration::from_secs(2), waiting).await.unwrap().unwrap().unwrap();
    assert!(next.token().unwrap() > token);
    next.release().await.unwrap();
}

#[tokio::test]
async fn flushed_server_grants_anew_and_the_first_holder_is_told() {
    let server = server();
    let (first, second) = (client(&server.url()), client(&server.url()));
    let options = AcquireOptions::new().with_ttl(Duration::from_secs(3));
    let guard = first.acquire_with(&crate::kit::name("job"), &options).await.unwrap();
    let token = guard.token().unwrap();
    server.command(&["FLUSHALL"]).unwrap();
    let next = second.acquire("job").await.unwrap();
    assert!(next.token().unwrap() > token, "whatever the first still does can be told from it");
    let loss = timeout(Duration::from_secs(3), guard.lost()).await.unwrap();
    assert_eq!(loss.cause(), LossCause::Taken);
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    assert!(next.is_held());
    next.release().await.unwrap();
}

#[tokio::test]
async fn lock_survives_every_call_of_another_owner() {
    let server = server();
    let backend = backend(&server.url());
    let holder = claim("job");
    hold(&backend, &holder).await;
    let stranger = claim("job");
    busy(&backend, &stranger).await;
    renew(&backend, &stranger).await.unwrap();
    release(&backend, &stranger).await;
    backend.release(&stranger, TTL).await.unwrap();
    assert_eq!(server.get(&keys("job").lock), Some(holder.owner().to_hex()));
    assert_eq!(renew(&backend, &holder).await.unwrap(), Renewal::Renewed);
}

/// Asked again by the very owner, it is a new grant, and the record must not tell of the old one: the token in it is what
/// a later attempt with a lost reply would be given.
#[tokio::test]
async fn deleted_lock_is_granted_anew_to_its_own_holder_with_a_new_record() {
    let server = server();
    let backend = backend(&server.url());
    let ours = claim("job");
    let first = hold(&backend, &ours).await;
    let keys = keys("job");
    server.del(&keys.lock);
    let second = hold(&backend, &ours).await;
    assert!(second > first);
    let record = server.get(&keys.holder).unwrap();
    assert!(record.starts_with(&format!("{} {second} ", ours.owner().to_hex())), "{record}");
    assert!(server.end_together(&keys.lock, &keys.holder));
    assert_eq!(hold(&backend, &ours).await, second);
}
