//! `wait_replicas`: what too few replicas have is not believed, and is taken back.

use crate::kit::{PATIENCE, TTL, answered};
use crate::kit::{
    attempt_fails, backend, claim, client, get, hold, name, patient, queue, release, renew, told,
    until_replicated, waiter,
};
use futures_util::FutureExt;
use leasehold_conformance::proxy::{Proxy, Traffic};
use leasehold_conformance::servers::{RedisSentinelGroup, RedisServer, free_port};
use leasehold_core::{
    Attempt, Claim, DistributedLockExt, ErrorKind, FencingToken, LockBackend, OwnerId, Release, Renewal,
};
use leasehold_redis::RedisBackend;
use std::time::{Duration, Instant};

fn group() -> (RedisSentinelGroup, String) {
    let group = RedisSentinelGroup::start().unwrap();
    let url = format!("{}?wait_replicas=1&timeout=8s", group.url());
    (group, url)
}

#[tokio::test]
async fn a_grant_that_the_replica_has_is_believed() {
    let (group, url) = group();
    let (backend, claim) = (backend(&url), claim("job"));
    hold(&backend, &claim).await;
    assert_eq!(get(group.server(1), "leasehold:job"), Some(claim.owner().to_hex()));
    assert_eq!(renew(&backend, &claim).await.unwrap(), Renewal::Renewed);
    assert_eq!(release(&backend, &claim).await, Release::Released);
}

#[tokio::test]
async fn a_grant_that_no_replica_has_is_taken_back() {
    let (group, url) = group();
    group.cut_replica_off().unwrap();
    for claim in [claim("job"), waiter("job")] {
        let error = attempt_fails(&backend(&url), &claim).await;
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{}", told(&error));
        assert!(
            told(&error).contains("0 of 1 replicas have confirmed the grant in time, so it was taken back")
        );
        assert_eq!(get(group.server(0), "leasehold:job"), None);
        assert_eq!(get(group.server(0), "{leasehold:job}:holder"), None);
    }
}

/// What is not told to the replica cannot be counted on: the lease before it can, and is not lost.
#[tokio::test]
async fn a_renewal_that_no_replica_has_extends_nothing() {
    let (group, url) = group();
    let (backend, claim) = (backend(&url), claim("job"));
    hold(&backend, &claim).await;
    group.cut_replica_off().unwrap();
    assert_eq!(renew(&backend, &claim).await.unwrap(), Renewal::Held);
    assert_eq!(release(&backend, &claim).await, Release::Released);
    assert_eq!(renew(&backend, &claim).await.unwrap(), Renewal::Lost(leasehold_core::LossCause::Gone));
}

/// A hand-over is made by the server, which waits for nobody: its new holder does.
#[tokio::test]
async fn a_hand_over_is_believed_once_the_replica_has_it() {
    let (group, url) = group();
    let (holding, waiting) = (backend(&url), backend(&url));
    let (holder, next, last) = (claim("job"), waiter("job"), waiter("job"));
    hold(&holding, &holder).await;
    queue(&waiting, &next).await;
    queue(&waiting, &last).await;
    release(&holding, &holder).await;
    answered(waiting.changed(&next)).await;
    hold(&waiting, &next).await;
    assert_eq!(get(group.server(1), "leasehold:job"), Some(format!("{}+", next.owner().to_hex())));
    group.cut_replica_off().unwrap();
    release(&waiting, &next).await;
    answered(waiting.changed(&last)).await;
    let error = attempt_fails(&waiting, &last).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{}", told(&error));
    assert_eq!(get(group.server(0), "leasehold:job"), None);
}

