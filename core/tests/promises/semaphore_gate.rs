//! The gate and the slots of a semaphore beside a slow store, and a waiter that no task polls.

use crate::faulty_store::{CallFault, FaultyStore, TTL, options, run_ready_tasks};
use crate::semaphore::{SECOND, acquire_all, polling, queueing, semaphore, spawn_waiter};
use futures_util::FutureExt;
use leasehold_core::RuntimeClock;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The longest lease of a gate, and of a slot that is waited for.
const SHORT: Duration = Duration::from_secs(3);

/// The first extension is never answered, as one that was lost with its connection.
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

/// A store of leases that grants less than was asked.
fn granting_less() -> Arc<FaultyStore> {
    let mut store = FaultyStore::on(Arc::new(RuntimeClock::new()));
    (store.has_queue, store.lease) = (true, Some(SECOND));
    Arc::new(store)
}

#[tokio::test(start_paused = true)]
async fn fixed_permit_lasts_for_its_ttl() {
    let store = granting_less();
    let mut permits = acquire_all(&semaphore(&store, 1)).await;
    let waiter = spawn_waiter(&semaphore(&store, 1), options().with_fixed_lease());
    run_ready_tasks().await;
    permits.pop().unwrap().release().await.unwrap();
    let (permit, start) = (waiter.await.unwrap().unwrap(), Instant::now());
    let loss = permit.lost().await;
    assert!(start.elapsed() > TTL.mul_f64(0.9), "lost after {:?}: {loss}", start.elapsed());
}

/// The waiter is left alone at each of its awaits in turn, until it is granted. The gate and the slot are free after a short
/// lease each; only a waiter that has asked for the whole lease keeps its slot for that.
#[tokio::test(start_paused = true)]
async fn waiter_that_is_left_alone_at_any_await_holds_up_the_others_for_its_leases_at_most() {
    for store in [queueing, polling] {
        let mut stages = [0; 2];
        for polls in 0..40 {
            let store = store();
            let mut permits = acquire_all(&semaphore(&store, 1)).await;
            let (pool, forever) = (semaphore(&store, 1), options());
            let mut unpolled = pin!(pool.acquire_with(&forever));
            for _ in 0..20 {
                assert!(unpolled.as_mut().now_or_never().is_none());
                run_ready_tasks().await;
            }
            permits.pop().unwrap().release().await.unwrap();
            let mut is_granted = false;
            for _ in 0..polls {
                tokio::task::yield_now().await;
                is_granted |= unpolled.as_mut().now_or_never().is_some();
            }
            if is_granted {
                break;
            }
            let has_asked = store.holder("pool::slot:0").await.is_some()
                && store.status("pool::slot:0").await.ends_in > Some(SHORT);
            stages[usize::from(has_asked)] += 1;
            let (start, bound) = (Instant::now(), if has_asked { TTL + SECOND } else { 2 * SHORT + SECOND });
            semaphore(&store, 1).acquire().await.unwrap().release().await.unwrap();
            assert!(start.elapsed() <= bound, "{polls} polls: {:?} of {bound:?}", start.elapsed());
        }
        assert!(stages[0] > 0, "{stages:?}");
    }
}
