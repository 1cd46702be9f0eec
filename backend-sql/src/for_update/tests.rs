#![allow(clippy::unwrap_used, reason = "a test that unwraps fails, which is what it is for")]

use super::*;
use crate::server::Value;
use crate::server::double::{Reply, at_once, server};
use futures_util::FutureExt;
use tokio::time::{sleep, timeout};

const LONG: Duration = Duration::from_secs(10);

fn claim() -> Claim {
    let ttl = Duration::from_secs(30);
    Claim::new(LockName::new("a").unwrap(), OwnerId::random().unwrap(), ttl, "{}".into())
}

fn held_row(replies: fn(usize, &str) -> Reply) -> HeldRow {
    HeldRow::new(server("mode=for-update&timeout=500ms", at_once, replies).0, &Namespace::default())
}

/// The row is locked by us.
fn locked() -> Reply {
    Reply::Rows(vec![vec![Value::int(1), Value::int(7)]])
}

#[tokio::test]
async fn a_dead_connection_holds_up_no_renewal_of_another() {
    let backend = held_row(|_, _| Reply::Rows(Vec::new()));
    let (one, other) = (claim(), claim());
    assert_eq!(backend.renewal_group(&one), backend.renewal_group(&one));
    assert_ne!(backend.renewal_group(&one), backend.renewal_group(&other));
}

/// Nothing comes back any more once the row is locked: it stays locked until the server notices.
#[tokio::test(start_paused = true)]
async fn a_row_that_may_still_be_locked_is_an_unknown_outcome() {
    let silent_from_enter_on = held_row(|_, text| match text {
        text if text.contains("NOWAIT") => locked(),
        text if text.contains("INSERT") || text == "ROLLBACK" => Reply::Never,
        _ => Reply::Rows(Vec::new()),
    });
    let silent_from_beat_on = held_row(|_, text| match text {
        text if text.contains("NOWAIT") => locked(),
        text if text.contains("INSERT") => Reply::Rows(vec![vec![Value::int(9)]]),
        "SELECT 1" => Reply::Never,
        _ => Reply::Rows(Vec::new()),
    });
    for backend in [silent_from_enter_on, silent_from_beat_on] {
        let error = backend.try_acquire(&claim()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error:?}");
    }
    let rolled_back = held_row(|_, text| match text {
        text if text.contains("NOWAIT") => locked(),
        text if text.contains("INSERT") => Reply::Never,
        _ => Reply::Rows(Vec::new()),
    });
    let error = rolled_back.try_acquire(&claim()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
}

/// A server that takes long over its refusal is no lock that is held.
#[tokio::test(start_paused = true)]
async fn a_claim_that_was_not_refused_does_not_wait_in_the_server() {
    let backend = held_row(|_, text| match text {
        text if text.contains("NOWAIT") => Reply::Breaks,
        text if text.contains("FOR UPDATE") => Reply::Never,
        _ => Reply::Rows(Vec::new()),
    });
    let wanted = claim();
    assert!(backend.try_acquire(&wanted).await.is_err());
    assert!(backend.changed(&wanted).now_or_never().is_none());
    sleep(Duration::from_millis(50)).await;
    assert!(backend.try_acquire(&wanted).await.is_err());
}

/// As the local queue does, whose turn may be over before the future is polled again.
#[tokio::test(start_paused = true)]
async fn a_wait_that_is_not_polled_holds_up_nobody() {
    let backend = held_row(|_, text| match text {
        text if text.contains("FOR UPDATE") => Reply::Never,
        _ => Reply::Rows(Vec::new()),
    });
    let wanted = claim();
    backend.refused(&wanted);
    let mut parked = std::pin::pin!(backend.changed(&wanted));
    for _ in 0..3 {
        assert!(parked.as_mut().now_or_never().is_none());
        sleep(Duration::from_millis(20)).await;
    }
    let attempt = timeout(LONG, backend.try_acquire(&wanted)).await.unwrap().unwrap();
    assert!(matches!(attempt, Attempt::Busy(_)));
    let released = timeout(LONG, backend.release(&wanted, Duration::ZERO)).await.unwrap();
    assert_eq!(released.unwrap(), Release::NotHeld);
    timeout(LONG, parked).await.unwrap();
}

/// One of two who wait for the same is polled last, and goes away.
#[tokio::test(start_paused = true)]
async fn who_goes_away_takes_nobodys_wake_up_along() {
    let backend = held_row(|_, text| match text {
        text if text.contains("FOR UPDATE") => locked(),
        text if text.contains("INSERT") => Reply::Rows(vec![vec![Value::int(9)]]),
        _ => Reply::Rows(Vec::new()),
    });
    let (backend, wanted) = (Arc::new(backend), claim());
    backend.refused(&wanted);
    let (waits, its) = (Arc::clone(&backend), wanted.clone());
    let stays = tokio::spawn(async move { waits.changed(&its).await });
    tokio::task::yield_now().await;
    assert!(backend.changed(&wanted).now_or_never().is_none());
    timeout(LONG, stays).await.unwrap().unwrap();
}

/// The row becomes free after 50 ms, and who waits is somebody else than who asked last.
#[tokio::test(start_paused = true)]
async fn who_waits_is_woken_although_somebody_asked_meanwhile() {
    let backend = held_row(|_, text| match text {
        text if text.contains("FOR UPDATE") => locked(),
        text if text.contains("INSERT") => Reply::Rows(vec![vec![Value::int(9)]]),
        _ => Reply::Rows(Vec::new()),
    });
    let wanted = claim();
    backend.refused(&wanted);
    let mut waiting = std::pin::pin!(backend.changed(&wanted));
    assert!(waiting.as_mut().now_or_never().is_none());
    let asks = async {
        let attempt = backend.try_acquire(&wanted).await.unwrap();
        assert!(matches!(attempt, Attempt::Busy(_)), "polled once, it has only begun");
    };
    tokio::join!(timeout(LONG, waiting), asks).0.unwrap();
    assert!(matches!(backend.try_acquire(&wanted).await.unwrap(), Attempt::Granted(_)));
}
