//! What the scripts do where somebody waits, branch by branch: joining, handing over, leaving.

use crate::kit::{
    HOLDER, Look, TTL, attempt_fails, backend, busy, claim, handed_over, hold, keys, name, queue, release,
    renew, server, waiter,
};
use leasehold_conformance::servers::RedisServer;
use leasehold_core::{Attempt, Claim, ErrorKind, FencingToken, LockAdmin, LockBackend, Release, Renewal};
use leasehold_redis::RedisBackend;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A lock that is held, and so many who wait for it in this order.
struct Scene {
    server: RedisServer,
    backend: Arc<RedisBackend>,
    holder: Claim,
    token: FencingToken,
    waiters: Vec<Claim>,
}

async fn scene(waiting: usize) -> Scene {
    let server = server();
    let backend = backend(&server.url());
    let holder = claim("job");
    let token = hold(&backend, &holder).await;
    let waiters: Vec<Claim> = (0..waiting).map(|_| waiter("job")).collect();
    for waiter in &waiters {
        queue(&backend, waiter).await;
    }
    Scene { server, backend, holder, token, waiters }
}

impl Scene {
    fn owners(&self) -> Vec<String> {
        self.waiters.iter().map(|waiter| waiter.owner().to_hex()).collect()
    }

    /// The owner in the lock key, without the mark.
    fn owner(&self) -> Option<String> {
        self.server.get(&keys("job").lock).map(|value| value.trim_end_matches('+').to_owned())
    }

    fn entry(&self, waiter: &Claim) -> Vec<String> {
        let reply = self.server.command(&["HGET", &keys("job").waiters, &waiter.owner().to_hex()]).unwrap();
        let entry = reply.lines().nth(1).unwrap_or_default();
        entry.splitn(4, ' ').map(str::to_owned).collect()
    }

    /// Makes it look as if no heartbeat of this one had come for two seconds.
    fn silence(&self, waiter: &Claim) {
        let [_, lease, channel, words] = self.entry(waiter).try_into().unwrap();
        let entry = format!("1 {lease} {channel} {words}");
        self.server.command(&["HSET", &keys("job").waiters, &waiter.owner().to_hex(), &entry]).unwrap();
    }

    /// Ends the hold as its expiry does: nothing is left of it, and nobody is told.
    fn expire(&self) {
        self.server.command(&["DEL", &keys("job").lock, &keys("job").holder]).unwrap();
    }
}

#[tokio::test]
async fn one_who_waits_joins_at_the_end_and_marks_lock_and_token() {
    let scene = scene(2).await;
    let keys = keys("job");
    assert_eq!(scene.server.queue("job"), scene.owners());
    assert_eq!(scene.server.get(&keys.lock), Some(format!("{}+", scene.holder.owner().to_hex())));
    assert_eq!(scene.server.get(&keys.token), Some(format!("{} queue", scene.token)));
    let [_, lease, channel, words] = scene.entry(&scene.waiters[1]).try_into().unwrap();
    assert_eq!((&*lease, &*words), ("60000", HOLDER));
    assert!(channel.starts_with("leasehold:grants:"), "{channel}");
    for key in [&keys.queue, &keys.waiters] {
        assert!((50_000..=60_000).contains(&scene.server.pttl(key)), "{key}");
    }
    assert!(scene.server.pttl(&keys.lock) > 50_000, "the mark takes nothing of the lease");
}

#[tokio::test]
async fn a_heartbeat_keeps_the_place_and_says_so() {
    let scene = scene(2).await;
    let first = &scene.waiters[0];
    let until = |scene: &Scene| scene.entry(first)[0].parse::<u64>().unwrap();
    let before = until(&scene);
    queue(&scene.backend, first).await;
    assert!(until(&scene) > before);
    assert_eq!(scene.server.queue("job"), scene.owners());
}

