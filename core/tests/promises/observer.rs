//! The events of a client: from them alone an observer can count all acquisitions, renewals and ends of holds.

use crate::faulty_store::{CallFault, FaultyStore, TTL, options, run_ready_tasks};
use leasehold_core::{
    DistributedLock, DistributedLockExt, ErrorKind, Event, LockBackend, LockClient, LossCause, Observer,
    RuntimeClock,
};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::{sleep, timeout};

const SECOND: Duration = Duration::from_secs(1);

/// Records each event as a line.
#[derive(Debug, Default)]
struct Recorder(Mutex<Vec<String>>);

impl Recorder {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl Observer for Recorder {
    fn event(&self, event: &Event<'_>) {
        let line = match event {
            Event::Waiting { name, .. } => format!("{name} waiting"),
            Event::Granted { name, waited, .. } => format!("{name} granted after {waited:?}"),
            Event::NotGranted { name, error, waited, .. } => {
                format!("{name} not granted after {waited:?}: {}", error.kind())
            }
            Event::Cancelled { name, waited, .. } => format!("{name} cancelled after {waited:?}"),
            Event::Renewed { name, margin, .. } => format!("{name} renewed, margin {}s", margin.as_secs()),
            Event::Released { name, held, .. } => format!("{name} released after {held:?}"),
            Event::Lost { name, loss, .. } => format!("{name} lost: {:?}", loss.cause()),
            other => format!("{other:?}"),
        };
        self.0.lock().unwrap().push(line);
    }
}

/// A client of this store with a new observer.
fn observed<O: Observer + Default>(store: &Arc<FaultyStore>) -> (LockClient, Arc<O>) {
    let observer = Arc::<O>::default();
    let client = LockClient::builder(Arc::clone(store) as Arc<dyn LockBackend>)
        .with_clock(Arc::new(RuntimeClock::new()))
        .with_observer(Arc::clone(&observer) as Arc<dyn Observer>)
        .with_defaults(options())
        .build();
    (client, observer)
}

#[tokio::test(start_paused = true)]
async fn grant_renewal_and_release_are_reported_with_their_times() {
    let (client, recorder) = observed::<Recorder>(&FaultyStore::new());
    let guard = client.acquire("job").await.unwrap();
    sleep(TTL / 2).await;
    guard.release().await.unwrap();
    assert_eq!(recorder.take(), ["job granted after 0ns", "job renewed, margin 6s", "job released after 5s"]);
}

#[tokio::test(start_paused = true)]
async fn waiter_is_reported_once_before_its_grant() {
    let (client, recorder) = observed::<Recorder>(&FaultyStore::new());
    let held = client.acquire("job").await.unwrap();
    let waiter = tokio::spawn(async move { client.acquire("job").await });
    sleep(SECOND * 2).await;
    drop(held);
    let guard = waiter.await.unwrap().unwrap();
    assert_eq!(
        recorder.take(),
        ["job granted after 0ns", "job waiting", "job released after 2s", "job granted after 2s"]
    );
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn failed_acquisition_is_reported_with_its_reason() {
    let store = FaultyStore::new();
    let (client, recorder) = observed::<Recorder>(&store);
    let held = client.acquire("job").await.unwrap();
    assert!(client.try_acquire("job").await.unwrap().is_none());
    let error = client.acquire_timeout("job", SECOND).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    store.acquires.push(CallFault::Error(ErrorKind::Denied));
    assert!(client.acquire("other").await.is_err());
    let events = recorder.take();
    assert_eq!(
        events[1..],
        [
            "job not granted after 0ns: busy",
            "job waiting",
            "job not granted after 1s: timed out",
            "other not granted after 0ns: denied"
        ]
    );
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn dropped_acquisition_is_reported_as_cancelled() {
    let (client, recorder) = observed::<Recorder>(&FaultyStore::new());
    let held = client.acquire("job").await.unwrap();
    assert!(timeout(SECOND, client.acquire("job")).await.is_err());
    assert_eq!(recorder.take()[1..], ["job waiting", "job cancelled after 1s"]);
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn lost_lock_is_reported_as_lost_and_not_as_released() {
    let store = FaultyStore::new();
    let (client, recorder) = observed::<Recorder>(&store);
    let guard = client.acquire("job").await.unwrap();
    store.delete("job").await;
    sleep(TTL).await;
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    run_ready_tasks().await;
    assert_eq!(recorder.take(), ["job granted after 0ns", "job lost: Gone"]);
}

#[tokio::test(start_paused = true)]
async fn closed_client_reports_the_loss_of_a_guard_once() {
    let (client, recorder) = observed::<Recorder>(&FaultyStore::new());
    let guard = client.acquire("job").await.unwrap();
    client.close().await.unwrap();
    drop(guard);
    assert_eq!(recorder.take(), ["job granted after 0ns", "job lost: Closed"]);
    assert_eq!(client.acquire("job").await.unwrap_err().kind(), ErrorKind::Closed);
}

#[tokio::test(start_paused = true)]
async fn extension_is_reported_as_a_renewal() {
    let (client, recorder) = observed::<Recorder>(&FaultyStore::new());
    let guard = client.acquire("job").await.unwrap();
    sleep(SECOND).await;
    guard.extend(TTL * 2).await.unwrap();
    assert_eq!(recorder.take()[1..], ["job renewed, margin 8s"]);
    drop(guard);
}

/// Records the variant of each event, and then panics.
#[derive(Debug, Default)]
struct PanickingObserver(Mutex<BTreeSet<String>>);

impl Observer for PanickingObserver {
    fn event(&self, event: &Event<'_>) {
        let text = format!("{event:?}");
        self.0.lock().unwrap().extend(text.split(' ').next().map(str::to_owned));
        panic!("injected panic");
    }
}

#[tokio::test(start_paused = true)]
async fn observer_that_panics_at_every_event_changes_no_outcome() {
    let store = FaultyStore::new();
    let (client, observer) = observed::<PanickingObserver>(&store);
    let guard = client.acquire("job").await.unwrap();
    assert_eq!(client.acquire_timeout("job", SECOND).await.unwrap_err().kind(), ErrorKind::TimedOut);
    assert!(timeout(SECOND, client.acquire("job")).await.is_err());
    sleep(TTL).await;
    assert!(guard.is_held());
    guard.release().await.unwrap();
    assert!(store.is_clean("job").await);

    let second = client.acquire("job").await.unwrap();
    store.delete("job").await;
    assert_eq!(second.lost().await.cause(), LossCause::Gone);
    assert_eq!(second.release().await.unwrap_err().kind(), ErrorKind::Lost);

    let expected = ["Cancelled", "Granted", "Lost", "NotGranted", "Released", "Renewed", "Waiting"];
    assert!(observer.0.lock().unwrap().iter().eq(expected), "{observer:?}");
}

#[tokio::test(start_paused = true)]
async fn other_server_at_an_address_is_reported_once_to_each_client_that_lives() {
    let store = FaultyStore::new();
    store.servers.note("db:1", "a");
    let (client, recorder) = observed::<Recorder>(&store);
    let (gone, of_gone) = observed::<Recorder>(&store);
    drop(gone);
    for (address, server) in [("db:1", "a"), ("db:2", "b"), ("db:1", "b"), ("db:1", "a"), ("db:1", "b")] {
        store.servers.note(address, server);
    }
    assert_eq!(recorder.take(), [r#"ServerChanged { address: "db:1", before: "a", now: "b" }"#]);
    assert_eq!(of_gone.take(), [""; 0]);
    drop(client);
}
