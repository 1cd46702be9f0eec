//! N1, from where it counts: a lease is valid from before the request that granted it was sent, or not at all.

use crate::scripted::{Events, Fate, Scripted, TTL, acquire, options, settle};
use leasehold_core::{DistributedLockExt, Drift, ErrorKind, LockClient, RuntimeClock};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// The deadline of a lease that was granted at once: the ttl less 1 % and 2 ms.
pub(crate) const VALID: Duration = Duration::from_millis(9_898);

/// The store starts its lease when it executes, the holder before it sends: however long the request takes, the holder
/// ends first.
#[tokio::test(start_paused = true)]
async fn validity_counts_from_before_the_send() {
    let store = Scripted::new();
    store.acquires.then(Fate::RequestLate(Duration::from_secs(4)));
    let guard = store.client().acquire("job").await.unwrap();

    assert_eq!(guard.remaining(), VALID - Duration::from_secs(4));
}

/// The allowance for clocks that run at different rates can be chosen.
#[tokio::test(start_paused = true)]
async fn validity_ends_earlier_by_the_drift_that_is_allowed_for() {
    let client = LockClient::builder(Scripted::new())
        .with_clock(Arc::new(RuntimeClock::new()))
        .with_defaults(options())
        .with_drift(Drift::new(100, Duration::from_secs(1)))
        .build();
    let guard = client.acquire("job").await.unwrap();
    assert_eq!(guard.remaining(), TTL - TTL / 10 - Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn the_validity_of_a_renewal_counts_from_before_its_send_too() {
    let store = Scripted::new();
    let slow = TTL / 5;
    store.renewals.then(Fate::ReplyLate(slow));
    let guard = store.client().acquire("job").await.unwrap();
    sleep(TTL / 3 + slow + Duration::from_millis(10)).await;

    assert_eq!(store.renewals.calls(), 1);
    assert!(guard.remaining() > VALID - TTL / 3, "it was confirmed");
    assert!(guard.remaining() <= VALID - slow, "{:?}", guard.remaining());
}

/// … but from the attempt that succeeded, not from the first of a long wait.
#[tokio::test(start_paused = true)]
async fn validity_counts_from_the_attempt_that_succeeded() {
    let store = Scripted::new();
    let holder = store.client().acquire("job").await.unwrap();
    let client = store.client();
    let waiter = tokio::spawn(async move { client.acquire("job").await.unwrap() });
    sleep(TTL * 3).await;
    holder.release().await.unwrap();

    assert_eq!(waiter.await.unwrap().remaining(), VALID);
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_arrives_after_its_lease_is_refused_and_asked_for_again() {
    let store = Scripted::new();
    store.acquires.then(Fate::ReplyLate(TTL));
    let events = Arc::new(Events::default());
    let client = store.client_with(Arc::clone(&events));

    let once = acquire(&client, "job", options().with_wait(Duration::ZERO)).await.unwrap_err();
    assert_eq!(once.kind(), ErrorKind::Indeterminate);
    settle().await;
    assert!(store.is_clean("job").await, "what came too late was given back");

    store.acquires.then(Fate::ReplyLate(TTL));
    let guard = acquire(&client, "job", options()).await.unwrap();
    assert!(guard.remaining() > TTL / 2, "the second attempt counts from its own send");
}

/// The store's lease is a little longer than the holder's.
#[tokio::test(start_paused = true)]
async fn a_grant_that_arrives_between_the_holders_end_and_the_stores_is_given_back() {
    let store = Scripted::new();
    store.acquires.then(Fate::ReplyLate(TTL - Duration::from_millis(1)));
    let error = acquire(&store.client(), "job", options().with_wait(Duration::ZERO)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate);
    assert!(store.holder("job").await.is_some());
    settle().await;
    assert!(store.is_clean("job").await);
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_arrives_at_the_very_end_is_not_held() {
    let store = Scripted::new();
    store.acquires.then(Fate::ReplyLate(VALID));
    let options = options().with_wait(Duration::ZERO);
    let error = acquire(&store.client(), "job", options).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate);
}
