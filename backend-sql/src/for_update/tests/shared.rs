//! Readers, and the writers that wait for them.

use super::*;
use crate::server::double::Transcript;
use leasehold_core::LockMode;

const MARK: &str = "SET sharers = coalesce";
const REMOVAL: &str = "SET sharers = CAST";

fn reader_of(owner: u128) -> Claim {
    claim_of(owner).with_mode(LockMode::Shared)
}

fn waiting_writer() -> Claim {
    claim_of(2).with_mode(LockMode::Write).with_waiting(true)
}

fn backend_of(replies: fn(usize, &str) -> Reply) -> (HeldRow, Arc<Transcript>) {
    let (server, said) = server("mode=for-update&timeout=500ms", at_once, replies);
    (HeldRow::new(server, &Namespace::default()), said)
}

/// Readers under their tokens, and a mark of the second owner until this time from now on.
pub(super) fn readers(tokens: std::ops::Range<i64>, mark: Option<i64>) -> Reply {
    let reader = r#""mode":"shared","owner":"1","acquired_at":0,"connection":7,"holder":"""#;
    let last = tokens.end - 1;
    let mut sharers: Vec<String> =
        tokens.map(|token| format!(r#""{token}":{{"token":{token},{reader}}}"#)).collect();
    sharers.extend(mark.map(|left| format!(r#""{:032x}":{}"#, 2, NOW + left)));
    entered(last, None, &format!("{{{}}}", sharers.join(",")))
}

/// A reader has the row locked.
fn read_locked(text: &str) -> Reply {
    match text {
        text if text.contains("FOR UPDATE NOWAIT") => Reply::Refused("55P03"),
        text if is_look(text) => readers(9..10, None),
        text => granted_to(text),
    }
}

fn busy_for(attempt: &Attempt) -> Option<Duration> {
    match attempt {
        Attempt::Busy(busy) => busy.ends_in,
        Attempt::Granted(_) => None,
    }
}

/// MySQL would keep new readers out for as long as its queue has the request of a writer that has gone.
#[tokio::test(start_paused = true)]
async fn writer_behind_readers_leaves_a_mark_and_does_not_wait_in_the_server() {
    let (backend, said) = backend_of(|_, text| read_locked(text));
    let wanted = waiting_writer();
    assert!(matches!(backend.try_acquire(&wanted).await.unwrap(), Attempt::Busy(_)));
    assert_eq!((said.times(MARK), said.times(REMOVAL)), (1, 0));
    assert!(timeout(LONG, backend.changed(&wanted)).await.is_err());
    assert_eq!(said.times("FOR UPDATE"), 1, "it waits in the server");
    for _ in 0..2 {
        assert_eq!(backend.release(&wanted, Duration::ZERO).await.unwrap(), Release::NotHeld);
        assert_eq!((said.times(MARK), said.times(REMOVAL)), (1, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn single_try_and_reader_and_writer_behind_a_writer_leave_no_mark() {
    let (backend, said) = backend_of(|_, text| read_locked(text));
    backend.try_acquire(&claim_of(2)).await.unwrap();
    assert_eq!(said.times(MARK), 0, "a single try");
    // As MySQL and MariaDB refuse a reader beside others, if a writer is in their queue.
    let (backend, said) = backend_of(|_, text| {
        if text.contains("FOR SHARE NOWAIT") { Reply::Refused("55P03") } else { read_locked(text) }
    });
    backend.try_acquire(&reader_of(2).with_waiting(true)).await.unwrap();
    assert_eq!((said.times("FOR SHARE NOWAIT"), said.times(MARK)), (1, 0), "a reader");
    let exclusively_locked = |_, text: &str| match text {
        text if text.contains("NOWAIT") => Reply::Refused("55P03"),
        text if text != BEAT && text.contains("FOR UPDATE") => Reply::Never,
        text if is_look(text) => entered(9, Some(3), "{}"),
        text => well(text),
    };
    for wanted in [waiting_writer(), reader_of(2).with_waiting(true)] {
        let (backend, said) = backend_of(exclusively_locked);
        assert!(matches!(backend.try_acquire(&wanted).await.unwrap(), Attempt::Busy(_)));
        backend.release(&wanted, Duration::ZERO).await.unwrap();
        assert_eq!((said.times(MARK), said.times(REMOVAL)), (0, 0), "{:?}", wanted.mode());
    }
}

#[tokio::test(start_paused = true)]
async fn mark_is_renewed_once_half_of_its_time_is_over() {
    let lasts = |_, text: &str| {
        if is_look(text) { readers(9..10, Some(1_500_000)) } else { read_locked(text) }
    };
    let is_half_over = |_, text: &str| {
        if is_look(text) { readers(9..10, Some(900_000)) } else { read_locked(text) }
    };
    for (replies, marks) in [(lasts as fn(usize, &str) -> Reply, 0), (is_half_over, 1)] {
        let (backend, said) = backend_of(replies);
        backend.try_acquire(&waiting_writer()).await.unwrap();
        assert_eq!(said.times(MARK), marks);
    }
}

/// PostgreSQL lets readers pass a writer that waits in the server.
#[tokio::test(start_paused = true)]
async fn writer_in_the_server_leaves_a_mark_once_readers_are_entered() {
    let passed_by_a_reader = |_, text: &str| {
        static LOOKS: AtomicUsize = AtomicUsize::new(0);
        match text {
            text if text.contains("NOWAIT") => Reply::Refused("55P03"),
            text if text != BEAT && text.contains("FOR UPDATE") => Reply::Never,
            text if is_look(text) && LOOKS.fetch_add(1, Ordering::Relaxed) == 0 => entered(8, Some(3), "{}"),
            text => read_locked(text),
        }
    };
    let (backend, said) = backend_of(passed_by_a_reader);
    let wanted = waiting_writer();
    backend.try_acquire(&wanted).await.unwrap();
    let mut waits = std::pin::pin!(backend.changed(&wanted));
    assert!(waits.as_mut().now_or_never().is_none());
    assert_eq!(said.times(MARK), 0, "a writer holds the lock");
    backend.try_acquire(&wanted).await.unwrap();
    assert_eq!(said.times(MARK), 1);
}

#[tokio::test(start_paused = true)]
async fn reader_gives_way_as_long_as_a_mark_lasts() {
    let (backend, said) =
        backend_of(|_, text| if is_look(text) { readers(9..10, Some(1_000_000)) } else { granted_to(text) });
    let attempt = backend.try_acquire(&reader_of(3)).await.unwrap();
    assert_eq!(busy_for(&attempt), Some(Duration::from_secs(1)));
    assert_eq!(said.times("FOR SHARE"), 0);
    let (backend, said) =
        backend_of(|_, text| if is_look(text) { readers(9..10, Some(0)) } else { granted_to(text) });
    assert!(matches!(backend.try_acquire(&reader_of(3)).await.unwrap(), Attempt::Granted(_)));
    assert_eq!(said.times("FOR SHARE NOWAIT"), 1);
}

#[tokio::test(start_paused = true)]
async fn readers_of_one_client_hold_together_and_exclude_its_writer() {
    let (backend, said) = backend_of(|_, text| read_locked(text));
    for reader in [reader_of(1), reader_of(3)] {
        assert!(matches!(backend.try_acquire(&reader).await.unwrap(), Attempt::Granted(_)));
    }
    assert!(matches!(backend.try_acquire(&claim_of(2)).await.unwrap(), Attempt::Busy(_)));
    assert_eq!(said.times("FOR UPDATE"), said.times(BEAT), "the server need not be asked");
}

/// `LockBackend` allows a call to be repeated while an earlier one runs, and the database lets both lock the row.
#[tokio::test(start_paused = true)]
async fn calls_for_one_reader_that_run_at_once_make_one_hold() {
    let grows = |_, text: &str| {
        static TOKEN: AtomicI64 = AtomicI64::new(9);
        match text {
            text if text.contains("INSERT") => {
                Reply::Rows(vec![vec![Value::int(TOKEN.fetch_add(1, Ordering::Relaxed))]])
            }
            text => read_locked(text),
        }
    };
    let (backend, said) = backend_of(grows);
    let wanted = reader_of(3);
    let (one, other) = tokio::join!(backend.try_acquire(&wanted), backend.try_acquire(&wanted));
    let (Attempt::Granted(one), Attempt::Granted(other)) = (one.unwrap(), other.unwrap()) else {
        panic!("a reader was refused")
    };
    assert_eq!(one.token, other.token);
    assert_eq!((said.times("INSERT"), said.times("ROLLBACK"), said.times(REMOVAL)), (2, 1, 1));
}

/// Readers of processes that crashed stay entered until a writer comes, and there may be none.
#[tokio::test(start_paused = true)]
async fn reader_among_many_removes_those_that_have_ended_and_marks_that_are_over() {
    let half_have_ended = |_, text: &str| match text {
        text if is_look(text) => readers(1..65, Some(0)),
        text if text.contains("pg_stat_activity") => {
            static ASKED: AtomicUsize = AtomicUsize::new(0);
            let is_there = ASKED.fetch_add(1, Ordering::Relaxed).is_multiple_of(2);
            Reply::Rows(if is_there { vec![vec![Value::int(1)]] } else { Vec::new() })
        }
        text => granted_to(text),
    };
    let (backend, said) = backend_of(half_have_ended);
    let mut attempts = 0;
    while said.times(REMOVAL) == 0 {
        attempts += 1;
        assert!(matches!(backend.give_way(&reader_of(attempts)).await, Ok(None)));
        assert!(attempts < 10_000, "no attempt looks");
    }
    assert_eq!((said.times(REMOVAL), said.times("pg_stat_activity")), (33, 64));
}

#[tokio::test(start_paused = true)]
async fn entries_that_another_program_wrote_are_no_readers() {
    for foreign in ["[]", r#"{"9":"x"}"#, r#"{"9":{"mode":"shared","owner":"1"}}"#] {
        let Reply::Rows(rows) = entered(9, None, foreign) else { unreachable!() };
        assert!(holder::HolderRow::read(&rows[0]).is_none(), "{foreign}");
    }
}

/// A writer that has died would keep readers out for as long as the server's clock was set back.
#[tokio::test(start_paused = true)]
async fn mark_from_before_the_clock_was_set_back_keeps_no_reader_out() {
    let an_hour_ahead = |_: usize, text: &str| match text {
        text if is_look(text) => readers(9..10, Some(3_600_000_000)),
        text => granted_to(text),
    };
    let (backend, _) = backend_of(an_hour_ahead);
    assert!(matches!(backend.try_acquire(&reader_of(1)).await.unwrap(), Attempt::Granted(_)));
}
