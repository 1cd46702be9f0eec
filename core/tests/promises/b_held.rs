//! Breaker: what held. Leaks, re-entrant observers, scopes, free names.

use crate::faulty_store::{CallFault, EventLog, FaultyStore, TTL, acquire, options, run_ready_tasks};
use crate::semaphore::{SECOND, queueing, semaphore, acquire_all, spawn_waiter};
use futures_util::FutureExt;
use leasehold_core::memory::MemoryBackend;
use leasehold_core::{
    AcquireOptions, Clock, DistributedLock, DistributedLockExt, ErrorKind, Event, HoldKind, Lease, LockBackend, LockClient,
    LockSetGuard, Observer, RuntimeClock,
};
use std::pin::pin;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use tokio::time::sleep;

/// The client owns the observer: the drop of the last handle of it is the end of the client.
fn observed(store: &Arc<FaultyStore>) -> (LockClient, Weak<EventLog>) {
    let log = Arc::new(EventLog::default());
    let weak = Arc::downgrade(&log);
    (store.client_with(log), weak)
}

async fn assert_gone(what: &str, log: &Weak<EventLog>) {
    for _ in 0..20 {
        sleep(SECOND).await;
        run_ready_tasks().await;
    }
    assert!(log.upgrade().is_none(), "{what}: the client is leaked");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_leaked() {
    for case in ["release", "drop", "lost", "max_hold", "fixed", "close", "delete", "set", "set lost", "scope", "scope lost", "permit", "no reply"] {
        let store = FaultyStore::new();
        let (client, log) = observed(&store);
        let mut leases: Vec<Lease> = Vec::new();
        match case {
            "release" => client.acquire("job").await.unwrap().release().await.unwrap(),
            "drop" => drop(client.acquire("job").await.unwrap()),
            "lost" => {
                store.renewals.set_default(Some(CallFault::Unavailable));
                let guard = client.acquire("job").await.unwrap();
                guard.lost().await;
            }
            "max_hold" => {
                let guard = acquire(&client, "job", options().with_max_hold(SECOND)).await.unwrap();
                guard.lost().await;
                // Leaked after its end, and nobody looks at it again.
                std::mem::forget(guard.lease());
                std::mem::forget(Weak::<()>::new());
            }
            "fixed" => {
                let guard = acquire(&client, "job", options().with_fixed_lease()).await.unwrap();
                sleep(2 * TTL).await;
                drop(guard);
            }
            "close" => {
                let guard = client.acquire("job").await.unwrap();
                client.close().await.unwrap();
                leases.push(guard.lease());
                drop(guard);
                leases.clear();
            }
            "delete" => {
                let guard = client.acquire("job").await.unwrap();
                leases.push(guard.lease());
                store.delete("job").await;
                sleep(TTL).await;
                assert!(!guard.is_held());
                drop(guard);
                leases.clear();
            }
            "set" => drop(client.acquire_all(["a", "b"]).await.unwrap()),
            "set lost" => {
                let set = client.acquire_all(["a", "b"]).await.unwrap();
                store.delete("b").await;
                sleep(TTL).await;
                assert!(!set.is_held());
            }
            "scope" => {
                let scope = client.scope();
                let (one, two) = (scope.acquire("job").await.unwrap(), scope.acquire("job").await.unwrap());
                drop(one);
                two.release().await.unwrap();
            }
            "scope lost" => {
                let scope = client.scope();
                let (one, two) = (scope.acquire("job").await.unwrap(), scope.acquire("job").await.unwrap());
                store.delete("job").await;
                sleep(TTL).await;
                assert_eq!(scope.acquire("job").await.unwrap_err().kind(), ErrorKind::Lost);
                drop(one);
                assert_eq!(two.release().await.unwrap_err().kind(), ErrorKind::Lost);
                scope.acquire("job").await.unwrap().release().await.unwrap();
            }
            "permit" => {
                let pool = client.semaphore("pool", 2).unwrap();
                let permits = acquire_all(&pool).await;
                let waiter = spawn_waiter(&pool, options());
                sleep(SECOND).await;
                waiter.abort();
                drop(permits);
            }
            "no reply" => {
                let guard = client.acquire("job").await.unwrap();
                store.renewals.push(CallFault::ReplyDelayed(2 * TTL));
                sleep(2 * TTL).await;
                assert!(guard.is_held());
            }
            _ => unreachable!(),
        }
        drop(client);
        if case == "max_hold" {
            continue; // The forgotten lease keeps the client.
        }
        assert_gone(case, &log).await;
    }
}

/// A guard that is leaked with `mem::forget` ends at `max_hold`, and its client with it.
#[tokio::test(start_paused = true)]
async fn forgotten_guard_with_max_hold_ends() {
    let store = FaultyStore::new();
    let (client, log) = observed(&store);
    let guard = acquire(&client, "job", options().with_max_hold(5 * SECOND)).await.unwrap();
    std::mem::forget(guard);
    drop(client);
    sleep(3 * TTL).await;
    assert!(store.holder("job").await.is_none());
    let calls = store.renewals.calls();
    sleep(3 * TTL).await;
    assert_eq!(store.renewals.calls(), calls);
    let _ = log;
}

/// An observer that asks, releases and drops what it hears of.
#[derive(Debug, Default)]
struct Meddler {
    set: Mutex<Option<Arc<LockSetGuard>>>,
    events: Mutex<Vec<String>>,
}

impl Observer for Meddler {
    fn event(&self, event: &Event<'_>) {
        match event {
            Event::Lost { name, .. } => self.events.lock().unwrap().push(format!("lost {name}")),
            Event::Released { name, .. } => self.events.lock().unwrap().push(format!("released {name}")),
            _ => return,
        }
        let set = self.set.lock().unwrap().clone();
        if let Some(set) = set {
            assert!(!set.is_held());
            assert!(set.loss().is_some());
            assert!(set.tokens().is_err());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn observer_that_looks_at_the_set_while_its_loss_is_told() {
    for lost in ["a", "b", "c"] {
        for looks in [true, false] {
            let store = FaultyStore::new();
            let observer = Arc::new(Meddler::default());
            let client = LockClient::builder(Arc::clone(&store) as Arc<dyn LockBackend>)
                .with_clock(Arc::new(RuntimeClock::new()) as Arc<dyn Clock>)
                .with_observer(Arc::clone(&observer) as Arc<dyn Observer>)
                .with_defaults(AcquireOptions::new().with_ttl(TTL))
                .build();
            let set = Arc::new(client.acquire_all(["a", "b", "c"]).await.unwrap());
            *observer.set.lock().unwrap() = Some(Arc::clone(&set));
            store.delete(lost).await;
            if looks {
                while set.is_held() {
                    tokio::time::advance(Duration::from_millis(100)).await;
                    tokio::task::yield_now().await;
                }
            } else {
                sleep(TTL).await;
            }
            sleep(SECOND).await;
            let mut events = observer.events.lock().unwrap().clone();
            events.sort();
            assert_eq!(events.len(), 3, "{events:?}");
            assert!(events.contains(&format!("lost {lost}")), "{events:?}");
            assert_eq!(store.releases.calls(), 3);
            for name in ["a", "b", "c"] {
                assert!(store.holder(name).await.is_none());
            }
            assert_eq!(set.loss().unwrap().lock().map(|name| name.to_string()).as_deref(), Some(lost));
            *observer.set.lock().unwrap() = None;
            drop(set);
            sleep(SECOND).await;
            assert_eq!(store.releases.calls(), 3, "released twice");
        }
    }
}

/// All locks of a set end at one moment: each is told once, and released once.
#[tokio::test(start_paused = true)]
async fn set_whose_locks_end_together_is_ended_once() {
    let store = FaultyStore::new();
    store.renewals.set_default(Some(CallFault::Unavailable));
    let observer = Arc::new(Meddler::default());
    let client = LockClient::builder(Arc::clone(&store) as Arc<dyn LockBackend>)
        .with_clock(Arc::new(RuntimeClock::new()) as Arc<dyn Clock>)
        .with_observer(Arc::clone(&observer) as Arc<dyn Observer>)
        .build();
    let set = Arc::new(client.acquire_all_with(["a", "b", "c"], &options()).await.unwrap());
    *observer.set.lock().unwrap() = Some(Arc::clone(&set));
    set.lost().await;
    sleep(2 * TTL).await;
    assert_eq!(observer.events.lock().unwrap().len(), 3);
    *observer.set.lock().unwrap() = None;
    assert_eq!(Arc::into_inner(set).unwrap().release().await.unwrap_err().kind(), ErrorKind::Lost);
    sleep(SECOND).await;
    assert_eq!(store.releases.calls(), 3);
}

/// Scope: a waiter that was granted, not polled, then polled after the release; and the first call unpolled.
#[tokio::test(start_paused = true)]
async fn scope_calls_in_every_order_of_polls() {
    for first_polls in 0..8 {
        for order in 0..2 {
            let store = FaultyStore::new();
            let (client, log) = observed(&store);
            let scope = client.scope();
            {
                let mut one = pin!(scope.acquire("job"));
                let two = pin!(scope.acquire("job"));
                for _ in 0..first_polls {
                    if let Some(guard) = one.as_mut().now_or_never() {
                        guard.unwrap().release().await.unwrap();
                        break;
                    }
                    tokio::task::yield_now().await;
                }
                if order == 0 {
                    let guard = two.await.unwrap();
                    assert!(guard.is_held());
                    guard.release().await.unwrap();
                    assert!(store.holder("job").await.is_none());
                    let other = acquire(&store.client(), "job", options()).await.unwrap();
                    other.release().await.unwrap();
                }
            }
            sleep(SECOND).await;
            assert!(store.holder("job").await.is_none(), "{first_polls} {order}");
            drop((scope, client));
            assert_gone("scope", &log).await;
        }
    }
}

/// Scope on a session store: last release waits for the store although other calls come at that moment.
#[tokio::test(start_paused = true)]
async fn last_release_of_a_scope_waits_for_the_store() {
    let store = FaultyStore::new();
    let scope = store.client().scope();
    let guard = scope.acquire("job").await.unwrap();
    store.releases.push(CallFault::RequestDelayed(SECOND));
    let releasing = tokio::spawn(guard.release());
    run_ready_tasks().await;
    assert_eq!(scope.try_acquire("job").await.unwrap().map(drop), None);
    let next = tokio::spawn({
        let scope = scope.clone();
        async move { scope.acquire("job").await }
    });
    sleep(SECOND / 2).await;
    assert!(!releasing.is_finished() && !next.is_finished());
    releasing.await.unwrap().unwrap();
    next.await.unwrap().unwrap().release().await.unwrap();
}

/// The gate on a session store, and a fixed permit there.
#[tokio::test(start_paused = true)]
async fn semaphore_on_a_session_store() {
    let mut store = FaultyStore::on(Arc::new(RuntimeClock::new()));
    (store.has_queue, store.hold, store.lease) = (true, HoldKind::Session, Some(4 * SECOND));
    let store = Arc::new(store);
    let mut permits = acquire_all(&semaphore(&store, 1)).await;
    let waiter = spawn_waiter(&semaphore(&store, 1), options().with_fixed_lease());
    run_ready_tasks().await;
    let gate = store.holder("pool::gate").await;
    sleep(2 * TTL).await;
    assert_eq!(store.holder("pool::gate").await, gate);
    permits.pop().unwrap().release().await.unwrap();
    let permit = waiter.await.unwrap().unwrap();
    sleep(TTL.mul_f64(0.9)).await;
    assert!(permit.is_held());
    run_ready_tasks().await;
    assert!(store.holder("pool::gate").await.is_none());
}

/// The deadline falls at every moment around a grant: never late, nothing left.
#[tokio::test(start_paused = true)]
async fn deadline_around_grant_and_extension() {
    for millis in (0..400).step_by(20) {
        let store = queueing();
        store.renewals.set_default(Some(CallFault::ReplyDelayed(Duration::from_millis(150))));
        let mut permits = acquire_all(&semaphore(&store, 1)).await;
        let start = tokio::time::Instant::now();
        let wait = SECOND + Duration::from_millis(millis);
        let waiter = spawn_waiter(&semaphore(&store, 1), options().with_wait(wait));
        sleep(SECOND).await;
        store.acquires.set_default(Some(CallFault::ReplyDelayed(Duration::from_millis(100))));
        permits.pop().unwrap().release().await.unwrap();
        let outcome = waiter.await.unwrap();
        assert!(start.elapsed() <= wait, "{millis}: {:?}", start.elapsed());
        store.acquires.set_default(None);
        drop(outcome);
        sleep(2 * SECOND).await;
        assert!(semaphore(&store, 1).try_acquire().await.unwrap().is_some(), "{millis}");
    }
}

/// F1: tokens of a name rise while the names around it are forgotten, in any order of grants and releases.
#[tokio::test(start_paused = true)]
async fn tokens_rise_though_names_are_forgotten() {
    let store = MemoryBackend::with_clock(Arc::new(RuntimeClock::new()));
    let client = LockClient::builder(Arc::new(store)).with_clock(Arc::new(RuntimeClock::new())).build();
    let mut last = std::collections::HashMap::new();
    for _ in 0..5000 {
        let name = format!("job/{}", fastrand::u32(..300));
        if let Some(guard) = client.try_acquire(name.as_str()).await.unwrap() {
            let token = guard.token().unwrap();
            assert!(last.insert(name, token) < Some(token));
            guard.release().await.unwrap();
        }
        if fastrand::u32(..10) == 0 {
            tokio::time::advance(Duration::from_micros(fastrand::u64(..5))).await;
        }
    }
}
