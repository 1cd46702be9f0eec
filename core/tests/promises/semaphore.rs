//! The permits of a semaphore, on a store that wakes its waiters and on one whose waiters poll.

use crate::faulty_store::{CallFault, FaultyStore, TTL, options, run_ready_tasks};
use crate::l5_cancel_safety::{RELEASE_TIME, poll_at_most};
use leasehold_core::{
    AcquireOptions, DistributedLockExt, ErrorKind, LockGuard, LockMode, LockName, Result, RuntimeClock,
    Semaphore,
};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::sleep;

pub(crate) const SECOND: Duration = Duration::from_secs(1);

pub(crate) fn queueing() -> Arc<FaultyStore> {
    let mut store = FaultyStore::on(Arc::new(RuntimeClock::new()));
    store.has_queue = true;
    Arc::new(store)
}

pub(crate) fn polling() -> Arc<FaultyStore> {
    let mut store = FaultyStore::on(Arc::new(RuntimeClock::new()));
    store.polling_interval = Some(Duration::from_millis(50));
    Arc::new(store)
}

pub(crate) fn semaphore(store: &Arc<FaultyStore>, permits: u32) -> Semaphore {
    store.client().semaphore("pool", permits).unwrap()
}

fn slots<'a>(permits: impl IntoIterator<Item = &'a LockGuard>) -> BTreeSet<u32> {
    permits.into_iter().filter_map(|permit| permit.slot()).collect()
}

pub(crate) async fn acquire_all(semaphore: &Semaphore) -> Vec<LockGuard> {
    let mut permits = Vec::new();
    for _ in 0..semaphore.permits() {
        permits.push(semaphore.try_acquire().await.unwrap().unwrap());
    }
    permits
}

pub(crate) fn spawn_waiter(semaphore: &Semaphore, options: AcquireOptions) -> JoinHandle<Result<LockGuard>> {
    let semaphore = semaphore.clone();
    tokio::spawn(async move { semaphore.acquire_with(&options).await })
}

/// True if no part of the semaphore is held, and no claim is queued.
pub(crate) async fn is_clean(store: &Arc<FaultyStore>, permits: u32) -> bool {
    for slot in 0..permits {
        if !store.is_clean(&format!("pool::slot:{slot}")).await {
            return false;
        }
    }
    store.is_clean("pool::gate").await
}

#[tokio::test(start_paused = true)]
async fn permits_are_distinct_slots_and_at_most_as_many_as_allowed() {
    for store in [queueing(), polling()] {
        let (one, other) = (semaphore(&store, 3), semaphore(&store, 3));
        let permits =
            [one.acquire().await.unwrap(), other.acquire().await.unwrap(), one.acquire().await.unwrap()];
        assert_eq!(slots(&permits), BTreeSet::from([0, 1, 2]));
        for full in [&one, &other] {
            assert!(full.try_acquire().await.unwrap().is_none());
            let error = full.acquire_with(&options().with_wait(SECOND)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TimedOut);
        }
        drop(permits);
        sleep(RELEASE_TIME).await;
        assert!(is_clean(&store, 3).await);
    }
}

#[tokio::test(start_paused = true)]
async fn crowd_of_clients_never_holds_more_permits_than_allowed() {
    for store in [queueing(), polling()] {
        let (held, most, grants) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)), 40);
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..5 {
            let (semaphore, held, most) = (semaphore(&store, 3), Arc::clone(&held), Arc::clone(&most));
            tasks.spawn(async move {
                for _ in 0..grants {
                    let permit = semaphore.acquire().await.unwrap();
                    most.fetch_max(held.fetch_add(1, SeqCst) + 1, SeqCst);
                    sleep(Duration::from_millis(7)).await;
                    held.fetch_sub(1, SeqCst);
                    permit.release().await.unwrap();
                }
            });
        }
        tasks.join_all().await;
        assert_eq!(most.load(SeqCst), 3);
        run_ready_tasks().await;
        assert!(is_clean(&store, 3).await);
    }
}