#[tokio::test]
async fn the_mark_changes_nothing_for_the_holder() {
    let scene = scene(1).await;
    let status = scene.backend.inspect(&name("job")).await.unwrap().unwrap();
    assert_eq!((status.owner, status.token), (Some(scene.holder.owner()), Some(scene.token)));
    assert_eq!(renew(&scene.backend, &scene.holder).await.unwrap(), Renewal::Renewed);
    assert_eq!(hold(&scene.backend, &scene.holder).await, scene.token);
    assert_eq!(
        renew(&scene.backend, &claim("job")).await.unwrap(),
        Renewal::Lost(leasehold_core::LossCause::Taken)
    );
}

#[tokio::test]
async fn a_release_hands_over_to_the_first_who_answers_from_memory() {
    let scene = scene(3).await;
    assert_eq!(release(&scene.backend, &scene.holder).await, Release::Released);
    let owners = scene.owners();
    assert_eq!(scene.owner().as_ref(), Some(&owners[0]));
    assert_eq!(scene.server.queue("job"), owners[1..]);
    let (lock, holder) =
        (scene.server.pttl(&keys("job").lock), scene.server.get(&keys("job").holder).unwrap());
    assert!((50_000..=60_000).contains(&lock), "{lock}");

    let asked = scene.server.calls("evalsha");
    let token = handed_over(&scene.backend, &scene.waiters[0]).await;
    assert_eq!(scene.server.calls("evalsha"), asked, "no second round trip");
    assert!(token > scene.token);
    assert!(holder.starts_with(&format!("{} {token} ", owners[0])) && holder.ends_with(HOLDER), "{holder}");
    assert_eq!(scene.server.get(&keys("job").token), Some(format!("{token} queue")));
}

#[tokio::test]
async fn the_last_of_a_queue_leaves_a_free_lock_and_nothing_else() {
    let scene = scene(2).await;
    let mut last = scene.token;
    release(&scene.backend, &scene.holder).await;
    for waiter in &scene.waiters {
        let token = handed_over(&scene.backend, waiter).await;
        assert!(token > last);
        last = token;
        assert_eq!(release(&scene.backend, waiter).await, Release::Released);
    }
    assert_eq!(scene.server.keys(), [keys("job").token]);
    // Whoever comes next finds the mark without a queue, and takes it away.
    let next = claim("job");
    assert!(hold(&scene.backend, &next).await > last);
    assert_eq!(scene.server.get(&keys("job").lock), Some(next.owner().to_hex()));
    assert!(!scene.server.get(&keys("job").token).unwrap().contains("queue"));
}

