//! Many who ask at once, and are asked for together: each is answered as if it had asked alone.

use crate::kit::{
    HOLDER, Look, TTL, answered, backend, busy, claim, hold, keys, proxy_to, queue, release, server, until,
    url_of, waiter,
};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all};
use leasehold_conformance::proxy::Traffic;
use leasehold_conformance::servers::RedisServer;
use leasehold_core::{Attempt, Claim, ErrorKind, FencingToken, LockBackend, Release, Result};
use leasehold_redis::RedisBackend;
use std::sync::Arc;
use std::time::Duration;

/// So many that most of them go together.
const MANY: usize = 64;

fn claims(start: &str) -> Vec<Claim> {
    (0..MANY).map(|number| claim(&format!("{start}/{number}"))).collect()
}

/// In one task, polled one after the other.
async fn ask_all(backend: &RedisBackend, claims: &[Claim]) -> Vec<Result<Attempt>> {
    answered(join_all(claims.iter().map(|claim| backend.try_acquire(claim)))).await
}

async fn release_all(backend: &RedisBackend, claims: &[Claim]) -> Vec<Release> {
    let releases = claims.iter().map(|claim| backend.release(claim, Duration::ZERO));
    answered(join_all(releases)).await.into_iter().map(Result::unwrap).collect()
}

fn token(attempt: &Result<Attempt>) -> FencingToken {
    match attempt {
        Ok(Attempt::Granted(grant)) => grant.token,
        other => panic!("{other:?}"),
    }
}

fn tokens(attempts: &[Result<Attempt>]) -> Vec<FencingToken> {
    attempts.iter().map(token).collect()
}

/// A script that was called by `ask` once for several.
async fn together(server: &RedisServer, ask: impl Future<Output = ()>) {
    let before = server.calls("evalsha");
    ask.await;
    let calls = server.calls("evalsha") - before;
    assert!((1..MANY as u64 / 2).contains(&calls), "{calls} calls for {MANY} names");
}

/// Makes the connection, and sees to it that the server has the scripts.
async fn warm_up(backend: &RedisBackend) {
    let some = claims("warm-up");
    tokens(&ask_all(backend, &some).await);
    release_all(backend, &some).await;
}

#[tokio::test]
async fn many_are_granted_and_released_together_as_they_are_alone() {
    let server = server();
    let backend = backend(&server.url());
    warm_up(&backend).await;
    for name in server.keys() {
        server.del(&name);
    }
    let mut last = vec![FencingToken::new(0); MANY];
    for _ in 0..3 {
        let all = claims("job");
        together(&server, async {
            let granted = tokens(&ask_all(&backend, &all).await);
            assert!(
                granted.iter().zip(&last).all(|(token, last)| token > last),
                "{granted:?} after {last:?}"
            );
            last = granted;
        })
        .await;
        for (claim, token) in all.iter().zip(&last) {
            let (keys, owner) = (keys(claim.name().as_str()), claim.owner().to_hex());
            assert_eq!(server.get(&keys.lock).as_ref(), Some(&owner));
            let record = server.get(&keys.holder).unwrap();
            assert!(record.starts_with(&format!("{owner} {token} ")) && record.ends_with(HOLDER), "{record}");
            assert_eq!(server.get(&keys.token), Some(token.to_string()));
            let (left, kept) = (server.pttl(&keys.lock), server.pttl(&keys.token));
            assert!(
                server.end_together(&keys.lock, &keys.holder)
                    && left > 30_000
                    && left <= TTL.as_millis() as i64
            );
            assert!((86_000_000..=86_400_000).contains(&kept), "{kept}");
        }
        together(&server, async {
            assert!(release_all(&backend, &all).await.iter().all(|end| *end == Release::Released));
        })
        .await;
        assert!(server.keys().iter().all(|key| key.ends_with(":token")), "{:?}", server.keys());
    }
}

/// The last of many, behind those that go by themselves: so it went together with others.
async fn among_others(backend: &RedisBackend, odd: &Claim) -> Result<Attempt> {
    let mut all = claims("other");
    all.push(odd.clone());
    let mut attempts = ask_all(backend, &all).await;
    let attempt = attempts.pop().unwrap();
    tokens(&attempts);
    all.pop();
    assert!(release_all(backend, &all).await.iter().all(|end| *end == Release::Released));
    attempt
}

