//! Breaker: a waiter that no task polls any more after its slot was granted.

use crate::faulty_store::{TTL, options, run_ready_tasks};
use crate::semaphore::{SECOND, acquire_all, queueing, semaphore};
use futures_util::FutureExt;
use std::pin::pin;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// "each for 3 s at most": at whichever await the waiter is left alone.
#[tokio::test(start_paused = true)]
async fn waiter_that_is_left_alone_at_any_await_keeps_its_slot_for_3_s_at_most() {
    let mut failed = Vec::new();
    for polls in 0..40 {
        let store = queueing();
        let mut permits = acquire_all(&semaphore(&store, 1)).await;
        let (pool, forever) = (semaphore(&store, 1), options());
        let mut unpolled = pin!(pool.acquire_with(&forever));
        for _ in 0..20 {
            assert!(unpolled.as_mut().now_or_never().is_none());
            run_ready_tasks().await;
        }
        permits.pop().unwrap().release().await.unwrap();
        let mut is_ready = false;
        for _ in 0..polls {
            tokio::task::yield_now().await;
            is_ready = unpolled.as_mut().now_or_never().is_some();
            if is_ready {
                break;
            }
        }
        if is_ready {
            break;
        }
        sleep(Duration::from_secs(100)).await;
        let next = semaphore(&store, 1);
        match timeout(10 * TTL, next.acquire_with(&forever)).await {
            Ok(permit) => permit.unwrap().release().await.unwrap(),
            Err(_) => failed.push(format!("{polls} polls: slot {:?}", store.holder("pool::slot:0").await)),
        }
        sleep(SECOND).await;
    }
    assert!(failed.is_empty(), "{failed:#?}");
}
