//! Who leaves, at any await, leaves nothing behind, and delays nobody.

use super::{SECOND, client, guard, turn, waiting};
use crate::l5_cancel_safety::at_most;
use crate::scripted::{Fate, Scripted, TTL, acquire, options, settle};
use leasehold_core::{DistributedLockExt, ErrorKind, RuntimeClock};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const SOON: Duration = Duration::from_millis(200);

fn queueing() -> Arc<Scripted> {
    let mut store = Scripted::on(Arc::new(RuntimeClock::new()));
    store.queues = true;
    Arc::new(store)
}

/// Drops an acquisition after one poll, after two, and so on until it is ready, among tasks that hold and wait before and
/// behind it. All of these must be served, and the store must be clean then, although no lease has ended.
async fn dropped_at_every_await(fates: &[Fate]) -> usize {
    for polls in 1.. {
        let store = queueing();
        let client = client(&store);
        let stranger = store.client().acquire("job").await.unwrap();
        let before = waiting(&client).await;
        let releaser = tokio::spawn(async move {
            sleep(Duration::from_millis(300)).await;
            stranger.release().await.unwrap();
            guard(before).await.release().await.unwrap();
        });
        for fate in fates {
            store.acquires.then(fate.clone());
        }
        let others = client.clone();
        let behind = tokio::spawn(async move {
            sleep(Duration::from_millis(1)).await;
            acquire(&others, "job", options()).await
        });
        let leaver = at_most(polls, acquire(&client, "job", options().with_ttl(TTL * 100))).await;
        let ready = leaver.is_some();
        drop(leaver);
        let start = Instant::now();
        guard(behind).await.release().await.unwrap();
        assert!(start.elapsed() < 10 * SECOND, "{:?} after {polls} polls", start.elapsed());
        releaser.await.unwrap();
        sleep(SOON).await;
        settle().await;
        assert!(store.is_clean("job").await, "dropped after {polls} polls");
        if ready {
            return polls;
        }
    }
    unreachable!("every acquisition here ends")
}

#[tokio::test(start_paused = true)]
async fn at_every_await() {
    let polls = dropped_at_every_await(&[]).await;
    assert!(polls >= 4, "only {polls} await points: it did not wait");
}

#[tokio::test(start_paused = true)]
async fn with_replies_that_are_lost_or_late() {
    dropped_at_every_await(&[Fate::ReplyLost, Fate::RequestLost, Fate::ReplyLost]).await;
    dropped_at_every_await(&[Fate::ReplyLate(SECOND), Fate::ReplyLate(SECOND)]).await;
}

