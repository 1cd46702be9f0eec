//! I1: a lost reply is recognised as mine, or undone; the same for release.

use crate::scripted::{Events, Fate, Scripted, TTL, acquire, options, settle};
use leasehold_core::{DistributedLockExt, ErrorKind, LockGuard, LossCause};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

#[tokio::test(start_paused = true)]
async fn a_grant_whose_reply_was_lost_is_recognised_as_mine() {
    let store = Scripted::new();
    store.acquires.then(Fate::ReplyLost);
    let start = Instant::now();

    let guard = store.client().acquire("job").await.unwrap();

    assert!(start.elapsed() < Duration::from_secs(1), "not by waiting for its own ghost to expire");
    assert_eq!(store.acquires.calls(), 2);
    guard.release().await.unwrap();
    assert!(store.is_clean("job").await);
}

#[tokio::test(start_paused = true)]
async fn a_single_attempt_whose_reply_was_lost_says_so_and_is_undone() {
    let store = Scripted::new();
    store.acquires.then(Fate::ReplyLost);

    let error = store.client().try_acquire("job").await.unwrap_err();

    assert_eq!(error.kind(), ErrorKind::Indeterminate);
    settle().await;
    assert!(store.is_clean("job").await, "undone at once, not by its lease");
}

#[tokio::test(start_paused = true)]
async fn an_unknown_grant_is_undone_when_the_wait_ends() {
    let store = Scripted::new();
    store.acquires.ever_after(Some(Fate::ReplyLost));

    let wait = options().with_wait(Duration::from_secs(1));
    let error = acquire(&store.client(), "job", wait).await.unwrap_err();

    assert_eq!(error.kind(), ErrorKind::Indeterminate);
    settle().await;
    assert!(store.is_clean("job").await);
}

#[tokio::test(start_paused = true)]
async fn a_release_whose_reply_was_lost_is_a_success() {
    let store = Scripted::new();
    let guard = store.client().acquire("job").await.unwrap();
    store.releases.then(Fate::ReplyLost);

    guard.release().await.unwrap();

    assert_eq!(store.releases.calls(), 2);
    assert!(store.is_clean("job").await);
}

#[tokio::test(start_paused = true)]
async fn a_release_that_is_not_confirmed_is_said_and_goes_on() {
    let store = Scripted::new();
    let events = Arc::new(Events::default());
    let guard = store.client_with(Arc::clone(&events)).acquire("job").await.unwrap();
    store.releases.ever_after(Some(Fate::RequestLost));

    let start = Instant::now();
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Indeterminate);
    assert!(start.elapsed() < Duration::from_secs(1), "a caller is not kept for a lease");

    store.releases.ever_after(None);
    sleep(Duration::from_secs(2)).await;
    assert!(store.is_clean("job").await, "the background went on");
    assert_eq!(events.seen(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_release_that_never_gets_through_ends_with_the_lease_and_is_reported() {
    let store = Scripted::new();
    let events = Arc::new(Events::default());
    let guard = store.client_with(Arc::clone(&events)).acquire("job").await.unwrap();
    store.releases.ever_after(Some(Fate::Refused));

    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Unavailable);
    sleep(TTL * 2).await;

    assert_eq!(events.seen(), ["release unconfirmed"]);
    assert!(store.is_clean("job").await, "free by its lease");
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_to_a_renewal_costs_nothing() {
    let store = Scripted::new();
    let guard = store.client().acquire("job").await.unwrap();
    let token = guard.token().unwrap();
    store.renewals.then(Fate::ReplyLost);
    sleep(TTL * 3).await;
    assert_eq!(guard.token().unwrap(), token);
}

#[tokio::test(start_paused = true)]
async fn a_release_that_finds_nothing_says_that_the_lock_was_gone() {
    let store = Scripted::new();
    let guard = store.client().acquire("job").await.unwrap();
    store.delete("job").await;
    let error = guard.release().await.unwrap_err();
    assert_eq!(error.loss().unwrap().cause(), LossCause::Gone);
}

#[tokio::test(start_paused = true)]
async fn a_late_release_frees_nobody_else() {
    let store = Scripted::new();
    let first = acquire(&store.client(), "job", options().with_fixed_lease()).await.unwrap();
    sleep(TTL).await;
    let second = store.client().acquire("job").await.unwrap();

    let error = first.release().await.unwrap_err();

    assert_eq!(error.kind(), ErrorKind::Lost);
    settle().await;
    assert!(store.holder("job").await.is_some());
    sleep(TTL).await;
    assert!(second.is_held());
}

#[tokio::test(start_paused = true)]
async fn every_acquisition_has_an_owner_of_its_own() {
    let store = Scripted::new();
    let client = store.client();
    let mut owners = std::collections::HashSet::new();
    for _ in 0..100 {
        let guard = client.acquire("job").await.unwrap();
        assert!(owners.insert(store.holder("job").await.unwrap()));
        guard.release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn the_release_of_an_extended_lease_is_tried_for_as_long_as_that_lasts() {
    let store = Scripted::new();
    let guard = acquire(&store.client(), "job", options().with_fixed_lease()).await.unwrap();
    guard.extend(TTL * 10).await.unwrap();
    is_given_back_long_after_its_first_lease(&store, guard).await;
}

#[tokio::test(start_paused = true)]
async fn an_extension_that_was_never_confirmed_may_have_been_made_all_the_same() {
    let store = Scripted::new();
    let guard = acquire(&store.client(), "job", options().with_fixed_lease()).await.unwrap();
    store.renewals.then(Fate::ReplyLost);
    guard.extend(TTL * 10).await.unwrap_err();
    is_given_back_long_after_its_first_lease(&store, guard).await;
}

/// The store, which refuses every release for five leases, is asked again all the while.
async fn is_given_back_long_after_its_first_lease(store: &Scripted, guard: LockGuard) {
    store.releases.ever_after(Some(Fate::Refused));
    drop(guard);

    sleep(TTL * 5).await;
    store.releases.ever_after(None);
    sleep(Duration::from_secs(2)).await;
    assert!(store.is_clean("job").await);
}

/// "Certainly not applied" does not turn "nothing to end" into a success.
#[tokio::test(start_paused = true)]
async fn a_lock_that_was_gone_before_a_refused_release_was_tried_again_is_said_to_be_gone() {
    let store = Scripted::new();
    let guard = store.client().acquire("job").await.unwrap();
    store.releases.then(Fate::Refused);
    store.delete("job").await;
    let error = guard.release().await.unwrap_err();
    assert_eq!(error.loss().unwrap().cause(), LossCause::Gone);
}

/// The store knows that another has had it since, and perhaps before the first of two calls.
#[tokio::test(start_paused = true)]
async fn a_lock_that_may_have_been_lost_before_an_unknown_release_is_not_said_to_be_released() {
    let store = Scripted::new();
    let guard = store.client().acquire("job").await.unwrap();
    store.releases.then(Fate::RequestLost);
    store.releases.then(Fate::Rejected(ErrorKind::Lost));
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
}
