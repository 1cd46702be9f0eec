//! One guard is one hold: from its grant, over its renewals, to one release, and never again.

use crate::explorer::race;
use crate::store::{Distant, Granting};
use crate::time::Time;
use crate::witness::{Told, Witness, builder};
use leasehold_schedules::{
    DistributedLock, DistributedLockExt, LocalQueue, LockBackend, LockClient, LockName, Renewal,
};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

pub(crate) const TTL: Duration = Duration::from_secs(30);
/// When a lease is renewed.
pub(crate) const DUE: Duration = Duration::from_secs(10);

/// A client of a store that grants everything and answers renewals like this.
pub(crate) fn granted(answer: Renewal) -> (Arc<Granting>, LockClient, Time, Arc<Told>) {
    let (store, time) = (Granting::that_answers(answer), Time::default());
    let (builder, told) = builder(&store, &time);
    (store, builder.build(), time, told)
}

/// Three tasks take it twice and give it back, in either way; those in a local queue wait for it, the others only try.
pub(crate) async fn contend<B: LockBackend>(store: Arc<B>, time: Time, queue: Option<LocalQueue>) {
    let (builder, told) = builder(&store, &time);
    let client = match queue {
        Some(queue) => builder.with_local_queue(queue),
        None => builder,
    };
    let (client, witness) = (client.build(), Arc::new(Witness::default()));
    for drops in [true, false, true] {
        let (client, witness) = (client.clone(), Arc::clone(&witness));
        tokio::spawn(async move {
            for _ in 0..2 {
                let guard = match queue {
                    Some(_) => client.acquire("job").await.unwrap(),
                    None => match client.try_acquire("job").await.unwrap() {
                        Some(guard) => guard,
                        None => continue,
                    },
                };
                witness.enters(&guard);
                tokio::task::yield_now().await;
                witness.leaves();
                match drops {
                    true => drop(guard),
                    false => guard.release().await.unwrap(),
                }
            }
        });
    }
    drop(client);
    assert_eq!(told.losses_in_all().await, 0);
}

#[test]
fn at_most_one_holds() {
    race("try, try", || async {
        let (store, time) = Distant::memory();
        contend(Arc::clone(&store), time, None).await;
        store.is_left_clean().await;
    });
}

#[test]
fn at_most_one_holds_of_those_who_take_turns() {
    race("take, hand over", || async {
        let (store, time) = Distant::memory();
        contend(Arc::clone(&store), time, Some(LocalQueue::new(4).unwrap())).await;
        store.is_left_clean().await;
    });
}

/// What is dropped while its renewal is under way is released once, not held again, and not renewed again.
#[test]
fn a_drop_releases_once_and_for_all() {
    race("drop, renewal", || async {
        let (store, client, time, told) = granted(Renewal::Renewed);
        let guard = client.acquire("job").await.unwrap();
        let lease = guard.lease();
        time.advance(DUE);
        tokio::spawn(async move { drop(guard) }).await.unwrap();
        assert!(!lease.is_held(), "from the drop on");
        time.advance(DUE);
        tokio::task::yield_now().await;
        assert!(!lease.is_held() && lease.loss().is_none());
        drop((client, lease));
        assert_eq!(told.losses_in_all().await, 0);
        assert!(store.renewals.load(SeqCst) <= 1, "renewed after its end");
        assert_eq!(store.releases.load(SeqCst), 1);
    });
}

/// The same for a release, which is over for its holder before the store has answered.
#[test]
fn a_renewal_beside_a_release_revives_nothing() {
    race("release, renewal", || async {
        let (store, client, time, told) = granted(Renewal::Renewed);
        let guard = client.acquire("job").await.unwrap();
        let lease = guard.lease();
        time.advance(DUE);
        store.asked.notified().await;
        guard.release().await.unwrap();
        assert!(!lease.is_held());
        time.advance(TTL);
        tokio::task::yield_now().await;
        assert!(!lease.is_held() && lease.remaining().is_zero() && lease.loss().is_none());
        drop((client, lease));
        assert_eq!(told.losses_in_all().await, 0);
        assert_eq!((store.renewals.load(SeqCst), store.releases.load(SeqCst)), (1, 1));
    });
}

/// Whichever of the two answers comes last, the longer lease stands.
#[test]
fn a_renewal_beside_an_extension_shortens_nothing() {
    race("extend, renewal", || async {
        let (_, client, time, told) = granted(Renewal::Renewed);
        let guard = client.acquire("job").await.unwrap();
        time.advance(DUE);
        guard.extend(TTL * 6).await.unwrap();
        assert!(guard.remaining() > TTL * 5);
        time.advance(DUE);
        tokio::task::yield_now().await;
        assert!(guard.remaining() > TTL * 5, "shrunk back to {:?}", guard.remaining());
        drop((client, guard));
        assert_eq!(told.losses_in_all().await, 0);
    });
}

/// The keeper plans its sleep while a hold is entered that is due earlier: it is renewed in its time.
#[test]
fn a_hold_that_is_entered_while_the_keeper_lies_down_is_renewed() {
    race("enter, plan", || async {
        let (store, client, time, told) = granted(Renewal::Renewed);
        let other = client.clone();
        let entering = tokio::spawn(async move {
            let short = other.defaults().clone().with_ttl(TTL / 2);
            other.acquire_with(&LockName::new("short").unwrap(), &short).await.unwrap()
        });
        let long = client.acquire("long").await.unwrap();
        let short = entering.await.unwrap();
        time.advance(DUE / 2);
        // Nobody else moves the time: without a renewal this is the end.
        store.asked.notified().await;
        assert!(long.is_held() && short.is_held());
        drop((client, long, short));
        assert_eq!(told.losses_in_all().await, 0);
    });
}
