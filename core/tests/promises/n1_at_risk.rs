//! N1, before a loss: when a hold is at risk, and the event of a failed renewal.

use crate::faulty_store::{CallFault, FaultyStore, TTL, acquire, options, run_ready_tasks};
use leasehold_core::{DistributedLockExt, Event, Health, LockBackend, LockClient, Observer, RuntimeClock};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::sleep;

#[tokio::test(start_paused = true)]
async fn renewal_without_reply_puts_at_risk_when_the_next_is_due() {
    let store = FaultyStore::new();
    store.renewals.set_default(Some(CallFault::NoReply));
    let guard = store.client().acquire("job").await.unwrap();
    sleep(TTL / 3 + TTL / 20).await;
    assert_eq!((store.renewals.calls(), guard.health()), (1, Health::Held));
    sleep(TTL / 3).await;
    assert_eq!((store.renewals.calls(), guard.health()), (2, Health::AtRisk));
}

#[tokio::test(start_paused = true)]
async fn late_replies_put_nothing_at_risk() {
    let store = FaultyStore::new();
    store.renewals.set_default(Some(CallFault::ReplyDelayed(TTL / 10)));
    let guard = store.client().acquire("job").await.unwrap();
    for _ in 0..60 {
        sleep(TTL / 20).await;
        assert_eq!(guard.health(), Health::Held);
    }
    assert!(store.renewals.calls() > 5);
}

/// The keeper finds the extension unanswered when the next renewal is due.
#[tokio::test(start_paused = true)]
async fn extension_without_reply_puts_at_risk() {
    let store = FaultyStore::new();
    store.renewals.set_default(Some(CallFault::NoReply));
    let guard = Arc::new(store.client().acquire("job").await.unwrap());
    let extending = tokio::spawn({
        let guard = Arc::clone(&guard);
        async move { guard.extend(TTL * 2).await }
    });
    run_ready_tasks().await;
    assert_eq!((store.renewals.calls(), guard.health()), (1, Health::Held));
    sleep(TTL / 3 + TTL / 20).await;
    assert_eq!((store.renewals.calls(), guard.health()), (2, Health::AtRisk));
    extending.abort();
}

/// Records the rest of the lease at each failed renewal.
#[derive(Debug, Default)]
struct RemainingRecorder(Mutex<Vec<Duration>>);

impl Observer for RemainingRecorder {
    fn event(&self, event: &Event<'_>) {
        if let Event::RenewalFailed { remaining, .. } = event {
            self.0.lock().unwrap().push(*remaining);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn failed_renewal_is_reported_with_the_rest_of_the_lease() {
    let (store, remaining) = (FaultyStore::new(), Arc::new(RemainingRecorder::default()));
    store.renewals.push(CallFault::Unavailable);
    let client = LockClient::builder(Arc::clone(&store) as Arc<dyn LockBackend>)
        .with_clock(Arc::new(RuntimeClock::new()))
        .with_observer(Arc::clone(&remaining) as Arc<dyn Observer>)
        .build();
    let _guard = acquire(&client, "job", options()).await.unwrap();
    sleep(TTL / 2).await;
    let reported = remaining.0.lock().unwrap().clone();
    assert_eq!(reported.len(), 1);
    assert!((TTL * 6 / 10..=TTL * 7 / 10).contains(&reported[0]), "{reported:?}");
}
