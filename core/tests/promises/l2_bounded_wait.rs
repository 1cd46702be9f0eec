//! L2: an acquire with a deadline returns by it, whatever the store does.

use crate::scripted::{Fate, Scripted, TTL, acquire, options, settle};
use leasehold_core::memory::MemoryBackend;
use leasehold_core::{
    Clock, DistributedLock, DistributedLockExt, ErrorKind, LockClient, Moment, Result, RuntimeClock, Sleep,
    Wait,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::{Instant, sleep};

const WAIT: Duration = Duration::from_secs(3);

/// The outcome of an acquisition that may wait for `WAIT`, and how long it took.
async fn waited(client: &LockClient) -> (Result<()>, Duration) {
    let start = Instant::now();
    let outcome = acquire(client, "job", options().with_wait(WAIT)).await;
    let took = start.elapsed();
    (outcome.map(drop), took)
}

async fn fails_in_time(client: &LockClient, kind: ErrorKind) {
    let (outcome, took) = waited(client).await;
    assert_eq!(outcome.unwrap_err().kind(), kind);
    assert!(took <= WAIT, "took {took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_stays_held_times_out_not_early_and_not_late() {
    let store = Scripted::new();
    let _holder = store.client().acquire("job").await.unwrap();
    let (outcome, took) = waited(&store.client()).await;

    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::TimedOut);
    assert_eq!(took, WAIT);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_says_nothing_is_left_in_time() {
    let store = Scripted::new();
    store.acquires.ever_after(Some(Fate::Silent));
    fails_in_time(&store.client(), ErrorKind::Indeterminate).await;
}

#[tokio::test(start_paused = true)]
async fn a_store_that_cannot_be_reached_is_reported_as_such() {
    let store = Scripted::new();
    store.acquires.ever_after(Some(Fate::Refused));
    fails_in_time(&store.client(), ErrorKind::Unavailable).await;
}

#[tokio::test(start_paused = true)]
async fn a_store_that_loses_every_reply_leaves_the_outcome_unknown() {
    let store = Scripted::new();
    store.acquires.ever_after(Some(Fate::RequestLost));
    fails_in_time(&store.client(), ErrorKind::Indeterminate).await;
}

#[tokio::test(start_paused = true)]
async fn a_store_that_falls_silent_while_the_lock_is_held_is_a_time_out() {
    let store = Scripted::new();
    let _holder = store.client().acquire("job").await.unwrap();
    let client = store.client();
    let waiter = tokio::spawn(async move { waited(&client).await });
    sleep(WAIT / 2).await;
    store.acquires.ever_after(Some(Fate::Silent));

    let (outcome, took) = waiter.await.unwrap();
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::TimedOut);
    assert!(took <= WAIT);
}

#[tokio::test(start_paused = true)]
async fn the_deadline_covers_slow_requests_too() {
    let store = Scripted::new();
    let _holder = store.client().acquire("job").await.unwrap();
    store.acquires.ever_after(Some(Fate::RequestLate(WAIT * 2 / 3)));
    fails_in_time(&store.client(), ErrorKind::TimedOut).await;
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_with_the_release() {
    let store = Scripted::new();
    let holder = store.client().acquire("job").await.unwrap();
    let client = store.client();
    let waiter = tokio::spawn(async move { waited(&client).await });
    sleep(WAIT / 2).await;
    holder.release().await.unwrap();

    let (outcome, took) = waiter.await.unwrap();
    outcome.unwrap();
    assert_eq!(took, WAIT / 2, "the memory store tells its waiters at once");
}

/// L3: the hint never comes; the waiter asks at the fallback interval anyway.
#[tokio::test(start_paused = true)]
async fn a_lock_that_ends_without_a_word_is_found() {
    let store = Scripted::new();
    let fixed = options().with_fixed_lease();
    let _holder = acquire(&store.client(), "job", fixed).await.unwrap();
    let start = Instant::now();
    let _guard = store.client().acquire("job").await.unwrap();

    assert!(start.elapsed() >= TTL);
    assert!(start.elapsed() <= TTL + store.client().semantics().wake_up.bound());
}

#[tokio::test(start_paused = true)]
async fn the_shortest_wait_still_asks_once_and_leaves_nothing() {
    let store = Scripted::new();
    store.acquires.ever_after(Some(Fate::ReplyLate(Duration::from_millis(20))));
    let short = options().with_wait(Wait::UpTo(Duration::from_nanos(1)));

    let error = acquire(&store.client(), "job", short).await.unwrap_err();

    assert_eq!(error.kind(), ErrorKind::Indeterminate);
    sleep(Duration::from_millis(100)).await;
    settle().await;
    assert!(store.is_clean("job").await);
    assert_eq!(store.acquires.calls(), 1);
}

/// Time that goes on at every look at it, as it does.
#[derive(Debug, Default)]
struct GoesOn(AtomicU64);

impl Clock for GoesOn {
    fn now(&self) -> Moment {
        Moment::since_origin(Duration::from_micros(self.0.fetch_add(1, Ordering::SeqCst)))
    }

    fn sleep_until(&self, moment: Moment) -> Sleep {
        Box::pin(sleep(moment.since(self.now())))
    }
}

/// The deadline has passed before the first question can be asked, and a free lock is granted all the same. Often: of two
/// things that are ready at once, the right one may be lucky.
#[tokio::test(start_paused = true)]
async fn a_free_lock_is_granted_however_short_the_wait() {
    let clock = Arc::new(GoesOn::default());
    let store = MemoryBackend::with_clock(Arc::clone(&clock) as Arc<dyn Clock>);
    let client = LockClient::builder(Arc::new(store)).with_clock(clock).build();
    let short = options().with_wait(Wait::UpTo(Duration::from_nanos(1)));
    for number in 0..20 {
        assert!(acquire(&client, &format!("job/{number}"), short.clone()).await.is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn no_wait_is_exactly_one_attempt() {
    let store = Scripted::new();
    let _holder = store.client().acquire("job").await.unwrap();
    let before = store.acquires.calls();

    assert!(store.client().try_acquire("job").await.unwrap().is_none());
    assert_eq!(store.acquires.calls(), before + 1);
}

#[tokio::test(start_paused = true)]
async fn the_longest_wait_overflows_nothing() {
    let store = Scripted::new();
    let holder = store.client().acquire("job").await.unwrap();
    let client = store.client();
    let longest = options().with_wait(Wait::UpTo(Duration::MAX));
    let waiter = tokio::spawn(async move { acquire(&client, "job", longest).await.map(drop) });
    sleep(Duration::from_secs(3600)).await;
    holder.release().await.unwrap();
    waiter.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_store_that_hints_all_the_time_delays_no_deadline() {
    let mut store = Scripted::on(Arc::new(RuntimeClock::new()));
    store.chatters = true;
    let store = Arc::new(store);
    let _holder = store.client().acquire("job").await.unwrap();
    for wait in (1..50).map(Duration::from_millis) {
        let start = Instant::now();
        let error = acquire(&store.client(), "job", options().with_wait(wait)).await.unwrap_err();
        assert_eq!((error.kind(), start.elapsed()), (ErrorKind::TimedOut, wait));
    }
}

/// Shorter than the pause of a waiter that nobody wakes: there is no second question, and none is asked at the deadline.
#[tokio::test(start_paused = true)]
async fn nothing_is_asked_at_the_deadline_any_more() {
    let store = Scripted::new();
    let _holder = store.client().acquire("job").await.unwrap();
    let asked = store.acquires.calls();
    let wait = Duration::from_millis(50);
    let error = acquire(&store.client(), "job", options().with_wait(wait)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert_eq!(store.acquires.calls() - asked, 1);
}
