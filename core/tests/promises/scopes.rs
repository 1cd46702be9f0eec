//! Re-entry: one hold of a scope, whatever its calls do and wherever they stop.

use crate::faulty_store::{CallFault, FaultyStore, TTL, options, run_ready_tasks};
use futures_util::FutureExt;
use leasehold_core::{
    DistributedLock, DistributedLockExt, ErrorKind, LockGuard, LockMode, LockName, LossCause, Result, Scope,
    Wait,
};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

/// Enough for a request, or a release and its repetitions.
const SOON: Duration = Duration::from_millis(200);

fn begin(scope: &Scope, wait: impl Into<Wait>) -> JoinHandle<Result<LockGuard>> {
    let (scope, options) = (scope.clone(), options().with_wait(wait));
    tokio::spawn(async move { scope.acquire_with("job", &options).await })
}

#[tokio::test(start_paused = true)]
async fn second_acquire_shares_the_hold_without_a_request() {
    let store = FaultyStore::new();
    let scope = store.client().scope();
    let outer = scope.acquire("job").await.unwrap();
    let inner = scope.try_acquire("job").await.unwrap().unwrap();
    assert_eq!(inner.token().unwrap(), outer.token().unwrap());
    assert_eq!(store.acquires.calls(), 1);
    let other_name = scope.acquire("other").await.unwrap();
    assert_eq!(store.acquires.calls(), 2);
    drop(other_name);
    inner.extend(TTL * 3).await.unwrap();
    assert!(outer.remaining() > TTL * 2);
    drop(outer);
    inner.release().await.unwrap();
    assert_eq!(store.releases.calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn released_guard_of_a_scope_is_over_and_knows_no_later_loss() {
    let store = FaultyStore::new();
    let scope = store.client().scope();
    let (outer, inner) = (scope.acquire("job").await.unwrap(), scope.acquire("job").await.unwrap());
    let lease = inner.lease();
    let cancelled = lease.cancellation_token();
    inner.release().await.unwrap();
    assert!(!lease.is_held() && outer.is_held());
    assert_eq!(lease.token().unwrap_err().kind(), ErrorKind::Lost);
    cancelled.cancelled().await;
    store.delete("job").await;
    assert_eq!(outer.lost().await.cause(), LossCause::Gone);
    assert!(lease.loss().is_none());
    assert!(timeout(TTL, lease.lost()).await.is_err(), "a loss after the release");
}

#[tokio::test(start_paused = true)]
async fn first_calls_at_once_share_one_acquisition() {
    let store = FaultyStore::new();
    let scope = store.client().scope();
    for wait in [Wait::No, Wait::UpTo(TTL), Wait::Forever] {
        let (before, first, second) = (store.acquires.calls(), begin(&scope, wait), begin(&scope, wait));
        let (first, second) = (first.await.unwrap().unwrap(), second.await.unwrap().unwrap());
        assert_eq!(first.token().unwrap(), second.token().unwrap());
        assert_eq!(store.acquires.calls(), before + 1, "{wait:?}");
        drop(first);
        second.release().await.unwrap();
    }
}

/// The acquisition goes on with its place in the queue: nothing is withdrawn.
#[tokio::test(start_paused = true)]
async fn second_call_goes_on_when_the_first_is_dropped() {
    let store = FaultyStore::new();
    let (held, scope) = (store.client().acquire("job").await.unwrap(), store.client().scope());
    let (first, second) = (begin(&scope, TTL), begin(&scope, TTL * 2));
    sleep(SOON).await;
    first.abort();
    sleep(SOON).await;
    assert_eq!(store.releases.calls(), 0, "the acquisition was withdrawn with its first call");
    held.release().await.unwrap();
    let guard = second.await.unwrap().unwrap();
    assert!(guard.is_held());
    guard.release().await.unwrap();
    assert!(store.is_clean("job").await);
}

#[tokio::test(start_paused = true)]
async fn calls_that_are_all_dropped_leave_nothing() {
    for wait in 0..20 {
        let mut store = FaultyStore::on(Arc::new(leasehold_core::RuntimeClock::new()));
        store.has_queue = true;
        let store = Arc::new(store);
        let held = match wait % 2 {
            0 => Some(store.client().acquire("job").await.unwrap()),
            _ => None,
        };
        let scope = store.client().scope();
        let calls = [begin(&scope, Wait::Forever), begin(&scope, Wait::Forever)];
        for _ in 0..wait / 2 {
            tokio::task::yield_now().await;
        }
        calls.iter().for_each(JoinHandle::abort);
        for call in calls {
            drop(call.await);
        }
        drop(held);
        sleep(SOON).await;
        run_ready_tasks().await;
        assert!(store.is_clean("job").await, "dropped after {wait} steps");
    }
}

/// Two calls share an acquisition. One is granted and releases, before the other is polled again.
#[tokio::test(start_paused = true)]
async fn call_that_is_not_polled_keeps_nothing_held() {
    let store = FaultyStore::new();
    let (client, options) = (store.client(), options().with_wait(Wait::Forever));
    let (held, scope) = (client.acquire("job").await.unwrap(), client.scope());
    let polled = begin(&scope, Wait::Forever);
    let mut unpolled = pin!(scope.acquire_with("job", &options));
    assert!(unpolled.as_mut().now_or_never().is_none());
    held.release().await.unwrap();
    let first = polled.await.unwrap().unwrap();
    let token = first.token().unwrap();
    first.release().await.unwrap();
    assert!(store.is_clean("job").await, "held for a call that nothing polls");
    let second = unpolled.await.unwrap();
    assert!(second.token().unwrap() > token);
    second.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn each_call_waits_for_its_own_time_only() {
    let store = FaultyStore::new();
    let (held, scope) = (store.client().acquire("job").await.unwrap(), store.client().scope());
    let start = Instant::now();
    let patient = begin(&scope, Wait::Forever);
    sleep(SOON).await;
    let calls = store.acquires.calls();
    assert_eq!(begin(&scope, Wait::No).await.unwrap().unwrap_err().kind(), ErrorKind::Busy);
    assert_eq!(
        (store.acquires.calls(), start.elapsed()),
        (calls, SOON),
        "the attempt was not answered at once"
    );
    let error = begin(&scope, TTL / 4).await.unwrap().unwrap_err();
    assert_eq!((error.kind(), start.elapsed()), (ErrorKind::TimedOut, SOON + TTL / 4));
    held.release().await.unwrap();
    assert!(patient.await.unwrap().unwrap().is_held());
}

/// The first call gives up, or its store fails; the second has time left, and acquires by itself.
#[tokio::test(start_paused = true)]
async fn second_call_goes_on_when_the_first_fails() {
    let store = FaultyStore::new();
    let (held, scope) = (store.client().acquire("job").await.unwrap(), store.client().scope());
    let (first, second) = (begin(&scope, SOON), begin(&scope, TTL * 2));
    assert_eq!(first.await.unwrap().unwrap_err().kind(), ErrorKind::TimedOut);
    sleep(SOON).await;
    held.release().await.unwrap();
    second.await.unwrap().unwrap().release().await.unwrap();

    store.acquires.push(CallFault::Error(ErrorKind::Unavailable));
    let (first, second) = (begin(&scope, Wait::No), begin(&scope, TTL));
    assert_eq!(first.await.unwrap().unwrap_err().kind(), ErrorKind::Unavailable);
    assert!(second.await.unwrap().unwrap().is_held());
}

/// Otherwise many calls would be refused one after the other, each by a request of its own.
#[tokio::test(start_paused = true)]
async fn calls_that_share_a_denied_acquisition_are_denied_with_it() {
    let store = FaultyStore::new();
    let scope = store.client().scope();
    for (wait, kind) in [(Wait::UpTo(TTL), ErrorKind::Denied), (Wait::Forever, ErrorKind::Unavailable)] {
        let before = store.acquires.calls();
        store.acquires.push(CallFault::Error(kind));
        let calls = [begin(&scope, wait), begin(&scope, wait), begin(&scope, wait)];
        for call in calls {
            assert_eq!(call.await.unwrap().unwrap_err().kind(), kind);
        }
        assert_eq!(store.acquires.calls(), before + 1);
    }
}

/// The upgrade is refused while the guards are held; a lost hold is lost in any mode.
#[tokio::test(start_paused = true)]
async fn exclusive_call_on_a_lost_shared_hold_is_lost() {
    let store = FaultyStore::new();
    let scope = store.client().scope();
    let shared = scope.read("job").await.unwrap();
    store.delete("job").await;
    sleep(TTL).await;
    assert!(!shared.is_held());
    let error = scope.write("job").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost);
}

#[tokio::test(start_paused = true)]
async fn attempt_that_shares_a_refused_attempt_is_refused_with_it() {
    let store = FaultyStore::new();
    let (_held, scope) = (store.client().acquire("job").await.unwrap(), store.client().scope());
    let calls = [begin(&scope, Wait::No), begin(&scope, Wait::No)];
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap_err().kind(), ErrorKind::Busy);
    }
    assert_eq!(store.acquires.calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn acquiring_on_a_lost_hold_is_lost_until_its_guards_are_gone() {
    let store = FaultyStore::new();
    let scope = store.client().scope();
    let (outer, inner) = (scope.acquire("job").await.unwrap(), scope.acquire("job").await.unwrap());
    store.delete("job").await;
    outer.lost().await;
    assert!(!inner.is_held());
    assert_eq!(inner.release().await.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(scope.acquire("job").await.unwrap_err().loss().unwrap().cause(), LossCause::Gone);
    assert_eq!(scope.try_acquire("job").await.unwrap_err().kind(), ErrorKind::Lost);
    let lost = outer.lease();
    drop(outer);
    let again = scope.acquire("job").await.unwrap();
    assert!(again.is_held() && !lost.is_held());
    assert_eq!(lost.loss().unwrap().cause(), LossCause::Gone, "a loss is sticky");
}

#[tokio::test(start_paused = true)]
async fn scope_of_a_closed_client_says_so() {
    let store = FaultyStore::new();
    let client = store.client();
    let scope = client.scope();
    let guard = scope.acquire("job").await.unwrap();
    client.close().await.unwrap();
    assert_eq!(scope.acquire("other").await.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(scope.acquire("job").await.unwrap_err().loss().unwrap().cause(), LossCause::Closed);
    drop(guard);
    assert_eq!(scope.acquire("job").await.unwrap_err().kind(), ErrorKind::Closed);
}

#[tokio::test(start_paused = true)]
async fn upgrade_is_refused_before_any_request_and_shared_within_exclusive_is_the_same_hold() {
    let store = FaultyStore::new();
    let scope = store.client().scope();
    let shared = scope.read("job").await.unwrap();
    for mode in [LockMode::Exclusive, LockMode::Write] {
        let error = scope.acquire_with("job", &options().with_mode(mode)).await.unwrap_err();
        let message = format!("invalid mode: {mode} lock \"job\" beside a shared call of the same scope");
        assert_eq!((error.kind(), error.to_string()), (ErrorKind::Invalid, message));
    }
    assert_eq!(scope.read("job").await.unwrap().token().unwrap(), shared.token().unwrap());
    assert_eq!(store.acquires.calls(), 1);
    shared.release().await.unwrap();

    let writer = scope.write("job").await.unwrap();
    for mode in [LockMode::Exclusive, LockMode::Write, LockMode::Shared] {
        let inner = scope.acquire_with("job", &options().with_mode(mode)).await.unwrap();
        assert_eq!(inner.token().unwrap(), writer.token().unwrap());
    }
    assert!(store.client().try_acquire("job").await.unwrap().is_none());
}

/// Also before the shared hold is granted: the two would wait for each other.
#[tokio::test(start_paused = true)]
async fn upgrade_of_a_shared_hold_that_is_being_acquired_is_refused() {
    let store = FaultyStore::new();
    let (held, scope) = (store.client().acquire("job").await.unwrap(), store.client().scope());
    let reading = tokio::spawn({
        let scope = scope.clone();
        async move { scope.read("job").await }
    });
    sleep(SOON).await;
    assert_eq!(scope.acquire("job").await.unwrap_err().kind(), ErrorKind::Invalid);
    held.release().await.unwrap();
    reading.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn bad_options_and_parts_of_a_semaphore_are_refused_by_a_scope() {
    let store = FaultyStore::new();
    let scope = store.client().scope();
    let _held = scope.acquire("job").await.unwrap();
    let short = options().with_ttl(Duration::ZERO);
    assert_eq!(scope.acquire_with("job", &short).await.unwrap_err().kind(), ErrorKind::Invalid);
    let slot = LockName::from_store("pool::slot:1").unwrap();
    assert_eq!(scope.acquire(slot).await.unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(store.acquires.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn scopes_exclude_each_other_and_a_scope_within_a_scope_is_its_own() {
    let store = FaultyStore::new();
    let client = store.client();
    let (one, two) = (client.scope(), client.scope());
    let guard = one.acquire("job").await.unwrap();
    assert!(two.try_acquire("job").await.unwrap().is_none());
    assert!(client.try_acquire("job").await.unwrap().is_none());
    let nested = one.scope();
    let inner = nested.acquire("job").await.unwrap();
    assert_eq!(
        inner.token().unwrap(),
        guard.token().unwrap(),
        "its holds are those of the scope that it is made of"
    );
    drop(guard);
    assert!(inner.is_held());
    inner.release().await.unwrap();
    assert!(store.is_clean("job").await);
}
