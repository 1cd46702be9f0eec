//! A loss is announced once, and every task that waits for it wakes up. A closed client holds nothing.

use crate::explorer::race;
use crate::holds::{DUE, TTL, always_granted};
use leasehold_schedules::{DistributedLock, DistributedLockExt, ErrorKind, LockGuard, LossCause, Renewal};
use std::sync::atomic::Ordering::SeqCst;

/// The tasks subscribe before, during and after the loss. Time does not reach the deadline: a task that misses the loss
/// waits for ever.
#[test]
fn loss_reaches_every_task_that_waits_for_it() {
    race("lost(), loss", || async {
        let (_, client, clock, observed) = always_granted(Renewal::Lost(LossCause::Gone));
        let guard = client.acquire("job").await.unwrap();
        lose_and_join_subscribers(guard, || clock.advance(DUE)).await;
        drop(client);
        assert_eq!(observed.total_losses().await, 1);
    });
}

/// Three tasks wait for the loss of this guard, while `lose` brings it about.
pub(crate) async fn lose_and_join_subscribers(guard: LockGuard, lose: impl FnOnce()) {
    let subscribers: Vec<_> = (0..2)
        .map(|_| {
            let lease = guard.lease();
            tokio::spawn(async move { lease.lost().await.cause() })
        })
        .collect();
    lose();
    assert_eq!(guard.lost().await.cause(), LossCause::Gone);
    for subscriber in subscribers {
        assert_eq!(subscriber.await.unwrap(), LossCause::Gone);
    }
    assert!(!guard.is_held());
}

/// The deadline passes while the store answers a renewal.
#[test]
fn deadline_beside_an_answer_ends_the_hold_once() {
    race("deadline, renewed", || deadline_beside(Renewal::Renewed));
    race("deadline, not renewed", || deadline_beside(Renewal::Held));
}

async fn deadline_beside(answer: Renewal) {
    let (store, client, clock, observed) = always_granted(answer);
    let guard = client.acquire("job").await.unwrap();
    clock.advance(DUE);
    store.renewal_arrived.notified().await;
    let advancing = tokio::spawn(async move { clock.advance(TTL) });
    let cause = guard.lost().await.cause();
    assert!(matches!(cause, LossCause::Expired | LossCause::Unreachable), "{cause:?}");
    advancing.await.unwrap();
    drop((client, guard));
    assert_eq!(observed.total_losses().await, 1);
}

/// The release returns either `Ok`, and there is no loss, or `Lost`, and there is one loss. The store is released in both.
#[test]
fn release_beside_a_loss_reports_one_of_the_two() {
    race("release, loss", || async {
        let (store, client, clock, observed) = always_granted(Renewal::Lost(LossCause::Taken));
        let guard = client.acquire("job").await.unwrap();
        let lease = guard.lease();
        let advancing = tokio::spawn(async move { clock.advance(DUE) });
        let released = guard.release().await;
        advancing.await.unwrap();
        assert!(!lease.is_held());
        let loss = lease.loss().map(|loss| loss.cause());
        drop((client, lease));
        let losses = observed.total_losses().await;
        match released {
            Ok(()) => assert_eq!((losses, loss), (0, None), "released"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Lost);
                assert_eq!((losses, loss), (1, Some(LossCause::Taken)), "lost");
            }
        }
        assert_eq!(store.releases.load(SeqCst), 1, "the store has had its release");
    });
}

#[test]
fn grant_beside_a_close_is_refused_or_lost() {
    race("grant, close", || async {
        let (_, client, _, observed) = always_granted(Renewal::Renewed);
        let other = client.clone();
        let acquiring = tokio::spawn(async move { other.acquire("job").await });
        client.close().await.unwrap();
        let losses = match acquiring.await.unwrap() {
            Ok(guard) => {
                assert_eq!(guard.loss().map(|loss| loss.cause()), Some(LossCause::Closed));
                1
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Closed);
                0
            }
        };
        drop(client);
        assert_eq!(observed.total_losses().await, losses);
    });
}

/// At no moment is one of two holds over and the other not, also while a renewal is due.
#[test]
fn close_ends_all_holds_at_one_moment() {
    race("close, status, renewal", || async {
        let (_, client, clock, observed) = always_granted(Renewal::Renewed);
        let first = client.acquire("first").await.unwrap();
        let second = client.acquire("second").await.unwrap();
        let checking = tokio::spawn({
            let leases = [first.lease(), second.lease()];
            async move {
                for [one, other] in [[0, 1], [1, 0]] {
                    let (is_over, other_is_held) = (!leases[one].is_held(), leases[other].is_held());
                    assert!(!(is_over && other_is_held), "one is held after the end of the other");
                }
            }
        });
        let advancing = tokio::spawn(async move { clock.advance(DUE) });
        client.close().await.unwrap();
        assert!(!first.is_held() && !second.is_held(), "held after the close");
        checking.await.unwrap();
        advancing.await.unwrap();
        drop((client, first, second));
        assert_eq!(observed.total_losses().await, 2);
    });
}