/// An attempt repeated within one millisecond changes nothing about the lease. It writes all the same, because `WAIT` on a
/// connection without a write waits for nothing.
#[tokio::test]
async fn repeated_attempt_writes_the_grant_again() {
    let (group, _) = group();
    let backend = backend(&group.url());
    let long = Claim::new(name("job"), OwnerId::random().unwrap(), TTL * 10, "{}".into());
    hold(&backend, &long).await;
    let again = Claim::new(name("job"), long.owner(), TTL, "{}".into());
    let offset = || {
        let info = group.server(0).command(&["INFO", "replication"]).unwrap();
        let line = info.lines().find_map(|line| line.strip_prefix("master_repl_offset:").map(str::to_owned));
        line.unwrap().parse::<u64>().unwrap()
    };
    let before = offset();
    hold(&backend, &again).await;
    // A SET of the holder record is longer than the pings between the servers.
    assert!(offset() >= before + 100, "{before} {}", offset());
    let before = offset();
    assert_eq!(renew(&backend, &again).await.unwrap(), Renewal::Renewed);
    assert!(offset() >= before + 100, "{before} {}", offset());
    let left = group.server(0).command(&["PTTL", "leasehold:job"]).unwrap();
    assert!(left.trim_start_matches(':').parse::<u64>().unwrap() > 500_000, "never shortened: {left}");
}

