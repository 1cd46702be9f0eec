//! Interference by `redis-cli`: keys are deleted, overwritten and forged, connections are killed, while locks are held and
//! waited for. No waiter waits for ever, no two hold by the queue's doing, and tokens grow.

use crate::kit::{
    LockKeys, Look, attempt_fails, backend, claim, client, handed_over, hold, keys, queue, release, server,
    waiter,
};
use futures_util::FutureExt;
use leasehold_core::{
    Attempt, Claim, DistributedLockExt, FencingToken, LockBackend, LockClient, LockGuard, Release, Result,
};
use leasehold_redis::RedisBackend;
use leasehold_test_stores::servers::RedisServer;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// A lock that is held, and three who wait for it.
struct Setup {
    server: RedisServer,
    backend: Arc<RedisBackend>,
    holder: Claim,
    token: FencingToken,
    waiters: [Claim; 3],
}

async fn setup() -> Setup {
    let server = server();
    let backend = backend(&server.url());
    let (holder, waiters) = (claim("job"), [(); 3].map(|()| waiter("job")));
    let token = hold(&backend, &holder).await;
    for waiter in &waiters {
        queue(&backend, waiter).await;
    }
    Setup { server, backend, holder, token, waiters }
}

impl Setup {
    /// All waiters are served, in any order, by heartbeats alone; a waiter that gives up its place is served too.
    async fn all_are_served(self) {
        let mut last = self.token;
        let mut left: Vec<Claim> = self.waiters.to_vec();
        let serve = async {
            while !left.is_empty() {
                let mut index = 0;
                while index < left.len() {
                    match self.backend.try_acquire(&left[index]).await {
                        Ok(Attempt::Granted(grant)) => {
                            assert!(grant.token > last, "{} after {last}", grant.token);
                            last = grant.token;
                            release(&self.backend, &left.remove(index)).await;
                        }
                        Ok(Attempt::Busy(_)) => index += 1,
                        Err(error) => panic!("{error}"),
                    }
                }
            }
        };
        timeout(Duration::from_secs(20), serve).await.unwrap_or_else(|_| panic!("somebody waits for ever"));
        let token = keys("job").token;
        assert!(self.server.keys().iter().all(|key| *key == token), "{:?}", self.server.keys());
    }
}

fn every_key(keys: &LockKeys) -> [&str; 5] {
    [&keys.lock, &keys.holder, &keys.token, &keys.queue, &keys.waiters]
}

#[tokio::test]
async fn waiters_survive_the_deletion_of_any_key() {
    for which in 0..5 {
        let setup = setup().await;
        setup.server.del(every_key(&keys("job"))[which]);
        release(&setup.backend, &setup.holder).await;
        setup.all_are_served().await;
    }
}

#[tokio::test]
async fn waiters_survive_the_deletion_of_any_key_after_a_hand_over() {
    for which in 0..5 {
        let mut setup = setup().await;
        release(&setup.backend, &setup.holder).await;
        setup.server.del(every_key(&keys("job"))[which]);
        let first = handed_over(&setup.backend, &setup.waiters[0]).await;
        assert!(first > setup.token);
        setup.token = first;
        release(&setup.backend, &setup.waiters[0]).await;
        setup.waiters[0] = waiter("job");
        setup.all_are_served().await;
    }
}

#[tokio::test]
async fn waiters_survive_the_move_of_any_key_away_and_back() {
    for which in 0..5 {
        let setup = setup().await;
        let keys = keys("job");
        let key = every_key(&keys)[which];
        assert_eq!(setup.server.command(&["RENAME", key, "elsewhere"]).unwrap(), "+OK");
        for waiter in &setup.waiters {
            // A waiter may be let in where the lock or its record is gone, and none where both stand.
            let _ = setup.backend.try_acquire(waiter).await.unwrap();
        }
        assert_eq!(setup.server.command(&["RENAME", "elsewhere", key]).unwrap(), "+OK");
        release(&setup.backend, &setup.holder).await;
        for waiter in &setup.waiters {
            release(&setup.backend, waiter).await;
        }
        setup.all_are_served().await;
    }
}

#[tokio::test]
async fn foreign_data_in_any_key_is_named_and_its_removal_is_enough() {
    for which in 0..5 {
        let setup = setup().await;
        let keys = keys("job");
        let key = every_key(&keys)[which];
        setup.server.del(key);
        setup.server.command(&["LPUSH", key, "foreign"]).unwrap();
        if key != keys.token && key != keys.holder {
            // These two are not read while another owner holds the lock.
            let (_, told) = attempt_fails(&setup.backend, &setup.waiters[0]).await;
            assert!(told.contains(key), "{key}: {told}");
        }
        if key != keys.lock {
            // What has no part in the hold does not keep it from being released.
            assert_eq!(release(&setup.backend, &setup.holder).await, Release::Released, "{key}");
        }
        if key == keys.holder {
            // It was released, and handed on or freed with its record.
            continue;
        }
        assert!(setup.server.command(&["TYPE", key]).unwrap().contains("list"), "{key} was touched");
        setup.server.del(key);
        release(&setup.backend, &setup.holder).await;
        setup.all_are_served().await;
    }
}

