//! A server that takes no writes, from the first of them on or from one in between.

use super::{MANY, ask_all, claims, release_all, together, tokens, warm_up};
use crate::fake::{Fake, WELCOME};
use crate::kit::{Look, TTL, answered, backend, keys, name, server, told};
use futures_util::future::join_all;
use leasehold_core::{Attempt, Claim, ErrorKind, LockBackend, OwnerId, Release, Result};
use leasehold_redis::RedisBackend;
use leasehold_test_stores::servers::RedisServer;
use std::time::Duration;

/// So large that what connections and requests take beside it does not count.
const DESCRIPTION: usize = 32 * 1024;

fn large_claims(start: &str) -> Vec<Claim> {
    let large = |number| {
        let name = name(&format!("{start}/{number}"));
        Claim::new(name, OwnerId::random().unwrap(), TTL, "x".repeat(DESCRIPTION).into())
    };
    (0..MANY).map(large).collect()
}

/// Leaves the server room for so many bytes more.
fn limit_memory(server: &RedisServer, more: usize) {
    let memory = server.command(&["INFO", "memory"]).unwrap();
    let used = memory.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap();
    let limit = (used.parse::<usize>().unwrap() + more).to_string();
    assert_eq!(server.command(&["CONFIG", "SET", "maxmemory", &limit]).unwrap(), "+OK");
}

/// Whether each was granted; who was not has heard this.
fn granted_or(attempts: &[Result<Attempt>], why: &str) -> Vec<bool> {
    let granted = |attempt: &Result<Attempt>| match attempt {
        Ok(Attempt::Granted(_)) => true,
        Ok(Attempt::Busy(busy)) => panic!("{busy:?}"),
        Err(error) => {
            assert!(error.kind() == ErrorKind::Unavailable && told(error).contains(why), "{}", told(error));
            false
        }
    };
    attempts.iter().map(granted).collect()
}

async fn ends(backend: &RedisBackend, claims: &[Claim]) -> Vec<Result<Release>> {
    answered(join_all(claims.iter().map(|claim| backend.release(claim, Duration::ZERO)))).await
}

fn waiting(claims: Vec<Claim>) -> Vec<Claim> {
    claims.into_iter().map(|claim| claim.with_waiting(true)).collect()
}

#[tokio::test]
async fn full_memory_grants_nothing_and_lets_all_release() {
    let server = server();
    let backend = backend(&server.url());
    warm_up(&backend).await;
    let held = claims("held");
    tokens(&ask_all(&backend, &held).await);
    let before = server.keys();
    server.command(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    for others in [claims("job"), waiting(claims("job"))] {
        let granted = granted_or(&ask_all(&backend, &others).await, "its memory is full");
        assert_eq!(granted, [false; MANY]);
        assert_eq!(server.keys(), before);
    }
    together(&server, async {
        assert!(release_all(&backend, &held).await.iter().all(|end| *end == Release::Released));
    })
    .await;
    assert!(server.keys().iter().all(|key| key.ends_with(":token")), "{:?}", server.keys());
}

#[tokio::test]
async fn claims_while_memory_runs_full_are_granted_whole_or_leave_nothing() {
    let server = server();
    let backend = backend(&server.url());
    warm_up(&backend).await;
    limit_memory(&server, MANY / 2 * DESCRIPTION);
    let all = large_claims("job");
    let attempts = ask_all(&backend, &all).await;
    let granted = granted_or(&attempts, "its memory is full");
    assert!(granted.contains(&true) && granted.contains(&false), "{granted:?}");
    for (claim, granted) in all.iter().zip(&granted) {
        let (keys, owner) = (keys(claim.name().as_str()), claim.owner().to_hex());
        let [lock, holder, token] = [&keys.lock, &keys.holder, &keys.token].map(|key| server.get(key));
        assert_eq!([lock.is_some(), holder.is_some(), token.is_some()], [*granted; 3]);
        assert!(lock.is_none_or(|lock| lock == owner));
    }
    // None is granted to a second owner.
    for attempt in ask_all(&backend, &large_claims("job")).await {
        assert!(!matches!(attempt, Ok(Attempt::Granted(_))), "{attempt:?}");
    }
    for (end, granted) in release_all(&backend, &all).await.into_iter().zip(granted) {
        assert_eq!(end, if granted { Release::Released } else { Release::NotHeld });
    }
    assert!(server.keys().iter().all(|key| key.ends_with(":token")), "{:?}", server.keys());
}

#[tokio::test]
async fn claims_on_a_demoted_server_are_unavailable_until_it_is_primary_again() {
    let server = server();
    let backend = backend(&server.url());
    warm_up(&backend).await;
    let (held, others) = (claims("held"), claims("job"));
    tokens(&ask_all(&backend, &held).await);
    let before = server.keys();
    assert_eq!(server.command(&["REPLICAOF", "127.0.0.1", "1"]).unwrap(), "+OK");
    for others in [others.clone(), waiting(claims("job"))] {
        granted_or(
            &ask_all(&backend, &others).await,
            "it is a replica, and locks are granted by its primary alone",
        );
    }
    for error in ends(&backend, &held).await.into_iter().map(Result::unwrap_err) {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
    assert_eq!(server.keys(), before);
    assert_eq!(server.command(&["REPLICAOF", "NO", "ONE"]).unwrap(), "+OK");
    assert!(release_all(&backend, &held).await.iter().all(|end| *end == Release::Released));
    let before = server.connections();
    tokens(&ask_all(&backend, &others).await);
    release_all(&backend, &others).await;
    assert_eq!(server.connections() - before, 1, "the one that looks");
}

/// It may be a proxy's, behind which the server has carried the request out.
#[tokio::test]
async fn unknown_error_is_an_unknown_outcome_for_each_claim() {
    let fake = Fake::answering(|words| match words[0].as_str() {
        "HELLO" => WELCOME.to_owned(),
        _ if words[2] == "6" => ":0\r\n".to_owned(),
        _ => "-upstream failure\r\n".to_owned(),
    })
    .await;
    let backend = backend(&fake.url());
    let all = claims("job");
    let first = ends(&backend, &all).await;
    let (alone, together) = first.split_at(5);
    assert!(alone.iter().all(|end| matches!(end, Ok(Release::NotHeld))), "{alone:?}");
    for end in together {
        assert!(matches!(end, Err(error) if error.kind() == ErrorKind::Indeterminate), "{end:?}");
    }
}
