//! Semaphores, on a store that wakes its waiters and on one whose waiters poll.

use crate::faulty_store::{CallFault, FaultyStore, TTL, acquire, options, run_ready_tasks};
use crate::l5_cancel_safety::{RELEASE_TIME, poll_at_most};
use leasehold_core::{
    AcquireOptions, Claim, DistributedLockExt, ErrorKind, LockBackend, LockGuard, LockMode, LockName,
    LossCause, OwnerId, Release, Result, RuntimeClock, Semaphore,
};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

const SECOND: Duration = Duration::from_secs(1);
/// The longest lease of the gate.
const GATE_TTL: Duration = Duration::from_secs(3);

fn queueing() -> Arc<FaultyStore> {
    let mut store = FaultyStore::on(Arc::new(RuntimeClock::new()));
    store.has_queue = true;
    Arc::new(store)
}

fn polling() -> Arc<FaultyStore> {
    let mut store = FaultyStore::on(Arc::new(RuntimeClock::new()));
    store.polling_interval = Some(Duration::from_millis(50));
    Arc::new(store)
}

fn semaphore(store: &Arc<FaultyStore>, permits: u32) -> Semaphore {
    store.client().semaphore("pool", permits).unwrap()
}

fn slots<'a>(permits: impl IntoIterator<Item = &'a LockGuard>) -> BTreeSet<u32> {
    permits.into_iter().filter_map(|permit| permit.slot()).collect()
}

async fn acquire_all(semaphore: &Semaphore) -> Vec<LockGuard> {
    let mut permits = Vec::new();
    for _ in 0..semaphore.permits() {
        permits.push(semaphore.try_acquire().await.unwrap().unwrap());
    }
    permits
}

fn spawn_waiter(semaphore: &Semaphore, options: AcquireOptions) -> JoinHandle<Result<LockGuard>> {
    let semaphore = semaphore.clone();
    tokio::spawn(async move { semaphore.acquire_with(&options).await })
}

