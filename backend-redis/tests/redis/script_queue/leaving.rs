//! Waiters that leave the queue, by a release or by dying, delay no other.

use super::scene;
use crate::kit::{Look, backend, busy, claim, handed_over, hold, keys, queue, release, waiter};
use leasehold_core::{LockBackend, Release};
use std::time::{Duration, Instant};

#[tokio::test]
async fn silent_waiter_is_skipped() {
    let scene = scene(2).await;
    scene.silence(&scene.waiters[0]);
    release(&scene.backend, &scene.holder).await;
    handed_over(&scene.backend, &scene.waiters[1]).await;
    assert!(scene.server.queue("job").is_empty());
    // It comes back, and is last.
    queue(&scene.backend, &scene.waiters[0]).await;
    assert_eq!(scene.server.queue("job"), scene.owners()[..1]);
}

#[tokio::test]
async fn waiters_of_a_closed_process_are_skipped_at_once() {
    let scene = scene(0).await;
    let gone = backend(&scene.server.url());
    for _ in 0..10 {
        queue(&gone, &waiter("job")).await;
    }
    let there = waiter("job");
    queue(&scene.backend, &there).await;
    gone.close().await.unwrap();
    drop(gone);
    let start = Instant::now();
    while !scene.server.command(&["PUBSUB", "CHANNELS"]).unwrap().starts_with("*1") {
        assert!(start.elapsed() < Duration::from_secs(20), "its connection is still there");
        tokio::task::yield_now().await;
    }
    release(&scene.backend, &scene.holder).await;
    handed_over(&scene.backend, &there).await;
}

#[tokio::test]
async fn crowd_of_dead_waiters_is_skipped_in_bounded_steps() {
    let scene = scene(1).await;
    for place in 1..=514 {
        let owner = format!("{place:032x}");
        scene.server.command(&["ZADD", &keys("job").queue, &place.to_string(), &owner]).unwrap();
    }
    assert_eq!(release(&scene.backend, &scene.holder).await, Release::Released);
    assert_eq!(scene.owner(), None);
    assert_eq!(scene.server.queue("job").len(), 515 - 256);
    // The next to ask goes on, and does not pass by who may be behind them.
    busy(&scene.backend, &claim("job")).await;
    assert_eq!(scene.server.queue("job").len(), 515 - 512);
    assert_eq!(scene.owner(), None);
    hold(&scene.backend, &scene.waiters[0]).await;
    assert!(scene.server.queue("job").is_empty());
}

/// Without it the queue would grow for as long as the lock is held and somebody waits, which may be months.
#[tokio::test]
async fn silent_waiters_at_the_end_leave_before_their_turn() {
    let scene = scene(4).await;
    let (waits, silent) = scene.waiters.split_first().unwrap();
    silent.iter().for_each(|waiter| scene.silence(waiter));
    for _ in silent {
        queue(&scene.backend, waits).await;
    }
    assert_eq!(scene.server.queue("job"), scene.owners()[..1]);
    assert!(silent.iter().all(|waiter| scene.entry(waiter).concat().is_empty()));
    release(&scene.backend, &scene.holder).await;
    handed_over(&scene.backend, waits).await;
}

#[tokio::test]
async fn waiter_that_leaves_takes_no_other_along() {
    let scene = scene(3).await;
    assert_eq!(release(&scene.backend, &scene.waiters[1]).await, Release::NotHeld);
    assert_eq!(scene.server.queue("job"), [scene.owners()[0].clone(), scene.owners()[2].clone()]);
    assert!(scene.entry(&scene.waiters[1]).concat().is_empty());
    release(&scene.backend, &scene.waiters[0]).await;
    release(&scene.backend, &scene.waiters[2]).await;
    let left = scene.server.keys();
    assert!(!left.contains(&keys("job").queue) && !left.contains(&keys("job").waiters), "{left:?}");
    assert_eq!(release(&scene.backend, &scene.holder).await, Release::Released);
}

#[tokio::test]
async fn waiter_that_leaves_after_its_turn_hands_on() {
    let scene = scene(2).await;
    release(&scene.backend, &scene.holder).await;
    assert_eq!(release(&scene.backend, &scene.waiters[0]).await, Release::Released);
    handed_over(&scene.backend, &scene.waiters[1]).await;
}
