//! What an attempt does in each state of a row.

use super::store::{Store, TIME_PASSES, TTL, busy_for, claim, claim_of, granted, is_about, only, sql};
use futures_util::future::join_all;
use leasehold_core::{Attempt, LockMode, LossCause, OwnerId, Release, Renewal};
use std::time::Duration;

#[tokio::test]
async fn name_that_was_never_locked_is_granted() {
    let store = Store::new();
    let backend = store.open();
    let token = granted(&backend, &claim("a")).await;
    assert!(token.get() > 1_700_000_000_000_000, "seeded by the time: {token}");
}

#[tokio::test]
async fn held_name_is_busy_for_the_rest_of_its_lease() {
    let store = Store::new();
    let backend = store.open();
    granted(&backend, &claim("a")).await;
    assert!(is_about(busy_for(&backend, &claim("a")).await, TTL));
    granted(&backend, &claim("b")).await;
}

#[tokio::test]
async fn claim_granted_again_keeps_its_token_and_gets_a_whole_lease() {
    let store = Store::new();
    let backend = store.open();
    let mine = claim("a");
    let token = granted(&backend, &mine).await;
    store.sql("UPDATE leasehold SET ends_at = ends_at - 20000000").await;
    assert_eq!(granted(&backend, &mine).await, token);
    assert!(is_about(busy_for(&backend, &claim("a")).await, TTL));
}

#[tokio::test]
async fn claim_granted_again_keeps_a_longer_lease() {
    let store = Store::new();
    let backend = store.open();
    let owner = OwnerId::random().unwrap();
    let long = Duration::from_secs(600);
    granted(&backend, &claim_of("a", owner, long)).await;
    granted(&backend, &claim_of("a", owner, TTL)).await;
    assert!(is_about(busy_for(&backend, &claim("a")).await, long));
}

#[tokio::test]
async fn ended_lease_is_granted_to_another_with_a_larger_token() {
    let store = Store::new();
    let backend = store.open();
    let first = granted(&backend, &claim("a")).await;
    store.sql(TIME_PASSES).await;
    let second = granted(&backend, &claim("a")).await;
    assert!(second > first);
}

#[tokio::test]
async fn claim_whose_lease_has_ended_is_granted_with_a_new_token() {
    let store = Store::new();
    let backend = store.open();
    let mine = claim("a");
    let first = granted(&backend, &mine).await;
    store.sql(TIME_PASSES).await;
    assert!(granted(&backend, &mine).await > first);
}

#[tokio::test]
async fn token_ahead_of_the_clock_grows_by_one() {
    let store = Store::new();
    let backend = store.open();
    let mine = claim("a");
    granted(&backend, &mine).await;
    backend.release(&mine, Duration::ZERO).await.unwrap();
    let ahead = 9_000_000_000_000_000_i64;
    store.sql(&format!("UPDATE leasehold SET token = {ahead}")).await;
    let token = granted(&backend, &claim("a")).await;
    assert_eq!(token.get(), 9_000_000_000_000_001);
}

/// Claims that ask together share a statement. The rows are new in the first round; in the second, every other token is ahead
/// of the clock.
#[tokio::test]
async fn claims_granted_in_one_statement_get_the_tokens_of_their_rows() {
    let store = Store::new();
    let backend = store.open();
    let mut last = vec![0; 40];
    for _ in 0..2 {
        let claims: Vec<_> = (0..last.len()).map(|number| claim(&format!("n{number}"))).collect();
        let tokens = join_all(claims.iter().map(|claim| granted(&backend, claim))).await;
        for (number, (claim, token)) in claims.iter().zip(tokens).enumerate() {
            let token = token.get().cast_signed();
            let row = format!("SELECT token FROM leasehold WHERE name = CAST('n{number}' AS BLOB)");
            assert_eq!(store.number(&row).await, token);
            assert!(token > last[number], "{token} after {}", last[number]);
            last[number] = token;
            assert_eq!(granted(&backend, claim).await.get().cast_signed(), token, "the reply was lost");
            backend.release(claim, Duration::ZERO).await.unwrap();
        }
        let an_hour = 3_600_000_000_i64;
        last.iter_mut().step_by(2).for_each(|last| *last += an_hour);
        let even = "CAST(substr(CAST(name AS TEXT), 2) AS INTEGER) % 2 = 0";
        store.sql(&format!("UPDATE leasehold SET token = token + {an_hour} WHERE {even}")).await;
    }
}

#[tokio::test]
async fn used_up_tokens_are_an_error_and_harm_no_other_name() {
    let store = Store::new();
    let backend = store.open();
    let mine = claim("a");
    granted(&backend, &mine).await;
    backend.release(&mine, Duration::ZERO).await.unwrap();
    for (last, mode) in [
        ("(1 << 53) - 1", LockMode::Exclusive),
        ("(1 << 53) - 1", LockMode::Shared),
        ("~(1 << 63)", LockMode::Exclusive),
        ("~(1 << 63)", LockMode::Shared),
    ] {
        store.sql(&format!("UPDATE leasehold SET token = {last} WHERE name = CAST('a' AS BLOB)")).await;
        let (used_up, other) = (claim("a").with_mode(mode), claim(&format!("{last} {mode:?}")));
        let (error, granted) = tokio::join!(backend.try_acquire(&used_up), backend.try_acquire(&other));
        let error = error.expect_err(last).to_string();
        assert_eq!(error, "the fencing tokens of this name are used up", "{mode:?} after {last}");
        assert!(matches!(granted.unwrap(), Attempt::Granted(_)));
    }
}

#[tokio::test]
async fn deleted_row_is_made_again_with_a_larger_token() {
    let store = Store::new();
    let backend = store.open();
    let mine = claim("a");
    let first = granted(&backend, &mine).await;
    store.sql("DELETE FROM leasehold").await;
    let answer = only(&backend.renew(std::slice::from_ref(&mine)).await);
    assert_eq!(answer, Renewal::Lost(LossCause::Gone));
    assert_eq!(backend.release(&mine, Duration::ZERO).await.unwrap(), Release::NotHeld);
    assert!(granted(&backend, &claim("a")).await > first);
}

#[tokio::test]
async fn waiter_reads_and_does_not_write() {
    let store = Store::new();
    let backend = store.open();
    granted(&backend, &claim("a")).await;
    let waiter = claim("a");
    busy_for(&backend, &waiter).await;
    let mut raw = store.raw().await;
    sql(&mut raw, "BEGIN IMMEDIATE").await;
    // A write would now wait for two seconds, and fail.
    assert!(is_about(busy_for(&backend, &waiter).await, TTL));
    sql(&mut raw, "UPDATE leasehold SET ends_at = 0; COMMIT").await;
    granted(&backend, &waiter).await;
}