#[tokio::test(start_paused = true)]
async fn invalid_arguments_are_refused_before_any_request() {
    let store = queueing();
    let client = store.client();
    let long = "x".repeat(LockName::MAX_BYTES - "::slot:0".len());
    assert!(client.semaphore(&long, 10).is_ok());
    for (name, permits) in
        [("pool", 0), ("pool", Semaphore::MAX_PERMITS + 1), (&long, 11), ("pool::gate", 1), ("", 1)]
    {
        assert_eq!(
            client.semaphore(name, permits).unwrap_err().kind(),
            ErrorKind::Invalid,
            "{name} {permits}"
        );
    }
    assert_eq!(client.semaphore("pool", Semaphore::MAX_PERMITS).unwrap().permits(), Semaphore::MAX_PERMITS);
    let pool = semaphore(&store, 2);
    for options in [
        options().with_mode(LockMode::Shared),
        options().with_mode(LockMode::Write),
        options().with_ttl(Duration::ZERO),
        options().with_max_hold(Duration::ZERO),
    ] {
        assert_eq!(pool.acquire_with(&options).await.unwrap_err().kind(), ErrorKind::Invalid, "{options:?}");
    }
    assert_eq!(store.acquires.calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn semaphore_and_lock_of_one_name_do_not_exclude_each_other() {
    let store = queueing();
    let client = store.client();
    let lock = client.acquire("pool").await.unwrap();
    let permit = client.semaphore("pool", 1).unwrap().acquire().await.unwrap();
    assert_eq!((lock.slot(), permit.slot()), (None, Some(0)));
}

#[tokio::test(start_paused = true)]
async fn full_semaphore_of_one_client_is_known_without_a_request() {
    let store = queueing();
    let pool = semaphore(&store, 2);
    let permits = acquire_all(&pool).await;
    let before = store.acquires.calls();
    assert!(pool.try_acquire().await.unwrap().is_none());
    assert_eq!(store.acquires.calls(), before);
    drop(permits);
}

#[tokio::test(start_paused = true)]
async fn slot_that_was_released_is_tried_first() {
    let store = queueing();
    let pool = semaphore(&store, 100);
    let mut permits = Vec::new();
    for _ in 0..50 {
        permits.push(pool.try_acquire().await.unwrap().unwrap());
    }
    let released = permits.pop().unwrap();
    let slot = released.slot();
    released.release().await.unwrap();
    let before = store.acquires.calls();
    let next = pool.try_acquire().await.unwrap().unwrap();
    assert_eq!((next.slot(), store.acquires.calls()), (slot, before + 1));
}

#[tokio::test(start_paused = true)]
async fn release_of_any_slot_grants_the_first_waiter_at_once_and_in_order() {
    let store = polling();
    let pool = semaphore(&store, 3);
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut permits = acquire_all(&pool).await;
    let mut waiters = Vec::new();
    for number in 0..3 {
        let (pool, order) = (pool.clone(), Arc::clone(&order));
        waiters.push(tokio::spawn(async move {
            let permit = pool.acquire().await.unwrap();
            order.lock().unwrap().push(number);
            permit
        }));
        run_ready_tasks().await;
    }
    for (released, slot) in [(1, Some(2)), (2, Some(0)), (3, Some(1))] {
        let position = permits.iter().position(|permit| permit.slot() == slot).unwrap();
        permits.swap_remove(position).release().await.unwrap();
        run_ready_tasks().await;
        assert_eq!(order.lock().unwrap().len(), released, "the release of slot {slot:?} woke no waiter");
    }
    assert_eq!(*order.lock().unwrap(), [0, 1, 2]);
    for waiter in waiters {
        waiter.await.unwrap().release().await.unwrap();
    }
    run_ready_tasks().await;
    assert!(is_clean(&store, 3).await);
}

#[tokio::test(start_paused = true)]
async fn callers_of_different_numbers_share_the_slots_that_both_know() {
    let store = queueing();
    let (three, five) = (semaphore(&store, 3), semaphore(&store, 5));
    let of_three = acquire_all(&three).await;
    assert_eq!(slots(&of_three), BTreeSet::from([0, 1, 2]));
    let of_five = [five.acquire().await.unwrap(), five.acquire().await.unwrap()];
    assert_eq!(slots(&of_five), BTreeSet::from([3, 4]));
    assert!(five.try_acquire().await.unwrap().is_none());
    drop(of_five);
    run_ready_tasks().await;
    assert!(three.try_acquire().await.unwrap().is_none(), "slot 3 is not one of three");
}

/// Drops a wait after one poll, after two, and so on until it is ready, each time on a new store.
#[tokio::test(start_paused = true)]
async fn wait_dropped_at_any_await_leaves_nothing() {
    type Make = fn() -> Arc<FaultyStore>;
    let stores: [(Make, bool, usize); 4] =
        [(queueing, false, 5), (queueing, true, 12), (polling, false, 3), (polling, true, 12)];
    for (store, is_full, fewest) in stores {
        for polls in 1.. {
            let store = store();
            let permits = if is_full { acquire_all(&semaphore(&store, 2)).await } else { Vec::new() };
            let mut releaser = tokio::task::JoinSet::new();
            releaser.spawn(async move {
                sleep(Duration::from_millis(600)).await;
                drop(permits);
            });
            let pool = semaphore(&store, 2);
            let outcome = poll_at_most(polls, pool.acquire_with(&options().with_ttl(TTL * 100))).await;
            let is_granted = outcome.is_some();
            drop((outcome, releaser));
            sleep(RELEASE_TIME).await;
            run_ready_tasks().await;
            assert!(is_clean(&store, 2).await, "dropped after {polls} polls");
            if is_granted {
                assert!(polls >= fewest, "only {polls} await points");
                break;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn late_grant_of_a_slot_not_wanted_any_more_is_given_back_at_once() {
    let store = queueing();
    let permits = acquire_all(&semaphore(&store, 2)).await;
    let pool = semaphore(&store, 2);
    let waiter = spawn_waiter(&pool, options().with_ttl(TTL * 100));
    run_ready_tasks().await;
    // Both slots are free at once. One grant counts; the reply of the other comes late.
    store.acquires.push(CallFault::ReplyDelayed(SECOND));
    drop(permits);
    let permit = waiter.await.unwrap().unwrap();
    sleep(SECOND + RELEASE_TIME).await;
    let pool = semaphore(&store, 2);
    assert!(pool.try_acquire().await.unwrap().is_some(), "only {:?} is in use", permit.slot());
}
