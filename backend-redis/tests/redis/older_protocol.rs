//! Waiting in the older protocol: messages come on a connection of their own, and are relied on only while it lives.

use crate::kit::{
    Behind, Look, answered, backend, claim, client, handed_over, hold, keys, queue, release, server, until,
    waiter,
};
use leasehold_conformance::servers::RedisServer;
use leasehold_core::{DistributedLockExt, LockBackend};
use leasehold_redis::RedisBackend;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

fn older(server: &RedisServer) -> Arc<RedisBackend> {
    backend(&format!("{}?protocol=resp2", server.url()))
}

/// Connections that listen.
fn listeners(server: &RedisServer) -> usize {
    let clients = server.command(&["CLIENT", "LIST", "TYPE", "PUBSUB"]).unwrap();
    clients.lines().filter(|line| line.contains("sub=1")).count()
}

/// All connections but that which asks.
fn connections(server: &RedisServer) -> usize {
    let clients = server.command(&["CLIENT", "LIST"]).unwrap();
    clients.lines().filter(|line| line.contains("id=")).count() - 1
}

#[tokio::test]
async fn a_waiter_is_told_and_takes_its_grant_from_memory() {
    let server = server();
    let backend = older(&server);
    let (holder, first, second) = (claim("job"), waiter("job"), waiter("job"));
    hold(&backend, &holder).await;
    queue(&backend, &first).await;
    queue(&backend, &second).await;
    let asked = server.calls("evalsha");
    release(&backend, &holder).await;
    let token = handed_over(&backend, &first).await;
    assert_eq!(server.calls("evalsha"), asked + 1, "the release, and nothing else");
    assert_eq!(server.get(&keys("job").token), Some(token.to_string()));
    release(&backend, &first).await;
    assert!(handed_over(&backend, &second).await > token);
}

#[tokio::test]
async fn it_is_told_although_it_must_log_in_to_hear() {
    let server = server();
    for user in ["locker", "default"] {
        // The test itself is the default user, and shut out from then on.
        server.command(&["ACL", "SETUSER", user, "on", "resetpass", ">WORD", "~*", "&*", "+@all"]).unwrap();
    }
    for login in [":WORD", "default:WORD", "locker:WORD"] {
        let backend = backend(&format!("redis://{login}@127.0.0.1:{}?protocol=resp2", server.port()));
        let (holder, next) = (claim("job"), waiter("job"));
        hold(&backend, &holder).await;
        queue(&backend, &next).await;
        release(&backend, &holder).await;
        handed_over(&backend, &next).await;
        release(&backend, &next).await;
    }
}

