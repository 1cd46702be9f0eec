//! Stores whose holds are parts of a session: the session's time bounds the lease, the store speaks up when a hold may be
//! over, and nothing but a release ends a hold while the session lives.

use crate::scripted::{Events, Fate, Scripted, TTL, acquire, options, settle};
use futures_util::FutureExt;
use leasehold_core::{DistributedLockExt, ErrorKind, HoldKind, LossCause, RuntimeClock};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const SHORT: Duration = Duration::from_secs(4);

fn store(change: impl FnOnce(&mut Scripted)) -> Arc<Scripted> {
    let mut store = Scripted::on(Arc::new(RuntimeClock::new()));
    change(&mut store);
    Arc::new(store)
}

#[tokio::test(start_paused = true)]
async fn a_grant_of_a_shorter_lease_is_believed_and_renewed_by_that_lease() {
    let store = store(|store| store.lease = Some(SHORT));
    let guard = store.client().acquire("job").await.unwrap();
    assert!(guard.remaining() < SHORT, "{:?} are believed of a lease of {SHORT:?}", guard.remaining());

    sleep(SHORT * 10).await;

    assert!(guard.is_held());
    assert!(guard.remaining() < SHORT);
    let calls = store.renewals.calls();
    assert!((28..=32).contains(&calls), "{calls} renewals in ten leases");
}

#[tokio::test(start_paused = true)]
async fn a_grant_of_a_longer_lease_is_believed_for_the_ttl() {
    let store = store(|store| store.lease = Some(TTL * 10));
    let guard = store.client().acquire("job").await.unwrap();
    assert!(guard.remaining() < TTL);
}

#[tokio::test(start_paused = true)]
async fn a_fixed_lease_longer_than_the_session_ends_on_its_own_time() {
    let store = store(|store| store.lease = Some(SHORT));
    let start = Instant::now();
    let guard = acquire(&store.client(), "job", options().with_fixed_lease()).await.unwrap();

    let loss = guard.lost().await;

    assert_eq!(loss.cause(), LossCause::Expired);
    let took = start.elapsed();
    assert!(took < TTL && took > TTL.mul_f64(0.98), "a lease of {TTL:?} was over after {took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_fixed_lease_of_a_session_that_says_nothing_ends_with_the_session() {
    let store = store(|store| store.lease = Some(SHORT));
    store.renewals.ever_after(Some(Fate::Silent));
    let start = Instant::now();
    let guard = acquire(&store.client(), "job", options().with_fixed_lease()).await.unwrap();
    assert_eq!(guard.lost().await.cause(), LossCause::Unreachable);
    assert!(start.elapsed() < SHORT);
}

#[tokio::test(start_paused = true)]
async fn silence_is_a_loss_by_the_end_of_the_shorter_lease() {
    let store = store(|store| store.lease = Some(SHORT));
    store.renewals.ever_after(Some(Fate::Silent));
    let guard = store.client().acquire("job").await.unwrap();
    let start = Instant::now();
    guard.lost().await;
    assert!(start.elapsed() < SHORT, "announced after {:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_suspected_hold_is_asked_about_at_once() {
    let store = Scripted::new();
    let guard = store.client().acquire("job").await.unwrap();
    let owner = store.owner("job").await;
    settle().await;
    store.delete("job").await;
    let start = Instant::now();

    store.suspect(owner);
    let loss = guard.lost().await;

    assert_eq!((loss.cause(), start.elapsed()), (LossCause::Gone, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_suspicion_without_ground_costs_one_renewal_and_nothing_else() {
    let store = Scripted::new();
    let client = store.client();
    let (suspected, other) = (client.acquire("job").await.unwrap(), client.acquire("other").await.unwrap());

    store.suspect(store.owner("job").await);
    settle().await;

    assert_eq!(store.renewals.sizes(), [1]);
    assert!(suspected.is_held() && other.is_held());
}

#[tokio::test(start_paused = true)]
async fn a_suspicion_of_a_stranger_or_of_a_fixed_lease_does_nothing() {
    let store = Scripted::new();
    let guard = acquire(&store.client(), "job", options().with_fixed_lease()).await.unwrap();

    store.suspect(store.owner("job").await);
    store.suspect(leasehold_core::OwnerId::from_u128(7));
    settle().await;

    assert_eq!(store.renewals.calls(), 0);
    assert!(guard.is_held());
}

#[tokio::test(start_paused = true)]
async fn a_release_is_tried_until_the_session_answers() {
    let store = store(|store| store.hold = HoldKind::Session);
    let events = Arc::new(Events::default());
    let guard = store.client_with(Arc::clone(&events)).acquire("job").await.unwrap();
    store.releases.ever_after(Some(Fate::RequestLost));

    drop(guard);
    sleep(TTL * 5).await;
    let tried = store.releases.calls();
    assert_eq!(events.count("release unconfirmed"), 0);
    store.releases.ever_after(None);
    sleep(Duration::from_secs(2)).await;

    assert!(store.releases.calls() > tried, "it gave up with the ttl, which ends nothing here");
    assert!(store.is_clean("job").await);
}

/// A session does not end with a time: others are kept out for as long as it is kept up from here.
#[tokio::test(start_paused = true)]
async fn a_hold_that_is_to_last_a_while_is_kept_up_after_its_release_by_renewals() {
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

/// What the store confirmed after the work was over has covered it, whatever becomes of the session while others are kept out.
#[tokio::test(start_paused = true)]
async fn a_session_that_ends_while_others_are_kept_out_takes_nothing_from_the_work_before() {
    let store = store(|store| store.hold = HoldKind::Session);
    let start = Instant::now();
    let guard = acquire(&store.client(), "job", options().with_hold_at_least(TTL * 30)).await.unwrap();
    let released = tokio::spawn(guard.release());
    sleep(TTL * 2).await;
    store.delete("job").await;
    released.await.unwrap().unwrap();
    assert!(start.elapsed() < TTL * 3, "a hold that is gone is kept up");
}

/// One that had gone before has not.
#[tokio::test(start_paused = true)]
async fn a_session_that_had_ended_before_the_release_is_lost() {
    let store = store(|store| store.hold = HoldKind::Session);
    let guard = acquire(&store.client(), "job", options().with_hold_at_least(TTL * 30)).await.unwrap();
    store.delete("job").await;
    let error = guard.release().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
}
