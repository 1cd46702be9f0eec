//! Renewals in each state of a row.

use super::store::{Store, TIME_PASSES, TTL, busy_for, claim, claim_of, granted, is_about, only};
use leasehold_core::{Claim, LossCause, OwnerId, Renewal};
use std::time::Duration;

#[tokio::test]
async fn renewal_extends_and_changes_no_token() {
    let store = Store::new();
    let backend = store.open();
    let mine = claim("a");
    let token = granted(&backend, &mine).await;
    store.sql("UPDATE leasehold SET ends_at = ends_at - 20000000").await;
    assert_eq!(only(&backend.renew(&[mine]).await), Renewal::Renewed);
    assert!(is_about(busy_for(&backend, &claim("a")).await, TTL));
    assert_eq!(store.number("SELECT token FROM leasehold").await, i64::try_from(token.get()).unwrap());
}

#[tokio::test]
async fn renewal_never_shortens() {
    let store = Store::new();
    let backend = store.open();
    let owner = OwnerId::random().unwrap();
    let long = Duration::from_secs(600);
    granted(&backend, &claim_of("a", owner, long)).await;
    let short = claim_of("a", owner, TTL);
    assert_eq!(only(&backend.renew(&[short]).await), Renewal::Renewed);
    assert!(is_about(busy_for(&backend, &claim("a")).await, long));
}

#[tokio::test]
async fn renewal_brings_no_ended_lease_back() {
    let store = Store::new();
    let backend = store.open();
    let mine = claim("a");
    granted(&backend, &mine).await;
    store.sql(TIME_PASSES).await;
    let answer = only(&backend.renew(&[mine]).await);
    assert_eq!(answer, Renewal::Lost(LossCause::Gone));
    assert_eq!(store.number("SELECT ends_at FROM leasehold").await, 1);
}

#[tokio::test]
async fn renewal_makes_no_row() {
    let store = Store::new();
    let backend = store.open();
    granted(&backend, &claim("other")).await;
    let answer = only(&backend.renew(&[claim("a")]).await);
    assert_eq!(answer, Renewal::Lost(LossCause::Gone));
    assert_eq!(store.number("SELECT count(*) FROM leasehold").await, 1);
}

#[tokio::test]
async fn renewal_of_a_taken_lock_is_lost_and_changes_no_row() {
    let store = Store::new();
    let backend = store.open();
    let mine = claim("a");
    granted(&backend, &mine).await;
    store.sql(TIME_PASSES).await;
    granted(&backend, &claim("a")).await;
    let before = store.number("SELECT ends_at FROM leasehold").await;
    let answer = only(&backend.renew(&[mine]).await);
    assert_eq!(answer, Renewal::Lost(LossCause::Taken));
    assert_eq!(store.number("SELECT ends_at FROM leasehold").await, before);
}

#[tokio::test]
async fn renewals_in_one_call_are_answered_each_for_itself_and_in_order() {
    let store = Store::new();
    let backend = store.open();
    let held: Vec<Claim> = (0..300).map(|number| claim(&format!("n{number}"))).collect();
    for claim in &held {
        granted(&backend, claim).await;
    }
    let mut asked = held.clone();
    // Never granted; held by another; given up.
    asked.insert(0, claim("never"));
    asked[131] = claim("n130");
    backend.release(&held[200], Duration::ZERO).await.unwrap();
    let answers = backend.renew(&asked).await;
    assert_eq!(answers.len(), 301);
    for (index, answer) in answers.into_iter().enumerate() {
        let expected = match index {
            0 | 201 => Renewal::Lost(LossCause::Gone),
            131 => Renewal::Lost(LossCause::Taken),
            _ => Renewal::Renewed,
        };
        assert_eq!(answer.unwrap(), expected, "claim {index}");
    }
}

#[tokio::test]
async fn renewal_of_no_claims_has_no_answers() {
    let store = Store::new();
    assert!(store.open().renew(&[]).await.is_empty());
}

/// The keeper's turn and an extension by the holder may share one statement.
#[tokio::test]
async fn claim_renewed_twice_in_one_call_gets_the_longer_lease() {
    let store = Store::new();
    let backend = store.open();
    let long = Duration::from_secs(600);
    for [first, second] in [[TTL, long], [long, TTL]] {
        let owner = OwnerId::random().unwrap();
        let lock = format!("{first:?}");
        granted(&backend, &claim_of(&lock, owner, TTL)).await;
        let answers = backend.renew(&[claim_of(&lock, owner, first), claim_of(&lock, owner, second)]).await;
        assert!(answers.iter().all(|answer| *answer.as_ref().unwrap() == Renewal::Renewed), "{answers:?}");
        let left = busy_for(&backend, &claim(&lock)).await;
        assert!(is_about(left, long), "told that it has {long:?}, and has {left:?}");
    }
}
