//! Breaker: a store of leases that grants less than was asked.

use crate::faulty_store::{FaultyStore, TTL, options, run_ready_tasks};
use crate::semaphore::{SECOND, acquire_all, semaphore, spawn_waiter};
use leasehold_core::RuntimeClock;
use std::sync::Arc;
use tokio::time::{Instant, sleep};

fn store() -> Arc<FaultyStore> {
    let mut store = FaultyStore::on(Arc::new(RuntimeClock::new()));
    (store.has_queue, store.lease) = (true, Some(SECOND));
    Arc::new(store)
}

#[tokio::test(start_paused = true)]
async fn fixed_permit_lasts_for_its_ttl() {
    let store = store();
    let mut permits = acquire_all(&semaphore(&store, 1)).await;
    let waiter = spawn_waiter(&semaphore(&store, 1), options().with_fixed_lease());
    run_ready_tasks().await;
    permits.pop().unwrap().release().await.unwrap();
    let (permit, start) = (waiter.await.unwrap().unwrap(), Instant::now());
    let loss = permit.lost().await;
    assert!(start.elapsed() > TTL.mul_f64(0.9), "lost after {:?}: {loss}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn gate_is_kept_for_as_long_as_its_owner_waits() {
    let store = store();
    let _permits = acquire_all(&semaphore(&store, 1)).await;
    let _waiter = spawn_waiter(&semaphore(&store, 1), options());
    run_ready_tasks().await;
    let owner = store.owner("pool::gate").await;
    sleep(TTL).await;
    assert_eq!(store.holder("pool::gate").await, Some(owner.to_hex()));
}
