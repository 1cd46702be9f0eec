//! Hand-overs under faults: heartbeats find lost messages, and waiters that are gone delay no other.

use crate::kit::{
    Behind, Look, answered, backend, claim, client, handed_over, hold, keys, name, proxy_to, queue, release,
    server, until, url_of, waiter, with_prefix,
};
use futures_util::FutureExt;
use leasehold_conformance::proxy::Traffic;
use leasehold_core::{
    AcquireOptions, Attempt, DistributedLock, DistributedLockExt, ErrorKind, LockBackend, LockClient,
    LockGuard, Release, Result,
};
use leasehold_test_stores::servers::RedisServer;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// How long a waiter who hears nothing waits at most, and what a busy machine may add. Far below a lease of 30 s.
const BY_HEARTBEAT: Duration = Duration::from_secs(3);

/// Begins to wait, and stands in the queue when this returns.
async fn waiting(
    server: &RedisServer,
    locks: &LockClient,
    lock: &'static str,
) -> JoinHandle<Result<LockGuard>> {
    let (locks, before) = (locks.clone(), server.queue(lock));
    let task = tokio::spawn(async move { locks.acquire(lock).await });
    until_queued(server, lock, &before).await;
    task
}

/// Returns when the queue has an owner that was not in it before.
async fn until_queued(server: &RedisServer, lock: &str, before: &[String]) {
    until(|| server.queue(lock).iter().any(|owner| !before.contains(owner))).await;
}

async fn got(task: JoinHandle<Result<LockGuard>>) -> LockGuard {
    timeout(BY_HEARTBEAT, task).await.unwrap().unwrap().unwrap()
}

#[tokio::test]
async fn grant_with_a_lost_message_is_found_by_the_next_heartbeat() {
    let server = server();
    let Behind { proxy, holding, holder, waits, next } = Behind::proxy_to(&server, "").await;
    proxy.set(Traffic::HoldReplies);
    release(&holding, &holder).await;
    let token = server.get(&keys("job").token).unwrap();
    proxy.cut();
    proxy.set(Traffic::Pass);
    // The broken connection wakes the waiter at once.
    answered(waits.changed(&next)).await;
    // One attempt may still meet the connection that is broken.
    let mut attempt = answered(waits.try_acquire(&next)).await;
    if attempt.is_err() {
        attempt = answered(waits.try_acquire(&next)).await;
    }
    let Ok(Attempt::Granted(grant)) = attempt else { panic!("{attempt:?}") };
    assert_eq!(grant.token.to_string(), token, "the grant that was made, and not another");
    assert!(!grant.handed_over, "the server has said so now, and made a whole lease of it");
}

#[tokio::test]
async fn waiters_are_told_under_every_prefix() {
    let server = server();
    for prefix in ["my app:", "-", "%20 %", "{my shop} :", "é\u{a0}\u{2003}:", ""] {
        let backend = with_prefix(&server.url(), prefix).unwrap();
        let (holder, first, second) = (claim("job"), waiter("job"), waiter("job"));
        hold(&backend, &holder).await;
        queue(&backend, &first).await;
        queue(&backend, &second).await;
        release(&backend, &holder).await;
        let token = handed_over(&backend, &first).await;
        release(&backend, &first).await;
        assert!(handed_over(&backend, &second).await > token, "{prefix:?}");
        release(&backend, &second).await;
    }
}

#[tokio::test]
async fn waiter_cancelled_before_it_hears_of_its_grant_hands_on() {
    let server = server();
    let proxy = proxy_to(&server).await;
    let (holding, unlucky) = (client(&server.url()), client(&url_of(&proxy, "")));
    let guard = holding.acquire("job").await.unwrap();
    let first = waiting(&server, &unlucky, "job").await;
    let second = waiting(&server, &holding, "job").await;
    proxy.set(Traffic::HoldReplies);
    guard.release().await.unwrap();
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    // Its message is lost, and its present request fails; then its release gets through.
    proxy.cut();
    proxy.set(Traffic::Pass);
    got(second).await.release().await.unwrap();
}

