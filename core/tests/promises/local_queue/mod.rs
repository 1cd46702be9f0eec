//! The local queue: tasks of one client are one contender, and each promise holds for each of them all the same.

mod absent;
mod leaving;
mod loss;
mod turns;

use crate::scripted::{Events, Scripted, acquire, options, settle};
use leasehold_core::{
    AcquireOptions, DistributedLock, LocalQueue, LockBackend, LockClient, LockGuard, Result, RuntimeClock,
};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::task::JoinHandle;

const GRANTS: u32 = 8;
const SECOND: Duration = Duration::from_secs(1);
/// Well within the longest turn.
const A_WHILE: Duration = Duration::from_millis(40);

/// A client whose tasks take turns, so many grants at most in each.
pub(crate) fn client_of(store: Arc<dyn LockBackend>, grants: u32, events: Arc<Events>) -> LockClient {
    LockClient::builder(store)
        .with_clock(Arc::new(RuntimeClock::new()))
        .with_observer(events)
        .with_defaults(options())
        .with_local_queue(LocalQueue::new(grants).unwrap())
        .build()
}

fn client(store: &Arc<Scripted>) -> LockClient {
    client_of(Arc::clone(store) as Arc<dyn LockBackend>, GRANTS, Arc::default())
}

type Waiting = JoinHandle<Result<LockGuard>>;

/// A task that wants the lock, and has asked for it.
async fn waiting_with(client: &LockClient, options: AcquireOptions) -> Waiting {
    let client = client.clone();
    let task = tokio::spawn(async move { acquire(&client, "job", options).await });
    settle().await;
    task
}

async fn waiting(client: &LockClient) -> Waiting {
    waiting_with(client, options()).await
}

async fn guard(waiting: Waiting) -> LockGuard {
    waiting.await.unwrap().unwrap()
}

/// A turn that can be passed on: one who holds by it, and those who wait in the same process.
async fn turn(client: &LockClient, others: usize) -> (LockGuard, Vec<Waiting>) {
    let first = acquire(client, "job", options()).await.unwrap();
    let second = waiting(client).await;
    let mut rest = Vec::new();
    for _ in 0..others {
        rest.push(waiting(client).await);
    }
    // The first asked alone, so its hold cannot be passed on.
    first.release().await.unwrap();
    (guard(second).await, rest)
}

#[tokio::test(start_paused = true)]
async fn the_store_behind_it_can_be_looked_into_and_is_closed() {
    let store = Scripted::new();
    let client = client(&store);
    let held = acquire(&client, "job", options()).await.unwrap();
    let listed = client.admin().unwrap().list("").await.unwrap();
    assert_eq!(listed[0].token, Some(held.token().unwrap()));
    assert!(format!("{client:?}").contains("TakingTurns"), "{client:?}");
    drop(held);
    client.close().await.unwrap();
    assert!(store.closed.load(Ordering::SeqCst));
}
