//! C1: every outcome is one of a few, and *indeterminate* is never folded into another.

use crate::scripted::{Events, Fate, Scripted, TTL, acquire, options, settle};
use futures_util::FutureExt;
use leasehold_core::memory::MemoryBackend;
use leasehold_core::{
    AcquireOptions, DistributedLock, DistributedLockExt, ErrorKind, LockClient, LockName, RuntimeClock,
};
use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

#[tokio::test(start_paused = true)]
async fn a_single_attempt_reports_what_is_known() {
    let cases = [
        (Fate::RequestLost, ErrorKind::Indeterminate),
        (Fate::ReplyLost, ErrorKind::Indeterminate),
        (Fate::Refused, ErrorKind::Unavailable),
        (Fate::Rejected(ErrorKind::Denied), ErrorKind::Denied),
        (Fate::Rejected(ErrorKind::Misconfigured), ErrorKind::Misconfigured),
    ];
    for (fate, kind) in cases {
        let store = Scripted::new();
        store.acquires.then(fate);
        assert_eq!(store.client().try_acquire("job").await.unwrap_err().kind(), kind);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_no_outage_ends_every_wait_at_once() {
    let store = Scripted::new();
    store.acquires.then(Fate::Rejected(ErrorKind::Denied));
    let error = acquire(&store.client(), "job", options().with_wait(TTL)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
    assert_eq!(store.acquires.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_endless_wait_does_not_begin_on_a_store_that_cannot_be_reached() {
    let store = Scripted::new();
    store.acquires.ever_after(Some(Fate::Refused));
    let error = store.client().acquire("job").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(store.acquires.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_endless_wait_outlasts_an_outage() {
    let store = Scripted::new();
    let events = Arc::new(Events::default());
    let holder = store.client().acquire("job").await.unwrap();
    let client = store.client_with(Arc::clone(&events));
    let waiter = tokio::spawn(async move { client.acquire("job").await.map(drop) });
    sleep(Duration::from_secs(1)).await;
    store.acquires.ever_after(Some(Fate::Refused));
    sleep(TTL * 10).await;
    holder.release().await.unwrap();
    store.acquires.ever_after(None);

    waiter.await.unwrap().unwrap();
    assert!(events.count("wait failed") > 1);
}

#[tokio::test(start_paused = true)]
async fn a_bounded_wait_uses_its_time_on_a_store_that_comes_back() {
    let store = Scripted::new();
    store.acquires.then(Fate::Refused);
    store.acquires.then(Fate::Refused);
    acquire(&store.client(), "job", options().with_wait(TTL)).await.unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn bad_input_is_refused_before_any_request() {
    let store = Scripted::new();
    let client = store.client();
    let short = AcquireOptions::new().with_ttl(Duration::from_millis(1));
    assert_eq!(acquire(&client, "job", short).await.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(client.acquire("").await.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(client.try_acquire("a\0b").await.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(store.acquires.calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn names_that_are_checked_already_are_taken_as_they_are() {
    let client = Scripted::new().client();
    let name = LockName::new("job").unwrap();
    client.acquire(&name).await.unwrap().release().await.unwrap();
    client.acquire(name).await.unwrap().release().await.unwrap();
}

#[test]
fn without_a_runtime_there_is_an_error_and_no_panic() {
    let client = LockClient::new(Arc::new(MemoryBackend::new()));
    let name = LockName::new("job").unwrap();
    let options = AcquireOptions::new();
    let mut acquire = client.acquire_named(&name, &options);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let std::task::Poll::Ready(outcome) = acquire.as_mut().poll(&mut context) else {
        panic!("it waits for nothing")
    };
    let error = outcome.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured);
    assert!(error.to_string().contains("needs a Tokio runtime"));
}

#[tokio::test(start_paused = true)]
async fn a_closed_client_says_so_and_its_guards_are_lost() {
    let store = Scripted::new();
    let client = store.client();
    let guard = client.acquire("job").await.unwrap();
    client.close().await.unwrap();

    assert!(!guard.is_held());
    assert_eq!(client.acquire("other").await.unwrap_err().kind(), ErrorKind::Closed);
    client.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn close_waits_for_the_releases_of_dropped_guards() {
    let store = Scripted::new();
    let client = store.client();
    store.releases.then(Fate::RequestLate(Duration::from_secs(2)));
    drop(client.acquire("job").await.unwrap());
    client.close().await.unwrap();
    assert!(store.is_clean("job").await);
}

/// The store hears of it before its connections end: else the lock would stay taken for the rest of its lease.
#[tokio::test(start_paused = true)]
async fn close_waits_for_a_release_that_is_awaited() {
    let store = Scripted::new();
    let client = store.client();
    store.releases.then(Fate::RequestLate(Duration::from_secs(2)));
    let released = tokio::spawn(client.acquire("job").await.unwrap().release());
    settle().await;
    client.close().await.unwrap();
    assert!(store.is_clean("job").await);
    released.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn close_waits_in_vain_for_a_release_that_nobody_polls_and_not_for_one_that_is_dropped() {
    let store = Scripted::new();
    let client = store.client();
    store.releases.ever_after(Some(Fate::RequestLate(Duration::from_secs(1))));
    let (job, other) = (client.acquire("job").await.unwrap(), client.acquire("other").await.unwrap());
    let (mut left, mut dropped) = (Box::pin(job.release()), Box::pin(other.release()));
    assert!(left.as_mut().now_or_never().is_none() && dropped.as_mut().now_or_never().is_none());
    drop(dropped);
    let error = client.close().await.unwrap_err();
    assert_eq!(error.to_string(), "1 requests were still under way after 5s");
    assert!(store.is_clean("other").await);
}

#[tokio::test(start_paused = true)]
async fn close_is_bounded_and_says_what_it_left() {
    let store = Scripted::new();
    let client = store.client();
    store.releases.ever_after(Some(Fate::Silent));
    drop(client.acquire("job").await.unwrap());
    let error = client.close().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate);
    assert_eq!(error.to_string(), "1 requests were still under way after 5s");
}

/// It ends while the backend closes, which may take its own time.
#[tokio::test(start_paused = true)]
async fn a_release_that_is_late_by_little_is_told_of_all_the_same() {
    let mut store = Scripted::on(Arc::new(RuntimeClock::new()));
    store.closes_in = Duration::from_secs(3);
    store.releases.then(Fate::RequestLate(Duration::from_secs(6)));
    let client = Arc::new(store).client();
    drop(client.acquire("job").await.unwrap());
    let error = client.close().await.unwrap_err();
    assert_eq!(error.to_string(), "1 requests were still under way after 5s");
}

#[tokio::test(start_paused = true)]
async fn close_is_bounded_by_no_grace_of_the_backend() {
    let mut store = Scripted::on(Arc::new(RuntimeClock::new()));
    store.closes_in = Duration::MAX;
    let error = Arc::new(store).client().close().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate);
    assert_eq!(error.to_string(), "the store did not close within 5s");
}

/// The first request may have been applied; that the second was not says nothing of it.
#[tokio::test(start_paused = true)]
async fn an_unknown_outcome_stays_unknown_when_the_store_then_cannot_be_reached() {
    let store = Scripted::new();
    store.acquires.then(Fate::RequestLost);
    store.acquires.ever_after(Some(Fate::Refused));
    let error = acquire(&store.client(), "job", options().with_wait(TTL)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate);
}

#[tokio::test(start_paused = true)]
async fn an_outcome_that_the_store_has_told_is_unknown_no_more() {
    let store = Scripted::new();
    let _holder = store.client().acquire("job").await.unwrap();
    let client = store.client();
    store.acquires.then(Fate::RequestLost);
    let waiter =
        tokio::spawn(async move { acquire(&client, "job", options().with_wait(TTL)).await.map(drop) });
    sleep(TTL / 2).await;
    store.acquires.ever_after(Some(Fate::Refused));
    assert_eq!(waiter.await.unwrap().unwrap_err().kind(), ErrorKind::Unavailable);
}

/// It was reached: the request may be on its way yet.
#[tokio::test(start_paused = true)]
async fn an_endless_wait_goes_on_if_only_the_first_reply_was_lost() {
    let store = Scripted::new();
    store.acquires.then(Fate::RequestLost);
    store.acquires.then(Fate::Refused);
    assert!(store.client().acquire("job").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_release_that_may_have_been_applied_is_not_called_unavailable() {
    let store = Scripted::new();
    let guard = store.client().acquire("job").await.unwrap();
    store.releases.then(Fate::ReplyLost);
    store.releases.then(Fate::Refused);
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Indeterminate);
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_when_its_client_is_closed() {
    let store = Scripted::new();
    let _holder = store.client().acquire("job").await.unwrap();
    let client = store.client();
    let waiting = client.clone();
    let waiter = tokio::spawn(async move { waiting.acquire("job").await.map(drop) });
    sleep(TTL).await;
    client.close().await.unwrap();
    assert_eq!(waiter.await.unwrap().unwrap_err().kind(), ErrorKind::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_arrives_after_the_client_was_closed_is_not_held() {
    let store = Scripted::new();
    store.acquires.then(Fate::ReplyLate(TTL / 10));
    let client = store.client();
    let asking = client.clone();
    let asked = tokio::spawn(async move { asking.acquire("job").await });
    sleep(TTL / 20).await;
    client.close().await.unwrap();
    assert_eq!(asked.await.unwrap().unwrap_err().kind(), ErrorKind::Closed);
    settle().await;
    assert!(store.is_clean("job").await);
}

/// A backend that is closed releases nothing any more: the lock would be held by nobody until its lease ends.
#[tokio::test(start_paused = true)]
async fn close_waits_for_what_was_asked_and_for_its_release() {
    let store = Scripted::new();
    store.acquires.then(Fate::ReplyLate(TTL / 10));
    let client = store.client();
    let asking = client.clone();
    let asked = tokio::spawn(async move { asking.acquire("job").await });
    sleep(TTL / 20).await;
    client.close().await.unwrap();
    assert!(store.is_clean("job").await);
    assert_eq!(asked.await.unwrap().unwrap_err().kind(), ErrorKind::Closed);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_outcome_is_told_also_if_the_store_could_not_be_reached_before() {
    let store = Scripted::new();
    store.acquires.then(Fate::Refused);
    store.acquires.ever_after(Some(Fate::RequestLost));
    let error = acquire(&store.client(), "job", options().with_wait(TTL)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate);
}

#[tokio::test(start_paused = true)]
async fn a_last_request_without_an_answer_leaves_the_outcome_unknown() {
    let store = Scripted::new();
    store.acquires.then(Fate::Refused);
    store.acquires.ever_after(Some(Fate::Silent));
    let error = acquire(&store.client(), "job", options().with_wait(TTL)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate);
    assert_eq!(error.source().map(ToString::to_string).as_deref(), Some("scripted: refused"));
}