#[tokio::test(start_paused = true)]
async fn the_next_goes_on_with_the_place_in_the_stores_queue() {
    let store = queueing();
    let client = client(&store);
    let stranger = store.client().acquire("job").await.unwrap();
    let (first, next) = (waiting(&client).await, waiting(&client).await);
    first.abort();
    settle().await;
    assert_eq!((store.queued(), store.releases.calls()), (1, 0));
    next.abort();
    settle().await;
    assert_eq!(store.queued(), 0, "the last one takes it along");
    stranger.release().await.unwrap();
    assert!(store.is_clean("job").await);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_was_given_the_hold_and_leaves_passes_it_on() {
    let store = Scripted::new();
    let (holder, mut others) = turn(&client(&store), 2).await;
    let released = store.releases.calls();
    others[0].abort();
    // Given to one that never takes it.
    holder.release().await.unwrap();
    let start = Instant::now();
    let last = guard(others.remove(1)).await;
    assert_eq!((start.elapsed(), store.releases.calls()), (Duration::ZERO, released));
    last.release().await.unwrap();
    assert!(store.is_clean("job").await);
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_comes_when_nobody_waits_is_given_back_at_once() {
    let store = Scripted::new();
    let client = client(&store);
    store.acquires.then(Fate::ReplyLate(SECOND));
    let leaver = waiting(&client).await;
    leaver.abort();
    sleep(SECOND + SOON).await;
    assert!(store.is_clean("job").await);
    assert!(client.try_acquire("job").await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_grant_to_one_who_left_is_that_of_the_next() {
    let store = Scripted::new();
    let client = client(&store);
    store.acquires.then(Fate::ReplyLate(SECOND));
    let (leaver, next) = (waiting(&client).await, waiting(&client).await);
    leaver.abort();
    let start = Instant::now();
    let next = guard(next).await;
    assert!(start.elapsed() < 2 * SECOND, "{:?}", start.elapsed());
    next.release().await.unwrap();
    settle().await;
    assert!(store.is_clean("job").await);
}

/// What is released in the store was asked for by one who has long gone; the release is asked for by the one who holds.
#[tokio::test(start_paused = true)]
async fn a_release_of_what_was_passed_on_is_repeated_until_it_is_known() {
    for fate in [Fate::RequestLost, Fate::ReplyLost, Fate::Refused] {
        let store = Scripted::new();
        let (holder, mut others) = turn(&client(&store), 1).await;
        holder.release().await.unwrap();
        let holder = guard(others.remove(0)).await;
        store.releases.then(fate.clone());
        holder.release().await.unwrap();
        assert!(store.is_clean("job").await, "{fate:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_that_is_never_confirmed_keeps_nobody_out_for_longer_than_the_lease() {
    let store = Scripted::new();
    let client = client(&store);
    let (holder, mut others) = turn(&client, 1).await;
    sleep(SECOND).await;
    store.releases.ever_after(Some(Fate::RequestLost));
    let start = Instant::now();
    assert_eq!(holder.release().await.unwrap_err().kind(), ErrorKind::Indeterminate);
    let next = guard(others.remove(0)).await;
    assert!(start.elapsed() <= TTL + SECOND, "{:?}", start.elapsed());
    store.releases.ever_after(None);
    sleep(TTL).await;
    assert!(next.is_held(), "the old release ended another's hold");
}

/// A first question that certainly came to nothing is followed by no release.
#[tokio::test(start_paused = true)]
async fn who_was_refused_is_in_nobodys_way() {
    let store = Scripted::new();
    let client = client(&store);
    store.acquires.then(Fate::Refused);
    acquire(&client, "job", options()).await.unwrap_err();
    let start = Instant::now();
    client.acquire("job").await.unwrap().release().await.unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO);
}

/// Polled once, and then kept: it asks no more and leaves no word.
#[tokio::test(start_paused = true)]
async fn a_future_that_is_not_polled_holds_up_nobody_for_long() {
    for of_the_store in [true, false] {
        let store = queueing();
        let client = client(&store);
        let holder = match of_the_store {
            true => store.client().acquire("job").await.unwrap(),
            false => turn(&client, 0).await.0,
        };
        let mut idle = pin!(acquire(&client, "job", options()));
        for _ in 0..4 {
            assert!(futures_util::poll!(idle.as_mut()).is_pending());
        }
        let next = waiting(&client).await;
        holder.release().await.unwrap();
        let start = Instant::now();
        let next = guard(next).await;
        assert!(start.elapsed() < TTL / 3, "{:?}", start.elapsed());
        next.release().await.unwrap();
        guard(waiting(&client).await).await.release().await.unwrap();
        // It comes back.
        idle.await.unwrap().release().await.unwrap();
        settle().await;
        assert!(store.is_clean("job").await);
    }
}

/// One waits and is not polled; another gets the lock with its claim, and releases it; the first comes back to it.
#[tokio::test(start_paused = true)]
async fn a_release_that_comes_late_ends_nothing_of_one_whose_claim_it_names() {
    let store = Scripted::new();
    let client = client(&store);
    let stranger = store.client().acquire("job").await.unwrap();
    let mut first = pin!(acquire(&client, "job", options()));
    for _ in 0..4 {
        assert!(futures_util::poll!(first.as_mut()).is_pending());
    }
    let second = waiting(&client).await;
    sleep(TTL / 2).await;
    stranger.release().await.unwrap();
    let second = guard(second).await;
    sleep(SECOND).await;
    store.releases.then(Fate::RequestLate(5 * SECOND));
    let releasing = tokio::spawn(second.release());
    settle().await;
    let first = first.await.unwrap();
    sleep(5 * SECOND).await;
    settle().await;
    releasing.await.unwrap().unwrap();
    assert!(first.is_held());
    assert!(store.client().try_acquire("job").await.unwrap().is_none(), "two holders");
    first.release().await.unwrap();
    assert!(store.is_clean("job").await);
}
