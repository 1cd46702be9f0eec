//! The wait queue: the tasks of one client stand in line on a store that keeps no queue of waiters itself.

use crate::faulty_store::{CallFault, FaultyStore, acquire, options, run_ready_tasks};
use leasehold_core::{DistributedLockExt, ErrorKind, LockClient, LockGuard, Result, RuntimeClock};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, advance, sleep};

/// How often the first in line asks, at most.
const INTERVAL: Duration = Duration::from_millis(50);
/// How long no task in line has asked when another one does.
const FALLBACK: Duration = Duration::from_millis(500);
/// How long the tasks of one client pass the lock among themselves before a pause.
const STREAK: Duration = Duration::from_millis(100);
/// The resolution of timers.
const TICK: Duration = Duration::from_millis(1);
const HOLD: Duration = Duration::from_millis(10);

fn store() -> Arc<FaultyStore> {
    let mut store = FaultyStore::on(Arc::new(RuntimeClock::new()));
    store.polling_interval = Some(INTERVAL);
    Arc::new(store)
}

/// Starts a task that waits for the lock, and runs it until it stands in line.
async fn spawn_waiter(client: &LockClient) -> JoinHandle<Result<LockGuard>> {
    let client = client.clone();
    let task = tokio::spawn(async move { client.acquire("job").await });
    run_ready_tasks().await;
    task
}

async fn guard_of(waiter: JoinHandle<Result<LockGuard>>) -> LockGuard {
    waiter.await.unwrap().unwrap()
}

#[tokio::test(start_paused = true)]
async fn waiters_of_one_client_are_served_in_their_order_without_delay() {
    let (store, order) = (store(), Arc::new(Mutex::new(Vec::new())));
    let client = store.client();
    let held = client.acquire("job").await.unwrap();
    let mut tasks = Vec::new();
    for number in 0..5 {
        let (client, order) = (client.clone(), Arc::clone(&order));
        tasks.push(tokio::spawn(async move {
            let guard = client.acquire("job").await.unwrap();
            order.lock().unwrap().push(number);
            guard.release().await.unwrap();
        }));
        run_ready_tasks().await;
    }
    let released_at = Instant::now();
    held.release().await.unwrap();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3, 4]);
    assert_eq!(released_at.elapsed(), Duration::ZERO, "a hand-over took time");
}

#[tokio::test(start_paused = true)]
async fn hand_over_costs_one_attempt_and_a_newcomer_behind_others_makes_none() {
    let store = store();
    let client = store.client();
    let held = client.acquire("job").await.unwrap();
    let first = spawn_waiter(&client).await;
    assert_eq!(store.acquires.calls(), 2, "the holder, and the first in line");
    let mut others = Vec::new();
    for _ in 0..8 {
        others.push(spawn_waiter(&client).await);
    }
    assert_eq!(store.acquires.calls(), 2, "the others wait for the first");
    held.release().await.unwrap();
    guard_of(first).await.release().await.unwrap();
    for other in others {
        guard_of(other).await.release().await.unwrap();
    }
    assert_eq!(store.acquires.calls(), 2 + 9);
}

/// The number of questions does not grow with the number of waiters, also where the store wakes the first.
#[tokio::test(start_paused = true)]
async fn waiters_behind_one_that_asks_do_not_ask() {
    for store in [store(), FaultyStore::new()] {
        let client = store.client();
        let _held = client.acquire("job").await.unwrap();
        let mut waiters = JoinSet::new();
        for _ in 0..100 {
            let client = client.clone();
            waiters.spawn(async move { client.acquire("job").await });
        }
        sleep(FALLBACK).await;
        let before = store.acquires.calls();
        sleep(FALLBACK * 20).await;
        let asked = store.acquires.calls() - before;
        // Pauses of the first are jittered, down to a quarter.
        let first = 20 * 4 * FALLBACK.div_duration_f64(INTERVAL) as usize;
        assert!((20..=first).contains(&asked), "{asked}");
    }
}

