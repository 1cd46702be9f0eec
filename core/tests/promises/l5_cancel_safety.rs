//! L5: an acquire future dropped at any await leaves nothing behind. Not at random: at every await point there is.

use crate::scripted::{Fate, Scripted, TTL, acquire, options, settle};
use leasehold_core::{DistributedLockExt, RuntimeClock};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::time::sleep;

/// Polls a future `polls` times at most; `None` if it was not ready by then, and was dropped.
pub(crate) async fn at_most<F: Future>(polls: usize, future: F) -> Option<F::Output> {
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

/// Drops an acquisition after one poll, after two, and so on until it is no longer dropped but ready; each time on a
/// fresh store that `prepare` has set up, which must be clean again within `bound` although no lease has ended.
async fn dropped_at_every_await<G>(bound: Duration, prepare: impl AsyncFn(&Arc<Scripted>) -> G) -> usize {
    for polls in 1.. {
        let store = {
            let mut store = Scripted::on(Arc::new(RuntimeClock::new()));
            store.queues = true;
            Arc::new(store)
        };
        let other = prepare(&store).await;
        let client = store.client();
        let outcome = at_most(polls, acquire(&client, "job", options().with_ttl(TTL * 100))).await;
        if let Some(guard) = outcome {
            drop(guard.unwrap());
            return polls;
        }
        drop(other);
        sleep(bound).await;
        settle().await;
        assert!(store.is_clean("job").await, "dropped after {polls} polls");
    }
    unreachable!("every acquisition here ends")
}

const SOON: Duration = Duration::from_millis(200);

#[tokio::test(start_paused = true)]
async fn on_a_free_lock() {
    let polls = dropped_at_every_await(SOON, async |_| ()).await;
    assert!(polls >= 3, "only {polls} await points: the drops fell on neither side of the grant");
}

#[tokio::test(start_paused = true)]
async fn while_waiting_for_a_held_lock() {
    let polls = dropped_at_every_await(SOON, async |store| {
        let holder = store.client().acquire("job").await.unwrap();
        // Aborted when it is dropped, which drops and so releases the holder's guard.
        let mut releaser = tokio::task::JoinSet::new();
        releaser.spawn(async move {
            sleep(Duration::from_millis(600)).await;
            holder.release().await.unwrap();
        });
        releaser
    })
    .await;
    assert!(polls >= 8, "only {polls} await points: it did not wait");
}

#[tokio::test(start_paused = true)]
async fn with_a_reply_that_is_late() {
    dropped_at_every_await(Duration::from_secs(2), async |store| {
        store.acquires.then(Fate::ReplyLate(Duration::from_secs(1)));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn with_a_request_that_is_late() {
    dropped_at_every_await(Duration::from_secs(2), async |store| {
        store.acquires.then(Fate::RequestLate(Duration::from_secs(1)));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn with_replies_that_are_lost() {
    dropped_at_every_await(SOON, async |store| {
        store.acquires.then(Fate::ReplyLost);
        store.acquires.then(Fate::ReplyLost);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn with_a_release_that_must_be_repeated() {
    dropped_at_every_await(SOON, async |store| {
        store.acquires.then(Fate::ReplyLost);
        store.releases.then(Fate::RequestLost);
        store.releases.then(Fate::ReplyLost);
    })
    .await;
}

/// A waiter that leaves does not delay the next one.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_left_is_not_handed_the_lock() {
    let store = Scripted::new();
    let holder = store.client().acquire("job").await.unwrap();
    let (leaver, stayer) = (store.client(), store.client());
    let leaving = tokio::spawn(async move { leaver.acquire("job").await.map(drop) });
    let staying = tokio::spawn(async move { stayer.acquire("job").await });
    sleep(Duration::from_secs(1)).await;
    leaving.abort();
    settle().await;
    holder.release().await.unwrap();
    let start = tokio::time::Instant::now();
    staying.await.unwrap().unwrap().release().await.unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO);
}

/// The caller hears of the panic, if it is still there; what was granted is taken back.
#[tokio::test(start_paused = true)]
async fn a_backend_that_panics_after_the_grant_keeps_nothing_held() {
    for polls in 0..5 {
        let store = Scripted::new();
        store.acquires.then(Fate::Panicked);
        let client = store.client();
        let asking = tokio::spawn(async move { at_most(polls, client.acquire("job")).await });
        match asking.await {
            Ok(outcome) => assert!(outcome.is_none()),
            Err(error) => assert!(error.is_panic() && polls > 1),
        }
        settle().await;
        assert!(store.is_clean("job").await, "after {polls} polls");
    }
}

#[tokio::test(start_paused = true)]
async fn a_backend_that_panics_in_a_release_is_not_asked_again() {
    for in_front in [true, false] {
        let store = Scripted::new();
        store.releases.ever_after(Some(Fate::Panicked));
        let guard = store.client().acquire("job").await.unwrap();
        let end = async move {
            match in_front {
                true => drop(guard.release().await),
                false => drop(guard),
            }
        };
        assert_eq!(tokio::spawn(end).await.is_err(), in_front, "who waits for it hears of the panic");
        settle().await;
        sleep(TTL).await;
        assert_eq!(store.releases.calls(), 1);
    }
}
