//! Re-entry: first calls at once, one of them dropped, and the last guards of a scope.

use crate::checks::builder;
use crate::explorer::race;
use crate::holds::always_granted;
use crate::store::DelayedMemory;
use leasehold_schedules::{
    DistributedLockExt, ErrorKind, FencingToken, LockGuard, Renewal, Result, Scope, Wait,
};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;

/// The holders inside, all of one scope. Fails if another scope is inside, or if one hold has two tokens.
#[derive(Debug, Default)]
struct Inside(Mutex<Vec<(usize, FencingToken)>>);

impl Inside {
    async fn pass(&self, scope: usize, guard: LockGuard, drops: bool) {
        let entry = (scope, guard.token().unwrap());
        {
            let mut inside = self.0.lock().unwrap();
            assert!(inside.iter().all(|other| *other == entry), "{entry:?} beside {inside:?}");
            inside.push(entry);
        }
        tokio::task::yield_now().await;
        self.0.lock().unwrap().pop();
        match drops {
            true => drop(guard),
            false => guard.release().await.unwrap(),
        }
    }
}

#[test]
fn calls_of_two_scopes_share_within_and_exclude_between() {
    race("two scopes", || async {
        let (store, clock) = DelayedMemory::new();
        let (builder, observed) = builder(&store, &clock);
        let client = builder.build();
        let (scopes, inside) = ([client.scope(), client.scope()], Arc::new(Inside::default()));
        drop(client);
        let calls = [(0, true), (0, false), (1, true), (1, false)].map(|(at, drops)| {
            let (scope, inside): (Scope, _) = (scopes[at].clone(), Arc::clone(&inside));
            tokio::spawn(async move { inside.pass(at, scope.acquire("job").await.unwrap(), drops).await })
        });
        drop(scopes);
        for call in calls {
            call.await.unwrap();
        }
        assert_eq!(observed.total_losses().await, 0);
        store.assert_no_lock_is_held().await;
    });
}

/// Time stands still: a wake-up that is lost with the dropped call is a deadlock.
#[test]
fn call_goes_on_when_the_call_that_it_shares_is_dropped() {
    race("first calls, drop", || async {
        let (store, clock) = DelayedMemory::new();
        let (builder, observed) = builder(&store, &clock);
        let client = builder.build();
        let (scope, stop) = (client.scope(), Arc::new(Notify::new()));
        let held = client.acquire("job").await.unwrap();
        let dropped = tokio::spawn({
            let (scope, stop) = (scope.clone(), Arc::clone(&stop));
            async move {
                tokio::select! {
                    biased;
                    () = stop.notified() => {}
                    guard = scope.acquire("job") => drop(guard.unwrap()),
                }
            }
        });
        let staying = tokio::spawn(async move { scope.acquire("job").await.unwrap().release().await });
        tokio::spawn(async move { stop.notify_one() });
        held.release().await.unwrap();
        staying.await.unwrap().unwrap();
        dropped.await.unwrap();
        drop(client);
        assert_eq!(observed.total_losses().await, 0);
        store.assert_no_lock_is_held().await;
    });
}

/// The first attempt is refused. A call that shares it is refused with it, and a call that begins later acquires.
#[test]
fn calls_are_refused_with_the_attempt_that_they_share_and_no_other() {
    race("first calls, failure", || async {
        let (store, clock) = DelayedMemory::with_refused_attempt(Some(1));
        let (builder, observed) = builder(&store, &clock);
        let client = builder.build();
        let scope = client.scope();
        drop(client);
        let calls = [(); 3].map(|()| {
            let scope = scope.clone();
            tokio::spawn(async move { scope.acquire("job").await.map(drop) })
        });
        drop(scope);
        let mut errors = Vec::new();
        for call in calls {
            errors.extend(call.await.unwrap().err().map(|error| error.kind()));
        }
        assert!((1..=3).contains(&errors.len()) && errors.iter().all(|kind| *kind == ErrorKind::Unsupported));
        assert_eq!(observed.total_losses().await, 0);
        store.assert_no_lock_is_held().await;
    });
}

/// Two guards end at once, beside a third call that still gets the hold, or a new one.
#[test]
fn last_guards_of_a_scope_release_once_for_each_hold() {
    race("last guards", || async {
        let (store, client, _, observed) = always_granted(Renewal::Renewed);
        let scope = client.scope();
        let (one, two) = (scope.acquire("job").await.unwrap(), scope.acquire("job").await.unwrap());
        let first = one.token().unwrap();
        let dropping = tokio::spawn(async move { drop(one) });
        let calling = tokio::spawn({
            let options = leasehold_schedules::AcquireOptions::new().with_wait(Wait::No);
            async move { scope.acquire_with("job", &options).await }
        });
        two.release().await.unwrap();
        dropping.await.unwrap();
        let third: Result<LockGuard> = calling.await.unwrap();
        let third = third.unwrap();
        let holds = if third.token().unwrap() == first { 1 } else { 2 };
        assert!(third.is_held());
        third.release().await.unwrap();
        drop(client);
        assert_eq!(observed.total_losses().await, 0);
        assert_eq!(store.releases.load(SeqCst), holds);
    });
}

/// A call that is refused looks at the hold while its last guard is released.
#[test]
fn last_release_waits_for_the_store_beside_a_refused_call() {
    race("last release, refused call", || async {
        let (store, clock) = DelayedMemory::new();
        let (builder, observed) = builder(&store, &clock);
        let client = builder.build();
        let scope = client.scope();
        drop(client);
        let reader = scope.read("job").await.unwrap();
        let token = reader.token().unwrap();
        let refused = tokio::spawn(async move { scope.try_acquire("job").await.map(drop) });
        reader.release().await.unwrap();
        assert!(!store.tokens_held().await.contains(&token), "released in the background");
        if let Err(error) = refused.await.unwrap() {
            assert_eq!(error.kind(), ErrorKind::Invalid);
        }
        assert_eq!(observed.total_losses().await, 0);
        store.assert_no_lock_is_held().await;
    });
}