/// The process has forgotten its waiter with the first release.
#[tokio::test]
async fn repeated_release_of_a_waiter_unknown_to_its_process_leaves_no_place() {
    let server = server();
    let proxy = proxy_to(&server).await;
    let (holding, waits) = (backend(&server.url()), backend(&url_of(&proxy, "")));
    hold(&holding, &claim("job")).await;
    let leaves = waiter("job");
    queue(&waits, &leaves).await;
    proxy.set(Traffic::BlackHole);
    let before = proxy.request_bytes();
    let unanswered = tokio::spawn({
        let (waits, leaves) = (Arc::clone(&waits), leaves.clone());
        async move { waits.release(&leaves, Duration::ZERO).await }
    });
    until(|| proxy.request_bytes() > before).await;
    proxy.cut();
    proxy.set(Traffic::Pass);
    let error = answered(unanswered).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error}");
    assert_eq!(server.queue("job"), [leaves.owner().to_hex()], "the first release was lost on its way");
    assert_eq!(release(&waits, &leaves).await, Release::NotHeld);
    assert!(server.queue("job").is_empty(), "a release would hand the lock over to an owner that is gone");
}

#[tokio::test]
async fn waiter_that_times_out_does_not_delay_the_next() {
    let server = server();
    let locks = client(&server.url());
    let guard = locks.acquire("job").await.unwrap();
    let impatient = AcquireOptions::new().with_wait(Duration::from_secs(2));
    let (waits, lock) = (locks.clone(), name("job"));
    let first = tokio::spawn(async move { waits.acquire_with(&lock, &impatient).await });
    until_queued(&server, "job", &[]).await;
    let second = waiting(&server, &locks, "job").await;
    assert!(first.await.unwrap().is_err());
    guard.release().await.unwrap();
    got(second).await.release().await.unwrap();
}

#[tokio::test]
async fn waiters_on_both_protocols_stand_in_one_queue() {
    let server = server();
    let locks = client(&server.url());
    let guard = locks.acquire("job").await.unwrap();
    let older = client(&format!("{}?protocol=resp2", server.url()));
    let first = waiting(&server, &older, "job").await;
    let second = waiting(&server, &locks, "job").await;
    guard.release().await.unwrap();
    let first = got(first).await;
    assert!(!second.is_finished());
    first.release().await.unwrap();
    got(second).await.release().await.unwrap();
}

#[tokio::test]
async fn waiters_without_rights_to_messages_are_served_by_heartbeats() {
    for missing in ["-publish", "-subscribe", "resetchannels"] {
        let server = server();
        let line = format!("ACL SETUSER locker on >PASSWORD ~* &* +@all {missing}");
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!(server.command(&words).unwrap(), "+OK");
        let locks = client(&format!("redis://locker:PASSWORD@127.0.0.1:{}", server.port()));
        let guard = locks.acquire("job").await.unwrap();
        let next = waiting(&server, &locks, "job").await;
        guard.release().await.unwrap();
        got(next).await.release().await.unwrap();
    }
}

