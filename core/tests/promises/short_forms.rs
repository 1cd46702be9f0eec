//! The methods of `DistributedLockExt`, `ping`, and the cancellation token of a lease.

use crate::faulty_store::{CallFault, FaultyStore, TTL, options};
use leasehold_core::{DistributedLock, DistributedLockExt, ErrorKind, LockClient, LockName};
use std::borrow::Cow;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn acquire_timeout_waits_for_its_time_and_no_longer() {
    let client = LockClient::in_memory();
    let held = client.acquire_timeout("job", SECOND).await.unwrap();
    let start = Instant::now();
    assert_eq!(client.acquire_timeout("job", SECOND).await.unwrap_err().kind(), ErrorKind::TimedOut);
    assert_eq!(start.elapsed(), SECOND);
    assert_eq!(client.acquire_timeout("job", Duration::ZERO).await.unwrap_err().kind(), ErrorKind::Busy);
    held.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn timed_try_answers_none_after_its_time() {
    let client = LockClient::in_memory();
    let held = client.try_acquire_for("job", SECOND).await.unwrap().unwrap();
    let start = Instant::now();
    assert!(client.try_acquire_for("job", SECOND).await.unwrap().is_none());
    assert_eq!(start.elapsed(), SECOND);
    held.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn readers_and_writers_try_and_wait_for_a_time() {
    let client = LockClient::in_memory();
    let reader = client.try_read("job").await.unwrap().unwrap();
    let second = client.read_timeout("job", SECOND).await.unwrap();
    assert!(client.try_write("job").await.unwrap().is_none());
    assert_eq!(client.write_timeout("job", SECOND).await.unwrap_err().kind(), ErrorKind::TimedOut);
    drop((reader, second));
    let writer = client.write_timeout("job", SECOND).await.unwrap();
    assert!(client.try_read("job").await.unwrap().is_none());
    assert_eq!(client.read_timeout("job", SECOND).await.unwrap_err().kind(), ErrorKind::TimedOut);
    writer.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn set_waits_for_its_time_and_no_longer() {
    let client = LockClient::in_memory();
    let held = client.acquire_all_timeout(["a", "b"], SECOND).await.unwrap();
    let start = Instant::now();
    let error = client.acquire_all_timeout(["b", "c"], SECOND).await.unwrap_err();
    assert_eq!((error.kind(), start.elapsed()), (ErrorKind::TimedOut, SECOND));
    held.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn lock_is_locked_until_its_last_holder_releases_it() {
    let client = LockClient::in_memory();
    assert!(!client.is_locked("job").await.unwrap());
    let (one, other) = (client.read("job").await.unwrap(), client.read("job").await.unwrap());
    one.release().await.unwrap();
    assert!(client.is_locked("job").await.unwrap());
    other.release().await.unwrap();
    assert!(!client.is_locked("job").await.unwrap());
    assert_eq!(client.is_locked("").await.unwrap_err().kind(), ErrorKind::Invalid);
}

#[tokio::test(start_paused = true)]
async fn semaphore_waits_for_its_time_and_counts_its_free_permits() {
    let pool = LockClient::in_memory().semaphore("pool", 20).unwrap();
    assert_eq!(pool.available().await.unwrap(), 20);
    let mut permits = Vec::new();
    for _ in 0..20 {
        permits.push(pool.acquire_timeout(SECOND).await.unwrap());
    }
    assert_eq!(pool.available().await.unwrap(), 0);
    assert_eq!(pool.acquire_timeout(SECOND).await.unwrap_err().kind(), ErrorKind::TimedOut);
    permits.pop().unwrap().release().await.unwrap();
    assert_eq!(pool.available().await.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn acquire_with_takes_every_form_of_a_name() {
    let client = LockClient::in_memory();
    let name = LockName::new("job").unwrap();
    client.acquire_with("job", &options()).await.unwrap().release().await.unwrap();
    client.acquire_with("job".to_owned(), &options()).await.unwrap().release().await.unwrap();
    client.acquire_with(Cow::from("job"), &options()).await.unwrap().release().await.unwrap();
    client.acquire_with(&name, &options()).await.unwrap().release().await.unwrap();
    client.acquire_with(name, &options()).await.unwrap().release().await.unwrap();
    assert_eq!(client.acquire_with("", &options()).await.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(client.acquire_timeout("\n", SECOND).await.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(client.try_with_lock("", async |_| ()).await.unwrap_err().kind(), ErrorKind::Invalid);
}

#[tokio::test(start_paused = true)]
async fn try_with_lock_runs_the_work_only_if_the_lock_is_free() {
    let client = LockClient::in_memory();
    let token = client.try_with_lock("job", async |lease| lease.token().unwrap()).await.unwrap();
    let held = client.acquire("job").await.unwrap();
    assert!(token < Some(held.token().unwrap()), "the first work left the lock held");
    let skipped = client.try_with_lock("job", async |_| unreachable!("the lock is held")).await.unwrap();
    assert!(skipped.is_none());
}

#[tokio::test(start_paused = true)]
async fn try_with_lock_reports_the_loss_of_the_lock() {
    let store = FaultyStore::new();
    let work = async |_| {
        store.delete("job").await;
        sleep(TTL).await;
    };
    let error = store.client().try_with_lock("job", work).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost);
}

#[tokio::test(start_paused = true)]
async fn ping_succeeds_without_an_attempt_and_fails_on_a_closed_client() {
    let store = FaultyStore::new();
    let client = store.client();
    client.ping().await.unwrap();
    assert_eq!((store.acquires.calls(), store.releases.calls()), (0, 0));
    client.close().await.unwrap();
    assert_eq!(client.ping().await.unwrap_err().kind(), ErrorKind::Closed);
}

#[tokio::test(start_paused = true)]
async fn cancellation_token_is_cancelled_by_a_loss() {
    let store = FaultyStore::new();
    store.renewals.set_default(Some(CallFault::NoReply));
    let guard = store.client().acquire("job").await.unwrap();
    let token = guard.cancellation_token();
    let start = Instant::now();
    token.cancelled().await;
    assert!(!guard.is_held());
    assert!(start.elapsed() <= TTL, "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn cancellation_token_is_cancelled_by_a_release_and_not_before() {
    let client = LockClient::in_memory();
    let guard = client.acquire("job").await.unwrap();
    let (token, lease) = (guard.cancellation_token(), guard.lease());
    sleep(SECOND * 3600).await;
    assert!(!token.is_cancelled());
    guard.release().await.unwrap();
    token.cancelled().await;
    lease.cancellation_token().cancelled().await;
}
