//! C1: every outcome is one error kind, and *indeterminate* is never reported as another.

use crate::faulty_store::{CallFault, EventLog, FaultyStore, TTL, acquire, options, run_ready_tasks};
use futures_util::FutureExt;
use leasehold_core::memory::MemoryBackend;
use leasehold_core::{
    AcquireOptions, DistributedLock, DistributedLockExt, ErrorKind, LockClient, LockName, RuntimeClock, Wait,
};
use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

#[tokio::test(start_paused = true)]
async fn single_attempt_reports_the_kind_of_its_fault() {
    let cases = [
        (CallFault::RequestLost, ErrorKind::Indeterminate),
        (CallFault::ReplyLost, ErrorKind::Indeterminate),
        (CallFault::Unavailable, ErrorKind::Unavailable),
        (CallFault::Error(ErrorKind::Denied), ErrorKind::Denied),
        (CallFault::Error(ErrorKind::Misconfigured), ErrorKind::Misconfigured),
    ];
    for (fault, kind) in cases {
        let store = FaultyStore::new();
        store.acquires.push(fault);
        assert_eq!(store.client().try_acquire("job").await.unwrap_err().kind(), kind);
    }
}

#[tokio::test(start_paused = true)]
async fn error_that_is_no_outage_ends_the_wait_at_once() {
    let store = FaultyStore::new();
    store.acquires.push(CallFault::Error(ErrorKind::Denied));
    let error = acquire(&store.client(), "job", options().with_wait(TTL)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
    assert_eq!(store.acquires.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn endless_wait_fails_at_once_on_an_unreachable_store() {
    let store = FaultyStore::new();
    store.acquires.set_default(Some(CallFault::Unavailable));
    let error = store.client().acquire("job").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(store.acquires.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn endless_wait_outlasts_an_outage() {
    let store = FaultyStore::new();
    let events = Arc::new(EventLog::default());
    let holder = store.client().acquire("job").await.unwrap();
    let client = store.client_with(Arc::clone(&events));
    let waiter = tokio::spawn(async move { client.acquire("job").await.map(drop) });
    sleep(Duration::from_secs(1)).await;
    store.acquires.set_default(Some(CallFault::Unavailable));
    sleep(TTL * 10).await;
    holder.release().await.unwrap();
    store.acquires.set_default(None);

    waiter.await.unwrap().unwrap();
    assert!((2..=5).contains(&events.count("wait failed")), "{:?}", events.entries());
}

/// What an operator may mend is waited out once the store has answered, by each kind of wait.
#[tokio::test(start_paused = true)]
async fn refusal_after_an_answer_is_waited_out_and_told_once() {
    for kind in [ErrorKind::Denied, ErrorKind::Misconfigured] {
        for wait in [Wait::Forever, Wait::UpTo(TTL)] {
            let (store, events) = (FaultyStore::new(), Arc::new(EventLog::default()));
            let holder = store.client().acquire("job").await.unwrap();
            let client = store.client_with(Arc::clone(&events));
            let waiter =
                tokio::spawn(async move { acquire(&client, "job", options().with_wait(wait)).await });
            run_ready_tasks().await;
            store.acquires.set_default(Some(CallFault::Error(kind)));
            holder.release().await.unwrap();
            let asked = store.acquires.calls();
            sleep(Duration::from_secs(5)).await;
            let asked = store.acquires.calls() - asked;
            assert!((4..=6).contains(&asked), "{kind}: refused {asked} times in 5 s");
            assert!(!waiter.is_finished(), "{kind} ended the wait");
            store.acquires.set_default(None);
            sleep(Duration::from_secs(1)).await;
            drop(waiter.await.unwrap().unwrap());
            assert_eq!(events.count("wait failed"), 1, "{kind}: {:?}", events.entries());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn refusal_that_lasts_is_the_answer_at_the_deadline() {
    let store = FaultyStore::new();
    let _holder = store.client().acquire("job").await.unwrap();
    let client = store.client();
    let waiter = tokio::spawn(async move { acquire(&client, "job", options().with_wait(TTL)).await });
    run_ready_tasks().await;
    store.acquires.set_default(Some(CallFault::Error(ErrorKind::Denied)));
    let error = waiter.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
    assert!(error.to_string().starts_with("gave up after"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn refusal_that_cannot_pass_ends_the_wait() {
    for kind in [ErrorKind::Unsupported, ErrorKind::Invalid] {
        let store = FaultyStore::new();
        let holder = store.client().acquire("job").await.unwrap();
        let client = store.client();
        let waiter = tokio::spawn(async move { acquire(&client, "job", options()).await });
        run_ready_tasks().await;
        store.acquires.push(CallFault::Error(kind));
        holder.release().await.unwrap();
        assert_eq!(waiter.await.unwrap().unwrap_err().kind(), kind);
    }
}

#[tokio::test(start_paused = true)]
async fn bounded_wait_succeeds_on_a_store_that_comes_back() {
    let store = FaultyStore::new();
    store.acquires.push(CallFault::Unavailable);
    store.acquires.push(CallFault::Unavailable);
    acquire(&store.client(), "job", options().with_wait(TTL)).await.unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn invalid_input_is_refused_before_any_request() {
    let store = FaultyStore::new();
    let client = store.client();
    let short = AcquireOptions::new().with_ttl(Duration::from_millis(1));
    assert_eq!(acquire(&client, "job", short).await.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(client.acquire("").await.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(client.try_acquire("a\0b").await.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(store.acquires.calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn lock_name_is_accepted_by_reference_and_by_value() {
    let client = FaultyStore::new().client();
    let name = LockName::new("job").unwrap();
    client.acquire(&name).await.unwrap().release().await.unwrap();
    client.acquire(name).await.unwrap().release().await.unwrap();
}

#[test]
fn acquisition_without_a_runtime_is_misconfigured() {
    let client = LockClient::new(Arc::new(MemoryBackend::new()));
    let name = LockName::new("job").unwrap();
    let options = AcquireOptions::new();
    let mut acquire = client.acquire_named(&name, &options);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let std::task::Poll::Ready(outcome) = acquire.as_mut().poll(&mut context) else {
        panic!("the acquisition waits")
    };
    let error = outcome.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured);
    assert!(error.to_string().contains("needs a Tokio runtime"));
}

#[tokio::test(start_paused = true)]
async fn closed_client_refuses_acquisitions_and_loses_its_guards() {
    let store = FaultyStore::new();
    let client = store.client();
    let guard = client.acquire("job").await.unwrap();
    client.close().await.unwrap();

    assert!(!guard.is_held());
    assert_eq!(client.acquire("other").await.unwrap_err().kind(), ErrorKind::Closed);
    client.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn close_waits_for_the_releases_of_dropped_guards() {
    let store = FaultyStore::new();
    let client = store.client();
    store.releases.push(CallFault::RequestDelayed(Duration::from_secs(2)));
    drop(client.acquire("job").await.unwrap());
    client.close().await.unwrap();
    assert!(store.is_clean("job").await);
}

/// A backend that is closed releases nothing: the lock would stay taken for the rest of its lease.
#[tokio::test(start_paused = true)]
async fn close_waits_for_a_release_with_a_caller() {
    let store = FaultyStore::new();
    let client = store.client();
    store.releases.push(CallFault::RequestDelayed(Duration::from_secs(2)));
    let released = tokio::spawn(client.acquire("job").await.unwrap().release());
    run_ready_tasks().await;
    client.close().await.unwrap();
    assert!(store.is_clean("job").await);
    released.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn close_finishes_a_dropped_release_and_counts_an_unpolled_one_as_unfinished() {
    let store = FaultyStore::new();
    let client = store.client();
    store.releases.set_default(Some(CallFault::RequestDelayed(Duration::from_secs(1))));
    let (job, other) = (client.acquire("job").await.unwrap(), client.acquire("other").await.unwrap());
    let (mut unpolled, mut dropped) = (Box::pin(job.release()), Box::pin(other.release()));
    assert!(unpolled.as_mut().now_or_never().is_none() && dropped.as_mut().now_or_never().is_none());
    drop(dropped);
    let error = client.close().await.unwrap_err();
    assert_eq!(error.to_string(), "1 requests were still under way after 5s");
    assert!(store.is_clean("other").await);
}

#[tokio::test(start_paused = true)]
async fn close_is_bounded_and_counts_the_unfinished_requests() {
    let store = FaultyStore::new();
    let client = store.client();
    store.releases.set_default(Some(CallFault::NoReply));
    drop(client.acquire("job").await.unwrap());
    let error = client.close().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate);
    assert_eq!(error.to_string(), "1 requests were still under way after 5s");
}

/// The release ends while the backend closes.
#[tokio::test(start_paused = true)]
async fn release_that_ends_while_the_backend_closes_is_counted_as_unfinished() {
    let mut store = FaultyStore::on(Arc::new(RuntimeClock::new()));
    store.close_delay = Duration::from_secs(3);
    store.releases.push(CallFault::RequestDelayed(Duration::from_secs(6)));
    let client = Arc::new(store).client();
    drop(client.acquire("job").await.unwrap());
    let error = client.close().await.unwrap_err();
    assert_eq!(error.to_string(), "1 requests were still under way after 5s");
}

#[tokio::test(start_paused = true)]
async fn close_of_a_backend_that_does_not_close_is_bounded() {
    let mut store = FaultyStore::on(Arc::new(RuntimeClock::new()));
    store.close_delay = Duration::MAX;
    let error = Arc::new(store).client().close().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate);
    assert_eq!(error.to_string(), "the store did not close within 5s");
}

/// The first request may have been applied, although the second was not.
#[tokio::test(start_paused = true)]
async fn unknown_outcome_stays_indeterminate_on_an_unreachable_store() {
    let store = FaultyStore::new();
    store.acquires.push(CallFault::RequestLost);
    store.acquires.set_default(Some(CallFault::Unavailable));
    let error = acquire(&store.client(), "job", options().with_wait(TTL)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate);
}

#[tokio::test(start_paused = true)]
async fn busy_answer_ends_an_unknown_outcome() {
    let store = FaultyStore::new();
    let _holder = store.client().acquire("job").await.unwrap();
    let client = store.client();
    store.acquires.push(CallFault::RequestLost);
    let waiter =
        tokio::spawn(async move { acquire(&client, "job", options().with_wait(TTL)).await.map(drop) });
    sleep(TTL / 2).await;
    store.acquires.set_default(Some(CallFault::Unavailable));
    assert_eq!(waiter.await.unwrap().unwrap_err().kind(), ErrorKind::Unavailable);
}

/// A lost reply says that the store was reached.
#[tokio::test(start_paused = true)]
async fn endless_wait_goes_on_after_a_lost_first_reply() {
    let store = FaultyStore::new();
    store.acquires.push(CallFault::RequestLost);
    store.acquires.push(CallFault::Unavailable);
    assert!(store.client().acquire("job").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn release_with_lost_reply_stays_indeterminate_on_an_unreachable_store() {
    let store = FaultyStore::new();
    let guard = store.client().acquire("job").await.unwrap();
    store.releases.push(CallFault::ReplyLost);
    store.releases.push(CallFault::Unavailable);
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Indeterminate);
}

#[tokio::test(start_paused = true)]
async fn wait_ends_when_its_client_is_closed() {
    let store = FaultyStore::new();
    let _holder = store.client().acquire("job").await.unwrap();
    let client = store.client();
    let other = client.clone();
    let waiter = tokio::spawn(async move { other.acquire("job").await.map(drop) });
    sleep(TTL).await;
    client.close().await.unwrap();
    assert_eq!(waiter.await.unwrap().unwrap_err().kind(), ErrorKind::Closed);
}

#[tokio::test(start_paused = true)]
async fn grant_after_the_close_is_released() {
    let store = FaultyStore::new();
    store.acquires.push(CallFault::ReplyDelayed(TTL / 10));
    let client = store.client();
    let other = client.clone();
    let acquiring = tokio::spawn(async move { other.acquire("job").await });
    sleep(TTL / 20).await;
    client.close().await.unwrap();
    assert_eq!(acquiring.await.unwrap().unwrap_err().kind(), ErrorKind::Closed);
    run_ready_tasks().await;
    assert!(store.is_clean("job").await);
}

/// A backend that is closed releases nothing: the lock would stay taken for the rest of its lease.
#[tokio::test(start_paused = true)]
async fn close_waits_for_an_attempt_and_its_release() {
    let store = FaultyStore::new();
    store.acquires.push(CallFault::ReplyDelayed(TTL / 10));
    let client = store.client();
    let other = client.clone();
    let acquiring = tokio::spawn(async move { other.acquire("job").await });
    sleep(TTL / 20).await;
    client.close().await.unwrap();
    assert!(store.is_clean("job").await);
    assert_eq!(acquiring.await.unwrap().unwrap_err().kind(), ErrorKind::Closed);
}

/// The store granted the lock, and the waiter pauses before it asks again.
#[tokio::test(start_paused = true)]
async fn close_waits_for_the_release_of_an_unknown_outcome() {
    let store = FaultyStore::new();
    store.acquires.push(CallFault::ReplyLost);
    let client = store.client();
    let other = client.clone();
    let acquiring = tokio::spawn(async move { other.acquire("job").await });
    run_ready_tasks().await;
    assert!(!store.is_clean("job").await && store.acquires.calls() == 1);
    client.close().await.unwrap();
    assert!(store.is_clean("job").await);
    assert_eq!(acquiring.await.unwrap().unwrap_err().kind(), ErrorKind::Closed);
}

#[tokio::test(start_paused = true)]
async fn unknown_outcome_after_an_unreachable_store_is_indeterminate() {
    let store = FaultyStore::new();
    store.acquires.push(CallFault::Unavailable);
    store.acquires.set_default(Some(CallFault::RequestLost));
    let error = acquire(&store.client(), "job", options().with_wait(TTL)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate);
}

#[tokio::test(start_paused = true)]
async fn last_request_without_reply_is_indeterminate() {
    let store = FaultyStore::new();
    store.acquires.push(CallFault::Unavailable);
    store.acquires.set_default(Some(CallFault::NoReply));
    let error = acquire(&store.client(), "job", options().with_wait(TTL)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate);
    assert!(error.to_string().starts_with("the last request was without an answer"), "{error}");
    assert_eq!(error.source().map(ToString::to_string).as_deref(), Some("injected fault: unavailable"));
}
