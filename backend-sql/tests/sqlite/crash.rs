//! Processes that are killed: what they held ends with its lease, and what they were writing is whole or not there.

use super::store::{Store, name};
use super::worker::Worker;
use leasehold_core::{AcquireOptions, DistributedLock as _, DistributedLockExt as _};
use std::time::{Duration, Instant};

#[tokio::test]
async fn killed_holder_is_followed_when_its_lease_ends_and_not_before() {
    let store = Store::new();
    let locks = store.client();
    let mut worker = Worker::start(&store.url());
    let held = worker.ask("hold a 1500").await;
    worker.kill().await;

    let inspected = locks.admin().unwrap().inspect(&name("a")).await.unwrap();
    let (ends_in, seen) = (inspected[0].ends_in.unwrap(), Instant::now());
    let options = AcquireOptions::new().with_wait(Duration::from_secs(20));
    let guard = locks.acquire_with(&name("a"), &options).await.unwrap();
    let waited = seen.elapsed();
    assert!(waited + Duration::from_millis(5) >= ends_in, "{waited:?} of {ends_in:?}");
    // The lease, a look at it, and a busy machine.
    assert!(waited < ends_in + Duration::from_secs(5), "{waited:?} for {ends_in:?}");
    assert!(format!("token {}", guard.token().unwrap()) > held);
}

#[tokio::test]
async fn process_killed_while_it_writes_leaves_a_whole_file() {
    let store = Store::new();
    let locks = store.client();
    let mut last_token = 0;
    for round in 0..8 {
        let mut worker = Worker::start(&store.url());
        assert_eq!(worker.ask("churn").await, "at it");
        // At another moment each time.
        tokio::time::sleep(Duration::from_millis(20 + 7 * round)).await;
        worker.kill().await;
        let mine = name("mine");
        let guard = locks.acquire_with(&mine, &AcquireOptions::new()).await.unwrap();
        let token = guard.token().unwrap().get();
        assert!(token > last_token);
        last_token = token;
        guard.release().await.unwrap();
    }
    let check: String = sqlx::Row::get(&store.sql("PRAGMA integrity_check").await[0], 0);
    assert_eq!(check, "ok");
}
