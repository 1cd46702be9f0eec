//! One guard is one hold: a grant, its renewals, and one release.

use crate::checks::{ExclusionCheck, Observed, builder};
use crate::explorer::race;
use crate::manual_clock::ManualClock;
use crate::store::{AlwaysGranting, DelayedMemory};
use leasehold_schedules::{
    DistributedLock, DistributedLockExt, ErrorKind, LockBackend, LockClient, LockMode, Renewal, Wait,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

pub(crate) const TTL: Duration = Duration::from_secs(30);
/// When a lease is renewed.
pub(crate) const DUE: Duration = Duration::from_secs(10);

/// A client of a store that grants every claim, and gives every renewal this answer.
pub(crate) fn always_granted(
    renewal_answer: Renewal,
) -> (Arc<AlwaysGranting>, LockClient, ManualClock, Arc<Observed>) {
    let (store, clock) = (AlwaysGranting::new(renewal_answer), ManualClock::default());
    let (builder, observed) = builder(&store, &clock);
    (store, builder.build(), clock, observed)
}

/// How a contending task acquires.
#[derive(Clone, Copy)]
pub(crate) enum Contention {
    /// One attempt. The task goes on without the lock if it is held.
    Try,
    /// The task waits until it has the lock.
    Wait,
}

/// Three tasks of one client acquire a lock twice each, and release it by a drop or by `release`.
pub(crate) async fn contend<B: LockBackend>(store: Arc<B>, clock: ManualClock, contention: Contention) {
    let (builder, observed) = builder(&store, &clock);
    let (client, exclusion) = (builder.build(), Arc::new(ExclusionCheck::default()));
    for drops in [true, false, true] {
        let (client, exclusion) = (client.clone(), Arc::clone(&exclusion));
        tokio::spawn(async move {
            for _ in 0..2 {
                let guard = match contention {
                    Contention::Wait => client.acquire("job").await.unwrap(),
                    Contention::Try => match client.try_acquire("job").await.unwrap() {
                        Some(guard) => guard,
                        None => continue,
                    },
                };
                exclusion.enter(&guard);
                tokio::task::yield_now().await;
                exclusion.leave();
                match drops {
                    true => drop(guard),
                    false => guard.release().await.unwrap(),
                }
            }
        });
    }
    drop(client);
    assert_eq!(observed.total_losses().await, 0);
}

#[test]
fn tasks_that_try_never_hold_at_once() {
    race("try, try", || async {
        let (store, clock) = DelayedMemory::new();
        contend(Arc::clone(&store), clock, Contention::Try).await;
        store.assert_no_lock_is_held().await;
    });
}

#[test]
fn guard_dropped_beside_its_renewal_is_released_once() {
    race("drop, renewal", || async {
        let (store, client, clock, observed) = always_granted(Renewal::Renewed);
        let guard = client.acquire("job").await.unwrap();
        let lease = guard.lease();
        clock.advance(DUE);
        tokio::spawn(async move { drop(guard) }).await.unwrap();
        assert!(!lease.is_held(), "held after the drop");
        clock.advance(DUE);
        tokio::task::yield_now().await;
        assert!(!lease.is_held() && lease.loss().is_none());
        drop((client, lease));
        assert_eq!(observed.total_losses().await, 0);
        assert!(store.renewals.load(SeqCst) <= 1, "renewed after its end");
        assert_eq!(store.releases.load(SeqCst), 1);
    });
}

#[test]
fn renewal_beside_a_release_revives_nothing() {
    race("release, renewal", || async {
        let (store, client, clock, observed) = always_granted(Renewal::Renewed);
        let guard = client.acquire("job").await.unwrap();
        let lease = guard.lease();
        clock.advance(DUE);
        store.renewal_arrived.notified().await;
        guard.release().await.unwrap();
        assert!(!lease.is_held());
        clock.advance(TTL);
        tokio::task::yield_now().await;
        assert!(!lease.is_held() && lease.remaining().is_zero() && lease.loss().is_none());
        drop((client, lease));
        assert_eq!(observed.total_losses().await, 0);
        assert_eq!((store.renewals.load(SeqCst), store.releases.load(SeqCst)), (1, 1));
    });
}

/// The longer lease stands, in either order of the two answers.
#[test]
fn renewal_beside_an_extension_shortens_nothing() {
    race("extend, renewal", || async {
        let (_, client, clock, observed) = always_granted(Renewal::Renewed);
        let guard = client.acquire("job").await.unwrap();
        clock.advance(DUE);
        guard.extend(TTL * 6).await.unwrap();
        assert!(guard.remaining() > TTL * 5);
        clock.advance(DUE);
        tokio::task::yield_now().await;
        assert!(guard.remaining() > TTL * 5, "shortened to {:?}", guard.remaining());
        drop((client, guard));
        assert_eq!(observed.total_losses().await, 0);
    });
}

/// The keeper plans its sleep while a hold is entered that is due earlier than the plan.
#[test]
fn hold_entered_while_the_keeper_plans_its_sleep_is_renewed() {
    race("enter, plan", || async {
        let (store, client, clock, observed) = always_granted(Renewal::Renewed);
        let other = client.clone();
        let entering = tokio::spawn(async move {
            let options = other.defaults().clone().with_ttl(TTL / 2);
            other.acquire_with("short", &options).await.unwrap()
        });
        let long = client.acquire("long").await.unwrap();
        let short = entering.await.unwrap();
        clock.advance(DUE / 2);
        // Time does not go on: without a renewal this deadlocks.
        store.renewal_arrived.notified().await;
        assert!(long.is_held() && short.is_held());
        drop((client, long, short));
        assert_eq!(observed.total_losses().await, 0);
    });
}

/// A close that does not wait for the acquisition leaves a grant that nothing releases: the store is closed by then.
#[test]
fn acquisition_beside_a_close_leaves_no_grant() {
    race("acquire, close", || async {
        let (store, clock) = DelayedMemory::new();
        let (builder, observed) = builder(&store, &clock);
        let client = builder.build();
        let closing = tokio::spawn({
            let client = client.clone();
            async move { client.close().await.unwrap() }
        });
        let outcome = client.acquire("job").await;
        closing.await.unwrap();
        match outcome {
            // The close came after the grant: the lock ends with its lease.
            Ok(guard) => assert!(!guard.is_held(), "held after the close"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Closed);
                store.assert_no_lock_is_held().await;
            }
        }
        drop(client);
        assert!(observed.total_losses().await <= 1);
    });
}

