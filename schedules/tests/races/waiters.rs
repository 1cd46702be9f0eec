//! Who leaves hands on what was on its way to it, and leaves nothing behind.

use crate::explorer::race;
use crate::store::Distant;
use crate::witness::{Witness, builder};
use leasehold_schedules::{DistributedLockExt, LocalQueue, LockClient};
use std::sync::Arc;
use tokio::sync::Notify;

/// One waiter leaves whenever it likes, also with the hold on its way to it. Time stands still, so no fallback helps: the
/// next one is woken, or waits for ever.
#[test]
fn a_waiter_that_leaves_hands_on() {
    race("hand-over, drop", || async {
        let (store, time) = Distant::memory();
        let (builder, told) = builder(&store, &time);
        let client = builder.with_local_queue(LocalQueue::new(4).unwrap()).build();
        let (witness, stop) = (Arc::new(Witness::default()), Arc::new(Notify::new()));
        let first = client.acquire("job").await.unwrap();
        witness.enters(&first);

        tokio::spawn({
            let (waits, stop) = (wait(&client, &witness), Arc::clone(&stop));
            async move {
                tokio::select! {
                    biased;
                    () = stop.notified() => {}
                    () = waits => {}
                }
            }
        });
        let staying = tokio::spawn(wait(&client, &witness));
        tokio::spawn(async move { stop.notify_one() });
        witness.leaves();
        first.release().await.unwrap();
        staying.await.unwrap();
        drop(client);
        assert_eq!(told.losses_in_all().await, 0);
        store.is_left_clean().await;
    });
}

fn wait(client: &LockClient, witness: &Arc<Witness>) -> impl Future<Output = ()> + Send + 'static {
    let (client, witness) = (client.clone(), Arc::clone(witness));
    async move {
        let guard = client.acquire("job").await.unwrap();
        witness.enters(&guard);
        witness.leaves();
        drop(guard);
    }
}

/// Dropped with its request, or the reply, under way: whatever the store makes of it is taken back.
#[test]
fn an_acquisition_that_is_dropped_leaves_nothing() {
    race("grant, drop", || async {
        let (store, time) = Distant::memory();
        let (builder, told) = builder(&store, &time);
        let (client, stop) = (builder.build(), Arc::new(Notify::new()));
        let leaving = tokio::spawn({
            let (client, stop) = (client.clone(), Arc::clone(&stop));
            async move {
                tokio::select! {
                    biased;
                    () = stop.notified() => {}
                    guard = client.acquire("job") => drop(guard.unwrap()),
                }
            }
        });
        tokio::spawn(async move { stop.notify_one() });
        leaving.await.unwrap();
        drop(client);
        assert_eq!(told.losses_in_all().await, 0);
        store.is_left_clean().await;
    });
}
