//! `wait_replicas`: a grant that too few replicas have is not believed.

use crate::kit::{PATIENCE, TTL, answered};
use crate::kit::{
    attempt_fails, backend, claim, client, get, hold, name, patient, queue, release, renew, told,
    until_replicated, waiter,
};
use futures_util::FutureExt;
use leasehold_conformance::proxy::{Proxy, Traffic};
use leasehold_conformance::server::free_port;
use leasehold_core::{
    Attempt, Claim, DistributedLockExt, ErrorKind, FencingToken, LockAdmin, LockBackend, LockMode, OwnerId,
    Release, Renewal,
};
use leasehold_redis::RedisBackend;
use leasehold_test_stores::servers::{RedisSentinelGroup, RedisServer};
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

fn group() -> (RedisSentinelGroup, String) {
    let group = RedisSentinelGroup::start().unwrap();
    let url = format!("{}?wait_replicas=1&timeout=8s", group.url());
    (group, url)
}

#[tokio::test]
async fn grant_that_the_replica_has_is_believed() {
    let (group, url) = group();
    let (backend, claim) = (backend(&url), claim("job"));
    hold(&backend, &claim).await;
    assert_eq!(get(group.server(1), "leasehold:job"), Some(claim.owner().to_hex()));
    assert_eq!(renew(&backend, &claim).await.unwrap(), Renewal::Renewed);
    assert_eq!(release(&backend, &claim).await, Release::Released);
}

#[tokio::test]
async fn grant_that_no_replica_confirms_is_an_unknown_outcome_until_it_is_released() {
    let (group, url) = group();
    group.cut_replica_off().unwrap();
    for claim in [claim("job"), waiter("job")] {
        let backend = backend(&url);
        let error = attempt_fails(&backend, &claim).await;
        assert_eq!(error.kind(), ErrorKind::Indeterminate, "{}", told(&error));
        assert!(told(&error).contains("0 of 1 replicas have confirmed the grant in time"));
        assert_eq!(release(&backend, &claim).await, Release::Released);
        assert_eq!(get(group.server(0), "leasehold:job"), None);
        assert_eq!(get(group.server(0), "{leasehold:job}:holder"), None);
    }
}

/// What is not told to the replica cannot be counted on: the lease before it can, and is not lost.
#[tokio::test]
async fn renewal_that_no_replica_has_extends_nothing() {
    let (group, url) = group();
    let (backend, claim) = (backend(&url), claim("job"));
    hold(&backend, &claim).await;
    group.cut_replica_off().unwrap();
    assert_eq!(renew(&backend, &claim).await.unwrap(), Renewal::Held);
    assert_eq!(release(&backend, &claim).await, Release::Released);
    assert_eq!(renew(&backend, &claim).await.unwrap(), Renewal::Lost(leasehold_core::LossCause::Gone));
}

/// The server hands over without waiting for replicas; the new holder waits for them.
#[tokio::test]
async fn hand_over_is_believed_once_the_replica_has_it() {
    let (group, url) = group();
    let (holding, waiting) = (backend(&url), backend(&url));
    let (holder, next, last) = (claim("job"), waiter("job"), waiter("job"));
    hold(&holding, &holder).await;
    queue(&waiting, &next).await;
    queue(&waiting, &last).await;
    release(&holding, &holder).await;
    answered(waiting.changed(&next)).await;
    hold(&waiting, &next).await;
    assert_eq!(get(group.server(1), "leasehold:job"), Some(next.owner().to_hex()));
    group.cut_replica_off().unwrap();
    release(&waiting, &next).await;
    answered(waiting.changed(&last)).await;
    let error = attempt_fails(&waiting, &last).await;
    assert_eq!(error.kind(), ErrorKind::Indeterminate, "{}", told(&error));
    assert_eq!(release(&waiting, &last).await, Release::Released);
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
async fn unconfirmed_call_leaves_the_grant_that_another_call_of_its_claim_believes() {
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
        Ok(Attempt::Busy(busy)) => panic!("{busy:?}"),
        Err(error) => assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error}"),
    }
    assert_eq!(renew(&asking, &claim).await.unwrap(), Renewal::Renewed);
    release(&asking, &claim).await;
}

/// The grant comes on the connection that is there; the connection for confirmations cannot be made afterwards.
#[tokio::test]
async fn grant_that_cannot_be_confirmed_is_an_unknown_outcome() {
    let server = RedisServer::start().unwrap();
    let proxy = Proxy::to(([127, 0, 0, 1], server.port()).into()).await.unwrap();
    let (other, asking) =
        (backend(&server.url()), backend(&format!("redis://{}?wait_replicas=1", proxy.address())));
    let (holder, claim) = (claim("job"), claim("job"));
    hold(&other, &holder).await;
    assert_eq!(release(&asking, &holder).await, Release::Released);
    proxy.lead_to(([127, 0, 0, 1], free_port().unwrap()).into());
    let error = attempt_fails(&asking, &claim).await;
    assert_eq!(error.kind(), ErrorKind::Indeterminate, "{}", told(&error));
    assert_eq!(release(&asking, &claim).await, Release::Released);
    assert_eq!(get(&server, "leasehold:job"), None);
}

