//! Tasks of one client in the wait queue, and acquisitions that are dropped.
//!
//! Time stands still, so neither a poll nor a fallback interval helps a waiter: a lost wake-up is a deadlock.

use crate::checks::{ExclusionCheck, builder};
use crate::explorer::race;
use crate::holds::{Contention, contend};
use crate::store::DelayedMemory;
use leasehold_schedules::{DistributedLockExt, ErrorKind, LockClient};
use std::sync::Arc;
use tokio::sync::Notify;

#[test]
fn tasks_that_wait_all_get_the_lock_one_at_a_time() {
    race("wait, release", || async {
        let (store, clock) = DelayedMemory::new();
        contend(Arc::clone(&store), clock, Contention::Wait).await;
        store.assert_no_lock_is_held().await;
    });
}

/// The drop falls at any moment, also after the wake-up, and while the grant is on its way.
#[test]
fn waiter_that_is_dropped_hands_its_wake_up_on() {
    race("wake-up, drop", || async {
        let (store, clock) = DelayedMemory::new();
        let (builder, observed) = builder(&store, &clock);
        let client = builder.build();
        let (exclusion, stop) = (Arc::new(ExclusionCheck::default()), Arc::new(Notify::new()));
        let held = client.acquire("job").await.unwrap();
        exclusion.enter(&held);

        tokio::spawn({
            let (acquiring, stop) = (acquire_and_drop(&client, &exclusion), Arc::clone(&stop));
            async move {
                tokio::select! {
                    biased;
                    () = stop.notified() => {}
                    () = acquiring => {}
                }
            }
        });
        let staying = tokio::spawn(acquire_and_drop(&client, &exclusion));
        tokio::spawn(async move { stop.notify_one() });
        exclusion.leave();
        held.release().await.unwrap();
        staying.await.unwrap();
        drop(client);
        assert_eq!(observed.total_losses().await, 0);
        store.assert_no_lock_is_held().await;
    });
}

/// The refused attempt may be the one that a release has woken.
#[test]
fn waiter_that_fails_hands_its_wake_up_on() {
    race("wake-up, error", || wait_with_refused_attempt(3));
}

async fn wait_with_refused_attempt(number: usize) {
    let (store, clock) = DelayedMemory::with_refused_attempt(Some(number));
    let (builder, observed) = builder(&store, &clock);
    let client = builder.build();
    let waiters: Vec<_> = (0..3)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.acquire("job").await.map(drop) })
        })
        .collect();
    drop(client);
    let mut errors = Vec::new();
    for waiter in waiters {
        errors.extend(waiter.await.unwrap().err().map(|error| error.kind()));
    }
    assert_eq!(errors, [ErrorKind::Unsupported]);
    assert_eq!(observed.total_losses().await, 0);
    store.assert_no_lock_is_held().await;
}

/// Single attempts take the lock between a wake-up and the attempt of the woken waiter.
#[test]
fn waiters_beside_single_attempts_all_get_the_lock() {
    race("wait, try, drop", || async {
        let (store, clock) = DelayedMemory::new();
        let (builder, observed) = builder(&store, &clock);
        let client = builder.build();
        let (exclusion, stop) = (Arc::new(ExclusionCheck::default()), Arc::new(Notify::new()));
        let waiters = [(); 3].map(|()| tokio::spawn(acquire_and_drop(&client, &exclusion)));
        tokio::spawn({
            let (acquiring, stop) = (acquire_and_drop(&client, &exclusion), Arc::clone(&stop));
            async move {
                tokio::select! {
                    biased;
                    () = stop.notified() => {}
                    () = acquiring => {}
                }
            }
        });
        for _ in 0..2 {
            if let Some(guard) = client.try_acquire("job").await.unwrap() {
                exclusion.enter(&guard);
                exclusion.leave();
            }
        }
        stop.notify_one();
        drop(client);
        for waiter in waiters {
            waiter.await.unwrap();
        }
        assert_eq!(observed.total_losses().await, 0);
        store.assert_no_lock_is_held().await;
    });
}

fn acquire_and_drop(
    client: &LockClient,
    exclusion: &Arc<ExclusionCheck>,
) -> impl Future<Output = ()> + Send + 'static {
    let (client, exclusion) = (client.clone(), Arc::clone(exclusion));
    async move {
        let guard = client.acquire("job").await.unwrap();
        exclusion.enter(&guard);
        exclusion.leave();
        drop(guard);
    }
}

/// The drop falls before, during and after the request: what the store granted is released.
#[test]
fn dropped_acquisition_leaves_no_lock() {
    race("grant, drop", || async {
        let (store, clock) = DelayedMemory::new();
        let (builder, observed) = builder(&store, &clock);
        let (client, stop) = (builder.build(), Arc::new(Notify::new()));
        let dropped = tokio::spawn({
            let (client, stop) = (client.clone(), Arc::clone(&stop));
            async move {
                tokio::select! {
                    biased;
                    () = stop.notified() => {}
                    guard = client.acquire("job") => drop(guard.unwrap()),
                }
            }
        });
        tokio::spawn(async move { stop.notify_one() });
        dropped.await.unwrap();
        drop(client);
        assert_eq!(observed.total_losses().await, 0);
        store.assert_no_lock_is_held().await;
    });
}
