#![allow(clippy::unwrap_used, reason = "a test that unwraps fails, which is what it is for")]

use super::*;
use crate::server::double::{Reply, Transcript, at_once, server};
use futures_util::future::join_all;
use futures_util::{FutureExt, poll};
use tokio::time::{sleep, timeout};

const OTHER: u128 = 1 << 100;

fn poller(replies: fn(usize, &str) -> Reply) -> (Poller, Arc<Transcript>) {
    let (server, said) = server("timeout=500ms", at_once, replies);
    (Poller::new(&server), said)
}

fn name(number: u32) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

fn owner(number: u32) -> OwnerId {
    OwnerId::from_u128(number.into())
}

/// A row that was held for so many milliseconds, and is for ten seconds.
fn held(number: u32, owner: impl Into<Vec<u8>>, held_for_ms: u64) -> Vec<Value> {
    let micros = |ms: u64| Value::int(ms * 1_000);
    vec![Value::bytes(name(number)), Value::bytes(owner), micros(held_for_ms), micros(10_000), Value::int(0)]
}

fn of_other() -> [u8; 16] {
    OwnerId::from_u128(OTHER).to_bytes()
}

#[tokio::test(start_paused = true)]
async fn waiters_of_free_rows_are_woken_and_others_not() {
    const NAMES: u32 = 2 * MAX_CLAIMS as u32;
    let (poller, _) = poller(|_, _| {
        Reply::Rows((0..NAMES).filter(|name| name % 8 > 0).map(|name| held(name, of_other(), 1)).collect())
    });
    let wait = |number: u32| poller.changed(name(number), owner(number), false);
    let (free, others): (Vec<u32>, Vec<u32>) = (0..NAMES).partition(|name| name % 8 == 0);
    let mut others = std::pin::pin!(join_all(others.into_iter().map(wait)));
    timeout(SHORTEST * 10, join_all(free.into_iter().map(wait))).await.unwrap();
    assert!(poll!(others.as_mut()).is_pending());
}

/// The answer that granted it was lost, so no release will come.
#[tokio::test(start_paused = true)]
async fn waiter_that_holds_the_row_is_woken_alone() {
    let (poller, _) = poller(|_, _| Reply::Rows(vec![held(1, owner(7).to_bytes(), 1)]));
    let mut other = std::pin::pin!(poller.changed(name(1), owner(8), false));
    timeout(SHORTEST * 10, poller.changed(name(1), owner(7), false)).await.unwrap();
    assert!(poll!(other.as_mut()).is_pending());
}

/// Another program has written into the table.
#[tokio::test(start_paused = true)]
async fn row_with_an_unreadable_owner_is_held_and_delays_no_other_name() {
    let (poller, _) = poller(|_, _| Reply::Rows(vec![held(1, *b"x", 1)]));
    let mut spoiled = std::pin::pin!(poller.changed(name(1), owner(1), false));
    timeout(SHORTEST * 10, poller.changed(name(2), owner(2), false)).await.unwrap();
    assert!(poll!(spoiled.as_mut()).is_pending());
}

