//! What is wrong with all of them at once: rights, replies that are lost, callers and runtimes that are gone.

use super::{MANY, among_others, ask_all, claims, token, tokens, warm_up};
use crate::kit::{Behind, Look, answered, backend, claim, keys, proxy_to, server, until, url_of};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all};
use leasehold_conformance::proxy::Traffic;
use leasehold_core::{Attempt, ErrorKind, LockBackend, Release, Result};
use leasehold_redis::RedisBackend;
use leasehold_test_stores::servers::RedisServer;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;

/// A backend whose user has these rights.
fn with_rights(rights: &str) -> (RedisServer, Arc<RedisBackend>) {
    let server = server();
    let line = format!("ACL SETUSER locker on >PASSWORD {rights}");
    assert_eq!(server.command(&line.split(' ').collect::<Vec<_>>()).unwrap(), "+OK");
    let backend = backend(&format!("redis://locker:PASSWORD@127.0.0.1:{}", server.port()));
    (server, backend)
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

#[tokio::test]
async fn forbidden_claim_keeps_no_other_from_its_lock() {
    let (_server, backend) = with_rights("~leasehold:other* ~{leasehold:other* +@all");
    let error = among_others(&backend, &claim("job")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
}

/// What is not granted cannot be put back then. It is not to be taken for a grant by who asks again.
#[tokio::test]
async fn user_without_del_is_granted_no_name_that_was_not_free() {
    let (server, backend) = with_rights("~* &* +@all -del");
    let (last, odd) = ("8000000000000000", claim("job"));
    server.set(&keys("job").token, last);
    let mut all = claims("other");
    all.push(odd);
    let mut attempts = ask_all(&backend, &all).await;
    let odd = attempts.pop().unwrap();
    tokens(&attempts);
    match odd {
        Ok(Attempt::Granted(grant)) => assert!(grant.token.to_string().as_str() > last, "{}", grant.token),
        Ok(Attempt::Busy(_)) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::Denied, "{error}"),
    }
    assert_eq!(server.get(&keys("job").token).map(|token| token.as_str() >= last), Some(true));
}

/// The replies are lost on the way, so each outcome is unknown; asked again, each claim finds its own grant.
#[tokio::test]
async fn lost_reply_is_unknown_for_each_claim_and_found_by_its_next_attempt() {
    let server = server();
    let proxy = proxy_to(&server).await;
    let backend = backend(&url_of(&proxy, ""));
    warm_up(&backend).await;
    proxy.set(Traffic::HoldReplies);
    let all = claims("job");
    let asked = ask_all(&backend, &all);
    let all_are_granted = async {
        until(|| server.keys().iter().filter(|key| key.starts_with("leasehold:job")).count() == MANY).await;
        proxy.set(Traffic::Pass);
        proxy.cut();
    };
    let (attempts, ()) = tokio::join!(asked, answered(all_are_granted));
    for attempt in attempts {
        assert_eq!(attempt.unwrap_err().kind(), ErrorKind::Indeterminate);
    }
    let tokens: Vec<_> =
        ask_all(&backend, &all).await.iter().map(|attempt| token(attempt).to_string()).collect();
    let stored = all.iter().map(|claim| server.get(&keys(claim.name().as_str()).token).unwrap());
    assert_eq!(tokens, stored.collect::<Vec<_>>());
}

/// Each is polled once and put aside, whichever of them was to go for the others.
#[tokio::test]
async fn claim_that_is_not_polled_holds_up_no_other() {
    let server = server();
    let backend = backend(&server.url());
    warm_up(&backend).await;
    let all = claims("job");
    let mut asked: Vec<BoxFuture<'_, Result<Attempt>>> =
        all.iter().map(|claim| backend.try_acquire(claim)).collect();
    for one in &mut asked {
        assert!(one.now_or_never().is_none());
    }
    let last = asked.pop().unwrap();
    token(&answered(last).await);
    token(&answered(asked.swap_remove(MANY / 2)).await);
    drop(asked);
}

/// The releases of abandoned claims may go before the batch, so the batch leaves these claims out once it has a connection.
#[tokio::test]
async fn claims_abandoned_while_the_connection_is_made_again_are_not_sent() {
    let server = server();
    let Behind { proxy, waits: backend, next, .. } = Behind::proxy_to(&server, "").await;
    // The reply to the handshake of the next connection is held back.
    proxy.set(Traffic::HoldReplies);
    proxy.cut();
    answered(backend.changed(&next)).await;
    let (all, before) = (claims("left"), proxy.request_bytes());
    let mut asked: Vec<BoxFuture<'_, Result<Attempt>>> =
        all.iter().map(|claim| backend.try_acquire(claim)).collect();
    for one in &mut asked {
        assert!(one.now_or_never().is_none());
    }
    until(|| proxy.request_bytes() > before).await;
    let last = asked.pop().unwrap();
    drop(asked);
    proxy.set(Traffic::Pass);
    token(&answered(last).await);
    let mut granted = server.keys();
    granted.retain(|key| key.starts_with("leasehold:left"));
    assert_eq!(granted, [keys(all[MANY - 1].name().as_str()).lock]);
}

/// Claims of another runtime that were left to one which ends; and those that come after.
#[test]
fn claims_of_an_ended_runtime_get_answers_and_others_their_locks() {
    let server = server();
    let backend: Arc<RedisBackend> = backend(&server.url());
    let (first, second) = (runtime(), runtime());
    first.block_on(warm_up(&backend));
    let all = claims("left");
    let mut asked: Vec<BoxFuture<'_, Result<Attempt>>> =
        all.iter().map(|claim| backend.try_acquire(claim)).collect();
    first.block_on(async {
        for one in &mut asked {
            assert!(one.now_or_never().is_none());
        }
    });
    drop(first);
    second.block_on(async {
        for attempt in answered(join_all(asked)).await {
            assert!(
                !matches!(&attempt, Err(error) if error.kind() != ErrorKind::Indeterminate),
                "{attempt:?}"
            );
        }
        let next = claims("next");
        for attempt in ask_all(&backend, &next).await {
            token(&attempt);
        }
    });
}

/// The claims of one runtime do not wait for another, so a release that follows does not overtake them.
#[test]
fn claim_whose_runtime_ended_among_others_is_released_by_the_release_that_follows() {
    let (ends, stays) = (runtime(), runtime());
    let server = server();
    let backend = backend(&server.url());
    stays.block_on(warm_up(&backend));
    let (gone, others) = (claim("gone"), claims("job"));
    let ask = |claim| -> BoxFuture<'_, Result<Attempt>> { backend.try_acquire(claim) };
    let mut asked: Vec<_> = others.iter().map(ask).collect();
    stays.block_on(async { asked.iter_mut().for_each(|one| assert!(one.now_or_never().is_none())) });
    let mut left = ask(&gone);
    ends.block_on(async { assert!((&mut left).now_or_never().is_none()) });
    drop((left, ends));
    stays.block_on(async {
        let release = answered(backend.release(&gone, Duration::ZERO)).await;
        assert!(matches!(release, Ok(Release::Released | Release::NotHeld)), "{release:?}");
        tokens(&answered(join_all(asked)).await);
        assert_eq!(server.get(&keys("gone").lock), None);
    });
}
