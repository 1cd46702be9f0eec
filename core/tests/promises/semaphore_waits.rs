//! The wait for a permit: its deadline, outages, and the gate, which keeps the order of the waiters.

use crate::faulty_store::{CallFault, TTL, acquire, options, run_ready_tasks};
use crate::semaphore::{SECOND, acquire_all, is_clean, polling, queueing, semaphore, spawn_waiter};
use leasehold_core::{Claim, ErrorKind, LockBackend, LockName, LossCause, OwnerId, Release};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The longest lease of the gate.
const GATE_TTL: Duration = Duration::from_secs(3);

#[tokio::test(start_paused = true)]
async fn deadline_covers_gate_and_slots_together() {
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
async fn refusal_at_the_gate_ends_the_wait_at_once() {
    let store = queueing();
    let pool = semaphore(&store, 2);
    store.acquires.set_default(Some(CallFault::Error(ErrorKind::Denied)));
    let error = pool.acquire_with(&options()).await.unwrap_err();
    assert_eq!((error.kind(), store.acquires.calls()), (ErrorKind::Denied, 1));
    assert!(error.to_string().starts_with("semaphore \"pool\": "), "{error}");
}

/// The store has granted the gate before it refuses: at the first look at a slot, at the second, while all are waited for.
#[tokio::test(start_paused = true)]
async fn refusal_after_the_gate_is_waited_out() {
    for answers in 1..5 {
        let store = queueing();
        let mut permits = acquire_all(&semaphore(&store, 2)).await;
        let calls = store.acquires.calls();
        let waiter = spawn_waiter(&semaphore(&store, 2), options());
        while store.acquires.calls() < calls + answers {
            tokio::task::yield_now().await;
        }
        store.acquires.set_default(Some(CallFault::Error(ErrorKind::Denied)));
        drop(permits.pop());
        sleep(3 * SECOND).await;
        assert!(!waiter.is_finished(), "the refusal after {answers} answers ended the wait");
        store.acquires.set_default(None);
        let permit = tokio::time::timeout(2 * SECOND, waiter).await.expect("the slot is asked for again");
        drop(permit.unwrap().unwrap());
    }
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

/// The lease of a slot is short until its waiter knows of the grant, and as long as it was asked then.
#[tokio::test(start_paused = true)]
async fn slot_is_granted_for_a_short_time_until_its_waiter_runs() {
    let store = queueing();
    let ends_in = async || store.status("pool::slot:0").await.ends_in.unwrap();
    for (reply, length) in [(Some(CallFault::ReplyDelayed(TTL)), GATE_TTL), (None, TTL)] {
        let mut permits = acquire_all(&semaphore(&store, 1)).await;
        let waiter = spawn_waiter(&semaphore(&store, 1), options());
        run_ready_tasks().await;
        let is_answered = reply.is_none();
        store.acquires.set_default(reply);
        permits.pop().unwrap().release().await.unwrap();
        run_ready_tasks().await;
        let left = ends_in().await;
        assert!(left <= length && left + SECOND > length, "{left:?} of {length:?}");
        assert_eq!(waiter.is_finished(), is_answered);
        store.acquires.set_default(None);
        waiter.abort();
        drop(waiter.await);
        sleep(2 * TTL).await;
    }
}

/// The slot is lost between the grant and the request for its whole lease, so the waiter waits again.
#[tokio::test(start_paused = true)]
async fn waiter_that_lost_its_slot_is_granted_a_short_time_again() {
    let store = queueing();
    let mut permits = acquire_all(&semaphore(&store, 1)).await;
    let waiter = spawn_waiter(&semaphore(&store, 1), options());
    run_ready_tasks().await;
    store.acquires.push(CallFault::ReplyDelayed(SECOND));
    permits.pop().unwrap().release().await.unwrap();
    run_ready_tasks().await;
    store.delete("pool::slot:0").await;
    permits.push(semaphore(&store, 1).try_acquire().await.unwrap().unwrap());
    sleep(2 * SECOND).await;
    assert!(!waiter.is_finished());
    store.acquires.set_default(Some(CallFault::ReplyDelayed(TTL)));
    permits.pop().unwrap().release().await.unwrap();
    run_ready_tasks().await;
    assert!(store.status("pool::slot:0").await.ends_in <= Some(GATE_TTL));
    store.acquires.set_default(None);
    waiter.await.unwrap().unwrap().release().await.unwrap();
}

/// The slots that were granted beside the first one are not kept for as long as a permit is.
#[tokio::test(start_paused = true)]
async fn hold_at_least_is_for_the_permit_alone() {
    let store = queueing();
    let permits = acquire_all(&semaphore(&store, 3)).await;
    let waiter = spawn_waiter(&semaphore(&store, 3), options().with_hold_at_least(TTL));
    run_ready_tasks().await;
    drop(permits);
    let permit = waiter.await.unwrap().unwrap();
    sleep(SECOND).await;
    for slot in (0..3).filter(|slot| permit.slot() != Some(*slot)) {
        assert!(store.is_clean(&format!("pool::slot:{slot}")).await, "slot {slot} is kept");
    }
}

#[tokio::test(start_paused = true)]
async fn lost_gate_costs_the_order_alone() {
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
