#![allow(clippy::unwrap_used, reason = "a test that unwraps fails, which is what it is for")]

mod ending;
mod shared;

use super::*;
use crate::server::double::{Reply, at_once, server};
use crate::server::{PoolClass, Value};
use futures_util::FutureExt;
use leasehold_core::LockName;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use tokio::time::{sleep, timeout};

const LONG: Duration = Duration::from_secs(10);
/// The server's time, in microseconds since 1970.
const NOW: i64 = 1_700_000_000_000_000;
const BEAT: &str = "\
    SELECT CAST(CASE WHEN 'on' IN (current_setting('default_transaction_read_only'), current_setting('transaction_read_only'))
                 THEN 0 ELSE 1 END AS bigint) FOR UPDATE";

fn claim() -> Claim {
    claim_of(3)
}

fn claim_of(owner: u128) -> Claim {
    let ttl = Duration::from_secs(30);
    Claim::new(LockName::new("a").unwrap(), OwnerId::from_u128(owner), ttl, "{}".into())
}

fn held_row(replies: fn(usize, &str) -> Reply) -> HeldRow {
    HeldRow::new(server("mode=for-update&timeout=500ms", at_once, replies).0, &Namespace::default())
}

/// The row is locked by us.
fn locked() -> Reply {
    Reply::Rows(vec![vec![Value::int(1), Value::int(7), Value::int(NOW)]])
}

/// All is as it should be.
fn well(text: &str) -> Reply {
    match text {
        BEAT => Reply::Rows(vec![vec![Value::int(1)]]),
        _ => Reply::Rows(Vec::new()),
    }
}

#[tokio::test]
async fn dead_connection_delays_no_renewal_of_another_hold() {
    let backend = held_row(|_, _| Reply::Rows(Vec::new()));
    let (one, other) = (claim_of(1), claim_of(2));
    assert_eq!(backend.renewal_group(&one), backend.renewal_group(&one));
    assert_ne!(backend.renewal_group(&one), backend.renewal_group(&other));
}

