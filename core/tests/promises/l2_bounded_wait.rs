//! L2: an acquire with a deadline returns by it, also if the store does not answer.

use crate::faulty_store::{CallFault, FaultyStore, TTL, acquire, options, run_ready_tasks};
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

/// The outcome of an acquisition that waits for `WAIT` at most, and the time it took.
async fn acquire_for_wait(client: &LockClient) -> (Result<()>, Duration) {
    let start = Instant::now();
    let outcome = acquire(client, "job", options().with_wait(WAIT)).await;
    let took = start.elapsed();
    (outcome.map(drop), took)
}

async fn assert_fails_in_time(client: &LockClient, kind: ErrorKind) {
    let (outcome, took) = acquire_for_wait(client).await;
    assert_eq!(outcome.unwrap_err().kind(), kind);
    assert!(took <= WAIT, "took {took:?}");
}

#[tokio::test(start_paused = true)]
async fn held_lock_times_out_exactly_at_the_deadline() {
    let store = FaultyStore::new();
    let _holder = store.client().acquire("job").await.unwrap();
    let (outcome, took) = acquire_for_wait(&store.client()).await;

    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::TimedOut);
    assert_eq!(took, WAIT);
}

#[tokio::test(start_paused = true)]
async fn store_without_replies_is_indeterminate_at_the_deadline() {
    let store = FaultyStore::new();
    store.acquires.set_default(Some(CallFault::NoReply));
    assert_fails_in_time(&store.client(), ErrorKind::Indeterminate).await;
}

#[tokio::test(start_paused = true)]
async fn unreachable_store_is_unavailable_at_the_deadline() {
    let store = FaultyStore::new();
    store.acquires.set_default(Some(CallFault::Unavailable));
    assert_fails_in_time(&store.client(), ErrorKind::Unavailable).await;
}

#[tokio::test(start_paused = true)]
async fn store_that_loses_every_request_is_indeterminate_at_the_deadline() {
    let store = FaultyStore::new();
    store.acquires.set_default(Some(CallFault::RequestLost));
    assert_fails_in_time(&store.client(), ErrorKind::Indeterminate).await;
}

#[tokio::test(start_paused = true)]
async fn store_that_stops_answering_while_the_lock_is_held_is_a_time_out() {
    let store = FaultyStore::new();
    let _holder = store.client().acquire("job").await.unwrap();
    let client = store.client();
    let waiter = tokio::spawn(async move { acquire_for_wait(&client).await });
    sleep(WAIT / 2).await;
    store.acquires.set_default(Some(CallFault::NoReply));

    let (outcome, took) = waiter.await.unwrap();
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::TimedOut);
    assert!(took <= WAIT);
}

#[tokio::test(start_paused = true)]
async fn deadline_covers_slow_requests() {
    let store = FaultyStore::new();
    let _holder = store.client().acquire("job").await.unwrap();
    store.acquires.set_default(Some(CallFault::RequestDelayed(WAIT * 2 / 3)));
    assert_fails_in_time(&store.client(), ErrorKind::TimedOut).await;
}

#[tokio::test(start_paused = true)]
async fn wait_ends_with_the_release() {
    let store = FaultyStore::new();
    let holder = store.client().acquire("job").await.unwrap();
    let client = store.client();
    let waiter = tokio::spawn(async move { acquire_for_wait(&client).await });
    sleep(WAIT / 2).await;
    holder.release().await.unwrap();

    let (outcome, took) = waiter.await.unwrap();
    outcome.unwrap();
    assert_eq!(took, WAIT / 2, "the release did not wake the waiter at once");
}

/// L3: without a hint, the waiter asks at its fallback interval.
#[tokio::test(start_paused = true)]
async fn expired_lock_is_acquired_without_a_hint() {
    let store = FaultyStore::new();
    let fixed = options().with_fixed_lease();
    let _holder = acquire(&store.client(), "job", fixed).await.unwrap();
    let start = Instant::now();
    let _guard = store.client().acquire("job").await.unwrap();

    assert!(start.elapsed() >= TTL);
    assert!(start.elapsed() <= TTL + store.client().semantics().wake_up.bound());
}

