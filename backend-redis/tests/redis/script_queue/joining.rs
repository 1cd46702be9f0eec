//! Joining the queue, and keeping a place in it.

use super::{Setup, setup};
use crate::kit::{
    HOLDER, Look, TTL, backend, busy, claim, handed_over, hold, keys, micros_within_an_hour, name, queue,
    release, renew, server, waiter,
};
use leasehold_core::{Attempt, Claim, LockAdmin, LockBackend, Release, Renewal};
use std::time::Duration;

#[tokio::test]
async fn waiter_joins_at_the_end_and_changes_neither_lock_nor_token() {
    let setup = setup(2).await;
    let keys = keys("job");
    assert_eq!(setup.server.queue("job"), setup.owners());
    assert_eq!(setup.server.get(&keys.lock), Some(setup.holder.owner().to_hex()));
    assert_eq!(setup.server.get(&keys.token), Some(setup.token.to_string()));
    let [_, lease, channel, mode, words] = setup.entry(&setup.waiters[1]).try_into().unwrap();
    assert_eq!((&*lease, &*mode, &*words), ("60000", "exclusive", HOLDER));
    assert!(channel.starts_with("leasehold:grants:"), "{channel}");
    for key in [&keys.queue, &keys.waiters] {
        assert!((50_000..=60_000).contains(&setup.server.pttl(key)), "{key}");
    }
    assert!(setup.server.pttl(&keys.lock) > 50_000, "a waiter takes nothing of the lease");
}

#[tokio::test]
async fn heartbeat_keeps_the_place_and_renews_the_entry() {
    let setup = setup(2).await;
    let first = &setup.waiters[0];
    let until = |setup: &Setup| setup.entry(first)[0].parse::<u64>().unwrap();
    let before = until(&setup);
    queue(&setup.backend, first).await;
    assert!(until(&setup) > before);
    assert_eq!(setup.server.queue("job"), setup.owners());
}

#[tokio::test]
async fn waiter_changes_nothing_for_the_holder() {
    let setup = setup(1).await;
    let status = setup.backend.inspect(&name("job")).await.unwrap().remove(0);
    assert_eq!((status.owner, status.token), (Some(setup.holder.owner()), Some(setup.token)));
    assert_eq!(renew(&setup.backend, &setup.holder).await.unwrap(), Renewal::Renewed);
    assert_eq!(hold(&setup.backend, &setup.holder).await, setup.token);
    assert_eq!(
        renew(&setup.backend, &claim("job")).await.unwrap(),
        Renewal::Lost(leasehold_core::LossCause::Taken)
    );
}

#[tokio::test]
async fn newcomer_does_not_pass_a_queue() {
    // Neither one who goes at once, nor one who joins.
    for newcomer in [claim("job"), waiter("job")] {
        let setup = setup(2).await;
        setup.expire();
        let ends_in = busy(&setup.backend, &newcomer).await.unwrap();
        assert!(ends_in > Duration::from_secs(50), "{ends_in:?}: of the one who has it now");
        assert_eq!(setup.owner().as_ref(), Some(&setup.owners()[0]));
        handed_over(&setup.backend, &setup.waiters[0]).await;
        let mut queue = vec![setup.owners()[1].clone()];
        queue.extend(newcomer.waits().then(|| newcomer.owner().to_hex()));
        assert_eq!(setup.server.queue("job"), queue);
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
    let setup = setup(2).await;
    setup.server.del(&keys("job").token);
    let other = backend(&setup.server.url());
    assert_eq!(release(&other, &setup.holder).await, Release::Released);
    handed_over(&setup.backend, &setup.waiters[0]).await;
    assert_eq!(release(&other, &setup.waiters[0]).await, Release::Released);
    handed_over(&setup.backend, &setup.waiters[1]).await;
}

#[tokio::test]
async fn newcomer_is_last_although_the_clock_went_back() {
    let setup = setup(1).await;
    let ahead = (setup.token.get() + 10 * 86_400_000_000).to_string();
    let early = format!("{:032x}", 7);
    setup.server.command(&["ZADD", &keys("job").queue, &ahead, &early]).unwrap();
    let newcomer = waiter("job");
    queue(&setup.backend, &newcomer).await;
    assert_eq!(setup.server.queue("job").last(), Some(&newcomer.owner().to_hex()));
}

#[tokio::test]
async fn waiters_are_listed_in_order() {
    let setup = setup(3).await;
    let waiters = setup.backend.waiters(&name("job")).await.unwrap();
    let owners: Vec<_> = waiters.iter().map(|waiter| waiter.owner.unwrap()).collect();
    assert_eq!(owners, setup.waiters.iter().map(Claim::owner).collect::<Vec<_>>());
    let first = &waiters[0];
    assert_eq!(first.holder, crate::kit::holder_info());
    assert!(first.waiting >= waiters[2].waiting && first.waiting.unwrap() < TTL, "{first:?}");
    assert!(setup.backend.waiters(&name("other")).await.unwrap().is_empty());
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
    let setup = setup(1).await;
    release(&setup.backend, &setup.holder).await;
    handed_over(&setup.backend, &setup.waiters[0]).await;
    assert_eq!(release(&setup.backend, &setup.waiters[0]).await, Release::Released);
    assert!(setup.server.get(&keys("job").lock).is_none(), "nobody waited");

    let (one, other) = (waiter("job"), waiter("job"));
    let asked = setup.server.calls("evalsha");
    hold(&setup.backend, &one).await;
    queue(&setup.backend, &other).await;
    assert_eq!(setup.server.calls("evalsha") - asked, 3);
    queue(&setup.backend, &other).await;
    assert_eq!(setup.server.calls("evalsha") - asked, 4, "a heartbeat");
}
