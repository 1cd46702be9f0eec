//! `redis://` and an address that moves: a name in the DNS, a virtual address, a proxy that asks who the primary is.

use crate::kit::{
    PATIENCE, answered, backend, claim, get, hold, queue, release, renew, told, until_replicated, waiter,
};
use leasehold_conformance::proxy::Proxy;
use leasehold_conformance::server::free_port;
use leasehold_core::{
    Attempt, Claim, Error, ErrorKind, FencingToken, LockAdmin, LockBackend, Release, Renewal, Result,
};
use leasehold_redis::RedisBackend;
use leasehold_test_stores::servers::RedisServer;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A primary, its replica, and the address of the primary.
async fn primary_and_replica() -> (RedisServer, RedisServer, Proxy) {
    let primary = RedisServer::start_with(&["--repl-diskless-sync-delay", "0"]).unwrap();
    let replica = RedisServer::start().unwrap();
    replica.command(&["REPLICAOF", "127.0.0.1", &primary.port().to_string()]).unwrap();
    let address = Proxy::to(at(&primary)).await.unwrap();
    (primary, replica, address)
}

fn at(server: &RedisServer) -> SocketAddr {
    ([127, 0, 0, 1], server.port()).into()
}

fn at_address(proxy: &Proxy) -> Arc<RedisBackend> {
    backend(&format!("redis://{}", proxy.address()))
}

/// Makes the replica the primary while both are well, and leads who connects from now on to it.
fn switch(primary: &RedisServer, replica: &RedisServer, address: &Proxy) {
    until_replicated(replica, "leasehold:job");
    let there = replica.port().to_string();
    let (is, start) =
        (|server: &RedisServer, role| server.command(&["ROLE"]).unwrap().contains(role), Instant::now());
    // The replica has the data a moment before it has told the primary so.
    while primary.command(&["FAILOVER", "TO", "127.0.0.1", &there]).unwrap() != "+OK" {
        assert!(start.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(5));
    }
    // Connected: what it misses until then comes to it as data, and not as the message that it was.
    while !is(replica, "master") || !is(primary, "connected") {
        assert!(start.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(5));
    }
    address.lead_to(at(replica));
}

/// However long the switch takes, no heartbeat of this one is missed.
fn keep_place(server: &RedisServer, waits: &Claim) {
    let (entries, owner) = ("{leasehold:job}:owners", waits.owner().to_hex());
    let entry = server.command(&["HGET", entries, &owner]).unwrap();
    let (_, rest) = entry.lines().nth(1).unwrap().split_once(' ').unwrap();
    server.command(&["HSET", entries, &owner, &format!("9000000000000000 {rest}")]).unwrap();
}

/// The first answer to a claim. An error is that of a connection to a server that takes no writes any more.
async fn asked(backend: &RedisBackend, claim: &Claim) -> Option<FencingToken> {
    let start = Instant::now();
    loop {
        match answered(backend.try_acquire(claim)).await {
            Ok(Attempt::Granted(grant)) => return Some(grant.token),
            Ok(Attempt::Busy(_)) => return None,
            Err(error) => assert!(start.elapsed() < PATIENCE, "{error}"),
        }
    }
}