#[tokio::test(start_paused = true)]
async fn shortest_wait_makes_one_attempt_and_leaves_nothing() {
    let store = FaultyStore::new();
    store.acquires.set_default(Some(CallFault::ReplyDelayed(Duration::from_millis(20))));
    let short = options().with_wait(Wait::UpTo(Duration::from_nanos(1)));

    let error = acquire(&store.client(), "job", short).await.unwrap_err();

    assert_eq!(error.kind(), ErrorKind::Indeterminate);
    sleep(Duration::from_millis(100)).await;
    run_ready_tasks().await;
    assert!(store.is_clean("job").await);
    assert_eq!(store.acquires.calls(), 1);
}

/// A clock that advances at every read.
#[derive(Debug, Default)]
struct AdvancingClock(AtomicU64);

impl Clock for AdvancingClock {
    fn now(&self) -> Moment {
        Moment::since_origin(Duration::from_micros(self.0.fetch_add(1, Ordering::SeqCst)))
    }

    fn sleep_until(&self, moment: Moment) -> Sleep {
        Box::pin(sleep(moment.since(self.now())))
    }
}

/// The deadline has passed before the first attempt. Repeated, because a wrong implementation could choose by chance between
/// the grant and the deadline.
#[tokio::test(start_paused = true)]
async fn free_lock_is_granted_with_the_shortest_wait() {
    let clock = Arc::new(AdvancingClock::default());
    let store = MemoryBackend::with_clock(Arc::clone(&clock) as Arc<dyn Clock>);
    let client = LockClient::builder(Arc::new(store)).with_clock(clock).build();
    let short = options().with_wait(Wait::UpTo(Duration::from_nanos(1)));
    for number in 0..20 {
        assert!(acquire(&client, &format!("job/{number}"), short.clone()).await.is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn wait_of_zero_makes_exactly_one_attempt() {
    let store = FaultyStore::new();
    let _holder = store.client().acquire("job").await.unwrap();
    let before = store.acquires.calls();

    assert!(store.client().try_acquire("job").await.unwrap().is_none());
    assert_eq!(store.acquires.calls(), before + 1);
}

#[tokio::test(start_paused = true)]
async fn longest_wait_does_not_overflow() {
    let store = FaultyStore::new();
    let holder = store.client().acquire("job").await.unwrap();
    let client = store.client();
    let longest = options().with_wait(Wait::UpTo(Duration::MAX));
    let waiter = tokio::spawn(async move { acquire(&client, "job", longest).await.map(drop) });
    sleep(Duration::from_secs(3600)).await;
    holder.release().await.unwrap();
    waiter.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn store_that_hints_all_the_time_delays_no_deadline() {
    let mut store = FaultyStore::on(Arc::new(RuntimeClock::new()));
    store.hints_always = true;
    let store = Arc::new(store);
    let _holder = store.client().acquire("job").await.unwrap();
    for wait in (1..50).map(Duration::from_millis) {
        let start = Instant::now();
        let error = acquire(&store.client(), "job", options().with_wait(wait)).await.unwrap_err();
        assert_eq!((error.kind(), start.elapsed()), (ErrorKind::TimedOut, wait));
    }
}

/// The wait is shorter than the fallback interval, so there is no second attempt, and none at the deadline.
#[tokio::test(start_paused = true)]
async fn deadline_of_a_wait_makes_no_further_attempt() {
    let store = FaultyStore::new();
    let _holder = store.client().acquire("job").await.unwrap();
    let before = store.acquires.calls();
    let wait = Duration::from_millis(50);
    let error = acquire(&store.client(), "job", options().with_wait(wait)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert_eq!(store.acquires.calls() - before, 1);
}