/// On the same connection: rights may be granted while it lasts, and a server that was busy with a script gets free again.
#[tokio::test]
async fn waiter_without_the_right_to_subscribe_is_told_once_it_has_it() {
    let server = server();
    let allow = |rights: &str| {
        let line = format!("ACL SETUSER locker on >PASSWORD ~* &* +@all {rights}");
        assert_eq!(server.command(&line.split(' ').collect::<Vec<_>>()).unwrap(), "+OK");
    };
    allow("-subscribe");
    let backend = backend(&format!("redis://locker:PASSWORD@127.0.0.1:{}", server.port()));
    let (holder, next) = (claim("job"), waiter("job"));
    hold(&backend, &holder).await;
    queue(&backend, &next).await;
    allow("+subscribe");
    let start = Instant::now();
    while server.calls("subscribe") == 0 {
        assert!(start.elapsed() < Duration::from_secs(20), "it never tries again");
        queue(&backend, &next).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    queue(&backend, &next).await;
    release(&backend, &holder).await;
    handed_over(&backend, &next).await;
}

#[tokio::test]
async fn lock_with_an_ended_lease_goes_to_the_first_in_the_queue() {
    let server = server();
    let crashed = backend(&server.url());
    let lease = Duration::from_secs(4);
    hold(&crashed, &crate::kit::claim_for("job", lease)).await;
    let start = Instant::now();
    let locks = client(&server.url());
    let first = waiting(&server, &locks, "job").await;
    let second = waiting(&server, &locks, "job").await;
    let guard = timeout(lease + BY_HEARTBEAT, first).await.unwrap().unwrap().unwrap();
    assert!(start.elapsed() > lease - Duration::from_millis(300), "{:?}", start.elapsed());
    assert!(!second.is_finished());
    guard.release().await.unwrap();
    got(second).await.release().await.unwrap();
}

#[tokio::test]
async fn process_has_one_connection_and_subscribes_only_if_it_waits() {
    let server = server();
    let (locks, idle) = (client(&server.url()), client(&server.url()));
    idle.acquire("other").await.unwrap().release().await.unwrap();
    let guards = [locks.acquire("a").await.unwrap(), locks.acquire("b").await.unwrap()];
    let mut waiters = Vec::new();
    for _ in 0..5 {
        waiters.push(waiting(&server, &locks, "a").await);
        waiters.push(waiting(&server, &locks, "b").await);
    }
    let clients = server.command(&["CLIENT", "LIST"]).unwrap();
    let ours: Vec<&str> = clients.lines().filter(|line| line.contains("name=leasehold")).collect();
    assert_eq!(ours.len(), 2, "{clients}");
    assert_eq!(ours.iter().filter(|line| line.contains("sub=1")).count(), 1, "{clients}");
    for guard in guards {
        guard.release().await.unwrap();
    }
    for waiter in waiters {
        got(waiter).await.release().await.unwrap();
    }
    assert_eq!(server.keys(), [keys("a").token, keys("b").token, keys("other").token], "nothing is left");
}

#[tokio::test]
async fn new_connection_is_subscribed_before_it_is_relied_on() {
    let server = server();
    let behind = Behind::proxy_to(&server, "").await;
    behind.break_three_times().await;
    let Behind { holding, holder, waits, next, .. } = &behind;
    assert_eq!(server.queue("job").len(), 1, "it kept its place");
    release(holding, holder).await;
    handed_over(waits, next).await;
}

/// The waiters came at the same time; the server counts their requests.
#[tokio::test]
async fn waiters_without_messages_ask_once_in_an_interval() {
    const WAITERS: usize = 50;
    let server = server();
    let locks = client(&server.url());
    let interval = locks.semantics().wake_up.bound();
    let _guard = locks.acquire("job").await.unwrap();
    let mut waiters = tokio::task::JoinSet::new();
    for _ in 0..WAITERS {
        let locks = locks.clone();
        waiters.spawn(async move { locks.acquire("job").await });
    }
    until(|| server.queue("job").len() == WAITERS).await;
    // Until each has had its first pause, which is shorter.
    tokio::time::sleep(interval).await;
    let (before, start) = (server.calls("evalsha"), Instant::now());
    tokio::time::sleep(interval * 6).await;
    let asked = server.calls("evalsha") - before;
    let beats = start.elapsed().as_nanos() / interval.as_nanos() + 1;
    let most = WAITERS as u128 * beats + 1;
    assert!(u128::from(asked) <= most, "{asked} questions, and {most} with the holder's renewal");
    assert!(asked >= WAITERS as u64 * 3, "{asked}: they are not waiting");
}

/// Such as the branch of a `select!` while another one runs.
#[tokio::test]
async fn waiter_that_is_not_polled_keeps_no_other_from_listening() {
    let server = server();
    let backend = backend(&server.url());
    hold(&backend, &claim("job")).await;
    let (first, second) = (waiter("job"), waiter("job"));
    let mut parked = backend.try_acquire(&first);
    while server.calls("subscribe") == 0 {
        assert!((&mut parked).now_or_never().is_none());
        tokio::task::yield_now().await;
    }
    queue(&backend, &second).await;
    assert!(matches!(parked.await, Ok(Attempt::Busy(_))));
}

#[tokio::test]
async fn waiters_in_many_processes_lose_no_turn_and_never_hold_together() {
    let server = server();
    let inside = Arc::<std::sync::atomic::AtomicUsize>::default();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let locks = client(&server.url());
        for _ in 0..8 {
            let (locks, inside) = (locks.clone(), Arc::clone(&inside));
            tasks.spawn(async move {
                for _ in 0..25 {
                    let guard = locks.acquire("job").await.unwrap();
                    assert_eq!(inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0, "two are in");
                    tokio::task::yield_now().await;
                    inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                    guard.release().await.unwrap();
                }
            });
        }
    }
    let all = async {
        while let Some(task) = tasks.join_next().await {
            task.unwrap();
        }
    };
    timeout(Duration::from_secs(60), all).await.unwrap();
    assert_eq!(server.keys(), [keys("job").token]);
}
