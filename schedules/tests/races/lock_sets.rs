//! Several names at once: sets that want the same names, a set that is dropped, and a loss in the middle of a set.

use crate::checks::builder;
use crate::explorer::race;
use crate::holds::DUE;
use crate::store::DelayedMemory;
use leasehold_schedules::{DistributedLockExt, ErrorKind, LockBackend, LockClient};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use tokio::sync::Notify;

/// Fails if two sets hold a name at once.
type HeldNames = Arc<[AtomicBool; 3]>;

fn acquire_and_release(
    client: &LockClient,
    names: &'static [&'static str],
    held: &HeldNames,
    drops: bool,
) -> impl Future<Output = ()> + Send + 'static {
    let (client, held) = (client.clone(), Arc::clone(held));
    async move {
        let set = client.acquire_all(names.iter().copied()).await.unwrap();
        let places: Vec<usize> = names.iter().map(|name| usize::from(name.as_bytes()[0] - b'a')).collect();
        assert!(places.iter().all(|at| !held[*at].swap(true, SeqCst)), "two sets hold one name");
        tokio::task::yield_now().await;
        places.iter().for_each(|at| held[*at].store(false, SeqCst));
        match drops {
            true => drop(set),
            false => set.release().await.unwrap(),
        }
    }
}

#[test]
fn sets_in_crossed_orders_all_end() {
    race("crossed sets", || async {
        let (store, clock) = DelayedMemory::new();
        let (builder, observed) = builder(&store, &clock);
        let (client, held) = (builder.build(), HeldNames::default());
        let sets = [
            tokio::spawn(acquire_and_release(&client, &["a", "b"], &held, false)),
            tokio::spawn(acquire_and_release(&client, &["c", "b", "a"], &held, true)),
            tokio::spawn(acquire_and_release(&client, &["c", "b"], &held, false)),
        ];
        drop(client);
        for set in sets {
            set.await.unwrap();
        }
        assert_eq!(observed.total_losses().await, 0);
        store.assert_no_lock_is_held().await;
    });
}

/// The drop falls before, between and after the grants, and while the set waits.
#[test]
fn dropped_set_leaves_no_lock() {
    race("set, drop", || async {
        let (store, clock) = DelayedMemory::new();
        let (builder, observed) = builder(&store, &clock);
        let (client, held, stop) = (builder.build(), HeldNames::default(), Arc::new(Notify::new()));
        let dropped = tokio::spawn({
            let (acquiring, stop) =
                (acquire_and_release(&client, &["a", "b", "c"], &held, true), Arc::clone(&stop));
            async move {
                tokio::select! {
                    biased;
                    () = stop.notified() => held.iter().for_each(|held| held.store(false, SeqCst)),
                    () = acquiring => {}
                }
            }
        });
        let other = client.acquire("b").await.unwrap();
        tokio::spawn(async move { stop.notify_one() });
        other.release().await.unwrap();
        dropped.await.unwrap();
        drop(client);
        assert_eq!(observed.total_losses().await, 0);
        store.assert_no_lock_is_held().await;
    });
}

/// The store loses the middle lock; its renewal tells so beside the release, or the drop, of the set.
#[test]
fn loss_in_the_middle_of_a_set_ends_it_once() {
    race("set, loss", || loss_in_the_middle(true));
    race("set, loss, drop", || loss_in_the_middle(false));
}

async fn loss_in_the_middle(releases: bool) {
    let (store, clock) = DelayedMemory::new();
    let (builder, observed) = builder(&store, &clock);
    let client = builder.build();
    let set = client.acquire_all(["a", "b", "c"]).await.unwrap();
    let ended = set.cancellation_token();
    store.admin().unwrap().force_release(&"b".try_into().unwrap(), None).await.unwrap();
    let working = tokio::spawn(async move {
        let lost = set.protect(tokio::task::yield_now()).await.is_err();
        assert!(!lost || !set.is_held(), "held after the loss of one lock");
        match releases {
            true => assert_eq!(set.release().await.unwrap_err().kind(), ErrorKind::Lost),
            false => drop(set),
        }
    });
    clock.advance(DUE);
    working.await.unwrap();
    // Without the end of the set this deadlocks.
    ended.cancelled().await;
    drop(client);
    assert!(observed.total_losses().await <= 1, "more than one lock was lost");
    store.assert_no_lock_is_held().await;
}
