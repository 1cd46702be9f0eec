//! Breaker: the extension of a slot that was granted to a waiter fails once, or is answered late.

use crate::faulty_store::{CallFault, options, run_ready_tasks};
use crate::semaphore::{SECOND, acquire_all, queueing, semaphore, spawn_waiter};
use leasehold_core::ErrorKind;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// A waiter for a lock goes on after an outage until its deadline; a waiter for a permit has a minute left.
#[tokio::test(start_paused = true)]
async fn one_failed_extension_does_not_end_the_wait() {
    let mut failed = Vec::new();
    for fault in [CallFault::Unavailable, CallFault::RequestLost, CallFault::ReplyLost] {
        let store = queueing();
        let mut permits = acquire_all(&semaphore(&store, 1)).await;
        let waiter = spawn_waiter(&semaphore(&store, 1), options().with_wait(60 * SECOND));
        run_ready_tasks().await;
        store.renewals.push(fault.clone());
        permits.pop().unwrap().release().await.unwrap();
        let permit = timeout(70 * SECOND, waiter).await.unwrap().unwrap();
        if let Err(error) = permit {
            failed.push(format!("{fault:?}: {error}"));
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

/// The store answers after more than 3 s, which a lease of 10 s stands. An acquisition never ends with `Lost`.
#[tokio::test(start_paused = true)]
async fn extension_that_is_answered_late_is_no_loss_of_the_acquisition() {
    let mut failed = Vec::new();
    for options in [options(), options().with_fixed_lease()] {
        for fault in
            [CallFault::ReplyDelayed(Duration::from_millis(3500)), CallFault::RequestDelayed(Duration::from_millis(3500))]
        {
            let store = queueing();
            let mut permits = acquire_all(&semaphore(&store, 1)).await;
            let waiter = spawn_waiter(&semaphore(&store, 1), options.clone().with_wait(60 * SECOND));
            run_ready_tasks().await;
            store.renewals.set_default(Some(fault.clone()));
            permits.pop().unwrap().release().await.unwrap();
            sleep(8 * SECOND).await;
            store.renewals.set_default(None);
            let permit = timeout(70 * SECOND, waiter).await.unwrap().unwrap();
            if let Err(error) = permit {
                failed.push(format!("renewed {}: {fault:?}: {:?} {error}", options.is_renewed(), error.kind()));
            }
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

/// The record is deleted between the grant and its extension: the waiter has lost nothing yet.
#[tokio::test(start_paused = true)]
async fn slot_lost_before_its_extension_is_waited_for_again() {
    let store = queueing();
    let mut permits = acquire_all(&semaphore(&store, 1)).await;
    let waiter = spawn_waiter(&semaphore(&store, 1), options().with_wait(60 * SECOND));
    run_ready_tasks().await;
    store.renewals.push(CallFault::RequestDelayed(SECOND / 2));
    permits.pop().unwrap().release().await.unwrap();
    run_ready_tasks().await;
    store.delete("pool::slot:0").await;
    let permit = timeout(70 * SECOND, waiter).await.unwrap().unwrap();
    assert_ne!(permit.as_ref().err().map(|error| error.kind()), Some(ErrorKind::Lost), "{permit:?}");
}

/// As for a lock: an acquisition beside a close is `Closed`.
#[tokio::test(start_paused = true)]
async fn close_during_an_extension_is_closed() {
    use leasehold_core::{DistributedLock, DistributedLockExt};
    let store = queueing();
    let mut permits = acquire_all(&semaphore(&store, 1)).await;
    let client = store.client();
    let pool = client.semaphore("pool", 1).unwrap();
    let waiter = spawn_waiter(&pool, options().with_wait(60 * SECOND));
    run_ready_tasks().await;
    store.renewals.push(CallFault::ReplyDelayed(SECOND / 2));
    permits.pop().unwrap().release().await.unwrap();
    run_ready_tasks().await;
    client.close().await.unwrap();
    assert_eq!(waiter.await.unwrap().unwrap_err().kind(), ErrorKind::Closed);
}
