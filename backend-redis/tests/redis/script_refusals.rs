//! A server that refuses one command of a script: no half grant, no lost place, no lock without a holder.

use crate::acl::restricted_without;
use crate::kit::{
    Look, attempt_fails, backend, claim, hold, keys, name, queue, release, renew, server, waiter,
};
use leasehold_core::{Claim, ErrorKind, LockAdmin, LockMode, Release, Renewal};
use leasehold_test_stores::servers::RedisServer;
use std::time::{Duration, SystemTime};

fn reader(lock: &str) -> Claim {
    claim(lock).with_mode(LockMode::Shared)
}

/// From now on the server refuses each first write that needs memory.
fn fill_memory(server: &RedisServer, is_full: bool) {
    let limit = if is_full { "1" } else { "0" };
    assert_eq!(server.command(&["CONFIG", "SET", "maxmemory", limit]).unwrap(), "+OK");
}

#[tokio::test]
async fn waiter_keeps_its_place_while_the_memory_is_full() {
    let server = server();
    let backend = backend(&server.url());
    let (holder, first, second) = (claim("job"), waiter("job"), waiter("job"));
    hold(&backend, &holder).await;
    queue(&backend, &first).await;
    queue(&backend, &second).await;
    fill_memory(&server, true);
    queue(&backend, &first).await;
    fill_memory(&server, false);
    assert_eq!(release(&backend, &holder).await, Release::Released);
    assert_eq!(server.get(&keys("job").lock), Some(first.owner().to_hex()));
}

#[tokio::test]
async fn waiter_whose_heartbeat_is_refused_keeps_its_place() {
    let (server, backend) = restricted_without("scan");
    let may = |right: &str| server.command(&["ACL", "SETUSER", "locker", right]).unwrap();
    let (holder, first, second) = (claim("job"), waiter("job"), waiter("job"));
    hold(&backend, &holder).await;
    queue(&backend, &first).await;
    queue(&backend, &second).await;
    may("-zadd");
    attempt_fails(&backend, &first).await;
    may("+zadd");
    assert_eq!(release(&backend, &holder).await, Release::Released);
    assert_eq!(server.get(&keys("job").lock), Some(first.owner().to_hex()));
}

#[tokio::test]
async fn reader_renews_while_the_memory_is_full() {
    let server = server();
    let backend = backend(&server.url());
    let (shared, exclusive) = (reader("shared"), claim("exclusive"));
    hold(&backend, &shared).await;
    hold(&backend, &exclusive).await;
    fill_memory(&server, true);
    assert_eq!(renew(&backend, &exclusive).await.unwrap(), Renewal::Renewed);
    assert_eq!(renew(&backend, &shared).await.unwrap(), Renewal::Renewed);
}

/// The waiter believes its message, also if the grant of the process that releases was refused.
#[tokio::test]
async fn waiter_is_told_of_no_grant_that_was_refused() {
    for (mode, command) in [(LockMode::Exclusive, "set"), (LockMode::Shared, "hset")] {
        let (server, restricted) = restricted_without(command);
        let backend = backend(&server.url());
        let next = waiter("job").with_mode(mode);
        hold(&backend, &claim("job")).await;
        queue(&backend, &next).await;
        assert!(!restricted.force_release(&name("job"), None).await.unwrap().is_empty());
        hold(&backend, &claim("job")).await;
        queue(&backend, &next).await;
    }
}

#[tokio::test]
async fn refused_reader_leaves_no_lock() {
    for command in ["hset", "zadd", "pexpire"] {
        let (server, backend) = restricted_without(command);
        let (kind, told) = attempt_fails(&backend, &reader("job")).await;
        assert_eq!(kind, ErrorKind::Denied, "{command}: {told}");
        let left: Vec<String> = server.keys().into_iter().filter(|key| !key.ends_with(":token")).collect();
        assert!(left.is_empty(), "{command}: {left:?}");
    }
}

#[tokio::test]
async fn replica_that_has_the_lock_is_no_answer_for_an_attempt() {
    let (server, primary) = (server(), server());
    let backend = backend(&server.url());
    hold(&backend, &claim("job")).await;
    let port = primary.port().to_string();
    assert_eq!(server.command(&["CONFIG", "SET", "replica-serve-stale-data", "yes"]).unwrap(), "+OK");
    // Without a link to its primary it keeps what it has.
    assert_eq!(primary.command(&["CONFIG", "SET", "requirepass", "other"]).unwrap(), "+OK");
    assert_eq!(server.command(&["REPLICAOF", "127.0.0.1", &port]).unwrap(), "+OK");
    let (kind, told) = attempt_fails(&backend, &claim("job")).await;
    assert_eq!(kind, ErrorKind::Unavailable, "{told}");
}

#[tokio::test]
async fn reader_without_the_right_to_delete_leaves_no_hold() {
    let (server, backend) = restricted_without("del");
    let (kind, told) = attempt_fails(&backend, &reader("job")).await;
    assert_eq!(kind, ErrorKind::Denied, "{told}");
    assert_eq!(server.keys(), [keys("job").token]);
}

/// A lock that always changes hands has waiters at any time, and none of them waits for long.
#[tokio::test]
async fn keys_of_waiters_are_kept_by_one_that_joins_in_another_second() {
    let server = server();
    let backend = backend(&server.url());
    let (holder, first, second) = (claim("job"), waiter("job"), waiter("job"));
    hold(&backend, &holder).await;
    queue(&backend, &first).await;
    let keys = keys("job");
    let a_second_ago =
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap() - Duration::from_secs(1);
    let entry = format!("{} 30000 - exclusive {{}}", a_second_ago.as_micros());
    server.command(&["HSET", &keys.waiters, &first.owner().to_hex(), &entry]).unwrap();
    for key in [&keys.waiters, &keys.queue] {
        server.command(&["PEXPIRE", key, "10000"]).unwrap();
    }
    queue(&backend, &second).await;
    for key in [&keys.waiters, &keys.queue] {
        assert!(server.pttl(key) > 30_000, "{key}");
    }
}
