//! Stores whose holds belong to a session: the timeout of the session bounds the lease, the store reports suspects, and only
//! a release ends a hold while the session lives.

use crate::faulty_store::{CallFault, EventLog, FaultyStore, TTL, acquire, options, run_ready_tasks};
use futures_util::FutureExt;
use leasehold_core::{DistributedLockExt, ErrorKind, HoldKind, LossCause, RuntimeClock};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The lease of a session, shorter than [`TTL`].
const SHORT: Duration = Duration::from_secs(4);

fn store(change: impl FnOnce(&mut FaultyStore)) -> Arc<FaultyStore> {
    let mut store = FaultyStore::on(Arc::new(RuntimeClock::new()));
    change(&mut store);
    Arc::new(store)
}

#[tokio::test(start_paused = true)]
async fn grant_with_a_shorter_lease_is_held_and_renewed_by_that_lease() {
    let store = store(|store| store.lease = Some(SHORT));
    let guard = store.client().acquire("job").await.unwrap();
    assert!(guard.remaining() < SHORT, "{:?} remain of a lease of {SHORT:?}", guard.remaining());

    sleep(SHORT * 10).await;

    assert!(guard.is_held());
    assert!(guard.remaining() < SHORT);
    let calls = store.renewals.calls();
    assert!((28..=32).contains(&calls), "{calls} renewals in ten leases");
}

#[tokio::test(start_paused = true)]
async fn grant_with_a_longer_lease_is_held_for_the_ttl() {
    let store = store(|store| store.lease = Some(TTL * 10));
    let guard = store.client().acquire("job").await.unwrap();
    assert!(guard.remaining() < TTL);
}

#[tokio::test(start_paused = true)]
async fn fixed_lease_longer_than_the_session_timeout_ends_at_its_ttl() {
    let store = store(|store| store.lease = Some(SHORT));
    let start = Instant::now();
    let guard = acquire(&store.client(), "job", options().with_fixed_lease()).await.unwrap();

    let loss = guard.lost().await;

    assert_eq!(loss.cause(), LossCause::Expired);
    let took = start.elapsed();
    assert!(took < TTL && took > TTL.mul_f64(0.98), "a lease of {TTL:?} was over after {took:?}");
}

#[tokio::test(start_paused = true)]
async fn fixed_lease_without_answers_ends_with_the_session() {
    let store = store(|store| store.lease = Some(SHORT));
    store.renewals.set_default(Some(CallFault::NoReply));
    let start = Instant::now();
    let guard = acquire(&store.client(), "job", options().with_fixed_lease()).await.unwrap();
    assert_eq!(guard.lost().await.cause(), LossCause::Unreachable);
    assert!(start.elapsed() < SHORT);
}