/// Both calls have the same grant. One call does not read yet that the replicas did not confirm it, and the other has their
/// confirmation meanwhile.
#[tokio::test]
async fn call_does_not_take_back_the_grant_that_another_call_of_its_claim_believes() {
    let server = RedisServer::start_with(&["--repl-diskless-sync-delay", "0"]).unwrap();
    let replica = RedisServer::start().unwrap();
    replica.command(&["REPLICAOF", "127.0.0.1", &server.port().to_string()]).unwrap();
    hold(&backend(&server.url()), &claim("other")).await;
    until_replicated(&replica, "leasehold:other");
    let asking = backend(&format!("{}?wait_replicas=1&timeout=1s", server.url()));
    let claim = waiter("job");
    // The connection for all that replicas need not confirm.
    release(&asking, &claim).await;
    replica.pause();
    let mut slow = asking.try_acquire(&claim);
    let start = Instant::now();
    let waits_for_the_replica =
        || server.command(&["INFO", "clients"]).unwrap().contains("blocked_clients:1");
    for waits in [true, false] {
        while waits_for_the_replica() != waits {
            assert!(slow.as_mut().now_or_never().is_none() || !waits, "answered at once");
            assert!(start.elapsed() < PATIENCE, "no WAIT came to its end");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    replica.resume();
    until_replicated(&replica, "leasehold:job");
    let token = asks_until_granted(&asking, &claim).await;
    match slow.await {
        Ok(Attempt::Granted(grant)) => assert_eq!(grant.token, token),
        other => panic!("{other:?}"),
    }
    assert_eq!(renew(&asking, &claim).await.unwrap(), Renewal::Renewed);
    release(&asking, &claim).await;
}

/// A taking back whose answer does not come may still be on its way when its owner asks again. It ends the grant that it
/// was meant for, and none that was believed since.
#[tokio::test]
async fn a_taking_back_that_comes_late_ends_no_later_grant_of_the_same_owner() {
    let server = RedisServer::start_with(&["--repl-diskless-sync-delay", "0"]).unwrap();
    let replica = RedisServer::start().unwrap();
    replica.command(&["REPLICAOF", "127.0.0.1", &server.port().to_string()]).unwrap();
    let unhindered = backend(&server.url());
    hold(&unhindered, &claim("other")).await;
    until_replicated(&replica, "leasehold:other");
    let proxy = Proxy::to(([127, 0, 0, 1], server.port()).into()).await.unwrap();
    let parameters = "?wait_replicas=1&timeout=1s";
    let asking = backend(&format!("redis://{}{parameters}", proxy.address()));
    let claim = waiter("job");
    // The connection for all that replicas need not confirm.
    release(&asking, &claim).await;
    replica.pause();
    // And the server knows the script: what is late is the call of it alone.
    let other = backend(&format!("{}{parameters}", server.url()));
    assert_eq!(attempt_fails(&other, &waiter("warm")).await.kind(), ErrorKind::Unavailable);
    proxy.strand();
    let error = attempt_fails(&asking, &claim).await;
    assert_eq!(error.kind(), ErrorKind::Indeterminate, "{}", told(&error));
    assert_eq!(get(&server, "leasehold:job"), Some(claim.owner().to_hex()), "the word of it is on its way");

    replica.resume();
    until_replicated(&replica, "leasehold:job");
    let token = asks_until_granted(&asking, &claim).await;
    let (before, start) = (scripts_run(&server), Instant::now());
    proxy.deliver();
    while scripts_run(&server) == before {
        assert!(start.elapsed() < PATIENCE, "it did not come");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(renew(&unhindered, &claim).await.unwrap(), Renewal::Renewed);
    let record = get(&server, "{leasehold:job}:holder").unwrap();
    assert!(record.contains(&format!(" {token} ")), "{record}");
    assert_eq!(release(&unhindered, &claim).await, Release::Released);
}

/// Where the address leads for a moment to a replica that has heard nothing of the grant, its word that there is none is
/// not that it has ended.
#[tokio::test]
async fn a_taking_back_that_a_replica_was_asked_for_is_none() {
    let server = RedisServer::start_with(&["--repl-diskless-sync-delay", "0"]).unwrap();
    let replica = RedisServer::start().unwrap();
    let follow = |port: u16| {
        let answer = replica.command(&["REPLICAOF", "127.0.0.1", &port.to_string()]).unwrap();
        assert!(answer.starts_with("+OK"), "{answer}");
    };
    follow(server.port());
    let parameters = "?wait_replicas=1&timeout=1s";
    // It follows a while before it confirms anything.
    asks_until_granted(&backend(&format!("{}{parameters}", server.url())), &claim("first")).await;
    let proxy = Proxy::to(([127, 0, 0, 1], server.port()).into()).await.unwrap();
    let asking = backend(&format!("redis://{}{parameters}", proxy.address()));
    // The connection for grants is made, and the one for all else is not yet.
    hold(&asking, &claim("other")).await;
    follow(free_port().unwrap());
    proxy.lead_to(([127, 0, 0, 1], replica.port()).into());
    let claim = claim("job");
    let error = attempt_fails(&asking, &claim).await;
    assert_eq!(error.kind(), ErrorKind::Indeterminate, "{}", told(&error));
    assert!(told(&error).contains("whether the grant was taken back is not known"), "{}", told(&error));
    let record = get(&server, "{leasehold:job}:holder").unwrap();
    assert!(record.starts_with(&claim.owner().to_hex()), "{record}");

    follow(server.port());
    proxy.lead_to(([127, 0, 0, 1], server.port()).into());
    proxy.cut();
    until_replicated(&replica, "leasehold:job");
    let token = asks_until_granted(&asking, &claim).await;
    assert!(!record.contains(&format!(" {token} ")), "the grant that was to be taken back is not believed");
    assert_eq!(release(&asking, &claim).await, Release::Released);
}

/// The grant comes on the connection that is there; the connection for confirmations cannot be made afterwards.
#[tokio::test]
async fn grant_that_cannot_be_confirmed_is_taken_back() {
    let server = RedisServer::start().unwrap();
    let proxy = Proxy::to(([127, 0, 0, 1], server.port()).into()).await.unwrap();
    let (other, asking) =
        (backend(&server.url()), backend(&format!("redis://{}?wait_replicas=1", proxy.address())));
    // A release that hands over makes the connection, and shows that the name has a queue: then the next attempt names its
    // keys, which is confirmed in a second request.
    let (holder, next, claim) = (claim("job"), waiter("job"), waiter("job"));
    hold(&other, &holder).await;
    queue(&other, &next).await;
    assert_eq!(release(&asking, &holder).await, Release::Released);
    assert_eq!(release(&other, &next).await, Release::Released);
    proxy.lead_to(([127, 0, 0, 1], free_port().unwrap()).into());
    let error = attempt_fails(&asking, &claim).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{}", told(&error));
    assert_eq!(get(&server, "leasehold:job"), None, "an unavailable attempt leaves no lock");
    assert_eq!(get(&server, "{leasehold:job}:holder"), None);
}

/// A crowd that takes what is free has to wait for its turns, and a holder among them has no time for that.
#[tokio::test(flavor = "multi_thread")]
async fn renewals_do_not_stand_behind_a_crowd_of_grants() {
    let server = RedisServer::start_with(&["--repl-diskless-sync-delay", "0"]).unwrap();
    let replica = RedisServer::start().unwrap();
    let far = Proxy::to(([127, 0, 0, 1], server.port()).into()).await.unwrap();
    replica.command(&["REPLICAOF", "127.0.0.1", &far.address().port().to_string()]).unwrap();
    hold(&backend(&server.url()), &claim("other")).await;
    until_replicated(&replica, "leasehold:other");
    let backend = backend(&format!("{}?wait_replicas=1&timeout=1s", server.url()));
    let holder = claim("job");
    // It has the data a while before it has told its primary so, and counts from then on.
    let start = Instant::now();
    while !matches!(backend.try_acquire(&holder).await, Ok(Attempt::Granted(_))) {
        assert!(start.elapsed() < PATIENCE);
    }
    far.set(Traffic::Delay(Duration::from_millis(10)));
    let take_what_is_free = |n: usize| {
        let backend = backend.clone();
        tokio::spawn(async move {
            loop {
                let claim = claim(&format!("free/{n}"));
                if backend.try_acquire(&claim).await.is_ok() {
                    let _ = backend.release(&claim, Duration::ZERO).await;
                }
            }
        })
    };
    let crowd: Vec<_> = (0..300).map(take_what_is_free).collect();
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!(renew(&backend, &holder).await.unwrap(), Renewal::Renewed);
    }
    crowd.iter().for_each(tokio::task::JoinHandle::abort);
}

/// `WAIT` blocks its connection. Renewals of other clients' locks, and the queue, do not stand behind it; and a crowd is
/// turned away in bounded time, with the certainty that nothing was done.
#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_without_replicas_is_turned_away_and_leaves_nothing() {
    let (group, url) = group();
    group.cut_replica_off().unwrap();
    let backend = backend(&url.replace("timeout=8s", "timeout=1s"));
    let start = Instant::now();
    let crowd: Vec<_> = (0..40)
        .map(|n| {
            let backend = backend.clone();
            tokio::spawn(async move { answered(backend.try_acquire(&claim(&format!("job/{n}")))).await })
        })
        .collect();
    for one in crowd {
        let error = one.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{}", told(&error));
    }
    assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
    let left = group.server(0).command(&["EVAL", "return #redis.call('KEYS', 'leasehold:*')", "0"]).unwrap();
    assert_eq!(left, ":0");
}

#[tokio::test]
async fn the_right_to_wait_is_named_when_it_is_missing() {
    let (group, _) = group();
    let user = "ACL SETUSER locker on >PW ~* &* +@all -wait";
    let server = group.server(0);
    assert_eq!(server.command(&user.split(' ').collect::<Vec<_>>()).unwrap(), "+OK");
    let url = format!("redis://locker:PW@127.0.0.1:{}?wait_replicas=1", server.port());
    let error = attempt_fails(&backend(&url), &claim("job")).await;
    assert_eq!(error.kind(), ErrorKind::Denied);
    assert!(told(&error).contains("grant it with ACL SETUSER: +wait"), "{}", told(&error));
    assert_eq!(get(server, "leasehold:job"), None, "what could not be confirmed was taken back");
}

/// One promise that it buys: the replica that takes over knows the lock, and of two fail-overs none makes two holders.
#[tokio::test]
async fn a_confirmed_lock_is_known_to_the_next_primary() {
    let (mut group, url) = group();
    let (holder, other) = (client(&url), backend(&group.url()));
    let guard = holder.acquire_with(&name("job"), &patient()).await.unwrap();
    group.fail_over().unwrap();
    match answered(other.try_acquire(&claim("job"))).await.unwrap() {
        Attempt::Busy(_) => {}
        Attempt::Granted(grant) => panic!("{grant:?} beside {:?}", guard.token()),
    }
    assert!(guard.is_held());
}

/// As the core does after an outage.
async fn asks_until_granted(backend: &RedisBackend, claim: &Claim) -> FencingToken {
    let start = Instant::now();
    loop {
        match answered(backend.try_acquire(claim)).await {
            Ok(Attempt::Granted(grant)) => return grant.token,
            answer => assert!(start.elapsed() < PATIENCE, "{answer:?}"),
        }
    }
}

/// How many calls of scripts the server has answered.
fn scripts_run(server: &RedisServer) -> u64 {
    let info = server.command(&["INFO", "commandstats"]).unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    line.unwrap().split(',').next().unwrap().parse().unwrap()
}
