//! A loss is told once, to everybody who asks, whenever they ask; and a client that is closed holds nothing.

use crate::explorer::race;
use crate::holds::{DUE, TTL, granted};
use leasehold_schedules::{DistributedLock, DistributedLockExt, ErrorKind, LockGuard, LossCause, Renewal};
use std::sync::atomic::Ordering::SeqCst;

/// Who subscribes before, while and after hears of it, each of them, and it is announced once. Time does not go on to the
/// deadline, so who misses the word waits for ever.
#[test]
fn a_loss_is_heard_whenever_one_subscribes() {
    race("lost(), loss", || async {
        let (_, client, time, told) = granted(Renewal::Lost(LossCause::Gone));
        let guard = client.acquire("job").await.unwrap();
        everybody_hears(guard, || time.advance(DUE)).await;
        drop(client);
        assert_eq!(told.losses_in_all().await, 1);
    });
}

pub(crate) async fn everybody_hears(guard: LockGuard, lose: impl FnOnce()) {
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

/// The deadline passes while the store answers. The hold is over once, and not looked after again, whatever the answer is.
#[test]
fn a_deadline_beside_an_answer_ends_the_hold() {
    race("deadline, renewed", || ends_at_its_deadline(Renewal::Renewed));
    race("deadline, not renewed", || ends_at_its_deadline(Renewal::Held));
}

async fn ends_at_its_deadline(answer: Renewal) {
    let (store, client, time, told) = granted(answer);
    let guard = client.acquire("job").await.unwrap();
    time.advance(DUE);
    store.asked.notified().await;
    let mover = tokio::spawn(async move { time.advance(TTL) });
    let cause = guard.lost().await.cause();
    assert!(matches!(cause, LossCause::Expired | LossCause::Unreachable), "{cause:?}");
    mover.await.unwrap();
    drop((client, guard));
    assert_eq!(told.losses_in_all().await, 1);
}

/// Either the holder is told that it was lost, or that all was covered; never both, never neither, and the store is told in
/// either case.
#[test]
fn a_release_beside_a_loss_says_one_of_the_two() {
    race("release, loss", || async {
        let (store, client, time, told) = granted(Renewal::Lost(LossCause::Taken));
        let guard = client.acquire("job").await.unwrap();
        let lease = guard.lease();
        let mover = tokio::spawn(async move { time.advance(DUE) });
        let released = guard.release().await;
        mover.await.unwrap();
        assert!(!lease.is_held());
        let loss = lease.loss().map(|loss| loss.cause());
        drop((client, lease));
        let losses = told.losses_in_all().await;
        match released {
            Ok(()) => assert_eq!((losses, loss), (0, None), "covered"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Lost);
                assert_eq!((losses, loss), (1, Some(LossCause::Taken)), "lost");
            }
        }
        assert_eq!(store.releases.load(SeqCst), 1, "the store was told");
    });
}

/// What is granted while the client is closed is refused, or lost; it is not held on.
#[test]
fn a_grant_beside_a_close_is_not_held() {
    race("grant, close", || async {
        let (_, client, _, told) = granted(Renewal::Renewed);
        let other = client.clone();
        let acquiring = tokio::spawn(async move { other.acquire("job").await });
        client.close().await.unwrap();
        let told_of = match acquiring.await.unwrap() {
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
        assert_eq!(told.losses_in_all().await, told_of);
    });
}

/// There is no moment at which one of two holds is over and the other is not, whoever looks and whatever is due.
#[test]
fn a_close_ends_all_holds_at_one_moment() {
    race("close, look, renewal", || async {
        let (_, client, time, told) = granted(Renewal::Renewed);
        let first = client.acquire("first").await.unwrap();
        let second = client.acquire("second").await.unwrap();
        let looker = tokio::spawn({
            let leases = [first.lease(), second.lease()];
            async move {
                for [one, other] in [[0, 1], [1, 0]] {
                    let (over, still) = (!leases[one].is_held(), leases[other].is_held());
                    assert!(!(over && still), "one is held after the other's end");
                }
            }
        });
        let mover = tokio::spawn(async move { time.advance(DUE) });
        client.close().await.unwrap();
        assert!(!first.is_held() && !second.is_held(), "held after the close");
        looker.await.unwrap();
        mover.await.unwrap();
        drop((client, first, second));
        assert_eq!(told.losses_in_all().await, 2);
    });
}
