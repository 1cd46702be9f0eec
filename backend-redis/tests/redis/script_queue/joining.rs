//! Joining the queue, and keeping a place in it.

use super::{Setup, scene};
use crate::kit::{
    HOLDER, Look, TTL, backend, busy, claim, handed_over, hold, keys, micros_within_an_hour, name, queue,
    release, renew, server, waiter,
};
use leasehold_core::{Attempt, Claim, LockAdmin, LockBackend, Release, Renewal};
use std::time::Duration;

#[tokio::test]
async fn waiter_joins_at_the_end_and_changes_neither_lock_nor_token() {
    let scene = scene(2).await;
    let keys = keys("job");
    assert_eq!(scene.server.queue("job"), scene.owners());
    assert_eq!(scene.server.get(&keys.lock), Some(scene.holder.owner().to_hex()));
    assert_eq!(scene.server.get(&keys.token), Some(scene.token.to_string()));
    let [_, lease, channel, mode, words] = scene.entry(&scene.waiters[1]).try_into().unwrap();
    assert_eq!((&*lease, &*mode, &*words), ("60000", "exclusive", HOLDER));
    assert!(channel.starts_with("leasehold:grants:"), "{channel}");
    for key in [&keys.queue, &keys.waiters] {
        assert!((50_000..=60_000).contains(&scene.server.pttl(key)), "{key}");
    }
    assert!(scene.server.pttl(&keys.lock) > 50_000, "a waiter takes nothing of the lease");
}

#[tokio::test]
async fn heartbeat_keeps_the_place_and_renews_the_entry() {
    let scene = scene(2).await;
    let first = &scene.waiters[0];
    let until = |scene: &Setup| scene.entry(first)[0].parse::<u64>().unwrap();
    let before = until(&scene);
    queue(&scene.backend, first).await;
    assert!(until(&scene) > before);
    assert_eq!(scene.server.queue("job"), scene.owners());
}

#[tokio::test]
async fn waiter_changes_nothing_for_the_holder() {
    let scene = scene(1).await;
    let status = scene.backend.inspect(&name("job")).await.unwrap().remove(0);
    assert_eq!((status.owner, status.token), (Some(scene.holder.owner()), Some(scene.token)));
    assert_eq!(renew(&scene.backend, &scene.holder).await.unwrap(), Renewal::Renewed);
    assert_eq!(hold(&scene.backend, &scene.holder).await, scene.token);
    assert_eq!(
        renew(&scene.backend, &claim("job")).await.unwrap(),
        Renewal::Lost(leasehold_core::LossCause::Taken)
    );
}

#[tokio::test]
async fn newcomer_does_not_pass_a_queue() {
    // Neither one who goes at once, nor one who joins.
    for newcomer in [claim("job"), waiter("job")] {
        let scene = scene(2).await;
        scene.expire();
        let ends_in = busy(&scene.backend, &newcomer).await.unwrap();
        assert!(ends_in > Duration::from_secs(50), "{ends_in:?}: of the one who has it now");
        assert_eq!(scene.owner().as_ref(), Some(&scene.owners()[0]));
        handed_over(&scene.backend, &scene.waiters[0]).await;
        let mut queue = vec![scene.owners()[1].clone()];
        queue.extend(newcomer.waits().then(|| newcomer.owner().to_hex()));
        assert_eq!(scene.server.queue("job"), queue);
    }
}

#[tokio::test]
async fn another_programs_lock_is_waited_for_and_not_touched() {
    let server = server();
    let backend = backend(&server.url());
    // As redis-py writes it: 32 hexadecimal digits, too.
    let foreign = "0123456789abcdef0123456789abcdef";
    server.set(&keys("job").lock, foreign);
    let first = waiter("job");
    queue(&backend, &first).await;
    queue(&backend, &first).await;
    assert_eq!(server.get(&keys("job").lock).as_deref(), Some(foreign));
    assert_eq!(server.pttl(&keys("job").lock), -1);
    server.del(&keys("job").lock);
    busy(&backend, &claim("job")).await;
    handed_over(&backend, &first).await;
}

#[tokio::test]
async fn waiters_are_served_by_a_release_of_a_process_that_has_none() {
    let scene = scene(2).await;
    scene.server.del(&keys("job").token);
    let other = backend(&scene.server.url());
    assert_eq!(release(&other, &scene.holder).await, Release::Released);
    handed_over(&scene.backend, &scene.waiters[0]).await;
    assert_eq!(release(&other, &scene.waiters[0]).await, Release::Released);
    handed_over(&scene.backend, &scene.waiters[1]).await;
}

#[tokio::test]
async fn newcomer_is_last_although_the_clock_went_back() {
    let scene = scene(1).await;
    let ahead = (scene.token.get() + 10 * 86_400_000_000).to_string();
    let early = format!("{:032x}", 7);
    scene.server.command(&["ZADD", &keys("job").queue, &ahead, &early]).unwrap();
    let newcomer = waiter("job");
    queue(&scene.backend, &newcomer).await;
    assert_eq!(scene.server.queue("job").last(), Some(&newcomer.owner().to_hex()));
}

#[tokio::test]
async fn waiters_are_listed_in_order() {
    let scene = scene(3).await;
    let waiters = scene.backend.waiters(&name("job")).await.unwrap();
    let owners: Vec<_> = waiters.iter().map(|waiter| waiter.owner.unwrap()).collect();
    assert_eq!(owners, scene.waiters.iter().map(Claim::owner).collect::<Vec<_>>());
    let first = &waiters[0];
    assert_eq!(first.holder, crate::kit::holder_info());
    assert!(first.waiting >= waiters[2].waiting && first.waiting.unwrap() < TTL, "{first:?}");
    assert!(scene.backend.waiters(&name("other")).await.unwrap().is_empty());
}

#[tokio::test]
async fn first_attempt_of_a_waiter_at_a_free_lock_writes_three_keys() {
    let server = server();
    let backend = backend(&server.url());
    hold(&backend, &waiter("warm")).await;
    server.set(&keys("job").token, &micros_within_an_hour().await.to_string());
    let (set, time, eval) = (server.calls("set"), server.calls("time"), server.calls("evalsha"));
    assert!(matches!(backend.try_acquire(&waiter("job")).await, Ok(Attempt::Granted(_))));
    let spent = (server.calls("set") - set, server.calls("time") - time, server.calls("evalsha") - eval);
    assert_eq!(spent, (3, 1, 1));
    for command in ["zadd", "zrange", "hset", "subscribe", "publish"] {
        assert_eq!(server.calls(command), 0, "{command}");
    }
}

/// The first request of a waiter finds that the name is held, and the second one joins the queue.
#[tokio::test]
async fn holder_asks_once_and_first_waiter_twice() {
    let scene = scene(1).await;
    release(&scene.backend, &scene.holder).await;
    handed_over(&scene.backend, &scene.waiters[0]).await;
    assert_eq!(release(&scene.backend, &scene.waiters[0]).await, Release::Released);
    assert!(scene.server.get(&keys("job").lock).is_none(), "nobody waited");

    let (one, other) = (waiter("job"), waiter("job"));
    let asked = scene.server.calls("evalsha");
    hold(&scene.backend, &one).await;
    queue(&scene.backend, &other).await;
    assert_eq!(scene.server.calls("evalsha") - asked, 3);
    queue(&scene.backend, &other).await;
    assert_eq!(scene.server.calls("evalsha") - asked, 4, "a heartbeat");
}
