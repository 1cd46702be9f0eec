//! L5, runtimes that end: the lock is released although the runtime that acquired it has ended. On real time.

use crate::faulty_store::{CallFault, FaultyStore, lock_name};
use futures_util::FutureExt;
use leasehold_core::memory::MemoryBackend;
use leasehold_core::{
    AcquireOptions, DistributedLock, DistributedLockExt, HoldKind, LockAdmin, LockBackend, LockClient,
    LockGuard, RuntimeClock, Wait,
};
use std::pin::pin;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

/// Much longer than a release takes, and shorter than the lease of 30 s.
const RELEASE_TIME: Duration = Duration::from_secs(20);

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Fails unless another client gets the lock before the lease ends.
fn assert_released(store: &MemoryBackend) {
    let others = LockClient::new(Arc::new(store.clone()));
    let guard = runtime().block_on(
        others.acquire_with(&lock_name("job"), &AcquireOptions::new().with_wait(Wait::UpTo(RELEASE_TIME))),
    );
    assert!(guard.is_ok(), "{:?}", guard.unwrap_err());
}

fn held(store: &MemoryBackend) -> (LockClient, LockGuard, Runtime) {
    let (client, runtime) = (LockClient::new(Arc::new(store.clone())), runtime());
    let guard = runtime.block_on(client.acquire("job")).unwrap();
    (client, guard, runtime)
}

/// The task of the release has not run when the runtime ends.
#[test]
fn guard_dropped_just_before_its_runtime_is_released() {
    let store = MemoryBackend::new();
    let (_client, guard, runtime) = held(&store);
    runtime.block_on(async move { drop(guard) });
    drop(runtime);
    assert_released(&store);
}

#[test]
fn guard_dropped_after_its_runtime_is_released() {
    let store = MemoryBackend::new();
    let (_client, guard, runtime) = held(&store);
    drop(runtime);
    drop(guard);
    assert_released(&store);
}

/// The panic of a user drops the guard and the runtime together.
#[test]
fn guard_dropped_with_its_runtime_in_a_panic_is_released() {
    let store = MemoryBackend::new();
    let client = LockClient::new(Arc::new(store.clone()));
    let work = async move {
        let _guard = client.acquire("job").await.unwrap();
        panic!("panic in the work");
    };
    thread::spawn(move || runtime().block_on(work)).join().unwrap_err();
    assert_released(&store);
}

#[test]
fn guard_dropped_in_a_panic_after_its_runtime_is_released() {
    let store = MemoryBackend::new();
    let (_client, guard, runtime) = held(&store);
    drop(runtime);
    let work = move || {
        let _guard = guard;
        panic!("panic in the work");
    };
    thread::spawn(work).join().unwrap_err();
    assert_released(&store);
}

/// Only the release in the background still owns the client.
#[test]
fn client_dropped_with_its_guard_still_releases() {
    let store = MemoryBackend::new();
    let (client, guard, runtime) = held(&store);
    runtime.block_on(async move { drop((guard, client)) });
    drop(runtime);
    assert_released(&store);
}

/// Two locks, of which one is acquired while the runtime of the keeper is ending: its task is there, and does not run again.
#[test]
fn renewals_go_on_after_the_runtime_of_the_keeper_has_ended() {
    let ending = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let client = LockClient::new(Arc::new(MemoryBackend::new()));
    let options = AcquireOptions::new().with_ttl(Duration::from_secs(6));
    let first = ending.block_on(client.acquire_with("first", &options)).unwrap();
    let (is_blocked, blocked) = mpsc::channel();
    let (unblock, wait) = mpsc::channel::<()>();
    ending.spawn(async move {
        is_blocked.send(()).unwrap();
        wait.recv().unwrap_err();
    });
    blocked.recv().unwrap();
    ending.shutdown_background();
    let second = runtime().block_on(client.acquire_with("second", &options)).unwrap();
    drop(unblock);
    wait_for_renewal(&first);
    wait_for_renewal(&second);
}