#[tokio::test(start_paused = true)]
async fn store_without_answers_is_a_loss_by_the_end_of_the_shorter_lease() {
    let store = store(|store| store.lease = Some(SHORT));
    store.renewals.set_default(Some(CallFault::NoReply));
    let guard = store.client().acquire("job").await.unwrap();
    let start = Instant::now();
    guard.lost().await;
    assert!(start.elapsed() < SHORT, "announced after {:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn suspected_hold_is_renewed_at_once() {
    let store = FaultyStore::new();
    let guard = store.client().acquire("job").await.unwrap();
    let owner = store.owner("job").await;
    run_ready_tasks().await;
    store.delete("job").await;
    let start = Instant::now();

    store.suspect(owner);
    let loss = guard.lost().await;

    assert_eq!((loss.cause(), start.elapsed()), (LossCause::Gone, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn false_suspicion_costs_one_renewal() {
    let store = FaultyStore::new();
    let client = store.client();
    let (suspected, other) = (client.acquire("job").await.unwrap(), client.acquire("other").await.unwrap());

    store.suspect(store.owner("job").await);
    run_ready_tasks().await;

    assert_eq!(store.renewals.sizes(), [1]);
    assert!(suspected.is_held() && other.is_held());
}

#[tokio::test(start_paused = true)]
async fn flood_of_suspicions_costs_few_renewals() {
    let store = FaultyStore::new();
    let guard = store.client().acquire("job").await.unwrap();
    let (owner, end) = (store.owner("job").await, Instant::now() + TTL);

    while Instant::now() < end {
        store.suspect(owner);
        sleep(Duration::from_millis(1)).await;
    }

    let renewals = store.renewals.calls();
    assert!((3..=15).contains(&renewals), "{renewals} renewals in one lease");
    assert!(guard.is_held());
}

#[tokio::test(start_paused = true)]
async fn suspicion_of_an_unknown_owner_or_a_fixed_lease_is_ignored() {
    let store = FaultyStore::new();
    let guard = acquire(&store.client(), "job", options().with_fixed_lease()).await.unwrap();

    store.suspect(store.owner("job").await);
    store.suspect(leasehold_core::OwnerId::from_u128(7));
    run_ready_tasks().await;

    assert_eq!(store.renewals.calls(), 0);
    assert!(guard.is_held());
}

#[tokio::test(start_paused = true)]
async fn release_is_tried_until_the_session_answers() {
    let store = store(|store| store.hold = HoldKind::Session);
    let events = Arc::new(EventLog::default());
    let guard = store.client_with(Arc::clone(&events)).acquire("job").await.unwrap();
    store.releases.set_default(Some(CallFault::RequestLost));

    drop(guard);
    sleep(TTL * 5).await;
    let calls = store.releases.calls();
    assert_eq!(events.count("release unconfirmed"), 0);
    store.releases.set_default(None);
    sleep(Duration::from_secs(2)).await;

    assert!(store.releases.calls() > calls, "given up after the ttl, which ends no session");
    assert!(store.is_clean("job").await);
}

/// The store cannot keep others out after a release, so the client keeps the hold for that time.
#[tokio::test(start_paused = true)]
async fn hold_at_least_is_kept_by_renewals_after_the_release() {
    let store = store(|store| store.hold = HoldKind::Session);
    let client = store.client();
    let guard = acquire(&client, "job", options().with_hold_at_least(TTL * 3)).await.unwrap();
    guard.release().now_or_never();
    let before = store.renewals.calls();
    sleep(TTL * 5 / 2).await;
    assert!(store.holder("job").await.is_some());
    let renewals = store.renewals.calls() - before;
    assert!((6..=9).contains(&renewals), "{renewals} renewals in two leases and a half");
    sleep(TTL).await;
    assert!(store.is_clean("job").await);
}

/// A renewal after the work confirms that the work was covered. A later end of the session does not change that.
#[tokio::test(start_paused = true)]
async fn session_that_ends_after_the_work_is_no_loss() {
    let store = store(|store| store.hold = HoldKind::Session);
    let start = Instant::now();
    let guard = acquire(&store.client(), "job", options().with_hold_at_least(TTL * 30)).await.unwrap();
    let released = tokio::spawn(guard.release());
    sleep(TTL * 2).await;
    store.delete("job").await;
    released.await.unwrap().unwrap();
    assert!(start.elapsed() < TTL * 3, "a hold that has ended is renewed");
}

#[tokio::test(start_paused = true)]
async fn loss_that_only_the_release_finds_after_the_work_is_no_loss() {
    let store = store(|store| store.hold = HoldKind::Session);
    store.releases.push(CallFault::Error(ErrorKind::Lost));
    let guard = acquire(&store.client(), "job", options().with_hold_at_least(TTL * 3)).await.unwrap();
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn session_that_ended_before_the_release_is_a_loss() {
    let store = store(|store| store.hold = HoldKind::Session);
    let guard = acquire(&store.client(), "job", options().with_hold_at_least(TTL * 30)).await.unwrap();
    store.delete("job").await;
    let error = guard.release().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
}

/// As of a store whose first renewal sets a watch on the record.
#[tokio::test(start_paused = true)]
async fn grant_that_wants_it_is_renewed_soon_and_then_at_a_third_of_its_lease() {
    let store = store(|store| store.renewed_soon = true);
    let client = store.client();
    client.acquire("short").await.unwrap().release().await.unwrap();
    let _fixed = acquire(&client, "fixed", options().with_fixed_lease()).await.unwrap();
    let _guard = client.acquire("job").await.unwrap();
    sleep(Duration::from_millis(99)).await;
    assert_eq!(store.renewals.calls(), 0);
    sleep(Duration::from_millis(2)).await;
    assert_eq!(store.renewals.sizes(), [1]);
    sleep(TTL / 3 - Duration::from_millis(10)).await;
    assert_eq!(store.renewals.calls(), 1);
    sleep(Duration::from_millis(20)).await;
    assert_eq!(store.renewals.sizes(), [1, 1]);
}
