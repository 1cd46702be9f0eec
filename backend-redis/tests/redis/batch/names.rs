//! One name of many that is not simply free, or not simply its owner's.

use super::token;
use super::{MANY, among_others, ask_all, claims, release_all, together, tokens, warm_up};
use crate::kit::{
    HOLDER, Look, TTL, answered, backend, busy, claim, hold, keys, queue, release, server, waiter,
};
use leasehold_core::{Attempt, Claim, ErrorKind, FencingToken, LockBackend, LockMode, Release, Result};

#[tokio::test]
async fn claims_are_granted_and_released_together_as_they_are_alone() {
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
            assert!((86_400_000..=90_000_000).contains(&kept), "{kept}");
        }
        together(&server, async {
            assert!(release_all(&backend, &all).await.iter().all(|end| *end == Release::Released));
        })
        .await;
        assert!(server.keys().iter().all(|key| key.ends_with(":token")), "{:?}", server.keys());
    }
}

#[tokio::test]
async fn held_or_awaited_name_is_answered_as_alone_and_left_as_it_was() {
    let server = server();
    let backend = backend(&server.url());
    let (holder, first) = (claim("job"), waiter("job"));
    let granted = hold(&backend, &holder).await;
    let held = among_others(&backend, &claim("job")).await;
    assert!(matches!(&held, Ok(Attempt::Busy(busy)) if busy.ends_in.is_some()), "{held:?}");
    // Its own: a retry whose first reply was lost.
    assert_eq!(token(&among_others(&backend, &holder).await), granted);
    // The name is free, but has a waiter: the lock goes to the queue, whichever claim asks.
    queue(&backend, &first).await;
    server.del(&keys("job").lock);
    server.del(&keys("job").holder);
    let passed_by = among_others(&backend, &claim("job")).await;
    assert!(matches!(passed_by, Ok(Attempt::Busy(_))), "{passed_by:?}");
    assert_eq!(server.get(&keys("job").lock).unwrap(), first.owner().to_hex());
}

/// By a client that does not know the waiter. Two readers of the name are released in one call.
#[tokio::test]
async fn name_released_among_others_goes_to_its_waiter() {
    let reader = || claim("job").with_mode(LockMode::Shared);
    for holders in [vec![claim("job")], vec![reader(), reader()]] {
        let server = server();
        let [backend, elsewhere] = [(); 2].map(|()| backend(&server.url()));
        for holder in &holders {
            hold(&backend, holder).await;
        }
        let next = waiter("job");
        queue(&elsewhere, &next).await;
        let mut all = claims("other");
        tokens(&ask_all(&backend, &all).await);
        // In the middle of a batch.
        all.splice(MANY * 2 / 3..MANY * 2 / 3, holders);
        assert!(release_all(&backend, &all).await.iter().all(|end| *end == Release::Released));
        assert_eq!(server.get(&keys("job").lock).unwrap(), next.owner().to_hex());
    }
}

#[tokio::test]
async fn waiter_among_others_has_its_place() {
    let server = server();
    let [backend, elsewhere] = [(); 2].map(|()| backend(&server.url()));
    hold(&elsewhere, &claim("job")).await;
    let asked = among_others(&backend, &waiter("job")).await;
    assert!(matches!(&asked, Ok(Attempt::Busy(busy)) if busy.queued), "{asked:?}");
}

#[tokio::test]
async fn names_that_two_owners_want_in_one_call_are_granted_once() {
    let server = server();
    let backend = backend(&server.url());
    warm_up(&backend).await;
    // The server has forgotten the scripts.
    server.command(&["SCRIPT", "FLUSH"]).unwrap();
    let rivals = |first: Claim| [claim(first.name().as_str()), first];
    let all: Vec<Claim> = claims("job").into_iter().flat_map(rivals).collect();
    for (rivals, attempts) in all.chunks(2).zip(ask_all(&backend, &all).await.chunks(2)) {
        let is_granted = |attempt: &Result<Attempt>| matches!(attempt, Ok(Attempt::Granted(_)));
        let granted = attempts.iter().position(is_granted).unwrap();
        assert!(matches!(attempts[1 - granted], Ok(Attempt::Busy(_))), "{attempts:?}");
        let lock = server.get(&keys(rivals[0].name().as_str()).lock);
        assert_eq!(lock, Some(rivals[granted].owner().to_hex()));
    }
}

#[tokio::test]
async fn lingering_name_is_not_granted() {
    let server = server();
    let backend = backend(&server.url());
    let holder = claim("job");
    hold(&backend, &holder).await;
    assert_eq!(answered(backend.release(&holder, TTL)).await.unwrap(), Release::Released);
    let lingering = among_others(&backend, &claim("job")).await;
    assert!(matches!(lingering, Ok(Attempt::Busy(_))), "{lingering:?}");
}

#[tokio::test]
async fn name_with_a_vanished_lock_key_is_kept_for_its_holder() {
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
async fn name_with_a_last_token_ahead_of_the_clock_gets_the_one_behind_it() {
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
async fn foreign_data_is_named_to_its_own_claim_and_stays() {
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
async fn release_of_another_owners_lock_is_not_held_and_ends_nothing() {
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