/// Only a renewal makes the rest of a lease longer.
fn wait_for_renewal(guard: &LockGuard) {
    let (mut last, deadline) = (guard.remaining(), Instant::now() + RELEASE_TIME);
    while guard.remaining() <= last {
        last = guard.remaining();
        assert!(Instant::now() < deadline && guard.is_held(), "{guard:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// The work panics, and the runtime ends with it. The lock of another thread is of the same client.
#[test]
fn renewals_go_on_after_a_panic_of_the_work_has_ended_the_runtime_of_the_keeper() {
    let client = LockClient::new(Arc::new(MemoryBackend::new()));
    let (sender, guards) = mpsc::channel();
    let work = async move {
        let options = AcquireOptions::new().with_ttl(Duration::from_secs(3));
        sender.send(client.acquire_with("first", &options).await.unwrap()).unwrap();
        panic!("panic in the work, not in the keeper");
    };
    thread::spawn(move || runtime().block_on(work)).join().unwrap_err();
    wait_for_renewal(&guards.recv().unwrap());
}

/// The task that waits for a loss has ended. The look that finds the loss releases the rest of the set.
#[test]
fn rest_of_a_set_is_released_after_its_runtime_has_ended() {
    let (store, runtime) = (MemoryBackend::new(), runtime());
    let client = LockClient::new(Arc::new(store.clone()));
    let options = AcquireOptions::new().with_ttl(Duration::from_secs(1));
    let set = runtime.block_on(client.acquire_all_with(["first", "job"], &options)).unwrap();
    drop(runtime);
    store.force_release(&lock_name("first"), None).now_or_never().unwrap().unwrap();
    while set.is_held() {
        thread::sleep(Duration::from_millis(20));
    }
    drop(set);
    assert_released(&store);
}

#[test]
fn close_waits_for_a_release_on_the_fallback_runtime() {
    let store = MemoryBackend::new();
    let (client, guard, first) = held(&store);
    first.block_on(async move { drop(guard) });
    drop(first);
    runtime().block_on(client.close()).unwrap();
    let others = LockClient::new(Arc::new(store));
    assert!(runtime().block_on(others.try_acquire("job")).unwrap().is_some(), "closed before the release");
}

/// The store has granted the lock, and the runtime ends before the reply.
#[test]
fn grant_without_reply_before_the_runtime_ends_is_released() {
    let mut store = FaultyStore::on(Arc::new(RuntimeClock::new()));
    store.hold = HoldKind::Session;
    store.acquires.push(CallFault::NoReply);
    let store = Arc::new(store);
    let client = LockClient::new(Arc::clone(&store) as Arc<dyn LockBackend>);
    let short = runtime();
    short.block_on(async {
        {
            let mut acquiring = pin!(client.acquire("job"));
            for _ in 0..4 {
                assert!(futures_util::poll!(acquiring.as_mut()).is_pending());
            }
        }
        assert!(store.holder("job").await.is_some());
    });
    drop(short);
    let deadline = Instant::now() + RELEASE_TIME;
    while !runtime().block_on(store.is_clean("job")) {
        assert!(Instant::now() < deadline, "still held");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A release would wake it instead of a waiter that can still acquire.
#[test]
fn waiter_dropped_with_its_runtime_leaves_the_line() {
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
    assert_released(&store);
}

/// The request of the release waits on a timer of the runtime that ends.
#[test]
fn release_awaited_on_a_runtime_that_ends_goes_on() {
    let mut store = FaultyStore::on(Arc::new(RuntimeClock::new()));
    store.hold = HoldKind::Session;
    store.releases.push(CallFault::RequestDelayed(Duration::from_secs(1)));
    let store = Arc::new(store);
    let client = LockClient::new(Arc::clone(&store) as Arc<dyn LockBackend>);
    let long = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let guard = long.block_on(client.acquire("job")).unwrap();
    let short = runtime();
    short.block_on(async {
        let mut releasing = pin!(guard.release());
        for _ in 0..4 {
            assert!(futures_util::poll!(releasing.as_mut()).is_pending());
            tokio::task::yield_now().await;
        }
    });
    drop(short);
    let deadline = Instant::now() + RELEASE_TIME;
    while !runtime().block_on(store.is_clean("job")) {
        assert!(Instant::now() < deadline, "still held");
        thread::sleep(Duration::from_millis(5));
    }
}