/// Two readers may hold together; a writer and a lock without a mode hold alone.
#[test]
fn modes_that_conflict_never_hold_at_once() {
    race("readers, writers", || async {
        let (store, clock) = DelayedMemory::new();
        let (builder, observed) = builder(&store, &clock);
        let (client, held) = (builder.build(), Arc::<[AtomicUsize; 2]>::default());
        for mode in [LockMode::Shared, LockMode::Write, LockMode::Shared, LockMode::Exclusive] {
            let (client, held) = (client.clone(), Arc::clone(&held));
            tokio::spawn(async move {
                let options = client.defaults().clone().with_mode(mode).with_wait(Wait::No);
                let Ok(guard) = client.acquire_with("job", &options).await else { return };
                let own = usize::from(!mode.is_shared());
                held[own].fetch_add(1, SeqCst);
                let [readers, writers] = [held[0].load(SeqCst), held[1].load(SeqCst)];
                assert!(
                    writers == 0 || (writers, readers) == (1, 0),
                    "{readers} readers and {writers} writers hold at once"
                );
                tokio::task::yield_now().await;
                held[own].fetch_sub(1, SeqCst);
                guard.release().await.unwrap();
            });
        }
        drop(client);
        assert_eq!(observed.total_losses().await, 0);
        store.assert_no_lock_is_held().await;
    });
}