/// Releases and confirmations have connections of their own. The confirmation of a caller that has gone is held back until the
/// release of its claim is done.
#[tokio::test]
async fn confirmation_that_arrives_after_the_release_takes_no_lock() {
    let server = RedisServer::start().unwrap();
    let at = ([127, 0, 0, 1], server.port()).into();
    let (releases, confirmations) = (Proxy::to(at).await.unwrap(), Proxy::to(at).await.unwrap());
    let asking = backend(&format!("redis://{}?wait_replicas=1", releases.address()));
    assert_eq!(release(&asking, &claim("job")).await, Release::NotHeld);
    releases.lead_to(confirmations.address());
    for mode in [LockMode::Exclusive, LockMode::Shared] {
        let [early, late] = [(); 2].map(|()| claim("job").with_mode(mode));
        // The connection is there, and the server has the script.
        attempt_fails(&asking, &early).await;
        assert_eq!(release(&asking, &early).await, Release::Released);
        confirmations.set(Traffic::HoldRequests);
        let (requests, replies) = (confirmations.request_bytes(), confirmations.reply_bytes());
        let mut asked = asking.try_acquire(&late);
        while confirmations.request_bytes() == requests {
            assert!((&mut asked).now_or_never().is_none());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        drop(asked);
        assert_eq!(release(&asking, &late).await, Release::Released, "{mode}");
        confirmations.set(Traffic::Pass);
        while confirmations.reply_bytes() == replies {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!(asking.inspect(late.name()).await.unwrap().is_empty(), "{mode}");
        assert_eq!(get(&server, "leasehold:job"), None, "{mode}");
    }
}

/// Grants wait for each other until replicas have them. A renewal does not wait behind three hundred of them.
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
    // The replica has the data a while before it has told its primary so, and counts from then on.
    let start = Instant::now();
    while !matches!(backend.try_acquire(&holder).await, Ok(Attempt::Granted(_))) {
        assert!(start.elapsed() < PATIENCE);
    }
    far.set(Traffic::Slow(NonZeroUsize::MAX, Duration::from_millis(10)));
    let take_what_is_free = |n: usize| {
        let backend = backend.clone();
        tokio::spawn(async move {
            loop {
                let claim = claim(&format!("free/{n}"));
                let _ = backend.try_acquire(&claim).await;
                let _ = backend.release(&claim, Duration::ZERO).await;
            }
        })
    };
    let crowd: Vec<_> = (0..300).map(take_what_is_free).collect();
    let mut in_time = 0;
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let start = Instant::now();
        let renewed = matches!(renew(&backend, &holder).await, Ok(Renewal::Renewed));
        in_time += usize::from(renewed && start.elapsed() < Duration::from_millis(750));
    }
    // Behind the crowd, each would take longer than a second. A busy machine may be late once or twice.
    assert!(in_time >= 3, "{in_time} of 5 renewals were in time");
    crowd.iter().for_each(tokio::task::JoinHandle::abort);
}

/// `WAIT` blocks its connection. Releases and the queue do not stand behind it, and a crowd is answered in bounded time.
#[tokio::test(flavor = "multi_thread")]
async fn crowd_without_replicas_is_answered_in_bounded_time_and_leaves_nothing() {
    let (group, url) = group();
    group.cut_replica_off().unwrap();
    let locks = client(&url.replace("timeout=8s", "timeout=1s"));
    let start = Instant::now();
    let crowd: Vec<_> = (0..40)
        .map(|n| {
            let locks = locks.clone();
            tokio::spawn(async move { answered(locks.try_acquire(format!("job/{n}").as_str())).await })
        })
        .collect();
    for one in crowd {
        let error = one.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Indeterminate, "{}", told(&error));
    }
    assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
    let left =
        || group.server(0).command(&["EVAL", "return #redis.call('KEYS', 'leasehold:*')", "0"]).unwrap();
    while left() != ":0" {
        assert!(start.elapsed() < PATIENCE, "{} locks are left", left());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn missing_right_to_wait_is_named() {
    let (group, _) = group();
    let user = "ACL SETUSER locker on >PW ~* &* +@all -wait";
    let server = group.server(0);
    assert_eq!(server.command(&user.split(' ').collect::<Vec<_>>()).unwrap(), "+OK");
    let url = format!("redis://locker:PW@127.0.0.1:{}?wait_replicas=1", server.port());
    let error = attempt_fails(&backend(&url), &claim("job")).await;
    assert_eq!(error.kind(), ErrorKind::Indeterminate);
    assert!(told(&error).contains("grant it with ACL SETUSER: +wait"), "{}", told(&error));
}

/// One promise that it buys: the replica that takes over knows the lock, and of two fail-overs none makes two holders.
#[tokio::test]
async fn confirmed_lock_is_known_to_the_next_primary() {
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
