//! Breaker: `hold_at_least` of a slot that no caller ever held.

use crate::faulty_store::{CallFault, TTL, options, run_ready_tasks};
use crate::l5_cancel_safety::RELEASE_TIME;
use crate::semaphore::{SECOND, acquire_all, queueing, semaphore, spawn_waiter};
use tokio::time::sleep;

/// L5: nothing is left behind by an acquisition that was dropped. No caller has had this permit.
#[tokio::test(start_paused = true)]
async fn acquisition_dropped_while_its_slot_is_extended_does_not_linger() {
    let store = queueing();
    let mut permits = acquire_all(&semaphore(&store, 1)).await;
    let waiter = spawn_waiter(&semaphore(&store, 1), options().with_hold_at_least(1000 * TTL));
    run_ready_tasks().await;
    store.renewals.push(CallFault::ReplyDelayed(SECOND / 2));
    permits.pop().unwrap().release().await.unwrap();
    sleep(SECOND / 4).await;
    assert!(!waiter.is_finished());
    waiter.abort();
    drop(waiter.await);
    sleep(RELEASE_TIME + SECOND).await;
    let next = semaphore(&store, 1).try_acquire().await.unwrap();
    assert!(next.is_some(), "kept for {:?}", store.status("pool::slot:0").await.ends_in);
}

/// The deadline comes, or the extension fails: the caller gets an error, and the slot stays closed.
#[tokio::test(start_paused = true)]
async fn acquisition_that_fails_does_not_linger() {
    for fault in [CallFault::ReplyDelayed(5 * SECOND), CallFault::ReplyLost] {
        let store = queueing();
        let mut permits = acquire_all(&semaphore(&store, 1)).await;
        let limited = options().with_hold_at_least(1000 * TTL).with_wait(2 * SECOND);
        let waiter = spawn_waiter(&semaphore(&store, 1), limited);
        run_ready_tasks().await;
        store.renewals.push(fault);
        permits.pop().unwrap().release().await.unwrap();
        if waiter.await.unwrap().is_ok() {
            continue;
        }
        sleep(10 * SECOND).await;
        let next = semaphore(&store, 1).try_acquire().await.unwrap();
        assert!(next.is_some(), "kept for {:?}", store.status("pool::slot:0").await.ends_in);
    }
}

/// Two slots come free at one moment. One permit is wanted, and one slot is taken.
#[tokio::test(start_paused = true)]
async fn second_slot_that_is_granted_meanwhile_does_not_linger() {
    let store = queueing();
    let permits = acquire_all(&semaphore(&store, 2)).await;
    let waiter = spawn_waiter(&semaphore(&store, 2), options().with_hold_at_least(1000 * TTL));
    run_ready_tasks().await;
    drop(permits);
    let permit = waiter.await.unwrap().unwrap();
    sleep(RELEASE_TIME + SECOND).await;
    let other = 1 - permit.slot().unwrap();
    assert!(store.holder(&format!("pool::slot:{other}")).await.is_none());
    let free = semaphore(&store, 2).try_acquire().await.unwrap();
    assert!(free.is_some(), "one of two slots is held, and no other is free");
}