#[tokio::test]
async fn a_process_has_one_connection_more_and_that_only_if_it_waits() {
    let server = server();
    let locks = client(&format!("{}?protocol=resp2", server.url()));
    let guard = locks.acquire("job").await.unwrap();
    assert_eq!((connections(&server), listeners(&server)), (1, 0));
    let mut waiters = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let locks = locks.clone();
        waiters.spawn(async move { locks.acquire("job").await.unwrap().release().await.unwrap() });
    }
    let start = Instant::now();
    while server.queue("job").len() < 8 || listeners(&server) == 0 {
        assert!(start.elapsed() < Duration::from_secs(10), "not all wait and listen");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!((connections(&server), listeners(&server)), (2, 1));
    guard.release().await.unwrap();
    answered(waiters.join_all()).await;
    leasehold_core::DistributedLock::close(&locks).await.unwrap();
    let start = Instant::now();
    while connections(&server) > 0 {
        assert!(start.elapsed() < Duration::from_secs(10), "a closed client has connections");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn one_whose_connection_for_messages_breaks_is_told_on_the_next_and_keeps_its_place() {
    let server = server();
    let backend = older(&server);
    let (holder, first, second) = (claim("job"), waiter("job"), waiter("job"));
    hold(&backend, &holder).await;
    queue(&backend, &first).await;
    queue(&backend, &second).await;
    let order = server.queue("job");
    for _ in 0..3 {
        server.command(&["CLIENT", "KILL", "TYPE", "PUBSUB"]).unwrap();
        for waiter in [&first, &second] {
            // The broken connection is news: nobody sleeps over it.
            answered(backend.changed(waiter)).await;
            queue(&backend, waiter).await;
        }
        assert_eq!(server.queue("job"), order);
    }
    release(&backend, &holder).await;
    handed_over(&backend, &first).await;
    release(&backend, &first).await;
    handed_over(&backend, &second).await;
}

#[tokio::test]
async fn a_runtime_that_ends_takes_nothing_from_those_who_wait_on_another() {
    let server = server();
    let backend = older(&server);
    let (holder, first, second) = (claim("job"), waiter("job"), waiter("job"));
    hold(&backend, &holder).await;
    let (there, waits) = (Arc::clone(&backend), first.clone());
    let elsewhere = move || Runtime::new().unwrap().block_on(queue(&there, &waits));
    tokio::task::spawn_blocking(elsewhere).await.unwrap();
    until(|| listeners(&server) == 0).await;
    answered(backend.changed(&first)).await;
    release(&backend, &first).await;
    queue(&backend, &second).await;
    assert_eq!(listeners(&server), 1);
    release(&backend, &holder).await;
    handed_over(&backend, &second).await;
}

#[tokio::test]
async fn when_both_connections_break_both_are_made_again() {
    let server = server();
    let behind = Behind::proxy_to(&server, "?protocol=resp2").await;
    behind.break_three_times().await;
    let Behind { holding, holder, waits, next, .. } = &behind;
    assert_eq!((server.queue("job").len(), listeners(&server)), (1, 1));
    // Each of the two that broke is news, and the second may be told late.
    while tokio::time::timeout(Duration::from_millis(200), waits.changed(next)).await.is_ok() {}
    release(holding, holder).await;
    handed_over(waits, next).await;
}

#[tokio::test]
async fn one_who_may_not_listen_waits_by_heartbeats_and_bothers_nobody() {
    let server = server();
    let line = ["ACL", "SETUSER", "locker", "on", ">WORD", "~*", "&*", "+@all", "-subscribe"];
    assert_eq!(server.command(&line).unwrap(), "+OK");
    let url = format!("redis://locker:WORD@127.0.0.1:{}?protocol=resp2", server.port());
    let backend = backend(&url);
    let (holder, next) = (claim("job"), waiter("job"));
    hold(&backend, &holder).await;
    for _ in 0..20 {
        queue(&backend, &next).await;
    }
    let stats = server.command(&["INFO", "commandstats"]).unwrap();
    let refused = stats.lines().find(|line| line.starts_with("cmdstat_subscribe")).unwrap();
    assert!(refused.contains("rejected_calls=1,"), "{refused}");
    release(&backend, &holder).await;
    hold(&backend, &next).await;
}

/// The connection for messages is begun and never made. Heartbeats go on, so that a place in the queue is kept, and a grant that
/// nobody tells is found.
#[tokio::test]
async fn a_second_connection_that_hangs_keeps_nobody_from_asking() {
    let server = server();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (port, target) = (listener.local_addr().unwrap().port(), server.port());
    tokio::spawn(async move {
        let mut hanging = Vec::new();
        let (mut first, _) = listener.accept().await.unwrap();
        let mut there = tokio::net::TcpStream::connect(("127.0.0.1", target)).await.unwrap();
        tokio::spawn(async move { tokio::io::copy_bidirectional(&mut first, &mut there).await });
        while let Ok(next) = listener.accept().await {
            hanging.push(next);
        }
    });
    let backend = backend(&format!("redis://127.0.0.1:{port}?protocol=resp2&connect_timeout=30s"));
    let (holder, next) = (claim("job"), waiter("job"));
    hold(&backend, &holder).await;
    for _ in 0..2 {
        let start = Instant::now();
        queue(&backend, &next).await;
        assert!(start.elapsed() < Duration::from_secs(1), "it could not ask again: {:?}", start.elapsed());
    }
    release(&backend, &holder).await;
    hold(&backend, &next).await;
}
