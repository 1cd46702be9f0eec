//! Breaker: the gate beside a slow store.

use crate::faulty_store::{CallFault, options, run_ready_tasks};
use crate::semaphore::{SECOND, acquire_all, queueing, semaphore, spawn_waiter};
use std::time::Duration;
use tokio::time::sleep;

/// The first extension is never answered, as a renewal that died with its connection. The keeper would send another.
#[tokio::test(start_paused = true)]
async fn unanswered_extension_does_not_cost_the_gate() {
    let store = queueing();
    let _permits = acquire_all(&semaphore(&store, 1)).await;
    let _waiter = spawn_waiter(&semaphore(&store, 1), options());
    run_ready_tasks().await;
    let owner = store.owner("pool::gate").await.to_hex();
    store.renewals.push(CallFault::RequestDelayed(5 * SECOND));
    sleep(4 * SECOND).await;
    assert_eq!(store.holder("pool::gate").await, Some(owner));
}

/// The reply of the gate took 2.2 of its 3 s. A lease that is kept is renewed at once then.
#[tokio::test(start_paused = true)]
async fn gate_whose_grant_was_slow_is_kept() {
    let store = queueing();
    let _permits = acquire_all(&semaphore(&store, 1)).await;
    store.acquires.push(CallFault::ReplyDelayed(Duration::from_millis(2200)));
    let _waiter = spawn_waiter(&semaphore(&store, 1), options());
    sleep(Duration::from_millis(2300)).await;
    let owner = store.owner("pool::gate").await.to_hex();
    sleep(2 * SECOND).await;
    assert_eq!(store.holder("pool::gate").await, Some(owner));
}

/// One extension in four is not confirmed at once.
#[tokio::test(start_paused = true)]
async fn failed_extension_is_tried_again_soon() {
    for fault in [CallFault::Unavailable, CallFault::RequestLost] {
        let store = queueing();
        let _permits = acquire_all(&semaphore(&store, 1)).await;
        let _waiter = spawn_waiter(&semaphore(&store, 1), options());
        run_ready_tasks().await;
        let owner = store.owner("pool::gate").await.to_hex();
        store.renewals.set_default(Some(fault));
        // An outage of 2.2 s is shorter than the lease.
        sleep(Duration::from_millis(2200)).await;
        store.renewals.set_default(None);
        sleep(2 * SECOND).await;
        assert_eq!(store.holder("pool::gate").await, Some(owner));
    }
}
