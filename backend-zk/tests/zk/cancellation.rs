//! Acquisitions that are dropped at any await.

use crate::kit::*;
use leasehold_core::{DistributedLockExt, LockClient};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

/// Polls a future this many times at most, and drops it.
async fn polled<F: Future>(future: F, times: usize) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut left = times;
    poll_fn(move |cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => {
            left -= 1;
            if left == 0 { Poll::Ready(None) } else { Poll::Pending }
        }
    })
    .await
}

async fn nothing_is_left(look: &Look, lock: &str, but: usize) {
    eventually(async || (look.line(lock).await.len() == but).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acquire_dropped_on_a_free_lock_at_any_await_leaves_nothing() {
    let server = server();
    let look = Look::at(&server).await;
    let client = client(&server.url());
    drop(client.acquire("warm-up").await.unwrap());
    let mut ready = false;
    for times in 1.. {
        assert!(times < 100, "it never got the lock");
        ready = match answered(polled(client.acquire("job"), times)).await {
            None => false,
            Some(guard) => {
                guard.unwrap().release().await.unwrap();
                true
            }
        };
        nothing_is_left(&look, "job", 0).await;
        if ready {
            break;
        }
    }
    assert!(ready);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acquire_dropped_without_a_session_at_any_await_leaves_nothing() {
    let server = server();
    let look = Look::at(&server).await;
    for times in 1..12 {
        let client = client(&server.url());
        drop(answered(polled(client.acquire("job"), times)).await);
        nothing_is_left(&look, "job", 0).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiter_dropped_at_any_await_leaves_nothing() {
    let server = server();
    let look = Look::at(&server).await;
    let (holder, client): (LockClient, LockClient) = (client(&server.url()), client(&server.url()));
    let guard = holder.acquire("job").await.unwrap();
    drop(client.acquire("warm-up").await.unwrap());
    for times in 1..8 {
        let wait = tokio::time::timeout(std::time::Duration::from_millis(200), client.acquire("job"));
        let _ = answered(polled(wait, times)).await;
        nothing_is_left(&look, "job", 1).await;
    }
    assert!(guard.is_held());
    guard.release().await.unwrap();
}