/// True if no part of the semaphore is held, and no claim is queued.
async fn is_clean(store: &Arc<FaultyStore>, permits: u32) -> bool {
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

#[tokio::test(start_paused = true)]
async fn one_deadline_covers_gate_and_slots() {
    let store = queueing();
    let pool = semaphore(&store, 2);
    let _permits = acquire_all(&pool).await;
    let first = spawn_waiter(&pool, options().with_wait(2 * SECOND));
    run_ready_tasks().await;
    let start = Instant::now();
    let second = pool.acquire_with(&options().with_wait(3 * SECOND)).await.unwrap_err();
    assert_eq!((second.kind(), start.elapsed()), (ErrorKind::TimedOut, 3 * SECOND));
    assert_eq!(first.await.unwrap().unwrap_err().kind(), ErrorKind::TimedOut);
    assert!(second.to_string().contains("\"pool\""), "{second}");
}

#[tokio::test(start_paused = true)]
async fn store_that_stops_to_answer_is_indeterminate_at_the_deadline() {
    for answers in 0..4 {
        let store = queueing();
        let pool = semaphore(&store, 2);
        let _permits = acquire_all(&semaphore(&store, 2)).await;
        let calls = store.acquires.calls();
        let waiter = spawn_waiter(&pool, options().with_wait(SECOND));
        while store.acquires.calls() < calls + answers {
            tokio::task::yield_now().await;
        }
        store.acquires.set_default(Some(CallFault::NoReply));
        let start = Instant::now();
        assert_eq!(waiter.await.unwrap().unwrap_err().kind(), ErrorKind::Indeterminate, "{answers} answers");
        assert!(start.elapsed() <= SECOND);
    }
}

#[tokio::test(start_paused = true)]
async fn unknown_outcome_of_one_slot_is_not_reported_as_timed_out() {
    let store = queueing();
    let pool = semaphore(&store, 2);
    let _permits = acquire_all(&pool).await;
    let waiter = spawn_waiter(&pool, options().with_wait(SECOND));
    run_ready_tasks().await;
    sleep(SECOND - Duration::from_millis(1)).await;
    store.acquires.push(CallFault::ReplyLost);
    store.delete("other").await;
    assert_eq!(waiter.await.unwrap().unwrap_err().kind(), ErrorKind::Indeterminate);
}

#[tokio::test(start_paused = true)]
async fn error_that_is_no_outage_ends_the_wait_at_once() {
    let store = queueing();
    let pool = semaphore(&store, 2);
    let _permits = acquire_all(&semaphore(&store, 2)).await;
    let waiter = spawn_waiter(&pool, options());
    run_ready_tasks().await;
    store.acquires.set_default(Some(CallFault::Error(ErrorKind::Denied)));
    store.delete("other").await;
    let error = waiter.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
    assert!(error.to_string().starts_with("semaphore \"pool\": "), "{error}");
}

#[tokio::test(start_paused = true)]
async fn outage_while_a_waiter_tries_the_slots_is_waited_out() {
    let store = queueing();
    store.acquires.push(CallFault::Error(ErrorKind::Denied));
    assert!(semaphore(&store, 1).acquire().await.is_err(), "the gate was refused");
    let pool = semaphore(&store, 2);
    let start = Instant::now();
    let waiter = spawn_waiter(&pool, options().with_wait(TTL));
    while store.acquires.calls() < 3 {
        tokio::task::yield_now().await;
    }
    store.acquires.set_default(Some(CallFault::Unavailable));
    sleep(SECOND).await;
    store.acquires.set_default(None);
    drop(waiter.await.unwrap().unwrap());
    assert!(start.elapsed() < 2 * SECOND);
}

/// Each slot is asked for again after the outage, so the release of any permit ends the wait.
#[tokio::test(start_paused = true)]
async fn endless_wait_for_a_slot_goes_on_through_an_outage() {
    for freed in 0..2 {
        let store = queueing();
        let mut permits = acquire_all(&semaphore(&store, 2)).await;
        let calls = store.acquires.calls();
        let waiter = spawn_waiter(&semaphore(&store, 2), options());
        // The gate, and one attempt on each slot.
        while store.acquires.calls() < calls + 3 {
            tokio::task::yield_now().await;
        }
        store.acquires.set_default(Some(CallFault::Unavailable));
        sleep(SECOND).await;
        store.acquires.set_default(None);
        sleep(SECOND).await;
        assert!(!waiter.is_finished(), "the outage ended the wait");
        drop(permits.remove(freed));
        let permit = tokio::time::timeout(2 * SECOND, waiter).await.expect("the slot is asked for again");
        drop(permit.unwrap().unwrap());
    }
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
async fn gate_is_asked_for_where_an_order_is_promised_or_others_wait() {
    for (store, requests) in [(queueing(), 2), (polling(), 1)] {
        let permit = semaphore(&store, 1).acquire().await.unwrap();
        assert_eq!(store.acquires.calls(), requests);
        drop(permit);
    }
    let store = polling();
    let pool = semaphore(&store, 1);
    let permits = acquire_all(&pool).await;
    let first = spawn_waiter(&pool, options());
    run_ready_tasks().await;
    drop(permits);
    // The slot is free, and the first waiter has not asked for it yet.
    let newcomer = pool.acquire_with(&options().with_wait(SECOND)).await;
    assert_eq!(newcomer.unwrap_err().kind(), ErrorKind::TimedOut);
    first.await.unwrap().unwrap().release().await.unwrap();
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

/// A client that crashed: it has the gate, renews nothing, and says nothing.
#[tokio::test(start_paused = true)]
async fn crashed_owner_of_the_gate_holds_up_the_others_for_its_lease_at_most() {
    for (ttl, bound) in [(TTL, GATE_TTL), (SECOND, SECOND)] {
        let store = queueing();
        let permits = acquire_all(&semaphore(&store, 1)).await;
        let waiter = spawn_waiter(&semaphore(&store, 1), options().with_ttl(ttl));
        run_ready_tasks().await;
        let owner = store.owner("pool::gate").await;
        // Its renewals and its release are lost from now on.
        store.renewals.set_default(Some(CallFault::RequestLost));
        waiter.abort();
        store.releases.push(CallFault::RequestDelayed(TTL));
        run_ready_tasks().await;
        store.renewals.set_default(None);
        drop(permits);
        let start = Instant::now();
        let next = semaphore(&store, 1).acquire().await.unwrap();
        assert!(start.elapsed() <= bound + SECOND, "{:?}", start.elapsed());
        assert!(next.is_held());
        let gate = LockName::from_store("pool::gate").unwrap();
        let late = Claim::new(gate, owner, ttl, "".into());
        assert_eq!(store.release(&late, Duration::ZERO).await.unwrap(), Release::NotHeld);
    }
}

#[tokio::test(start_paused = true)]
async fn gate_that_is_lost_costs_the_order_alone() {
    let store = queueing();
    let pool = semaphore(&store, 1);
    let permits = acquire_all(&pool).await;
    let waiter = spawn_waiter(&pool, options());
    run_ready_tasks().await;
    store.delete("pool::gate").await;
    let other = spawn_waiter(&semaphore(&store, 1), options());
    sleep(SECOND).await;
    assert!(!waiter.is_finished() && !other.is_finished());
    drop(permits);
    // In no order: both wait for the slot.
    let (mut waiter, mut other) = (waiter, other);
    let last = tokio::select! {
        permit = &mut waiter => { permit.unwrap().unwrap().release().await.unwrap(); other }
        permit = &mut other => { permit.unwrap().unwrap().release().await.unwrap(); waiter }
    };
    last.await.unwrap().unwrap().release().await.unwrap();
    run_ready_tasks().await;
    assert!(is_clean(&store, 1).await);
}

#[tokio::test(start_paused = true)]
async fn limits_of_the_permit_are_not_those_of_the_gate() {
    let store = queueing();
    let pool = semaphore(&store, 1);
    let mut permits = acquire_all(&pool).await;
    let limited = options().with_fixed_lease().with_max_hold(SECOND).with_hold_at_least(SECOND);
    let waiter = spawn_waiter(&pool, limited);
    sleep(2 * GATE_TTL).await;
    assert!(store.holder("pool::gate").await.is_some(), "it is renewed while its owner waits");
    permits.pop().unwrap().release().await.unwrap();
    let permit = waiter.await.unwrap().unwrap();
    run_ready_tasks().await;
    assert!(store.is_clean("pool::gate").await, "it is free at once");
    assert_eq!(permit.lost().await.cause(), LossCause::MaxHold);
}

#[tokio::test(start_paused = true)]
async fn wait_in_line_leaves_other_names_alone() {
    let store = queueing();
    let pool = semaphore(&store, 1);
    let _permits = acquire_all(&pool).await;
    let _waiter = spawn_waiter(&pool, options());
    run_ready_tasks().await;
    let guard = acquire(&store.client(), "pool", options()).await.unwrap();
    assert!(guard.is_held());
    let claim = Claim::new(guard.name().clone(), OwnerId::from_u128(1), TTL, "".into());
    assert_eq!(store.release(&claim, Duration::ZERO).await.unwrap(), Release::NotHeld);
}
