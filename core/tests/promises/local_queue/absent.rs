//! Those who stand in line and are not polled: nothing is handed to them, and they are not waited for.

use super::{SECOND, client, guard, waiting};
use crate::scripted::{Fate, Scripted, TTL, acquire, options, settle};
use leasehold_core::{DistributedLockExt, LockClient, LockGuard, Result, RuntimeClock};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// So long nobody is away who will come back.
const LONG: u32 = 90;

type Idle<'a> = Pin<Box<dyn Future<Output = Result<LockGuard>> + Send + 'a>>;

fn store(change: impl FnOnce(&mut Scripted)) -> Arc<Scripted> {
    let mut store = Scripted::on(Arc::new(RuntimeClock::new()));
    change(&mut store);
    Arc::new(store)
}

/// Has asked, and is polled no more.
async fn idle(client: &LockClient, ttls: u32) -> Idle<'_> {
    let mut idle: Idle<'_> = Box::pin(acquire(client, "job", options().with_ttl(TTL * ttls)));
    for _ in 0..4 {
        assert!(futures_util::poll!(idle.as_mut()).is_pending());
    }
    idle
}

#[tokio::test(start_paused = true)]
async fn a_release_hands_nothing_to_one_who_is_not_polled() {
    for away in [2, LONG] {
        let store = Scripted::new();
        let (here, there) = (client(&store), store.client());
        let stranger = there.acquire("job").await.unwrap();
        let idle = idle(&here, 1).await;
        sleep(SECOND * away).await;
        let live = waiting(&here).await;
        stranger.release().await.unwrap();
        let live = guard(live).await;
        let other = waiting(&there).await;
        let start = Instant::now();
        live.release().await.unwrap();
        let other = guard(other).await;
        assert!(start.elapsed() < SECOND, "shut out for {:?} after {away} s", start.elapsed());
        other.release().await.unwrap();
        idle.await.unwrap().release().await.unwrap();
        settle().await;
        assert!(store.is_clean("job").await);
    }
}

/// Those behind it are handed the hold as if it were not there.
#[tokio::test(start_paused = true)]
async fn a_release_hands_on_past_one_who_is_not_polled() {
    let store = Scripted::new();
    let client = client(&store);
    let stranger = store.client().acquire("job").await.unwrap();
    let first = waiting(&client).await;
    let _idle = idle(&client, 1).await;
    let last = waiting(&client).await;
    sleep(SECOND * 2).await;
    stranger.release().await.unwrap();
    let first = guard(first).await;
    let (asked, start) = (store.acquires.calls(), Instant::now());
    first.release().await.unwrap();
    let last = guard(last).await;
    assert_eq!((start.elapsed(), store.acquires.calls()), (Duration::ZERO, asked));
    last.release().await.unwrap();
}

/// Nor is it waited for by one who tries but once, for whom the lock is as free as for other processes.
#[tokio::test(start_paused = true)]
async fn one_attempt_is_not_refused_for_those_who_are_not_polled() {
    for away in [2, LONG] {
        let store = Scripted::new();
        let client = client(&store);
        let stranger = store.client().acquire("job").await.unwrap();
        let idle = idle(&client, 1).await;
        stranger.release().await.unwrap();
        assert!(client.try_acquire("job").await.unwrap().is_none(), "it may come yet");
        sleep(SECOND * away).await;
        let tried = client.try_acquire("job").await.unwrap().expect("it is free");
        tried.release().await.unwrap();
        idle.await.unwrap().release().await.unwrap();
        settle().await;
        assert!(store.is_clean("job").await);
    }
}

/// It was taken out of the line long ago, another has the lock by its claim, and the release of that is on its way.
#[tokio::test(start_paused = true)]
async fn who_comes_back_after_a_long_time_asks_with_a_claim_that_no_late_release_names() {
    let store = store(|store| store.queues = true);
    let client = client(&store);
    let stranger = store.client().acquire("job").await.unwrap();
    let first = idle(&client, 1).await;
    let second = waiting(&client).await;
    sleep(SECOND * LONG).await;
    stranger.release().await.unwrap();
    let second = guard(second).await;
    store.releases.then(Fate::RequestLate(5 * SECOND));
    let releasing = tokio::spawn(second.release());
    sleep(SECOND).await;
    // Somebody has ended it by hand.
    store.delete("job").await;
    let first = first.await.unwrap();
    sleep(5 * SECOND).await;
    drop(releasing.await.unwrap());
    assert!(store.client().try_acquire("job").await.unwrap().is_none(), "two holders");
    first.release().await.unwrap();
    settle().await;
    assert!(store.is_clean("job").await);
}

/// Nobody here can go on with its place in the store's queue, in which others of other processes may stand behind it.
#[tokio::test(start_paused = true)]
async fn the_place_of_one_who_has_long_been_away_is_given_back() {
    for comes_back in [true, false] {
        let store = store(|store| store.queues = true);
        let client = client(&store);
        let stranger = store.client().acquire("job").await.unwrap();
        let idle = idle(&client, 2).await;
        let live = waiting(&client).await;
        sleep(SECOND * 10).await;
        assert_eq!(store.queued(), 2, "it may come back yet");
        sleep(SECOND * LONG).await;
        assert_eq!(store.queued(), 1);
        stranger.release().await.unwrap();
        guard(live).await.release().await.unwrap();
        match comes_back {
            true => idle.await.unwrap().release().await.unwrap(),
            false => drop(idle),
        }
        settle().await;
        assert!(store.is_clean("job").await);
    }
}

/// Polled once more, and dropped: what that question left is taken back.
#[tokio::test(start_paused = true)]
async fn who_comes_back_after_a_long_time_and_leaves_leaves_nothing() {
    for polls in 1..12 {
        let store = store(|store| store.queues = true);
        let client = client(&store);
        let stranger = store.client().acquire("job").await.unwrap();
        let mut idle = idle(&client, 1).await;
        let live = waiting(&client).await;
        sleep(SECOND * LONG).await;
        for _ in 0..polls {
            assert!(futures_util::poll!(idle.as_mut()).is_pending());
        }
        drop(idle);
        settle().await;
        assert_eq!(store.queued(), 1, "that of the other, after {polls} polls");
        stranger.release().await.unwrap();
        guard(live).await.release().await.unwrap();
        assert!(store.is_clean("job").await);
    }
}
