//! N1, before it comes to a loss: when a hold is at risk, and what is told of it.

use crate::scripted::{Fate, Scripted, TTL, acquire, options, settle};
use leasehold_core::{DistributedLockExt, Event, Health, LockBackend, LockClient, Observer, RuntimeClock};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::sleep;

#[tokio::test(start_paused = true)]
async fn a_renewal_that_is_under_way_is_no_trouble_and_one_that_stays_away_is() {
    let store = Scripted::new();
    store.renewals.ever_after(Some(Fate::Silent));
    let guard = store.client().acquire("job").await.unwrap();
    sleep(TTL / 3 + TTL / 20).await;
    assert_eq!((store.renewals.calls(), guard.health()), (1, Health::Held));
    sleep(TTL / 3).await;
    assert_eq!((store.renewals.calls(), guard.health()), (2, Health::AtRisk));
}

#[tokio::test(start_paused = true)]
async fn late_answers_put_nothing_at_risk_while_they_are_under_way() {
    let store = Scripted::new();
    store.renewals.ever_after(Some(Fate::ReplyLate(TTL / 10)));
    let guard = store.client().acquire("job").await.unwrap();
    for _ in 0..60 {
        sleep(TTL / 20).await;
        assert_eq!(guard.health(), Health::Held);
    }
    assert!(store.renewals.calls() > 5);
}

/// The keeper's turn finds that the store has not answered the holder's own request.
#[tokio::test(start_paused = true)]
async fn an_extension_that_stays_unanswered_puts_at_risk() {
    let store = Scripted::new();
    store.renewals.ever_after(Some(Fate::Silent));
    let guard = Arc::new(store.client().acquire("job").await.unwrap());
    let extending = tokio::spawn({
        let guard = Arc::clone(&guard);
        async move { guard.extend(TTL * 2).await }
    });
    settle().await;
    assert_eq!((store.renewals.calls(), guard.health()), (1, Health::Held));
    sleep(TTL / 3 + TTL / 20).await;
    assert_eq!((store.renewals.calls(), guard.health()), (2, Health::AtRisk));
    extending.abort();
}

/// What is left of the lease, as it is told with each renewal that went wrong.
#[derive(Debug, Default)]
struct Remaining(Mutex<Vec<Duration>>);

impl Observer for Remaining {
    fn event(&self, event: &Event<'_>) {
        if let Event::RenewalFailed { remaining, .. } = event {
            self.0.lock().unwrap().push(*remaining);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn trouble_is_told_with_what_is_left_of_the_lease() {
    let (store, remaining) = (Scripted::new(), Arc::new(Remaining::default()));
    store.renewals.then(Fate::Refused);
    let client = LockClient::builder(Arc::clone(&store) as Arc<dyn LockBackend>)
        .with_clock(Arc::new(RuntimeClock::new()))
        .with_observer(Arc::clone(&remaining) as Arc<dyn Observer>)
        .build();
    let _guard = acquire(&client, "job", options()).await.unwrap();
    sleep(TTL / 2).await;
    let told = remaining.0.lock().unwrap().clone();
    assert_eq!(told.len(), 1);
    assert!((TTL * 6 / 10..=TTL * 7 / 10).contains(&told[0]), "{told:?}");
}
