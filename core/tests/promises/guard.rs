//! The guard: drop, panic, other tasks and threads, and runtimes that end.

use crate::faulty_store::{CallFault, FaultyStore, TTL, acquire, lock_name, options, run_ready_tasks};
use leasehold_core::memory::MemoryBackend;
use leasehold_core::{
    AcquireOptions, DistributedLock, DistributedLockExt, ErrorKind, Lease, LockClient, LockGuard,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::time::sleep;

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
}

#[test]
fn handles_can_be_sent_to_any_thread() {
    fn assert_sendable<T: Send + Sync + Unpin + 'static>() {}
    assert_sendable::<LockGuard>();
    assert_sendable::<Lease>();
    assert_sendable::<LockClient>();
    assert_sendable::<Arc<dyn DistributedLock>>();
    assert_sendable::<leasehold_core::Error>();
}

#[tokio::test(start_paused = true)]
async fn dropped_guard_is_released_in_the_background() {
    let store = FaultyStore::new();
    drop(store.client().acquire("job").await.unwrap());
    run_ready_tasks().await;
    assert!(store.is_clean("job").await);
}

#[tokio::test(start_paused = true)]
async fn protected_work_of_another_task_ends_with_the_release() {
    for drops in [true, false] {
        let guard = FaultyStore::new().client().acquire("job").await.unwrap();
        let lease = guard.lease();
        let work = tokio::spawn(async move { lease.protect(std::future::pending::<()>()).await });
        run_ready_tasks().await;
        match drops {
            true => drop(guard),
            false => guard.release().await.unwrap(),
        }
        run_ready_tasks().await;
        assert!(work.is_finished(), "the work goes on to the deadline");
        assert_eq!(work.await.unwrap().unwrap_err().kind(), ErrorKind::Lost);
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_release_goes_on_in_the_background() {
    let store = FaultyStore::new();
    let client = store.client();
    for polls in 0..6 {
        let guard = client.acquire("job").await.unwrap();
        let mut release = Box::pin(guard.release());
        for _ in 0..polls {
            if futures_util::poll!(&mut release).is_ready() {
                break;
            }
        }
        drop(release);
        run_ready_tasks().await;
        assert!(store.is_clean("job").await, "dropped after {polls} polls");
    }
}

#[tokio::test(start_paused = true)]
async fn panic_in_the_critical_section_releases_the_lock() {
    let store = FaultyStore::new();
    let client = store.client();
    let worker = tokio::spawn(async move {
        let _guard = client.acquire("job").await.unwrap();
        panic!("panic in the work");
    });
    assert!(worker.await.unwrap_err().is_panic());
    run_ready_tasks().await;
    assert!(store.is_clean("job").await);
    sleep(TTL * 2).await;
    assert_eq!(store.renewals.calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn guard_is_released_by_another_task() {
    let store = FaultyStore::new();
    let guard = store.client().acquire("job").await.unwrap();
    tokio::spawn(guard.release()).await.unwrap().unwrap();
    assert!(store.is_clean("job").await);
}

#[test]
fn guard_dropped_outside_any_runtime_is_released_by_its_own() {
    let runtime = runtime();
    let store = runtime.block_on(async { FaultyStore::new() });
    let guard = runtime.block_on(async { store.client().acquire("job").await.unwrap() });
    std::thread::spawn(move || drop(guard)).join().unwrap();
    runtime.block_on(run_ready_tasks());
    assert!(runtime.block_on(store.is_clean("job")));
}

#[test]
fn guard_dropped_after_its_runtime_does_not_panic() {
    let first = runtime();
    let guard = first.block_on(async { FaultyStore::new().client().acquire("job").await.unwrap() });
    drop(first);
    drop(guard);
}

#[test]
fn release_after_the_end_of_its_runtime_does_not_hang() {
    let first = runtime();
    let store = first.block_on(async { FaultyStore::new() });
    let guard = first.block_on(async { store.client().acquire("job").await.unwrap() });
    drop(first);
    runtime().block_on(async move { guard.release().await.unwrap() });
}

#[tokio::test(start_paused = true)]
async fn lock_is_not_reentrant() {
    let client = FaultyStore::new().client();
    let _guard = client.acquire("job").await.unwrap();
    assert!(client.try_acquire("job").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn with_lock_runs_the_work_and_releases() {
    let store = FaultyStore::new();
    let client = store.client();
    let token = client.with_lock("job", |lease| async move { lease.token().unwrap() }).await.unwrap();
    assert!(token.get() > 0);
    assert!(store.is_clean("job").await);
}

#[tokio::test(start_paused = true)]
async fn with_lock_stops_the_work_at_the_loss() {
    let store = FaultyStore::new();
    store.renewals.set_default(Some(CallFault::Unavailable));
    let error = store.client().with_lock("job", |_| std::future::pending::<()>()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost);
    run_ready_tasks().await;
    assert!(store.is_clean("job").await);
}

#[tokio::test(start_paused = true)]
async fn with_lock_returns_lost_for_work_that_the_lock_did_not_cover() {
    let store = FaultyStore::new();
    let deleted = Arc::clone(&store);
    let work = |_| async move { deleted.delete("job").await };
    let error = store.client().with_lock("job", work).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost);
}

#[tokio::test(start_paused = true)]
async fn with_lock_returns_the_output_if_the_release_is_not_confirmed() {
    let store = FaultyStore::new();
    store.releases.set_default(Some(CallFault::Unavailable));
    assert_eq!(store.client().with_lock("job", |_| async { 7 }).await.unwrap(), 7);
}

#[tokio::test(start_paused = true)]
async fn hundred_tasks_hold_one_at_a_time() {
    let client = FaultyStore::new().client();
    let (inside, total) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let tasks: Vec<_> = (0..100)
        .map(|_| {
            let (client, inside, total) = (client.clone(), Arc::clone(&inside), Arc::clone(&total));
            tokio::spawn(async move {
                let guard = acquire(&client, "job", options()).await.unwrap();
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                sleep(Duration::from_millis(3)).await;
                inside.fetch_sub(1, Ordering::SeqCst);
                total.fetch_add(1, Ordering::SeqCst);
                guard.release().await.unwrap();
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(total.load(Ordering::SeqCst), 100);
}

#[tokio::test(start_paused = true)]
async fn tokens_grow_after_release_expiry_and_forced_release() {
    let store = FaultyStore::new();
    let client = store.client();
    let mut last = None;
    for round in 0..30 {
        let guard = acquire(&client, "job", options().with_fixed_lease()).await.unwrap();
        let token = guard.token().unwrap();
        assert!(Some(token) > last, "round {round}");
        last = Some(token);
        match round % 3 {
            0 => guard.release().await.unwrap(),
            1 => sleep(TTL).await,
            _ => drop(client.admin().unwrap().force_release(&lock_name("job"), None).await.unwrap()),
        }
    }
}

/// Applications hold the client as a trait object.
#[tokio::test]
async fn methods_work_through_the_trait_object() {
    let locks: Arc<dyn DistributedLock> = Arc::new(LockClient::new(Arc::new(MemoryBackend::new())));
    let guard = locks.acquire("job").await.unwrap();
    assert!(locks.try_acquire("job").await.unwrap().is_none());
    guard.release().await.unwrap();
    let name = lock_name("job");
    locks.acquire_with(&name, &AcquireOptions::new()).await.unwrap().release().await.unwrap();
    locks.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn denied_release_is_not_tried_again() {
    let store = FaultyStore::new();
    let guard = store.client().acquire("job").await.unwrap();
    store.releases.set_default(Some(CallFault::Error(ErrorKind::Denied)));
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Denied);
    sleep(TTL).await;
    assert_eq!(store.releases.calls(), 1);
}

/// A denial is an answer, although the outcome of the request before is unknown.
#[tokio::test(start_paused = true)]
async fn denied_release_after_a_lost_request_is_reported_as_denied() {
    let store = FaultyStore::new();
    let guard = store.client().acquire("job").await.unwrap();
    store.releases.push(CallFault::RequestLost);
    store.releases.push(CallFault::Error(ErrorKind::Denied));
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Denied);
}
