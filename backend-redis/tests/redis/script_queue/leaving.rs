//! Waiters that leave the queue, by a release or by dying, delay no other.

use super::setup;
use crate::kit::{Look, backend, busy, claim, handed_over, hold, keys, queue, release, waiter};
use leasehold_core::{LockBackend, Release};
use std::time::{Duration, Instant};

#[tokio::test]
async fn silent_waiter_is_skipped() {
    let setup = setup(2).await;
    setup.silence(&setup.waiters[0]);
    release(&setup.backend, &setup.holder).await;
    handed_over(&setup.backend, &setup.waiters[1]).await;
    assert!(setup.server.queue("job").is_empty());
    // It comes back, and is last.
    queue(&setup.backend, &setup.waiters[0]).await;
    assert_eq!(setup.server.queue("job"), setup.owners()[..1]);
}

#[tokio::test]
async fn waiters_of_a_closed_process_are_skipped_at_once() {
    let setup = setup(0).await;
    let gone = backend(&setup.server.url());
    for _ in 0..10 {
        queue(&gone, &waiter("job")).await;
    }
    let there = waiter("job");
    queue(&setup.backend, &there).await;
    gone.close().await.unwrap();
    drop(gone);
    let start = Instant::now();
    while !setup.server.command(&["PUBSUB", "CHANNELS"]).unwrap().starts_with("*1") {
        assert!(start.elapsed() < Duration::from_secs(20), "its connection is still there");
        tokio::task::yield_now().await;
    }
    release(&setup.backend, &setup.holder).await;
    handed_over(&setup.backend, &there).await;
}

#[tokio::test]
async fn crowd_of_dead_waiters_is_skipped_in_bounded_steps() {
    let setup = setup(1).await;
    for place in 1..=514 {
        let owner = format!("{place:032x}");
        setup.server.command(&["ZADD", &keys("job").queue, &place.to_string(), &owner]).unwrap();
    }
    assert_eq!(release(&setup.backend, &setup.holder).await, Release::Released);
    assert_eq!(setup.owner(), None);
    assert_eq!(setup.server.queue("job").len(), 515 - 256);
    // The next to ask goes on, and does not pass by who may be behind them.
    busy(&setup.backend, &claim("job")).await;
    assert_eq!(setup.server.queue("job").len(), 515 - 512);
    assert_eq!(setup.owner(), None);
    hold(&setup.backend, &setup.waiters[0]).await;
    assert!(setup.server.queue("job").is_empty());
}

/// Otherwise the queue would grow for as long as the lock is held and waited for, which may be months.
#[tokio::test]
async fn silent_waiters_at_the_end_leave_before_their_turn() {
    let setup = setup(4).await;
    let (waits, silent) = setup.waiters.split_first().unwrap();
    silent.iter().for_each(|waiter| setup.silence(waiter));
    for _ in silent {
        queue(&setup.backend, waits).await;
    }
    assert_eq!(setup.server.queue("job"), setup.owners()[..1]);
    assert!(silent.iter().all(|waiter| setup.entry(waiter).concat().is_empty()));
    release(&setup.backend, &setup.holder).await;
    handed_over(&setup.backend, waits).await;
}

#[tokio::test]
async fn waiter_that_leaves_takes_no_other_along() {
    let setup = setup(3).await;
    assert_eq!(release(&setup.backend, &setup.waiters[1]).await, Release::NotHeld);
    assert_eq!(setup.server.queue("job"), [setup.owners()[0].clone(), setup.owners()[2].clone()]);
    assert!(setup.entry(&setup.waiters[1]).concat().is_empty());
    release(&setup.backend, &setup.waiters[0]).await;
    release(&setup.backend, &setup.waiters[2]).await;
    let left = setup.server.keys();
    assert!(!left.contains(&keys("job").queue) && !left.contains(&keys("job").waiters), "{left:?}");
    assert_eq!(release(&setup.backend, &setup.holder).await, Release::Released);
}

#[tokio::test]
async fn waiter_that_leaves_after_its_turn_hands_on() {
    let setup = setup(2).await;
    release(&setup.backend, &setup.holder).await;
    assert_eq!(release(&setup.backend, &setup.waiters[0]).await, Release::Released);
    handed_over(&setup.backend, &setup.waiters[1]).await;
}