#[tokio::test]
async fn one_that_is_held_or_waited_for_is_answered_as_alone_and_left_as_it_was() {
    let server = server();
    let backend = backend(&server.url());
    let (holder, first) = (claim("job"), waiter("job"));
    let granted = hold(&backend, &holder).await;
    let held = among_others(&backend, &claim("job")).await;
    assert!(matches!(&held, Ok(Attempt::Busy(busy)) if busy.ends_in.is_some()), "{held:?}");
    // Its own: a retry whose first reply was lost.
    assert_eq!(token(&among_others(&backend, &holder).await), granted);
    // Free, but somebody waits: the queue has it, whoever asks.
    queue(&backend, &first).await;
    server.del(&keys("job").lock);
    server.del(&keys("job").holder);
    let passed_by = among_others(&backend, &claim("job")).await;
    assert!(matches!(passed_by, Ok(Attempt::Busy(_))), "{passed_by:?}");
    assert_eq!(server.get(&keys("job").lock).unwrap().trim_end_matches('+'), first.owner().to_hex());
}

/// By a client that knows of nobody who waits.
#[tokio::test]
async fn one_that_is_released_among_others_goes_to_who_waits_for_it() {
    let server = server();
    let [backend, elsewhere] = [(); 2].map(|()| backend(&server.url()));
    let (holder, next) = (claim("job"), waiter("job"));
    hold(&backend, &holder).await;
    queue(&elsewhere, &next).await;
    let mut all = claims("other");
    tokens(&ask_all(&backend, &all).await);
    all.push(holder);
    assert!(release_all(&backend, &all).await.iter().all(|end| *end == Release::Released));
    assert_eq!(server.get(&keys("job").lock).unwrap().trim_end_matches('+'), next.owner().to_hex());
}

#[tokio::test]
async fn one_who_will_wait_has_its_place_and_of_two_for_one_name_one_has_it() {
    let server = server();
    let [backend, elsewhere] = [(); 2].map(|()| backend(&server.url()));
    hold(&elsewhere, &claim("job")).await;
    let asked = among_others(&backend, &waiter("job")).await;
    assert!(matches!(&asked, Ok(Attempt::Busy(busy)) if busy.queued), "{asked:?}");
    let mut all = claims("other");
    all.extend([claim("twice"), claim("twice")]);
    // The server has forgotten the scripts.
    server.command(&["SCRIPT", "FLUSH"]).unwrap();
    let mut attempts = ask_all(&backend, &all).await;
    let twice = attempts.split_off(MANY);
    tokens(&attempts);
    let granted = twice.iter().filter(|attempt| matches!(attempt, Ok(Attempt::Granted(_)))).count();
    assert_eq!((granted, twice.iter().all(Result::is_ok)), (1, true), "{twice:?}");
}

#[tokio::test]
async fn one_that_lingers_under_nobodys_name_is_not_granted() {
    let server = server();
    let backend = backend(&server.url());
    let holder = claim("job");
    hold(&backend, &holder).await;
    assert_eq!(answered(backend.release(&holder, TTL)).await.unwrap(), Release::Released);
    let lingering = among_others(&backend, &claim("job")).await;
    assert!(matches!(lingering, Ok(Attempt::Busy(_))), "{lingering:?}");
}

#[tokio::test]
async fn one_whose_lock_key_has_vanished_is_kept_for_its_holder() {
    let server = server();
    let backend = backend(&server.url());
    let holder = claim("job");
    hold(&backend, &holder).await;
    server.del(&keys("job").lock);
    let token = server.get(&keys("job").token);
    let vanished = among_others(&backend, &claim("job")).await;
    assert!(matches!(&vanished, Ok(Attempt::Busy(busy)) if busy.ends_in.is_some()), "{vanished:?}");
    assert_eq!((server.get(&keys("job").lock), server.get(&keys("job").token)), (None, token));
}

#[tokio::test]
async fn one_whose_clock_went_back_is_given_the_token_behind_the_last_one() {
    let server = server();
    let backend = backend(&server.url());
    server.set(&keys("job").token, "8000000000000000");
    assert_eq!(token(&among_others(&backend, &claim("job")).await), FencingToken::new(8_000_000_000_000_001));
    // No number, and more than a number.
    for nonsense in ["nan", "-", "", "1 queue"] {
        server.set(&keys("odd").token, nonsense);
        let odd = claim("odd");
        assert!(token(&among_others(&backend, &odd).await).get() > 1_000_000_000_000_000, "{nonsense}");
        release(&backend, &odd).await;
    }
}