/// The interval is that of a lock that has been held for long: both in one process, and as many names as go into a statement.
#[tokio::test(start_paused = true)]
async fn number_of_statements_does_not_grow_with_waiters_and_names() {
    let statements = async |names: u32, waiters: u32| {
        let (poller, said) = poller(|_, _| {
            Reply::Rows((0..MAX_CLAIMS as u32).map(|name| held(name, of_other(), 60_000)).collect())
        });
        let waits =
            (0..names * waiters).map(|number| poller.changed(name(number % names), owner(number), false));
        _ = timeout(Duration::from_secs(10), join_all(waits)).await;
        said.times("SELECT")
    };
    let one = statements(1, 1).await;
    assert!((100..=150).contains(&one), "{one} polls in ten seconds");
    for (names, waiters) in [(1, 100), (MAX_CLAIMS as u32, 2)] {
        let many = statements(names, waiters).await;
        assert!(
            many <= one * 2,
            "{many} polls for {names} names with {waiters} waiters each, {one} for one waiter"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_waiter_is_not_polled_for() {
    let (poller, said) = poller(|_, _| Reply::Rows(vec![held(1, of_other(), 1)]));
    _ = timeout(SHORTEST * 10, poller.changed(name(1), owner(1), false)).await;
    sleep(POLL_AT_MOST).await;
    let before = said.times("SELECT");
    assert!(before > 0);
    sleep(POLL_AT_MOST * 10).await;
    assert_eq!(said.times("SELECT"), before);
    assert!(lock_mutex(&poller.poll_loop.state).names.is_empty());
}

/// In a line of one process, each holder releases before the next is polled for.
#[tokio::test(start_paused = true)]
async fn waiters_that_follow_each_other_quickly_are_not_polled_for() {
    let (poller, said) = poller(|_, _| Reply::Rows(Vec::new()));
    for number in 0..100 {
        assert!(poller.changed(name(1), owner(number), false).now_or_never().is_none());
        sleep(SHORTEST / 2).await;
    }
    assert_eq!(said.times("SELECT"), 0);
}

#[tokio::test(start_paused = true)]
async fn failed_poll_wakes_no_waiter_and_is_repeated() {
    let (poller, said) = poller(|_, _| Reply::Refused("57014"));
    let waited = timeout(POLL_AT_MOST * 10, poller.changed(name(1), owner(1), false)).await;
    assert!(waited.is_err());
    assert!(said.times("SELECT") > 5);
}

/// A release between the poll and its answer: the answer is old.
#[tokio::test(start_paused = true)]
async fn message_during_a_poll_makes_the_next_poll_soon() {
    let (poller, said) = poller(|_, _| Reply::Rows(vec![held(1, of_other(), 60_000)]));
    let mut waiter = std::pin::pin!(poller.changed(name(1), owner(1), false));
    sleep(SHORTEST * 3 / 2).await;
    assert_eq!(said.times("SELECT"), 1, "and it is not answered yet");
    poller.poll_loop.note_release(Some(&name(1)));
    sleep(SHORTEST * 2).await;
    assert_eq!(said.times("SELECT"), 2);
    sleep(POLL_AT_MOST / 2).await;
    assert_eq!(said.times("SELECT"), 2, "the lock is held, and there was no other message");
    assert!(poll!(waiter.as_mut()).is_pending());
}

/// The attempt of a waiter costs no statement, and its next wait no poll before the next is due.
#[tokio::test(start_paused = true)]
async fn held_row_is_known_until_a_release_or_a_late_poll() {
    let (poller, said) = poller(|_, _| Reply::Rows(vec![held(1, of_other(), 60_000)]));
    let keep_polling_if_held = |number| poller.keep_polling_if_held(|| name(number), owner(1));
    assert!(!keep_polling_if_held(1));
    _ = timeout(SHORTEST * 3, poller.changed(name(1), owner(1), false)).await;
    assert!(keep_polling_if_held(1) && !keep_polling_if_held(2));
    assert!(
        !poller.keep_polling_if_held(|| name(1), OwnerId::from_u128(OTHER)),
        "the holder asks, to hear of its grant"
    );
    assert!(keep_polling_if_held(1));
    _ = timeout(SHORTEST * 3, poller.changed(name(1), owner(1), false)).await;
    assert_eq!(said.times("SELECT"), 1);
    poller.released(&name(1));
    assert!(!keep_polling_if_held(1));

    _ = timeout(SHORTEST * 3, poller.changed(name(1), owner(1), false)).await;
    assert!(keep_polling_if_held(1));
    poller.task.lock().unwrap().abort_all();
    sleep(POLL_AT_MOST + LATE).await;
    assert!(!keep_polling_if_held(1), "the poller has ended");
}

/// The task that polled has ended with its runtime.
#[test]
fn waiter_of_another_runtime_is_woken_after_the_first_has_ended() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (poller, _) = poller(|_, _| Reply::Rows(Vec::new()));
    let first = runtime();
    let waited =
        first.block_on(async { timeout(SHORTEST / 5, poller.changed(name(1), owner(1), false)).await });
    assert!(waited.is_err());
    drop(first);
    runtime().block_on(async {
        timeout(Duration::from_secs(10), poller.changed(name(1), owner(2), false)).await.unwrap();
    });
}
