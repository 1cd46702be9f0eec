//! What was asked of a store is taken back, also if the runtime that asked has ended.

use crate::scripted::{Fate, Scripted, lock_name};
use leasehold_core::memory::MemoryBackend;
use leasehold_core::{
    AcquireOptions, DistributedLock, DistributedLockExt, HoldKind, LockBackend, LockClient, LockGuard,
    RuntimeClock, Wait,
};
use std::pin::pin;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

/// Far beyond what a release takes, and less than the lease of 30 s that would end it otherwise.
const SOON: Duration = Duration::from_secs(20);

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Free for everybody before its lease has ended.
fn is_soon_free(store: &MemoryBackend) {
    let others = LockClient::new(Arc::new(store.clone()));
    let guard = runtime()
        .block_on(others.acquire_with(&lock_name("job"), &AcquireOptions::new().with_wait(Wait::UpTo(SOON))));
    assert!(guard.is_ok(), "{:?}", guard.unwrap_err());
}

fn held(store: &MemoryBackend) -> (LockClient, LockGuard, Runtime) {
    let (client, runtime) = (LockClient::new(Arc::new(store.clone())), runtime());
    let guard = runtime.block_on(client.acquire("job")).unwrap();
    (client, guard, runtime)
}

/// The task that releases has not run, and never will there.
#[test]
fn a_guard_dropped_as_the_last_thing_on_a_runtime_is_released() {
    let store = MemoryBackend::new();
    let (_client, guard, runtime) = held(&store);
    runtime.block_on(async move { drop(guard) });
    drop(runtime);
    is_soon_free(&store);
}

#[test]
fn a_guard_dropped_after_its_runtime_is_released() {
    let store = MemoryBackend::new();
    let (_client, guard, runtime) = held(&store);
    drop(runtime);
    drop(guard);
    is_soon_free(&store);
}

/// The panic of a user, which drops the guard and its runtime in one go.
#[test]
fn a_guard_that_is_dropped_with_its_runtime_in_a_panic_is_released() {
    let store = MemoryBackend::new();
    let client = LockClient::new(Arc::new(store.clone()));
    let work = async move {
        let _guard = client.acquire("job").await.unwrap();
        panic!("the work went wrong");
    };
    thread::spawn(move || runtime().block_on(work)).join().unwrap_err();
    is_soon_free(&store);
}

#[test]
fn a_guard_that_is_dropped_in_a_panic_after_its_runtime_is_released() {
    let store = MemoryBackend::new();
    let (_client, guard, runtime) = held(&store);
    drop(runtime);
    let work = move || {
        let _guard = guard;
        panic!("the work went wrong");
    };
    thread::spawn(work).join().unwrap_err();
    is_soon_free(&store);
}

/// Nobody but the work in the background has the client any more.
#[test]
fn a_client_that_is_gone_meanwhile_releases() {
    let store = MemoryBackend::new();
    let (client, guard, runtime) = held(&store);
    runtime.block_on(async move { drop((guard, client)) });
    drop(runtime);
    is_soon_free(&store);
}

#[test]
fn closing_waits_for_what_is_carried_on_elsewhere() {
    let store = MemoryBackend::new();
    let (client, guard, first) = held(&store);
    first.block_on(async move { drop(guard) });
    drop(first);
    runtime().block_on(client.close()).unwrap();
    let others = LockClient::new(Arc::new(store));
    assert!(runtime().block_on(others.try_acquire("job")).unwrap().is_some(), "closed, and not released");
}

/// Granted at once, and the answer comes when nobody hears it any more.
#[test]
fn what_was_asked_and_not_heard_before_the_runtime_ended_is_released() {
    let mut store = Scripted::on(Arc::new(RuntimeClock::new()));
    store.hold = HoldKind::Session;
    store.acquires.then(Fate::Silent);
    let store = Arc::new(store);
    let client = LockClient::new(Arc::clone(&store) as Arc<dyn LockBackend>);
    let short = runtime();
    short.block_on(async {
        {
            let mut asking = pin!(client.acquire("job"));
            for _ in 0..4 {
                assert!(futures_util::poll!(asking.as_mut()).is_pending());
            }
        }
        assert!(store.holder("job").await.is_some());
    });
    drop(short);
    let within = Instant::now() + SOON;
    while !runtime().block_on(store.is_clean("job")) {
        assert!(Instant::now() < within, "still held");
        thread::sleep(Duration::from_millis(5));
    }
}

/// It would be woken instead of a waiter that can take the lock.
#[test]
fn a_waiter_that_goes_with_its_runtime_is_in_no_line() {
    let store = MemoryBackend::new();
    let client = LockClient::new(Arc::new(store.clone()));
    let (long, short) = (runtime(), runtime());
    let guard = long.block_on(client.acquire("job")).unwrap();
    short.block_on(async move {
        let waiter = tokio::spawn(async move { client.acquire("job").await.map(drop) });
        tokio::task::yield_now().await;
        assert!(!waiter.is_finished());
    });
    drop(short);
    long.block_on(guard.release()).unwrap();
    is_soon_free(&store);
}