#[tokio::test]
async fn foreign_data_is_named_to_whom_it_concerns_and_stays() {
    let server = server();
    let backend = backend(&server.url());
    for which in 0..3 {
        let name = format!("job/{which}");
        let keys = keys(&name);
        let key = [&keys.lock, &keys.holder, &keys.token][which];
        assert_eq!(server.command(&["RPUSH", key, "foreign"]).unwrap(), ":1");
        let error = among_others(&backend, &claim(&name)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
        assert!(error.to_string().contains(key.as_str()), "{error}");
        assert_eq!(server.command(&["LLEN", key]).unwrap(), ":1");
        server.del(key);
        assert_eq!((server.get(&keys.lock), server.get(&keys.holder)), (None, None));
    }
}

#[tokio::test]
async fn one_that_is_not_held_is_told_so_and_another_owner_keeps_its_lock() {
    let server = server();
    let backend = backend(&server.url());
    let (holder, other) = (claim("job"), claim("job"));
    hold(&backend, &holder).await;
    let mut all = claims("other");
    ask_all(&backend, &all).await;
    all.push(other);
    let mut ends = release_all(&backend, &all).await;
    assert_eq!(ends.pop(), Some(Release::NotHeld));
    assert!(ends.iter().all(|end| *end == Release::Released));
    assert!(busy(&backend, &claim("job")).await.is_some());
}

#[tokio::test]
async fn one_that_is_forbidden_keeps_no_other_from_its_lock() {
    let server = server();
    let rights = "ACL SETUSER locker on >PASSWORD ~leasehold:other* ~{leasehold:other* +@all";
    server.command(&rights.split(' ').collect::<Vec<_>>()).unwrap();
    let backend = backend(&format!("redis://locker:PASSWORD@127.0.0.1:{}", server.port()));
    let error = among_others(&backend, &claim("job")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
}

#[tokio::test]
async fn a_user_who_may_not_read_together_has_its_locks_all_the_same() {
    let server = server();
    let rights = "ACL SETUSER locker on >PASSWORD ~* +@all -mget";
    server.command(&rights.split(' ').collect::<Vec<_>>()).unwrap();
    let backend = backend(&format!("redis://locker:PASSWORD@127.0.0.1:{}", server.port()));
    warm_up(&backend).await;
    together(&server, async {
        let all = claims("job");
        tokens(&ask_all(&backend, &all).await);
    })
    .await;
}

/// The replies are lost on the way, so nobody knows; asked again, each finds the grant that was its own.
#[tokio::test]
async fn a_lost_reply_is_an_unknown_outcome_for_each_and_recognised_by_the_next_attempt() {
    let server = server();
    let proxy = proxy_to(&server).await;
    let backend = backend(&url_of(&proxy, ""));
    warm_up(&backend).await;
    proxy.set(Traffic::HoldReplies);
    let all = claims("job");
    let asked = ask_all(&backend, &all);
    let all_are_granted = async {
        while server.keys().iter().filter(|key| key.starts_with("leasehold:job")).count() < MANY {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
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
async fn who_does_not_poll_holds_up_nobody() {
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

/// Claims of another runtime that were left to one which ends; and those that come after.
#[test]
fn when_a_runtime_ends_all_have_an_answer_and_others_their_locks() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
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

/// The release that followed may have come before the grant, of which nobody heard.
#[test]
fn a_grant_whose_callers_runtime_has_ended_meanwhile_is_taken_back() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (ends, stays) = (runtime(), runtime());
    let server = server();
    let proxy = stays.block_on(proxy_to(&server));
    let backend = backend(&url_of(&proxy, ""));
    stays.block_on(warm_up(&backend));
    proxy.set(Traffic::HoldReplies);
    let (gone, others) = (claim("gone"), claims("job"));
    let ask = |claim| -> BoxFuture<'_, Result<Attempt>> { backend.try_acquire(claim) };
    let (alone, together) = others.split_at(9);
    let mut asked: Vec<_> = alone.iter().map(ask).collect();
    stays.block_on(async { asked.iter_mut().for_each(|one| assert!(one.now_or_never().is_none())) });
    // Left to the others: its own runtime does not go on.
    let mut left = ask(&gone);
    ends.block_on(async { assert!((&mut left).now_or_never().is_none()) });
    let mut more: Vec<_> = together.iter().map(ask).collect();
    stays.block_on(async { more.iter_mut().for_each(|one| assert!(one.now_or_never().is_none())) });
    drop((left, ends));
    let lock = keys("gone").lock;
    let is_granted = async {
        while server.get(&lock).is_none() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        proxy.set(Traffic::Pass);
        proxy.deliver();
    };
    asked.extend(more);
    let (attempts, ()) = stays.block_on(answered(async { tokio::join!(join_all(asked), is_granted) }));
    tokens(&attempts);
    stays.block_on(until(|| server.get(&lock).is_none()));
}