/// A waiter that still listens on the old primary is skipped on the new one. Messages of the new one must not reach it by
/// replication: each skipped waiter would believe that it holds the lock, with the same token.
#[tokio::test]
async fn skipped_waiter_hears_of_no_grant() {
    let (old, new, address) = primary_and_replica().await;
    let (holding, one, two) = (at_address(&address), at_address(&address), at_address(&address));
    let (holder, first, second) = (claim("job"), waiter("job"), waiter("job"));
    hold(&holding, &holder).await;
    queue(&one, &first).await;
    queue(&two, &second).await;
    keep_place(&old, &first);
    keep_place(&old, &second);
    switch(&old, &new, &address);

    let start = Instant::now();
    while answered(holding.release(&holder, Duration::ZERO)).await.is_err() {
        assert!(start.elapsed() < PATIENCE);
    }
    new.command(&["SET", "leasehold:later", ""]).unwrap();
    until_replicated(&old, "leasehold:later");
    for (backend, waits) in [(&one, &first), (&two, &second)] {
        // On the connection on which the message would have come: what came before the answer was heard. A replica may be refused.
        drop(backend.inspect(waits.name()).await);
    }
    let granted = [asked(&one, &first).await, asked(&two, &second).await];
    let held = get(&new, "leasehold:job").unwrap_or_default();
    assert!(held.starts_with(&first.owner().to_hex()), "{granted:?}, and the server says {held:?}");
    assert!(matches!(granted, [Some(_), None]), "two holders: {granted:?}");

    // What is written beside the message goes its way: the next primary knows the hand-over.
    release(&one, &first).await;
    answered(two.changed(&second)).await;
    assert!(asked(&two, &second).await > granted[0]);
    let start = Instant::now();
    while get(&old, "leasehold:job") != get(&new, "leasehold:job")
        || get(&old, "{leasehold:job}:token") != get(&new, "{leasehold:job}:token")
        || old.command(&["EXISTS", "{leasehold:job}:queue"]).unwrap() != ":0"
    {
        assert!(start.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A replica that hears nothing of its primary, and has nothing of what is granted there.
fn cut_off_replica(arguments: &[&str]) -> RedisServer {
    let replica = RedisServer::start_with(arguments).unwrap();
    let nobody = free_port().unwrap().to_string();
    assert!(replica.command(&["REPLICAOF", "127.0.0.1", &nobody]).unwrap().starts_with("+OK"));
    replica
}

/// The first answer of a server. A connection that was cut gives none.
async fn heard<T>(ask: impl AsyncFn() -> Result<T>) -> Result<T, Error> {
    let start = Instant::now();
    loop {
        match answered(ask()).await {
            Err(error) if error.kind() == ErrorKind::Indeterminate => {
                assert!(start.elapsed() < PATIENCE, "{error}");
            }
            answer => return answer,
        }
    }
}

/// The address leads to it for a moment, as it does while it moves: who holds a lock on the primary is told neither that it has
/// lost it, nor that it has released it.
#[tokio::test]
async fn replica_that_has_not_heard_of_a_hold_does_not_end_it() {
    let primary = RedisServer::start().unwrap();
    let replica = cut_off_replica(&[]);
    let address = Proxy::to(at(&primary)).await.unwrap();
    let (backend, holder) = (at_address(&address), claim("job"));
    hold(&backend, &holder).await;
    address.lead_to(at(&replica));
    address.cut();
    let renewal = heard(async || renew(&backend, &holder).await).await;
    let error = renewal.expect_err("it is no primary, whose word counts");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{}", told(&error));
    let released = heard(async || backend.release(&holder, Duration::ZERO).await).await;
    let error = released.expect_err("it is no primary, whose word counts");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{}", told(&error));
    let freed = heard(async || backend.force_release(holder.name(), None).await).await;
    let error = freed.expect_err("it is no primary, whose word counts");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{}", told(&error));

    address.lead_to(at(&primary));
    assert_eq!(renew(&backend, &holder).await.unwrap(), Renewal::Renewed);
    assert_eq!(release(&backend, &holder).await, Release::Released);
}

/// The replica refuses every request until it has found its primary, which may be never.
#[tokio::test]
async fn replica_that_lost_its_primary_is_left_for_the_present_address() {
    let (old, new) = (RedisServer::start().unwrap(), RedisServer::start().unwrap());
    let address = Proxy::to(at(&old)).await.unwrap();
    let backend = at_address(&address);
    hold(&backend, &claim("before")).await;
    old.command(&["CONFIG", "SET", "replica-serve-stale-data", "no"]).unwrap();
    let nobody = free_port().unwrap().to_string();
    assert!(old.command(&["REPLICAOF", "127.0.0.1", &nobody]).unwrap().starts_with("+OK"));
    address.lead_to(at(&new));
    let claim = claim("after");
    let error = answered(backend.try_acquire(&claim)).await.unwrap_err();
    assert!(told(&error).contains("it is a replica that has lost its primary"), "{}", told(&error));
    hold(&backend, &claim).await;
}
