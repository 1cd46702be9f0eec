//! Several tokens in a row, for the tasks of one process: what a grant reserves, and what the row says of it.

use super::store::{Store, claim};
use leasehold_core::{Attempt, Claim, FencingToken, Grant, LockBackend, Release};
use std::sync::Arc;
use std::time::Duration;

const TOKENS: u32 = 64;
const LAST: &str = "SELECT token FROM leasehold";

async fn granted(backend: &Arc<dyn LockBackend>, claim: &Claim) -> Grant {
    match backend.try_acquire(claim).await.unwrap() {
        Attempt::Granted(grant) => grant,
        Attempt::Busy(busy) => panic!("busy: {busy:?}"),
    }
}

async fn release(backend: &Arc<dyn LockBackend>, claim: &Claim) {
    assert_eq!(backend.release(claim, Duration::ZERO).await.unwrap(), Release::Released);
}

fn last_of(grant: &Grant) -> FencingToken {
    grant.token.last_of(grant.tokens)
}

#[tokio::test]
async fn they_are_reserved_and_given_to_nobody_else() {
    let store = Store::new();
    let backend = store.open();
    let mut last = FencingToken::new(0);
    for _ in 0..100 {
        let mine = claim("a").with_tokens(TOKENS);
        let grant = granted(&backend, &mine).await;
        assert!(grant.token > last, "{grant:?} after {last}");
        assert!(grant.tokens == 1 || grant.tokens == TOKENS, "{grant:?}");
        assert_eq!(store.number(LAST).await, last_of(&grant).get().cast_signed());
        assert_eq!(granted(&backend, &mine).await.token, grant.token, "the reply was lost");
        last = last_of(&grant);
        release(&backend, &mine).await;
    }
}

/// Those who ask together share a statement, and each gets what it asked for.
#[tokio::test]
async fn each_of_many_that_ask_at_once_has_its_own() {
    let store = Store::new();
    let backend = store.open();
    for _ in 0..2 {
        let claims: Vec<Claim> = (1..=40).map(|many| claim(&format!("n{many}")).with_tokens(many)).collect();
        let asked = claims.iter().map(|claim| granted(&backend, claim));
        for (many, grant) in (1..).zip(futures_util::future::join_all(asked).await) {
            assert_eq!(grant.tokens, many);
            let of_its_name = format!("{LAST} WHERE name = CAST('n{many}' AS BLOB)");
            assert_eq!(store.number(&of_its_name).await, last_of(&grant).get().cast_signed());
        }
        for claim in &claims {
            release(&backend, claim).await;
        }
    }
}

/// The clock was set back: the last token is an hour ahead of it, or just a little.
#[tokio::test]
async fn a_token_ahead_of_the_clock_is_one_alone_and_shown_as_it_is() {
    for ahead in [3_600_000_000_i64, 900_000] {
        let store = Store::new();
        let backend = store.open();
        let before = claim("a");
        granted(&backend, &before).await;
        release(&backend, &before).await;
        store.sql(&format!("UPDATE leasehold SET token = token + {ahead}")).await;
        let last = store.number(LAST).await;

        let mine = claim("a").with_tokens(TOKENS);
        let grant = granted(&backend, &mine).await;
        assert_eq!((grant.token.get().cast_signed(), grant.tokens), (last + 1, 1));
        assert_eq!(granted(&backend, &mine).await.token, grant.token);
        let shown = backend.admin().unwrap().inspect(mine.name()).await.unwrap().unwrap();
        assert_eq!(shown.token, Some(grant.token));
    }
}

#[tokio::test]
async fn the_first_of_them_is_what_people_see_and_name() {
    let store = Store::new();
    let backend = store.open();
    let mine = claim("a").with_tokens(TOKENS);
    let grant = granted(&backend, &mine).await;
    let admin = backend.admin().unwrap();
    let shown = admin.inspect(mine.name()).await.unwrap().unwrap();
    assert_eq!(shown.token, Some(grant.token));

    assert!(admin.force_release(mine.name(), Some(last_of(&grant))).await.unwrap().is_none());
    let broken = admin.force_release(mine.name(), Some(grant.token)).await.unwrap().unwrap();
    assert_eq!(broken.token, Some(grant.token));
    assert!(granted(&backend, &claim("a")).await.token > last_of(&grant));
}
