//! L5: an acquire future that is dropped leaves nothing behind. The tests drop it at every await point.

use crate::faulty_store::{CallFault, FaultyStore, TTL, acquire, options, run_ready_tasks};
use leasehold_core::{DistributedLockExt, RuntimeClock};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::time::sleep;

/// Polls a future `polls` times at most, and drops it. `None` if it was not ready by then.
pub(crate) async fn poll_at_most<F: Future>(polls: usize, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut polled = 0;
    poll_fn(|cx| {
        if polled == polls {
            return Poll::Ready(None);
        }
        polled += 1;
        future.as_mut().poll(cx).map(Some)
    })
    .await
}

/// Drops an acquisition after one poll, after two, and so on until it is ready, each time on a new store that `prepare` has
/// set up. The store must be clean within `bound`, before any lease ends. Returns the number of polls to be ready.
async fn drop_at_every_await<G>(bound: Duration, prepare: impl AsyncFn(&Arc<FaultyStore>) -> G) -> usize {
    for polls in 1.. {
        let store = {
            let mut store = FaultyStore::on(Arc::new(RuntimeClock::new()));
            store.has_queue = true;
            Arc::new(store)
        };
        let other = prepare(&store).await;
        let client = store.client();
        let outcome = poll_at_most(polls, acquire(&client, "job", options().with_ttl(TTL * 100))).await;
        if let Some(guard) = outcome {
            drop(guard.unwrap());
            return polls;
        }
        drop(other);
        sleep(bound).await;
        run_ready_tasks().await;
        assert!(store.is_clean("job").await, "dropped after {polls} polls");
    }
    unreachable!("the acquisition never ends")
}

/// Enough for a release and its repetitions.
pub(crate) const RELEASE_TIME: Duration = Duration::from_millis(200);

#[tokio::test(start_paused = true)]
async fn acquisition_of_a_free_lock_dropped_at_any_await_leaves_nothing() {
    let polls = drop_at_every_await(RELEASE_TIME, async |_| ()).await;
    assert!(polls >= 3, "only {polls} await points: too few for a drop before and after the grant");
}

#[tokio::test(start_paused = true)]
async fn wait_for_a_held_lock_dropped_at_any_await_leaves_nothing() {
    let polls = drop_at_every_await(RELEASE_TIME, async |store| {
        let holder = store.client().acquire("job").await.unwrap();
        // A drop of the set aborts the task, which drops the guard of the holder.
        let mut releaser = tokio::task::JoinSet::new();
        releaser.spawn(async move {
            sleep(Duration::from_millis(600)).await;
            holder.release().await.unwrap();
        });
        releaser
    })
    .await;
    assert!(polls >= 8, "only {polls} await points: the acquisition did not wait");
}

#[tokio::test(start_paused = true)]
async fn acquisition_with_late_reply_dropped_at_any_await_leaves_nothing() {
    drop_at_every_await(Duration::from_secs(2), async |store| {
        store.acquires.push(CallFault::ReplyDelayed(Duration::from_secs(1)));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn acquisition_with_late_request_dropped_at_any_await_leaves_nothing() {
    drop_at_every_await(Duration::from_secs(2), async |store| {
        store.acquires.push(CallFault::RequestDelayed(Duration::from_secs(1)));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn acquisition_with_lost_replies_dropped_at_any_await_leaves_nothing() {
    drop_at_every_await(RELEASE_TIME, async |store| {
        store.acquires.push(CallFault::ReplyLost);
        store.acquires.push(CallFault::ReplyLost);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn acquisition_with_repeated_release_dropped_at_any_await_leaves_nothing() {
    drop_at_every_await(RELEASE_TIME, async |store| {
        store.acquires.push(CallFault::ReplyLost);
        store.releases.push(CallFault::RequestLost);
        store.releases.push(CallFault::ReplyLost);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn dropped_waiter_does_not_delay_the_next() {
    let store = FaultyStore::new();
    let holder = store.client().acquire("job").await.unwrap();
    let (dropped, staying) = (store.client(), store.client());
    let dropped = tokio::spawn(async move { dropped.acquire("job").await.map(drop) });
    let staying = tokio::spawn(async move { staying.acquire("job").await });
    sleep(Duration::from_secs(1)).await;
    dropped.abort();
    run_ready_tasks().await;
    holder.release().await.unwrap();
    let start = tokio::time::Instant::now();
    staying.await.unwrap().unwrap().release().await.unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO);
}

/// The panic reaches the caller, unless it has dropped the acquisition. The grant is released in both cases.
#[tokio::test(start_paused = true)]
async fn backend_that_panics_after_a_grant_leaves_no_lock() {
    for polls in 0..5 {
        let store = FaultyStore::new();
        store.acquires.push(CallFault::Panic);
        let client = store.client();
        let acquiring = tokio::spawn(async move { poll_at_most(polls, client.acquire("job")).await });
        match acquiring.await {
            Ok(outcome) => assert!(outcome.is_none()),
            Err(error) => assert!(error.is_panic() && polls > 1),
        }
        run_ready_tasks().await;
        assert!(store.is_clean("job").await, "after {polls} polls");
    }
}

#[tokio::test(start_paused = true)]
async fn backend_that_panics_in_a_release_is_not_asked_again() {
    for is_awaited in [true, false] {
        let store = FaultyStore::new();
        store.releases.set_default(Some(CallFault::Panic));
        let guard = store.client().acquire("job").await.unwrap();
        let end = async move {
            match is_awaited {
                true => drop(guard.release().await),
                false => drop(guard),
            }
        };
        assert_eq!(
            tokio::spawn(end).await.is_err(),
            is_awaited,
            "the panic reaches only a caller that waits"
        );
        run_ready_tasks().await;
        sleep(TTL).await;
        assert_eq!(store.releases.calls(), 1);
    }
}
