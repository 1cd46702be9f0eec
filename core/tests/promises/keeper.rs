//! The keeper: renewals at a third of the lease, together, for as long as the guard lives and no longer.

use crate::scripted::{Events, Fate, Scripted, TTL, acquire, options, settle};
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
async fn a_guard_is_renewed_for_as_long_as_it_lives() {
    let store = Scripted::new();
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
async fn renewal_ends_with_the_guard() {
    let store = Scripted::new();
    let client = store.client();
    client.acquire("released").await.unwrap().release().await.unwrap();
    drop(client.acquire("dropped").await.unwrap());
    sleep(TTL * 3).await;
    assert_eq!(store.renewals.calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn renewal_ends_with_the_loss() {
    let store = Scripted::new();
    let guard = store.client().acquire("job").await.unwrap();
    store.delete("job").await;
    guard.lost().await;
    let calls = store.renewals.calls();
    sleep(TTL * 3).await;
    assert_eq!(store.renewals.calls(), calls);
}

#[tokio::test(start_paused = true)]
async fn a_name_that_was_lost_once_gets_a_working_renewal_again() {
    let store = Scripted::new();
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
async fn ten_thousand_holds_are_renewed_together() {
    let store = Scripted::new();
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

/// Who is due in a moment is renewed with who is due now: one call, not ten.
#[tokio::test(start_paused = true)]
async fn holds_that_were_taken_one_after_the_other_are_renewed_in_one_call() {
    let store = Scripted::new();
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
async fn a_batch_that_hangs_holds_up_no_other() {
    let store = Scripted::new();
    let client = store.client();
    let hung = client.acquire("hung").await.unwrap();
    sleep(TTL / 6).await;
    let well = client.acquire("well").await.unwrap();
    store.renewals.then(Fate::Silent);
    sleep(TTL * 3).await;
    assert!(well.is_held());
    assert!(hung.is_held(), "asked for again while the first request hung");
}

#[tokio::test(start_paused = true)]
async fn a_fixed_lease_is_not_renewed_and_its_end_is_announced() {
    let store = Scripted::new();
    let guard = acquire(&store.client(), "job", options().with_fixed_lease()).await.unwrap();
    assert_eq!(guard.lost().await.cause(), LossCause::Expired);
    assert_eq!(store.renewals.calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn max_hold_ends_a_healthy_hold() {
    let store = Scripted::new();
    let limit = TTL * 2;
    let guard = acquire(&store.client(), "job", options().with_max_hold(limit)).await.unwrap();
    sleep(limit - Duration::from_millis(1)).await;
    assert!(guard.is_held());
    sleep(Duration::from_millis(1)).await;
    assert_eq!(guard.loss().unwrap().cause(), LossCause::MaxHold);
    let calls = store.renewals.calls();
    sleep(TTL * 2).await;
    assert_eq!(store.renewals.calls(), calls, "renewal stopped");
    assert!(store.is_clean("job").await);
}

#[tokio::test(start_paused = true)]
async fn extend_lengthens_the_lease_and_every_renewal_after_it() {
    let store = Scripted::new();
    let guard = store.client().acquire("job").await.unwrap();
    guard.extend(TTL * 6).await.unwrap();
    assert!(guard.remaining() > TTL * 5);
    sleep(TTL * 60).await;
    assert!(guard.remaining() > TTL * 3, "not shrunk back by the keeper");
    assert!(store.renewals.calls() < 60, "renewed at a third of the longer lease");
}

#[tokio::test(start_paused = true)]
async fn extend_never_shortens_and_refuses_what_is_out_of_range() {
    let store = Scripted::new();
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
    let store = Scripted::new();
    let at_least = Duration::from_secs(3);
    let guard = acquire(&store.client(), "job", options().with_hold_at_least(at_least)).await.unwrap();
    guard.release().await.unwrap();

    let start = tokio::time::Instant::now();
    let _next = store.client().acquire("job").await.unwrap();
    assert!(start.elapsed() >= at_least - Duration::from_millis(1));
    assert!(start.elapsed() <= at_least + Duration::from_millis(500));
}

#[tokio::test(start_paused = true)]
async fn hold_at_least_may_be_longer_than_the_lease_and_costs_a_long_hold_nothing() {
    let store = Scripted::new();
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

/// Guards outlive the runtime that their client's keeper ran on; the next one on a new runtime brings a new keeper.
#[test]
fn the_keeper_follows_its_client_to_another_runtime() {
    let runtime =
        || tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let first = runtime();
    let client = first.block_on(async { Scripted::new().client() });
    let orphan = first.block_on(async { client.acquire("first").await.unwrap() });
    drop(first);

    runtime().block_on(async {
        let guard = client.acquire("second").await.unwrap();
        sleep(TTL * 3).await;
        assert!(guard.is_held());
    });
    drop(orphan);
}

#[tokio::test(start_paused = true)]
async fn the_keepers_task_ends_with_the_last_handle() {
    let store = Scripted::new();
    let client = store.client();
    client.acquire("job").await.unwrap().release().await.unwrap();
    let strong = Arc::strong_count(&store);
    drop(client);
    settle().await;
    assert!(Arc::strong_count(&store) < strong, "the client's share of the backend was given back");
    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), 0);
}

/// Also right after a renewal, when it was just dealing with a hold, which has the client in its hands.
#[tokio::test(start_paused = true)]
async fn the_keepers_task_ends_with_the_last_handle_of_a_client_that_has_renewed() {
    let store = Scripted::new();
    let client = store.client();
    let guard = client.acquire("job").await.unwrap();
    sleep(TTL / 2).await;
    assert_eq!(store.renewals.calls(), 1);
    guard.release().await.unwrap();
    drop(client);
    settle().await;
    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), 0);
}

/// The guard says how long its store keeps others out after the *grant*, which may be much later than the request.
#[tokio::test(start_paused = true)]
async fn hold_at_least_counts_from_the_grant_however_slow_the_request() {
    let store = Scripted::new();
    let (slow, at_least) = (Duration::from_secs(2), Duration::from_secs(3));
    store.acquires.then(Fate::RequestLate(slow));
    let guard = acquire(&store.client(), "job", options().with_hold_at_least(at_least)).await.unwrap();
    guard.release().await.unwrap();
    sleep(at_least - Duration::from_millis(10)).await;
    assert!(store.client().try_acquire("job").await.unwrap().is_none());
}

/// Closes the client at the first event, in the midst of what announces it.
#[derive(Debug, Default)]
struct ClosesAtOnce {
    client: OnceLock<LockClient>,
    closed: AtomicUsize,
}

impl Observer for ClosesAtOnce {
    fn event(&self, _event: &Event<'_>) {
        let closed = self.client.get().and_then(|client| client.close().now_or_never());
        self.closed.fetch_add(closed.into_iter().count(), SeqCst);
    }
}

#[tokio::test(start_paused = true)]
async fn close_reaches_what_the_keeper_has_in_its_hands() {
    let observer = Arc::new(ClosesAtOnce::default());
    let clock = Arc::new(RuntimeClock::new());
    let client = LockClient::builder(Scripted::new())
        .with_clock(clock)
        .with_observer(Arc::clone(&observer) as Arc<dyn Observer>)
        .build();
    let fixed = options().with_fixed_lease();
    let _first = acquire(&client, "first", fixed.clone()).await.unwrap();
    // It falls due a little later, so that the keeper looks at both together.
    let second = acquire(&client, "second", fixed.with_ttl(TTL + TTL / 100)).await.unwrap();
    observer.client.set(client).unwrap();
    sleep(TTL * 99 / 100).await;
    settle().await;
    assert_eq!(observer.closed.load(SeqCst), 2, "at each of two losses, and each time at once");
    assert_eq!(second.loss().unwrap().cause(), LossCause::Closed);
}

/// Looks, at each loss, whether another hold of the client is not over yet.
#[derive(Debug, Default)]
struct LooksAtOthers {
    leases: OnceLock<[Lease; 2]>,
    held: AtomicUsize,
}

impl Observer for LooksAtOthers {
    fn event(&self, _event: &Event<'_>) {
        let held = self.leases.get().into_iter().flatten().filter(|lease| lease.is_held()).count();
        self.held.fetch_add(held, SeqCst);
    }
}

#[tokio::test(start_paused = true)]
async fn close_ends_all_holds_at_one_moment() {
    let observer = Arc::new(LooksAtOthers::default());
    let client = LockClient::builder(Scripted::new())
        .with_clock(Arc::new(RuntimeClock::new()))
        .with_observer(Arc::clone(&observer) as Arc<dyn Observer>)
        .build();
    let first = acquire(&client, "first", options()).await.unwrap();
    let second = acquire(&client, "second", options()).await.unwrap();
    observer.leases.set([first.lease(), second.lease()]).unwrap();
    client.close().await.unwrap();
    assert_eq!(observer.held.load(SeqCst), 0, "held while another one was told that the client is closed");
    assert_eq!(second.loss().unwrap().cause(), LossCause::Closed);
}

#[tokio::test(start_paused = true)]
async fn close_is_heard_by_whoever_waits_for_the_loss() {
    let events = Arc::new(Events::default());
    let client = Scripted::new().client_with(Arc::clone(&events));
    let guard = client.acquire("job").await.unwrap();
    let lease = guard.lease();
    let waiting = tokio::spawn(async move { lease.lost().await });
    settle().await;
    client.close().await.unwrap();
    settle().await;
    assert_eq!(events.seen(), ["lost Closed"], "told by nobody's look");
    assert!(waiting.is_finished());
}

/// Breaks down at every loss that it is told of.
#[derive(Debug)]
struct PanicsAtLosses;

impl Observer for PanicsAtLosses {
    fn event(&self, event: &Event<'_>) {
        assert!(!matches!(event, Event::Lost { .. }), "as this test wants it");
    }
}

#[tokio::test(start_paused = true)]
async fn an_observer_that_panics_stops_no_renewal() {
    let client = LockClient::builder(Scripted::new())
        .with_clock(Arc::new(RuntimeClock::new()))
        .with_observer(Arc::new(PanicsAtLosses))
        .build();
    let ends = acquire(&client, "ends", options().with_ttl(TTL / 3).with_fixed_lease()).await.unwrap();
    let goes_on = acquire(&client, "goes on", options()).await.unwrap();
    sleep(TTL * 3).await;
    assert_eq!(ends.loss().unwrap().cause(), LossCause::Expired);
    assert!(goes_on.is_held(), "{:?}", goes_on.loss());
}

#[tokio::test(start_paused = true)]
async fn a_backend_that_panics_over_its_suspects_is_asked_for_renewals_all_the_same() {
    let mut backend = Scripted::on(Arc::new(RuntimeClock::new()));
    backend.panics = true;
    let guard = acquire(&Arc::new(backend).client(), "job", options()).await.unwrap();
    sleep(TTL * 3).await;
    assert!(guard.is_held(), "{:?}", guard.loss());
}
