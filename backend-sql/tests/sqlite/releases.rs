//! Releases in each state of a row.

use super::store::{Store, TIME_PASSES, TTL, busy_for, claim, granted, is_about, only};
use leasehold_core::{LossCause, Release, Renewal};
use std::time::Duration;

#[tokio::test]
async fn released_name_is_free_at_once_and_keeps_its_token() {
    let store = Store::new();
    let backend = store.open();
    let mine = claim("a");
    let first = granted(&backend, &mine).await;
    assert_eq!(backend.release(&mine, Duration::ZERO).await.unwrap(), Release::Released);
    assert_eq!(store.number("SELECT count(*) FROM leasehold").await, 1);
    assert!(granted(&backend, &claim("a")).await > first);
}

#[tokio::test]
async fn release_by_another_owner_is_not_held() {
    let store = Store::new();
    let backend = store.open();
    let mine = claim("a");
    granted(&backend, &mine).await;
    let not_mine = [claim("a"), claim("b")];
    for other in not_mine {
        assert_eq!(backend.release(&other, Duration::ZERO).await.unwrap(), Release::NotHeld);
    }
    assert!(is_about(busy_for(&backend, &claim("a")).await, TTL));
}

#[tokio::test]
async fn late_release_does_not_free_the_next_owner() {
    let store = Store::new();
    let backend = store.open();
    let mine = claim("a");
    granted(&backend, &mine).await;
    store.sql(TIME_PASSES).await;
    let next = claim("a");
    granted(&backend, &next).await;
    assert_eq!(backend.release(&mine, Duration::ZERO).await.unwrap(), Release::NotHeld);
    assert_eq!(only(&backend.renew(&[next]).await), Renewal::Renewed);
}

#[tokio::test]
async fn second_release_is_not_held() {
    let store = Store::new();
    let backend = store.open();
    let mine = claim("a");
    granted(&backend, &mine).await;
    backend.release(&mine, Duration::ZERO).await.unwrap();
    assert_eq!(backend.release(&mine, Duration::ZERO).await.unwrap(), Release::NotHeld);
}

#[tokio::test]
async fn release_with_linger_keeps_all_claims_out() {
    let store = Store::new();
    let backend = store.open();
    let mine = claim("a");
    granted(&backend, &mine).await;
    let linger = Duration::from_secs(100);
    assert_eq!(backend.release(&mine, linger).await.unwrap(), Release::Released);
    assert!(is_about(busy_for(&backend, &claim("a")).await, linger));
    // The former owner is nobody special any more.
    assert!(is_about(busy_for(&backend, &mine).await, linger));
    let answer = only(&backend.renew(std::slice::from_ref(&mine)).await);
    assert_eq!(answer, Renewal::Lost(LossCause::Gone));
    assert_eq!(backend.release(&mine, Duration::ZERO).await.unwrap(), Release::NotHeld);
    assert!(is_about(busy_for(&backend, &claim("a")).await, linger));

    let shown = backend.admin().unwrap().inspect(mine.name()).await.unwrap();
    let shown = &shown[0];
    assert_eq!(shown.owner, None);
    assert_eq!(shown.holder.user, "");
    assert!(is_about(shown.ends_in.unwrap(), linger));

    store.sql(TIME_PASSES).await;
    granted(&backend, &claim("a")).await;
}
