//! N1, the start of a lease: its validity counts from before the send of the request that granted it.

use crate::faulty_store::{CallFault, EventLog, FaultyStore, TTL, acquire, options, run_ready_tasks};
use leasehold_core::{DistributedLockExt, ErrorKind};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// The validity of a lease that is granted at once: the ttl less 1 % and 2 ms.
pub(crate) const VALID: Duration = Duration::from_millis(9_898);

/// The holder counts from before the send, the store from the execution. So the holder's lease ends first, however long the
/// request takes.
#[tokio::test(start_paused = true)]
async fn validity_counts_from_before_the_send() {
    let store = FaultyStore::new();
    store.acquires.push(CallFault::RequestDelayed(Duration::from_secs(4)));
    let guard = store.client().acquire("job").await.unwrap();

    assert_eq!(guard.remaining(), VALID - Duration::from_secs(4));
}

#[tokio::test(start_paused = true)]
async fn validity_of_a_renewal_counts_from_before_its_send() {
    let store = FaultyStore::new();
    let slow = TTL / 5;
    store.renewals.push(CallFault::ReplyDelayed(slow));
    let guard = store.client().acquire("job").await.unwrap();
    sleep(TTL / 3 + slow + Duration::from_millis(10)).await;

    assert_eq!(store.renewals.calls(), 1);
    assert!(guard.remaining() > VALID - TTL / 3, "the renewal was not confirmed");
    assert!(guard.remaining() <= VALID - slow, "{:?}", guard.remaining());
}

#[tokio::test(start_paused = true)]
async fn validity_counts_from_the_last_attempt_of_a_long_wait() {
    let store = FaultyStore::new();
    let holder = store.client().acquire("job").await.unwrap();
    let client = store.client();
    let waiter = tokio::spawn(async move { client.acquire("job").await.unwrap() });
    sleep(TTL * 3).await;
    holder.release().await.unwrap();

    assert_eq!(waiter.await.unwrap().remaining(), VALID);
}

#[tokio::test(start_paused = true)]
async fn grant_after_its_lease_is_released_and_acquired_again() {
    let store = FaultyStore::new();
    store.acquires.push(CallFault::ReplyDelayed(TTL));
    let events = Arc::new(EventLog::default());
    let client = store.client_with(Arc::clone(&events));

    let error = acquire(&client, "job", options().with_wait(Duration::ZERO)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate);
    run_ready_tasks().await;
    assert!(store.is_clean("job").await, "the late grant was not released");

    store.acquires.push(CallFault::ReplyDelayed(TTL));
    let guard = acquire(&client, "job", options()).await.unwrap();
    assert!(guard.remaining() > TTL / 2, "the lease counts from the first attempt");
}

#[tokio::test(start_paused = true)]
async fn grant_after_the_holders_lease_but_within_the_stores_is_released() {
    let store = FaultyStore::new();
    store.acquires.push(CallFault::ReplyDelayed(TTL - Duration::from_millis(1)));
    let error = acquire(&store.client(), "job", options().with_wait(Duration::ZERO)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate);
    assert!(store.holder("job").await.is_some());
    run_ready_tasks().await;
    assert!(store.is_clean("job").await);
}

#[tokio::test(start_paused = true)]
async fn grant_at_the_deadline_is_not_held() {
    let store = FaultyStore::new();
    store.acquires.push(CallFault::ReplyDelayed(VALID));
    let options = options().with_wait(Duration::ZERO);
    let error = acquire(&store.client(), "job", options).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate);
}