/// The future of the first in line is kept and not polled, as in a `select!` whose other branch takes long.
#[tokio::test(start_paused = true)]
async fn waiter_that_is_not_polled_delays_the_others_by_the_fallback_interval_at_most() {
    let store = store();
    let client = store.client();
    let held = client.acquire("job").await.unwrap();
    let mut unpolled = pin!(client.acquire("job"));
    for _ in 0..10 {
        assert!(futures_util::poll!(unpolled.as_mut()).is_pending());
        tokio::task::yield_now().await;
    }
    let grants = Arc::new(Mutex::new(Vec::new()));
    let others: Vec<_> = (0..2)
        .map(|_| {
            let (client, grants) = (client.clone(), Arc::clone(&grants));
            tokio::spawn(async move {
                let guard = client.acquire("job").await.unwrap();
                grants.lock().unwrap().push(Instant::now());
                guard.release().await.unwrap();
            })
        })
        .collect();
    run_ready_tasks().await;

    let released_at = Instant::now();
    held.release().await.unwrap();
    for other in others {
        other.await.unwrap();
    }
    let grants = grants.lock().unwrap().clone();
    assert!(grants[0] - released_at <= FALLBACK, "{:?}", grants[0] - released_at);
    assert_eq!(grants[1], grants[0], "the second hand-over waited for the unpolled waiter");
    unpolled.await.unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn waiter_that_is_dropped_after_its_wake_up_hands_it_on() {
    let store = store();
    let client = store.client();
    let held = client.acquire("job").await.unwrap();
    let (first, second) = (spawn_waiter(&client).await, spawn_waiter(&client).await);
    let released_at = Instant::now();
    held.release().await.unwrap();
    // The first was woken by the release, and has not been polled since.
    first.abort();
    let second = guard_of(second).await;
    assert_eq!(released_at.elapsed(), Duration::ZERO);
    second.release().await.unwrap();
    run_ready_tasks().await;
    assert!(store.is_clean("job").await);
}

#[tokio::test(start_paused = true)]
async fn dropped_guard_wakes_the_next_as_a_release_does() {
    let store = store();
    let client = store.client();
    let held = client.acquire("job").await.unwrap();
    let next = spawn_waiter(&client).await;
    let dropped_at = Instant::now();
    drop(held);
    drop(guard_of(next).await);
    assert_eq!(dropped_at.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn other_client_gets_its_turn_after_a_streak() {
    let store = store();
    let (busy, other) = (store.client(), store.client());
    let start = Instant::now();
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let client = busy.clone();
            tokio::spawn(async move {
                for _ in 0..50 {
                    let guard = client.acquire("job").await.unwrap();
                    sleep(HOLD).await;
                    guard.release().await.unwrap();
                }
            })
        })
        .collect();
    sleep(HOLD / 2).await;
    let guard = other.acquire("job").await.unwrap();
    let waited = start.elapsed();
    guard.release().await.unwrap();
    assert!(waited <= STREAK + HOLD * 3 + INTERVAL, "{waited:?}");
    for task in tasks {
        task.await.unwrap();
    }
    // 400 holds, and a pause of one interval after each streak.
    assert!(start.elapsed() < HOLD * 400 * 2, "{:?}", start.elapsed());
}

/// A waiter in a line that has just begun to yield: the lock is free.
async fn yielding_line(client: &LockClient) -> JoinHandle<Result<LockGuard>> {
    let held = client.acquire("job").await.unwrap();
    let (first, second) = (spawn_waiter(client).await, spawn_waiter(client).await);
    held.release().await.unwrap();
    let first = guard_of(first).await;
    sleep(STREAK).await;
    // Timers fire at whole milliseconds: now no poll of the second falls into the release.
    advance(TICK / 2).await;
    run_ready_tasks().await;
    first.release().await.unwrap();
    second
}

#[tokio::test(start_paused = true)]
async fn release_after_a_streak_pauses_the_line_for_one_interval() {
    let client = store().client();
    let second = yielding_line(&client).await;
    let released_at = Instant::now();
    guard_of(second).await.release().await.unwrap();
    let waited = released_at.elapsed();
    assert!(waited >= INTERVAL && waited <= INTERVAL + TICK, "{waited:?}");
}

/// The lock is free, and the line gives other processes their turn.
#[tokio::test(start_paused = true)]
async fn newcomer_with_a_short_wait_asks_once_while_the_line_yields() {
    let client = store().client();
    let second = yielding_line(&client).await;
    let newcomer = acquire(&client, "job", options().with_wait(INTERVAL / 4)).await;
    newcomer.unwrap().release().await.unwrap();
    guard_of(second).await.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn deadline_of_a_waiter_in_line_is_kept() {
    let store = store();
    let client = store.client();
    let held = client.acquire("job").await.unwrap();
    let first = spawn_waiter(&client).await;
    let start = Instant::now();
    for wait in [INTERVAL / 10, INTERVAL * 3] {
        let error = acquire(&client, "job", options().with_wait(wait)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    }
    assert_eq!(start.elapsed(), INTERVAL / 10 + INTERVAL * 3);
    held.release().await.unwrap();
    guard_of(first).await.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn single_attempt_does_not_stand_in_line() {
    let store = store();
    let client = store.client();
    let held = client.acquire("job").await.unwrap();
    let waiter = spawn_waiter(&client).await;
    assert!(client.try_acquire("job").await.unwrap().is_none());
    held.release().await.unwrap();
    guard_of(waiter).await.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn waiter_that_fails_hands_its_wake_up_on() {
    let store = store();
    let client = store.client();
    let held = client.acquire("job").await.unwrap();
    let (first, second) = (spawn_waiter(&client).await, spawn_waiter(&client).await);
    store.acquires.push(CallFault::Error(ErrorKind::Unsupported));
    let released_at = Instant::now();
    held.release().await.unwrap();
    assert_eq!(first.await.unwrap().unwrap_err().kind(), ErrorKind::Unsupported);
    guard_of(second).await.release().await.unwrap();
    assert_eq!(released_at.elapsed(), Duration::ZERO);
}

/// The first in line cannot reach the store, so the others must not report a lock that is held.
#[tokio::test(start_paused = true)]
async fn waiter_behind_an_outage_reports_the_outage_at_its_deadline() {
    let store = store();
    let client = store.client();
    store.acquires.set_default(Some(CallFault::Unavailable));
    let first = tokio::spawn({
        let client = client.clone();
        async move { acquire(&client, "job", options().with_wait(Duration::from_secs(3))).await }
    });
    run_ready_tasks().await;
    let start = Instant::now();
    let wait = Duration::from_millis(200);
    let error = acquire(&client, "job", options().with_wait(wait)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert_eq!(start.elapsed(), wait);
    assert_eq!(first.await.unwrap().unwrap_err().kind(), ErrorKind::Unavailable);
}

/// The cleanup of an attempt that found nothing to release is no release.
#[tokio::test(start_paused = true)]
async fn dropped_attempt_does_not_end_the_streak() {
    let store = store();
    let client = store.client();
    let held = client.acquire("job").await.unwrap();
    let (first, second) = (spawn_waiter(&client).await, spawn_waiter(&client).await);
    held.release().await.unwrap();
    let first = guard_of(first).await;
    sleep(STREAK).await;
    {
        let mut attempt = pin!(client.try_acquire("job"));
        assert!(futures_util::poll!(attempt.as_mut()).is_pending());
    }
    run_ready_tasks().await;
    sleep(INTERVAL + TICK * 2).await;
    advance(TICK / 2).await;
    let released_at = Instant::now();
    first.release().await.unwrap();
    guard_of(second).await.release().await.unwrap();
    assert!(released_at.elapsed() >= INTERVAL, "{:?}", released_at.elapsed());
}
