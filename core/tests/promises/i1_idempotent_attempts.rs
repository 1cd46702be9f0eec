//! I1: a grant with a lost reply is recognised by its owner, or undone; the same for a release.

use crate::faulty_store::{CallFault, EventLog, FaultyStore, TTL, acquire, options, run_ready_tasks};
use leasehold_core::{DistributedLockExt, ErrorKind, LockGuard, LossCause};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

#[tokio::test(start_paused = true)]
async fn grant_with_lost_reply_is_recognised_by_its_owner() {
    let store = FaultyStore::new();
    store.acquires.push(CallFault::ReplyLost);
    let start = Instant::now();

    let guard = store.client().acquire("job").await.unwrap();

    assert!(start.elapsed() < Duration::from_secs(1), "waited for the lease of its own grant");
    assert_eq!(store.acquires.calls(), 2);
    guard.release().await.unwrap();
    assert!(store.is_clean("job").await);
}

#[tokio::test(start_paused = true)]
async fn single_attempt_with_lost_reply_is_indeterminate_and_undone() {
    let store = FaultyStore::new();
    store.acquires.push(CallFault::ReplyLost);

    let error = store.client().try_acquire("job").await.unwrap_err();

    assert_eq!(error.kind(), ErrorKind::Indeterminate);
    run_ready_tasks().await;
    assert!(store.is_clean("job").await, "undone only by its lease");
}

#[tokio::test(start_paused = true)]
async fn grant_with_lost_replies_is_undone_when_the_wait_ends() {
    let store = FaultyStore::new();
    store.acquires.set_default(Some(CallFault::ReplyLost));

    let wait = options().with_wait(Duration::from_secs(1));
    let error = acquire(&store.client(), "job", wait).await.unwrap_err();

    assert_eq!(error.kind(), ErrorKind::Indeterminate);
    run_ready_tasks().await;
    assert!(store.is_clean("job").await);
}

#[tokio::test(start_paused = true)]
async fn release_with_lost_reply_succeeds() {
    let store = FaultyStore::new();
    let guard = store.client().acquire("job").await.unwrap();
    store.releases.push(CallFault::ReplyLost);

    guard.release().await.unwrap();

    assert_eq!(store.releases.calls(), 2);
    assert!(store.is_clean("job").await);
}

#[tokio::test(start_paused = true)]
async fn unconfirmed_release_is_reported_and_goes_on_in_the_background() {
    let store = FaultyStore::new();
    let events = Arc::new(EventLog::default());
    let guard = store.client_with(Arc::clone(&events)).acquire("job").await.unwrap();
    store.releases.set_default(Some(CallFault::RequestLost));

    let start = Instant::now();
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Indeterminate);
    assert!(start.elapsed() < Duration::from_secs(1), "the caller waited for the lease");

    store.releases.set_default(None);
    sleep(Duration::from_secs(2)).await;
    assert!(store.is_clean("job").await, "not tried again in the background");
    assert_eq!(events.entries(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn release_refused_for_a_whole_lease_is_given_up_and_reported() {
    let store = FaultyStore::new();
    let events = Arc::new(EventLog::default());
    let guard = store.client_with(Arc::clone(&events)).acquire("job").await.unwrap();
    store.releases.set_default(Some(CallFault::Unavailable));

    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Unavailable);
    sleep(TTL * 2).await;

    assert_eq!(events.entries(), ["release unconfirmed"]);
    assert!(store.is_clean("job").await, "taken after its lease");
}

#[tokio::test(start_paused = true)]
async fn renewal_with_lost_reply_keeps_the_hold() {
    let store = FaultyStore::new();
    let guard = store.client().acquire("job").await.unwrap();
    let token = guard.token().unwrap();
    store.renewals.push(CallFault::ReplyLost);
    sleep(TTL * 3).await;
    assert_eq!(guard.token().unwrap(), token);
}

#[tokio::test(start_paused = true)]
async fn release_of_a_deleted_lock_is_lost_as_gone() {
    let store = FaultyStore::new();
    let guard = store.client().acquire("job").await.unwrap();
    store.delete("job").await;
    let error = guard.release().await.unwrap_err();
    assert_eq!(error.loss().unwrap().cause(), LossCause::Gone);
}

#[tokio::test(start_paused = true)]
async fn late_release_does_not_free_the_next_holder() {
    let store = FaultyStore::new();
    let first = acquire(&store.client(), "job", options().with_fixed_lease()).await.unwrap();
    sleep(TTL).await;
    let second = store.client().acquire("job").await.unwrap();

    let error = first.release().await.unwrap_err();

    assert_eq!(error.kind(), ErrorKind::Lost);
    run_ready_tasks().await;
    assert!(store.holder("job").await.is_some());
    sleep(TTL).await;
    assert!(second.is_held());
}

#[tokio::test(start_paused = true)]
async fn acquisition_has_its_own_owner_id() {
    let store = FaultyStore::new();
    let client = store.client();
    let mut owners = std::collections::HashSet::new();
    for _ in 0..100 {
        let guard = client.acquire("job").await.unwrap();
        assert!(owners.insert(store.holder("job").await.unwrap()));
        guard.release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn release_of_an_extended_lease_is_tried_for_its_whole_length() {
    let store = FaultyStore::new();
    let guard = acquire(&store.client(), "job", options().with_fixed_lease()).await.unwrap();
    guard.extend(TTL * 10).await.unwrap();
    assert_released_long_after_its_first_lease(&store, guard).await;
}

#[tokio::test(start_paused = true)]
async fn release_after_an_unconfirmed_extension_is_tried_for_its_whole_length() {
    let store = FaultyStore::new();
    let guard = acquire(&store.client(), "job", options().with_fixed_lease()).await.unwrap();
    store.renewals.push(CallFault::ReplyLost);
    guard.extend(TTL * 10).await.unwrap_err();
    assert_released_long_after_its_first_lease(&store, guard).await;
}

/// The store refuses every release for five leases, and then accepts one.
async fn assert_released_long_after_its_first_lease(store: &FaultyStore, guard: LockGuard) {
    store.releases.set_default(Some(CallFault::Unavailable));
    drop(guard);

    sleep(TTL * 5).await;
    store.releases.set_default(None);
    sleep(Duration::from_secs(2)).await;
    assert!(store.is_clean("job").await);
}

/// A first release that was certainly not applied does not make `NotHeld` a success.
#[tokio::test(start_paused = true)]
async fn refused_release_of_a_deleted_lock_is_lost_as_gone() {
    let store = FaultyStore::new();
    let guard = store.client().acquire("job").await.unwrap();
    store.releases.push(CallFault::Unavailable);
    store.delete("job").await;
    let error = guard.release().await.unwrap_err();
    assert_eq!(error.loss().unwrap().cause(), LossCause::Gone);
}

/// The store knows that another owner has had the lock, perhaps before the first of two releases.
#[tokio::test(start_paused = true)]
async fn lost_after_a_release_without_reply_is_reported_as_lost() {
    let store = FaultyStore::new();
    let guard = store.client().acquire("job").await.unwrap();
    store.releases.push(CallFault::RequestLost);
    store.releases.push(CallFault::Error(ErrorKind::Lost));
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
}
