//! The keeper: renewals at a third of the lease, in batches, until the guard ends.

use crate::faulty_store::{CallFault, EventLog, FaultyStore, TTL, acquire, options, run_ready_tasks};
use futures_util::FutureExt;
use leasehold_core::{
    DistributedLock, DistributedLockExt, ErrorKind, Event, Lease, LockClient, LossCause, Observer,
    RuntimeClock,
};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::time::sleep;

#[tokio::test(start_paused = true)]
async fn guard_is_renewed_until_its_end() {
    let store = FaultyStore::new();
    let guard = store.client().acquire("job").await.unwrap();
    sleep(TTL * 5).await;
    assert!(guard.is_held());
    assert!(
        (14..=16).contains(&store.renewals.calls()),
        "{} renewals in five leases",
        store.renewals.calls()
    );
}

#[tokio::test(start_paused = true)]
async fn renewals_end_with_the_guard() {
    let store = FaultyStore::new();
    let client = store.client();
    client.acquire("released").await.unwrap().release().await.unwrap();
    drop(client.acquire("dropped").await.unwrap());
    sleep(TTL * 3).await;
    assert_eq!(store.renewals.calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn renewals_end_with_the_loss() {
    let store = FaultyStore::new();
    let guard = store.client().acquire("job").await.unwrap();
    store.delete("job").await;
    guard.lost().await;
    let calls = store.renewals.calls();
    sleep(TTL * 3).await;
    assert_eq!(store.renewals.calls(), calls);
}

#[tokio::test(start_paused = true)]
async fn name_that_was_lost_and_acquired_again_is_renewed() {
    let store = FaultyStore::new();
    let client = store.client();
    let first = client.acquire("job").await.unwrap();
    store.delete("job").await;
    first.lost().await;
    let second = client.acquire("job").await.unwrap();
    drop(first);
    sleep(TTL * 3).await;
    assert!(second.is_held());
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_holds_are_renewed_in_batches() {
    let store = FaultyStore::new();
    let client = store.client();
    let mut guards = Vec::new();
    for n in 0..10_000 {
        guards.push(client.acquire(format!("job/{n}")).await.unwrap());
    }
    sleep(TTL * 3).await;
    assert!(guards.iter().all(|guard| guard.is_held()));
    let sizes = store.renewals.sizes();
    let mean = sizes.iter().sum::<usize>() / sizes.len();
    assert!(mean > 100, "{} calls, {mean} leases each on average", sizes.len());
    assert!(sizes.iter().all(|size| *size <= 128));
}

/// A lease that is nearly due is renewed together with a lease that is due.
#[tokio::test(start_paused = true)]
async fn holds_acquired_one_after_the_other_are_renewed_in_one_call() {
    let store = FaultyStore::new();
    let client = store.client();
    let mut guards = Vec::new();
    for n in 0..10 {
        guards.push(client.acquire(format!("job/{n}")).await.unwrap());
        sleep(TTL / 1_000).await;
    }
    sleep(TTL / 2).await;
    assert_eq!(store.renewals.sizes(), [10]);
    assert!(guards.iter().all(|guard| guard.is_held()));
}

#[tokio::test(start_paused = true)]
async fn renewal_without_reply_does_not_delay_another() {
    let store = FaultyStore::new();
    let client = store.client();
    let hung = client.acquire("hung").await.unwrap();
    sleep(TTL / 6).await;
    let healthy = client.acquire("healthy").await.unwrap();
    store.renewals.push(CallFault::NoReply);
    sleep(TTL * 3).await;
    assert!(healthy.is_held());
    assert!(hung.is_held(), "not renewed again while the first request hung");
}

#[tokio::test(start_paused = true)]
async fn fixed_lease_is_not_renewed_and_its_end_is_a_loss() {
    let store = FaultyStore::new();
    let guard = acquire(&store.client(), "job", options().with_fixed_lease()).await.unwrap();
    assert_eq!(guard.lost().await.cause(), LossCause::Expired);
    assert_eq!(store.renewals.calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn max_hold_ends_a_healthy_hold() {
    let store = FaultyStore::new();
    let limit = TTL * 2;
    let guard = acquire(&store.client(), "job", options().with_max_hold(limit)).await.unwrap();
    sleep(limit - Duration::from_millis(1)).await;
    assert!(guard.is_held());
    sleep(Duration::from_millis(1)).await;
    assert_eq!(guard.loss().unwrap().cause(), LossCause::MaxHold);
    let calls = store.renewals.calls();
    sleep(TTL * 2).await;
    assert_eq!(store.renewals.calls(), calls, "renewed after its end");
    assert!(store.is_clean("job").await);
}

#[tokio::test(start_paused = true)]
async fn extend_lengthens_the_lease_and_every_renewal_after_it() {
    let store = FaultyStore::new();
    let guard = store.client().acquire("job").await.unwrap();
    guard.extend(TTL * 6).await.unwrap();
    assert!(guard.remaining() > TTL * 5);
    sleep(TTL * 60).await;
    assert!(guard.remaining() > TTL * 3, "shortened by a renewal");
    assert!(store.renewals.calls() < 60, "renewed at a third of the first lease");
}

#[tokio::test(start_paused = true)]
async fn extend_never_shortens_and_refuses_a_ttl_out_of_range() {
    let store = FaultyStore::new();
    let guard = acquire(&store.client(), "job", options().with_fixed_lease()).await.unwrap();
    sleep(TTL / 2).await;
    guard.extend(TTL / 10).await.unwrap();
    assert!(guard.remaining() > TTL * 9 / 10);
    assert_eq!(guard.extend(Duration::ZERO).await.unwrap_err().kind(), ErrorKind::Invalid);
    sleep(TTL).await;
    assert_eq!(guard.extend(TTL).await.unwrap_err().kind(), ErrorKind::Lost);
}

#[tokio::test(start_paused = true)]
async fn hold_at_least_keeps_others_out_after_an_early_release() {
    let store = FaultyStore::new();
    let at_least = Duration::from_secs(3);
    let guard = acquire(&store.client(), "job", options().with_hold_at_least(at_least)).await.unwrap();
    guard.release().await.unwrap();

    let start = tokio::time::Instant::now();
    let _next = store.client().acquire("job").await.unwrap();
    assert!(start.elapsed() >= at_least - Duration::from_millis(1));
    assert!(start.elapsed() <= at_least + Duration::from_millis(500));
}

#[tokio::test(start_paused = true)]
async fn hold_at_least_outlasts_the_lease_and_does_not_delay_a_long_hold() {
    let store = FaultyStore::new();
    let client = store.client();
    let long = options().with_hold_at_least(TTL * 2);
    acquire(&client, "short job", long.clone()).await.unwrap().release().await.unwrap();
    sleep(TTL + TTL / 2).await;
    assert!(client.try_acquire("short job").await.unwrap().is_none());

    let guard = acquire(&client, "long job", long).await.unwrap();
    sleep(TTL * 3).await;
    guard.release().await.unwrap();
    assert!(client.try_acquire("long job").await.unwrap().is_some());
}

/// The task of the keeper ends with its runtime when no lock is held. The next acquisition starts it on its own runtime.
#[test]
fn keeper_restarts_on_another_runtime() {
    let runtime =
        || tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let first = runtime();
    let client = first.block_on(async { FaultyStore::new().client() });
    first.block_on(async { client.acquire("first").await.unwrap().release().await.unwrap() });
    drop(first);

    runtime().block_on(async {
        let guard = client.acquire("second").await.unwrap();
        sleep(TTL * 3).await;
        assert!(guard.is_held());
    });
}

#[tokio::test(start_paused = true)]
async fn keeper_task_ends_with_the_last_handle() {
    let store = FaultyStore::new();
    let client = store.client();
    client.acquire("job").await.unwrap().release().await.unwrap();
    let strong = Arc::strong_count(&store);
    drop(client);
    run_ready_tasks().await;
    assert!(Arc::strong_count(&store) < strong, "the client still owns the backend");
    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), 0);
}

/// A renewal holds the client for a moment. It must not keep it.
#[tokio::test(start_paused = true)]
async fn keeper_task_ends_with_the_last_handle_after_a_renewal() {
    let store = FaultyStore::new();
    let client = store.client();
    let guard = client.acquire("job").await.unwrap();
    sleep(TTL / 2).await;
    assert_eq!(store.renewals.calls(), 1);
    guard.release().await.unwrap();
    drop(client);
    run_ready_tasks().await;
    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), 0);
}

/// The grant may be much later than the request.
#[tokio::test(start_paused = true)]
async fn hold_at_least_counts_from_the_grant_of_a_slow_request() {
    let store = FaultyStore::new();
    let (slow, at_least) = (Duration::from_secs(2), Duration::from_secs(3));
    store.acquires.push(CallFault::RequestDelayed(slow));
    let guard = acquire(&store.client(), "job", options().with_hold_at_least(at_least)).await.unwrap();
    guard.release().await.unwrap();
    sleep(at_least - Duration::from_millis(10)).await;
    assert!(store.client().try_acquire("job").await.unwrap().is_none());
}

/// Closes the client from within an event.
#[derive(Debug, Default)]
struct ClosingObserver {
    client: OnceLock<LockClient>,
    closed: AtomicUsize,
}

impl Observer for ClosingObserver {
    fn event(&self, _event: &Event<'_>) {
        let closed = self.client.get().and_then(|client| client.close().now_or_never());
        self.closed.fetch_add(closed.into_iter().count(), SeqCst);
    }
}

#[tokio::test(start_paused = true)]
async fn close_within_an_event_ends_leases_that_are_due_too() {
    let observer = Arc::new(ClosingObserver::default());
    let clock = Arc::new(RuntimeClock::new());
    let client = LockClient::builder(FaultyStore::new())
        .with_clock(clock)
        .with_observer(Arc::clone(&observer) as Arc<dyn Observer>)
        .build();
    let fixed = options().with_fixed_lease();
    let _first = acquire(&client, "first", fixed.clone()).await.unwrap();
    // Due a little later, so that the keeper takes both together.
    let second = acquire(&client, "second", fixed.with_ttl(TTL + TTL / 100)).await.unwrap();
    observer.client.set(client).unwrap();
    sleep(TTL * 99 / 100).await;
    run_ready_tasks().await;
    assert_eq!(observer.closed.load(SeqCst), 2, "the close at each of two losses");
    assert_eq!(second.loss().unwrap().cause(), LossCause::Closed);
}

/// Counts the leases that are still held at each event.
#[derive(Debug, Default)]
struct HeldLeaseCounter {
    leases: OnceLock<[Lease; 2]>,
    held: AtomicUsize,
}

impl Observer for HeldLeaseCounter {
    fn event(&self, _event: &Event<'_>) {
        let held = self.leases.get().into_iter().flatten().filter(|lease| lease.is_held()).count();
        self.held.fetch_add(held, SeqCst);
    }
}

#[tokio::test(start_paused = true)]
async fn close_ends_all_holds_at_one_moment() {
    let observer = Arc::new(HeldLeaseCounter::default());
    let client = LockClient::builder(FaultyStore::new())
        .with_clock(Arc::new(RuntimeClock::new()))
        .with_observer(Arc::clone(&observer) as Arc<dyn Observer>)
        .build();
    let first = acquire(&client, "first", options()).await.unwrap();
    let second = acquire(&client, "second", options()).await.unwrap();
    observer.leases.set([first.lease(), second.lease()]).unwrap();
    client.close().await.unwrap();
    assert_eq!(observer.held.load(SeqCst), 0, "held after the loss of another");
    assert_eq!(second.loss().unwrap().cause(), LossCause::Closed);
}

#[tokio::test(start_paused = true)]
async fn close_wakes_a_task_that_waits_for_the_loss() {
    let events = Arc::new(EventLog::default());
    let client = FaultyStore::new().client_with(Arc::clone(&events));
    let guard = client.acquire("job").await.unwrap();
    let lease = guard.lease();
    let waiting = tokio::spawn(async move { lease.lost().await });
    run_ready_tasks().await;
    client.close().await.unwrap();
    run_ready_tasks().await;
    assert_eq!(events.entries(), ["lost Closed"], "announced without a call of the lease");
    assert!(waiting.is_finished());
}

/// Panics at every loss.
#[derive(Debug)]
struct PanickingObserver;

impl Observer for PanickingObserver {
    fn event(&self, event: &Event<'_>) {
        assert!(!matches!(event, Event::Lost { .. }), "injected panic");
    }
}

#[tokio::test(start_paused = true)]
async fn observer_that_panics_stops_no_renewal() {
    let client = LockClient::builder(FaultyStore::new())
        .with_clock(Arc::new(RuntimeClock::new()))
        .with_observer(Arc::new(PanickingObserver))
        .build();
    let fixed = acquire(&client, "fixed", options().with_ttl(TTL / 3).with_fixed_lease()).await.unwrap();
    let renewed = acquire(&client, "renewed", options()).await.unwrap();
    sleep(TTL * 3).await;
    assert_eq!(fixed.loss().unwrap().cause(), LossCause::Expired);
    assert!(renewed.is_held(), "{:?}", renewed.loss());
}

#[tokio::test(start_paused = true)]
async fn backend_that_panics_in_suspects_is_still_asked_for_renewals() {
    let mut backend = FaultyStore::on(Arc::new(RuntimeClock::new()));
    backend.suspects_panics = true;
    let guard = acquire(&Arc::new(backend).client(), "job", options()).await.unwrap();
    sleep(TTL * 3).await;
    assert!(guard.is_held(), "{:?}", guard.loss());
}
