//! Many who ask at once, and are asked for together: each is answered as if it had asked alone.

mod failures;
mod names;
mod refused;

use crate::kit::{Look, answered, claim};
use futures_util::future::join_all;
use leasehold_core::{Attempt, Claim, FencingToken, LockBackend, Release, Result};
use leasehold_redis::RedisBackend;
use leasehold_test_stores::servers::RedisServer;
use std::time::Duration;

/// So many that most of them go together.
pub(super) const MANY: usize = 64;

pub(super) fn claims(start: &str) -> Vec<Claim> {
    (0..MANY).map(|number| claim(&format!("{start}/{number}"))).collect()
}

/// In one task, polled one after the other.
pub(super) async fn ask_all(backend: &RedisBackend, claims: &[Claim]) -> Vec<Result<Attempt>> {
    answered(join_all(claims.iter().map(|claim| backend.try_acquire(claim)))).await
}

pub(super) async fn release_all(backend: &RedisBackend, claims: &[Claim]) -> Vec<Release> {
    let releases = claims.iter().map(|claim| backend.release(claim, Duration::ZERO));
    answered(join_all(releases)).await.into_iter().map(Result::unwrap).collect()
}

pub(super) fn token(attempt: &Result<Attempt>) -> FencingToken {
    match attempt {
        Ok(Attempt::Granted(grant)) => grant.token,
        other => panic!("{other:?}"),
    }
}

pub(super) fn tokens(attempts: &[Result<Attempt>]) -> Vec<FencingToken> {
    attempts.iter().map(token).collect()
}

/// A script that was called by `ask` once for several.
pub(super) async fn together(server: &RedisServer, ask: impl Future<Output = ()>) {
    let before = server.calls("evalsha");
    ask.await;
    let calls = server.calls("evalsha") - before;
    assert!((1..MANY as u64 / 2).contains(&calls), "{calls} calls for {MANY} names");
}

/// Makes the connection, and sees to it that the server has the scripts.
pub(super) async fn warm_up(backend: &RedisBackend) {
    let some = claims("warm-up");
    tokens(&ask_all(backend, &some).await);
    release_all(backend, &some).await;
}

/// The last of many, behind those that go by themselves: so it went together with others.
pub(crate) async fn among_others(backend: &RedisBackend, odd: &Claim) -> Result<Attempt> {
    let mut all = claims("other");
    all.push(odd.clone());
    let mut attempts = ask_all(backend, &all).await;
    let attempt = attempts.pop().unwrap();
    tokens(&attempts);
    all.pop();
    assert!(release_all(backend, &all).await.iter().all(|end| *end == Release::Released));
    attempt
}