/// Nothing comes back any more once the row is locked: it stays locked until the server notices.
#[tokio::test(start_paused = true)]
async fn row_that_may_still_be_locked_is_indeterminate() {
    let silent_from_enter_on = held_row(|_, text| match text {
        text if text.contains("NOWAIT") => locked(),
        text if text.contains("INSERT") || text == "ROLLBACK" => Reply::Never,
        text => well(text),
    });
    let silent_from_beat_on = held_row(|_, text| match text {
        text if text.contains("NOWAIT") => locked(),
        text if text.contains("INSERT") => Reply::Rows(vec![vec![Value::int(9)]]),
        BEAT => Reply::Never,
        text => well(text),
    });
    for backend in [silent_from_enter_on, silent_from_beat_on] {
        let error = backend.try_acquire(&claim()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error:?}");
    }
    let rolled_back = held_row(|_, text| match text {
        text if text.contains("NOWAIT") => locked(),
        text if text.contains("INSERT") => Reply::Never,
        text => well(text),
    });
    let error = rolled_back.try_acquire(&claim()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
}

/// As beside a trigger that writes each entry anew.
#[tokio::test(start_paused = true)]
async fn holder_that_is_not_entered_is_unavailable_and_gives_the_row_back() {
    let refused = |_, text: &str| match text {
        text if text.contains("INSERT") => Reply::Rows(Vec::new()),
        text if is_look(text) => entered(NOW + 1, Some(2), "{}"),
        text => granted_to(text),
    };
    let (server, said) = server("mode=for-update", at_once, refused);
    let error = HeldRow::new(server, &Namespace::default()).try_acquire(&claim()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    assert_eq!((said.times("INSERT"), said.times("ROLLBACK")), (4, 1));
}

/// The connection over which the entry was sent first has broken, and the server has executed it.
#[tokio::test(start_paused = true)]
async fn entry_that_was_sent_twice_is_entered_once() {
    let sent_before = |_, text: &str| match text {
        text if text.contains("INSERT") => Reply::Rows(Vec::new()),
        text if is_look(text) => entered(NOW + 1, Some(3), "{}"),
        text => granted_to(text),
    };
    let attempt = held_row(sent_before).try_acquire(&claim()).await.unwrap();
    let Attempt::Granted(grant) = attempt else { panic!("{attempt:?}") };
    assert_eq!(grant.token.get(), u64::try_from(NOW).unwrap() + 1);
}

/// A server that takes long over its refusal is no lock that is held.
#[tokio::test(start_paused = true)]
async fn claim_that_was_not_refused_does_not_wait_in_the_server() {
    let backend = held_row(|_, text| match text {
        text if text.contains("NOWAIT") => Reply::Breaks,
        text if text != BEAT && text.contains("FOR UPDATE") => Reply::Never,
        text => well(text),
    });
    let wanted = claim();
    assert!(backend.try_acquire(&wanted).await.is_err());
    assert!(backend.changed(&wanted).now_or_never().is_none());
    sleep(Duration::from_millis(50)).await;
    assert!(backend.try_acquire(&wanted).await.is_err());
}

/// A caller may keep the future of a wait without polling it.
#[tokio::test(start_paused = true)]
async fn wait_that_is_not_polled_delays_no_other_call() {
    let backend = held_row(|_, text| match text {
        text if text != BEAT && text.contains("FOR UPDATE") => Reply::Never,
        text => well(text),
    });
    let wanted = claim();
    backend.refused(&wanted).await;
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

/// Of two waits for one claim, the one that is polled last is dropped.
#[tokio::test(start_paused = true)]
async fn dropped_wait_takes_no_wake_up_from_another_wait() {
    let backend = held_row(|_, text| match text {
        text if text != BEAT && text.contains("FOR UPDATE") => locked(),
        text if text.contains("INSERT") => Reply::Rows(vec![vec![Value::int(9)]]),
        text => well(text),
    });
    let (backend, wanted) = (Arc::new(backend), claim());
    backend.refused(&wanted).await;
    let (waits, its) = (Arc::clone(&backend), wanted.clone());
    let stays = tokio::spawn(async move { waits.changed(&its).await });
    tokio::task::yield_now().await;
    assert!(backend.changed(&wanted).now_or_never().is_none());
    timeout(LONG, stays).await.unwrap().unwrap();
}

/// The task that waits is not the one that has polled last.
#[tokio::test(start_paused = true)]
async fn wait_that_an_attempt_polled_meanwhile_is_woken() {
    let backend = held_row(|_, text| match text {
        text if text != BEAT && text.contains("FOR UPDATE") => locked(),
        text if text.contains("INSERT") => Reply::Rows(vec![vec![Value::int(9)]]),
        text => well(text),
    });
    let wanted = claim();
    backend.refused(&wanted).await;
    let mut waiting = std::pin::pin!(backend.changed(&wanted));
    assert!(waiting.as_mut().now_or_never().is_none());
    let asks = async {
        let attempt = backend.try_acquire(&wanted).await.unwrap();
        assert!(matches!(attempt, Attempt::Busy(_)), "polled once, it has only begun");
    };
    tokio::join!(timeout(LONG, waiting), asks).0.unwrap();
    assert!(matches!(backend.try_acquire(&wanted).await.unwrap(), Attempt::Granted(_)));
}

fn granted_to(text: &str) -> Reply {
    match text {
        text if text.contains("NOWAIT") => locked(),
        text if text.contains("INSERT") => Reply::Rows(vec![vec![Value::int(9)]]),
        text => well(text),
    }
}

fn is_look(text: &str) -> bool {
    text.starts_with("SELECT name")
}

/// What is entered under a last token: an exclusive owner, by its number, and the sharers.
fn entered(token: i64, owner: Option<u128>, sharers: &str) -> Reply {
    let owner = Value::Bytes(owner.map(|owner| owner.to_be_bytes().to_vec()));
    let (now, connection) = (Value::int(NOW), Value::int(7));
    let (holder, sharers) = (Value::text("{}"), Value::text(sharers));
    let row =
        vec![Value::bytes("a"), owner, Value::int(token), Value::int(0), connection, holder, sharers, now];
    Reply::Rows(vec![row])
}

fn last_token(token: i64) -> Reply {
    entered(token, None, "{}")
}

/// What locked the row is what this very attempt has sent before, on a connection that broke, and nobody else holds it.
#[tokio::test(start_paused = true)]
async fn row_that_a_broken_connection_may_have_locked_is_not_called_held() {
    let broken_when_locking = |_, text: &str| {
        static LOCKED: AtomicUsize = AtomicUsize::new(0);
        match text {
            text if text.contains("NOWAIT") => match LOCKED.fetch_add(1, Ordering::Relaxed) {
                0 => granted_to(text),
                1 => Reply::Breaks,
                _ => Reply::Refused("55P03"),
            },
            text => granted_to(text),
        }
    };
    let error = tried_again(broken_when_locking).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error:?}");

    // Nothing was locked by then.
    let broken_before = |_, text: &str| {
        static BEGUN: AtomicUsize = AtomicUsize::new(0);
        match text {
            text if text.starts_with("BEGIN") && BEGUN.fetch_add(1, Ordering::Relaxed) == 1 => Reply::Breaks,
            text if text.contains("NOWAIT") && BEGUN.load(Ordering::Relaxed) > 1 => Reply::Refused("55P03"),
            text => granted_to(text),
        }
    };
    let attempt = tried_again(broken_before).await.unwrap();
    assert!(matches!(attempt, Attempt::Busy(_)), "{attempt:?}");
}

/// An attempt whose first connection is the idle one of a hold that was given back.
async fn tried_again(replies: fn(usize, &str) -> Reply) -> Result<Attempt> {
    let (backend, held) = (held_row(replies), claim_of(1));
    assert!(matches!(backend.try_acquire(&held).await.unwrap(), Attempt::Granted(_)));
    backend.release(&held, Duration::ZERO).await.unwrap();
    backend.try_acquire(&claim_of(2)).await
}

/// The server was replaced by another, and keeps our connection.
#[tokio::test(start_paused = true)]
async fn server_that_takes_no_writes_grants_no_lock() {
    let demoted = |_, text: &str| match text {
        BEAT => Reply::Rows(vec![vec![Value::int(0)]]),
        text => granted_to(text),
    };
    let error = held_row(demoted).try_acquire(&claim()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    assert!(error.to_string().contains("takes no writes"), "{error}");
}

/// The loss is certain; only its cause is asked for.
#[tokio::test(start_paused = true)]
async fn loss_without_an_answer_about_its_cause_is_reported() {
    let silent = |_, _: &str| Reply::Never;
    let (server, said) = server("mode=for-update&timeout=20s", at_once, silent);
    let (backend, lost) = (HeldRow::new(server, &Namespace::default()), claim());
    let start = tokio::time::Instant::now();
    let renewed = backend.renew(std::slice::from_ref(&lost)).await.remove(0);
    assert_eq!(renewed.unwrap(), Renewal::Lost(LossCause::Gone));
    assert!(start.elapsed() < Duration::from_secs(1), "told after {:?}", start.elapsed());
    assert_eq!(said.times("holder"), 1);
}

/// The server may not know of the failure: to close the connection would give the lock to another while the holder believes in
/// it. The holder knows once the renewal is answered, and then releases.
#[tokio::test(start_paused = true)]
async fn connection_of_a_failed_hold_is_closed_with_its_release() {
    let breaks_at_the_renewal = |_, text: &str| {
        static BEATS: AtomicUsize = AtomicUsize::new(0);
        if text == BEAT && BEATS.fetch_add(1, Ordering::Relaxed) > 0 {
            Reply::Breaks
        } else {
            granted_to(text)
        }
    };
    let (server, said) = server("mode=for-update", at_once, breaks_at_the_renewal);
    let (backend, held) = (HeldRow::new(server, &Namespace::default()), claim());
    assert!(matches!(backend.try_acquire(&held).await.unwrap(), Attempt::Granted(_)));
    let closed = said.closed();
    for _ in 0..2 {
        let renewed = backend.renew(std::slice::from_ref(&held)).await.remove(0).unwrap();
        assert!(matches!(renewed, Renewal::Lost(_)), "{renewed:?}");
        assert_eq!(said.closed(), closed, "closed before its holder could know");
    }
    assert_eq!(backend.release(&held, Duration::ZERO).await.unwrap(), Release::NotHeld);
    assert_eq!(said.closed(), closed + 1);
}

/// A holder does not wait behind those who want the lock.
#[tokio::test(start_paused = true)]
async fn cause_of_a_loss_does_not_wait_behind_attempts() {
    let (server, _) = server("mode=for-update&connections=2", at_once, |_, _| entered(9, Some(2), "{}"));
    let _asking = server.connection(PoolClass::Attempt).await.unwrap();
    let backend = HeldRow::new(server, &Namespace::default());
    let renewed = backend.renew(&[claim()]).await.remove(0);
    assert_eq!(renewed.unwrap(), Renewal::Lost(LossCause::Taken));
}

/// By a hand, by a limit of the server, or because two waited for each other: all of that is possible without a holder.
#[tokio::test(start_paused = true)]
async fn refusal_that_needs_no_holder_is_unavailable_and_not_busy() {
    let cancelled = |_, text: &str| {
        if text.contains("NOWAIT") { Reply::Refused("57014") } else { well(text) }
    };
    let deadlock = |_, text: &str| {
        if text.contains("NOWAIT") { Reply::Refused("40P01") } else { Reply::Rows(Vec::new()) }
    };
    for replies in [cancelled as fn(usize, &str) -> Reply, deadlock] {
        let error = held_row(replies).try_acquire(&claim()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    }
    let locked =
        held_row(
            |_, text| if text.contains("NOWAIT") { Reply::Refused("55P03") } else { Reply::Rows(Vec::new()) },
        );
    assert!(matches!(locked.try_acquire(&claim()).await.unwrap(), Attempt::Busy(_)));
}

/// A call may be repeated while the first one runs. The first call locks the row, so the second is refused.
#[tokio::test(start_paused = true)]
async fn refused_call_keeps_the_grant_of_another_call_for_the_same_claim() {
    let locked_once = |_, text: &str| {
        static LOCKED: AtomicUsize = AtomicUsize::new(0);
        match text {
            text if text.contains("NOWAIT") && LOCKED.fetch_add(1, Ordering::Relaxed) > 0 => {
                Reply::Refused("55P03")
            }
            text => granted_to(text),
        }
    };
    let slowly = |number| Duration::from_millis(200) * u32::try_from(number).unwrap();
    let (server, said) = server("mode=for-update", slowly, locked_once);
    let (backend, wanted) = (HeldRow::new(server, &Namespace::default()), claim());
    let (one, other) = tokio::join!(backend.try_acquire(&wanted), backend.try_acquire(&wanted));
    assert!(matches!(one.unwrap(), Attempt::Granted(_)));
    assert!(matches!(other.unwrap(), Attempt::Busy(_)));
    assert_eq!(said.times("NOWAIT"), 2);
    let renewed = backend.renew(std::slice::from_ref(&wanted)).await.remove(0);
    assert_eq!(renewed.unwrap(), Renewal::Renewed);
    assert!(matches!(backend.try_acquire(&wanted).await.unwrap(), Attempt::Granted(_)));
    assert_eq!(backend.release(&wanted, Duration::ZERO).await.unwrap(), Release::Released);
}

/// After the break no other connection can be had.
#[tokio::test(start_paused = true)]
async fn row_that_a_broken_connection_may_have_locked_is_not_called_free() {
    let broken_when_locking = |_, text: &str| {
        static LOCKED: AtomicUsize = AtomicUsize::new(0);
        match text {
            text if text.contains("NOWAIT") && LOCKED.fetch_add(1, Ordering::Relaxed) == 1 => Reply::Breaks,
            text => granted_to(text),
        }
    };
    let only_two = |number| if number < 2 { Duration::ZERO } else { LONG * 10 };
    let (server, said) = server("mode=for-update", only_two, broken_when_locking);
    let (backend, held) = (HeldRow::new(server, &Namespace::default()), claim_of(1));
    assert!(matches!(backend.try_acquire(&held).await.unwrap(), Attempt::Granted(_)));
    backend.release(&held, Duration::ZERO).await.unwrap();
    let error = backend.try_acquire(&claim_of(2)).await.unwrap_err();
    assert_eq!((error.kind(), said.times("NOWAIT")), (ErrorKind::Indeterminate, 2), "{error:?}");
}