#[tokio::test]
async fn nonsense_in_any_value_stops_no_waiter() {
    for nonsense in ["", "+", "x", "-1", "9 9 9 9", "nan queue"] {
        let setup = setup().await;
        let keys = keys("job");
        let owner = setup.waiters[0].owner().to_hex();
        setup.server.set(&keys.token, nonsense);
        setup.server.command(&["HSET", &keys.waiters, &owner, nonsense]).unwrap();
        setup.server.command(&["ZADD", &keys.queue, "-inf", "nobody"]).unwrap();
        setup.server.command(&["ZADD", &keys.queue, "1.5", "half"]).unwrap();
        release(&setup.backend, &setup.holder).await;
        setup.all_are_served().await;
    }
}

/// Without the owner and the place, which stand in the keys of the lock alone, a message is a question at most.
#[tokio::test]
async fn forged_message_is_not_believed() {
    let setup = setup().await;
    let first = &setup.waiters[0];
    let entry = setup.server.command(&["HGET", &keys("job").waiters, &first.owner().to_hex()]).unwrap();
    let channel = entry.split(' ').nth(2).unwrap().to_owned();
    let owner = first.owner().to_hex();
    let forged = [
        format!("{owner} 1 999"),
        format!("{owner} 18446744073709551615 18446744073709551615"),
        format!("{owner} 0 0"),
        format!("{} 1 1", "0".repeat(32)),
        owner.to_uppercase(),
        "x".repeat(100_000),
        String::new(),
    ];
    for message in &forged {
        assert_eq!(setup.server.command(&["PUBLISH", &channel, message]).unwrap(), ":1", "{message:.40}");
    }
    // They have all been heard when a later request is answered.
    queue(&setup.backend, &setup.waiters[1]).await;
    while setup.backend.changed(first).now_or_never().is_some() {
        queue(&setup.backend, first).await;
    }
    release(&setup.backend, &setup.holder).await;
    assert!(handed_over(&setup.backend, first).await > setup.token);
    release(&setup.backend, first).await;
}

async fn hundred(server: &RedisServer) -> (LockClient, LockGuard, JoinSet<Result<FencingToken>>) {
    let locks = client(&server.url());
    let guard = locks.acquire("job").await.unwrap();
    let mut waiters = JoinSet::new();
    for _ in 0..4 {
        let locks = client(&server.url());
        for _ in 0..25 {
            let locks = locks.clone();
            waiters.spawn(async move {
                let guard = locks.acquire("job").await?;
                let token = guard.token()?;
                guard.release().await?;
                Ok(token)
            });
        }
    }
    while server.queue("job").len() < 100 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    (locks, guard, waiters)
}

/// All of them get the lock, one after another.
async fn all_get_it(waiters: JoinSet<Result<FencingToken>>) {
    let served = timeout(Duration::from_secs(30), waiters.join_all()).await;
    let served = served.unwrap_or_else(|_| panic!("somebody waits for ever"));
    let mut tokens: Vec<FencingToken> = served.into_iter().map(Result::unwrap).collect();
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), 100);
}

#[tokio::test]
async fn hundred_waiters_survive_flushall() {
    let server = server();
    let (_locks, guard, waiters) = hundred(&server).await;
    server.command(&["FLUSHALL"]).unwrap();
    // The holder has been forgotten, and its release finds that out.
    let _ = guard.release().await;
    all_get_it(waiters).await;
}

#[tokio::test]
async fn hundred_waiters_survive_the_loss_of_connections_and_scripts() {
    let server = server();
    let (_locks, guard, waiters) = hundred(&server).await;
    server.command(&["CLIENT", "KILL", "TYPE", "PUBSUB"]).unwrap();
    server.command(&["SCRIPT", "FLUSH"]).unwrap();
    server.command(&["CLIENT", "PAUSE", "300", "ALL"]).unwrap();
    let _ = guard.release().await;
    all_get_it(waiters).await;
}

#[tokio::test]
async fn hundred_waiters_survive_a_memory_that_is_full_for_a_while() {
    let server = server();
    let (_locks, guard, waiters) = hundred(&server).await;
    server.command(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    let _ = guard.release().await;
    tokio::time::sleep(Duration::from_millis(700)).await;
    server.command(&["CONFIG", "SET", "maxmemory", "0"]).unwrap();
    all_get_it(waiters).await;
}

/// As redis-py takes and frees it: `SET NX PX`, and a script that compares and deletes.
#[tokio::test]
async fn foreign_locks_in_between_hold_up_the_queue_for_as_long_as_they_last() {
    let setup = setup().await;
    let lock = keys("job").lock;
    let foreign = "local v = redis.call('GET', KEYS[1]) if v == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
    for _ in 0..3 {
        setup.server.command(&["DEL", &lock, &keys("job").holder]).unwrap();
        assert_eq!(setup.server.command(&["SET", &lock, "theirs", "NX", "PX", "60000"]).unwrap(), "+OK");
        for waiter in &setup.waiters {
            queue(&setup.backend, waiter).await;
        }
        assert_eq!(setup.server.get(&lock).as_deref(), Some("theirs"), "they know it by its value");
        assert_eq!(setup.server.command(&["EVAL", foreign, "1", &lock, "theirs"]).unwrap(), ":1");
    }
    setup.all_are_served().await;
}