#[tokio::test]
async fn nobody_passes_by_a_queue() {
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
async fn a_waiter_that_finds_the_lock_free_gets_it_in_its_turn() {
    let scene = scene(2).await;
    scene.expire();
    // The second asks first: the first is told.
    queue(&scene.backend, &scene.waiters[1]).await;
    let token = handed_over(&scene.backend, &scene.waiters[0]).await;
    scene.expire();
    assert!(hold(&scene.backend, &scene.waiters[1]).await > token);
    assert!(scene.server.queue("job").is_empty());
}

#[tokio::test]
async fn one_who_fell_silent_is_passed_over() {
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
async fn one_whose_process_is_gone_is_passed_over_at_once() {
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
async fn a_crowd_that_died_together_is_passed_over_in_bounded_steps() {
    let scene = scene(1).await;
    for place in 1..=130 {
        let owner = format!("{place:032x}");
        scene.server.command(&["ZADD", &keys("job").queue, &place.to_string(), &owner]).unwrap();
    }
    assert_eq!(release(&scene.backend, &scene.holder).await, Release::Released);
    assert_eq!(scene.owner(), None);
    assert_eq!(scene.server.queue("job").len(), 131 - 64);
    // The next to ask goes on, and does not pass by who may be behind them.
    busy(&scene.backend, &claim("job")).await;
    assert_eq!(scene.server.queue("job").len(), 131 - 128);
    assert_eq!(scene.owner(), None);
    hold(&scene.backend, &scene.waiters[0]).await;
    assert!(scene.server.queue("job").is_empty());
}

#[tokio::test]
async fn one_who_leaves_is_out_of_the_queue_and_takes_nothing_along() {
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
async fn one_who_leaves_after_its_turn_has_come_hands_on() {
    let scene = scene(2).await;
    release(&scene.backend, &scene.holder).await;
    assert_eq!(release(&scene.backend, &scene.waiters[0]).await, Release::Released);
    handed_over(&scene.backend, &scene.waiters[1]).await;
}

#[tokio::test]
async fn a_lingering_release_keeps_the_queue_waiting() {
    let scene = scene(1).await;
    let linger = Duration::from_secs(20);
    assert_eq!(scene.backend.release(&scene.holder, linger).await.unwrap(), Release::Released);
    assert_eq!(scene.server.get(&keys("job").lock).as_deref(), Some("released"));
    assert!(busy(&scene.backend, &scene.waiters[0]).await.unwrap() <= linger);
    scene.expire();
    hold(&scene.backend, &scene.waiters[0]).await;
}

#[tokio::test]
async fn a_lock_that_vanished_is_kept_for_its_holder_and_then_handed_over() {
    let scene = scene(2).await;
    scene.server.del(&keys("job").lock);
    assert!(busy(&scene.backend, &scene.waiters[1]).await.unwrap() > Duration::from_secs(50));
    assert_eq!(scene.owner(), None);
    assert_eq!(release(&scene.backend, &scene.holder).await, Release::NotHeld);
    queue(&scene.backend, &scene.waiters[1]).await;
    handed_over(&scene.backend, &scene.waiters[0]).await;
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
async fn lost_marks_cost_a_heartbeat_and_no_place() {
    let scene = scene(2).await;
    scene.server.del(&keys("job").token);
    let value = scene.holder.owner().to_hex();
    assert_eq!(scene.server.command(&["SET", &keys("job").lock, &value, "KEEPTTL"]).unwrap(), "+OK");
    queue(&scene.backend, &scene.waiters[1]).await;
    assert_eq!(scene.server.get(&keys("job").lock), Some(format!("{value}+")));
    assert_eq!(scene.server.get(&keys("job").token).as_deref(), Some("0 queue"));
    release(&scene.backend, &scene.holder).await;
    handed_over(&scene.backend, &scene.waiters[0]).await;

    // Only the mark of the lock: it comes free, and whoever finds it hands it over.
    let value = scene.waiters[0].owner().to_hex();
    scene.server.command(&["SET", &keys("job").lock, &value, "KEEPTTL"]).unwrap();
    let other = backend(&scene.server.url());
    assert_eq!(release(&other, &scene.waiters[0]).await, Release::Released);
    assert_eq!(scene.owner(), None);
    busy(&other, &claim("job")).await;
    handed_over(&scene.backend, &scene.waiters[1]).await;
}

#[tokio::test]
async fn handing_over_keeps_tokens_growing_when_the_clock_goes_back() {
    let scene = scene(1).await;
    let ahead = scene.token.get() + 10 * 86_400_000_000;
    scene.server.set(&keys("job").token, &format!("{ahead} queue"));
    release(&scene.backend, &scene.holder).await;
    assert_eq!(handed_over(&scene.backend, &scene.waiters[0]).await.get(), ahead + 1);
    let days = scene.server.pttl(&keys("job").token) as f64 / 86_400_000.0;
    assert!((10.9..=11.0).contains(&days), "{days}");
}

#[tokio::test]
async fn a_newcomer_is_last_though_the_clock_went_back() {
    let scene = scene(1).await;
    let ahead = (scene.token.get() + 10 * 86_400_000_000).to_string();
    let early = format!("{:032x}", 7);
    scene.server.command(&["ZADD", &keys("job").queue, &ahead, &early]).unwrap();
    let newcomer = waiter("job");
    queue(&scene.backend, &newcomer).await;
    assert_eq!(scene.server.queue("job").last(), Some(&newcomer.owner().to_hex()));
}

#[tokio::test]
async fn without_tokens_a_release_is_a_release_and_who_waits_is_told_why() {
    let scene = scene(1).await;
    scene.server.set(&keys("job").token, &format!("{} queue", FencingToken::MAX_COUNTED));
    assert_eq!(release(&scene.backend, &scene.holder).await, Release::Released);
    assert_eq!(scene.owner(), None);
    let (kind, told) = attempt_fails(&scene.backend, &scene.waiters[0]).await;
    assert!(kind == ErrorKind::Misconfigured && told.contains("tokens of this name are used up"), "{told}");
    assert_eq!(scene.owner(), None);
}

#[tokio::test]
async fn foreign_data_in_the_place_of_the_queue_is_named_and_stops_no_release() {
    let scene = scene(1).await;
    let wrong = keys("job").queue;
    scene.server.del(&wrong);
    scene.server.set(&wrong, "x");
    let (kind, told) = attempt_fails(&scene.backend, &scene.waiters[0]).await;
    assert!(kind == ErrorKind::Misconfigured && told.contains(&wrong), "{told}");
    assert_eq!(release(&scene.backend, &scene.holder).await, Release::Released);
    assert_eq!(scene.owner(), None);
    let (kind, _) = attempt_fails(&scene.backend, &claim("job")).await;
    assert_eq!(kind, ErrorKind::Misconfigured);
    assert_eq!(scene.owner(), None, "an error leaves no lock");
    assert_eq!(scene.server.get(&wrong).as_deref(), Some("x"));
}

#[tokio::test]
async fn what_is_freed_by_hand_goes_to_the_first_too() {
    let scene = scene(1).await;
    let before = scene.backend.force_release(&name("job"), Some(scene.token)).await.unwrap().unwrap();
    assert_eq!((before.owner, before.token), (Some(scene.holder.owner()), Some(scene.token)));
    handed_over(&scene.backend, &scene.waiters[0]).await;
    assert!(scene.backend.force_release(&name("job"), None).await.unwrap().is_some());
    assert_eq!(scene.server.keys(), [keys("job").token]);
}

#[tokio::test]
async fn who_waits_is_listed_in_order() {
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
async fn a_hand_over_costs_the_same_however_many_wait() {
    let mut costs = Vec::new();
    for waiting in [1, 50, 500] {
        let scene = scene(waiting).await;
        let processed = || -> u64 {
            let stats = scene.server.command(&["INFO", "stats"]).unwrap();
            let line = stats.lines().find_map(|line| line.strip_prefix("total_commands_processed:"));
            line.unwrap().trim().parse().unwrap()
        };
        let before = processed();
        release(&scene.backend, &scene.holder).await;
        handed_over(&scene.backend, &scene.waiters[0]).await;
        costs.push(processed() - before);
    }
    assert!(costs.iter().all(|cost| *cost == costs[0]), "{costs:?}");
}

#[tokio::test]
async fn a_first_attempt_at_a_free_lock_costs_four_commands_of_one_who_would_wait_too() {
    let server = server();
    let backend = backend(&server.url());
    hold(&backend, &waiter("warm")).await;
    let (set, time, eval) = (server.calls("set"), server.calls("time"), server.calls("evalsha"));
    assert!(matches!(backend.try_acquire(&waiter("job")).await, Ok(Attempt::Granted(_))));
    let spent = (server.calls("set") - set, server.calls("time") - time, server.calls("evalsha") - eval);
    assert_eq!(spent, (3, 1, 1));
    for command in ["zadd", "zrange", "zpopmin", "hset", "subscribe", "publish"] {
        assert_eq!(server.calls(command), 0, "{command}");
    }
}
