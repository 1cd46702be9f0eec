//! Changes of rows that were read.

use super::*;
use crate::lease::RowLease;
use leasehold_core::{Attempt, LockAdmin, LockBackend, LockMode, Release, Renewal};

fn claim() -> Claim {
    Claim::new(LockName::new("job").unwrap(), OwnerId::from_u128(1), TTL, "{}".into())
        .with_mode(LockMode::Shared)
}

/// The answer of `look.sql` at the time 1000.
fn answer(owner: Value, token: u64, ends_at: i64, sharers: &str) -> Reply {
    let (name, holder, sharers) = (Value::bytes(*b"job"), Value::text("{}"), Value::text(sharers));
    let (token, ends_at, acquired_at) = (Value::int(token), Value::int(ends_at), Value::int(0));
    let (version, now) = (Value::int(5), Value::int(1_000));
    Reply::Rows(vec![vec![name, owner, token, ends_at, acquired_at, holder, version, sharers, now]])
}

/// The row with the reader, or after its release.
fn row(has_reader: bool) -> Reply {
    let owner = OwnerId::from_u128(1).to_hex();
    let reader = format!(
        r#"{{"readers":[{{"owner":"{owner}","token":7,"ends_at":9000,"acquired_at":1,"holder":"{{}}"}}],"writers":[]}}"#
    );
    let (ends_at, sharers) = if has_reader { (9_000, &*reader) } else { (0, "") };
    answer(Value::bytes(READERS.to_bytes()), 7, ends_at, sharers)
}

fn is_read(text: &str) -> bool {
    text.contains("sharers") && text.starts_with("SELECT")
}

fn backend(replies: fn(usize, &str) -> Reply) -> RowLease {
    let (server, _) = server("timeout=500ms", at_once, replies);
    RowLease::new(ServerTable::new(server, &Namespace::default()))
}

/// The first sending, over a connection that breaks, has removed the reader.
fn applied_by_the_first_sending(number: usize, text: &str) -> Reply {
    match text {
        text if is_read(text) => row(number == 0),
        text if text.contains("UPDATE") && number == 0 => Reply::Breaks,
        _ => Reply::Rows(Vec::new()),
    }
}

#[tokio::test(start_paused = true)]
async fn release_of_a_reader_that_was_sent_twice_has_released() {
    let backend = backend(applied_by_the_first_sending);
    assert_eq!(backend.release(&claim(), Duration::ZERO).await.unwrap(), Release::Released);
}

#[tokio::test(start_paused = true)]
async fn forced_release_that_was_sent_twice_shows_the_reader_that_it_has_ended() {
    let backend = backend(applied_by_the_first_sending);
    let ended = backend.force_release(claim().name(), None).await.unwrap();
    assert_eq!(ended.iter().map(|status| status.owner).collect::<Vec<_>>(), [Some(OwnerId::from_u128(1))]);
}

/// Whether the first sending was applied is not known until the row is read again.
#[tokio::test(start_paused = true)]
async fn release_of_a_reader_is_unknown_if_the_row_is_not_read_after_a_second_sending() {
    let backend = backend(|number, text| match text {
        text if is_read(text) && number > 0 => Reply::Refused("53300"),
        text => applied_by_the_first_sending(number, text),
    });
    let error = backend.release(&claim(), Duration::ZERO).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error}");
}

/// The wait for ever of a client goes on only after an answer that is not known: see `never_reached` in the core.
#[tokio::test(start_paused = true)]
async fn attempt_of_a_reader_that_reaches_no_server_has_done_nothing() {
    let backend = backend(|_, _| Reply::Refused("53300"));
    let error = backend.try_acquire(&claim()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}

/// The row of an exclusive owner.
fn owned(owner: Option<u128>, ends_at: i64) -> Reply {
    answer(Value::Bytes(owner.map(|owner| owner.to_be_bytes().into())), 900, ends_at, "")
}

/// In the optimistic mode. The first answer to `replace.sql` is lost, and the second says that the row has changed.
async fn taken_twice(replies: fn(usize, &str) -> Reply) -> Result<Attempt> {
    let (server, said) = server("mode=optimistic", at_once, replies);
    let backend = RowLease::new(ServerTable::new(server, &Namespace::default()));
    let attempt = backend.try_acquire(&claim().with_mode(LockMode::Exclusive)).await;
    assert!(said.times("UPDATE \"leasehold\"") >= 2);
    attempt
}

/// The token is that of the row, which an earlier attempt of the claim may have written.
#[tokio::test(start_paused = true)]
async fn row_taken_by_the_lost_statement_belongs_to_the_claim() {
    let by_ourselves = |number, text: &str| {
        static WRITES: AtomicUsize = AtomicUsize::new(0);
        match text {
            text if text.starts_with("SELECT") && number == 0 => owned(None, 0),
            text if text.starts_with("SELECT") => owned(Some(1), 9_000_000),
            _ => match WRITES.fetch_add(1, Ordering::Relaxed) {
                0 => Reply::Breaks,
                1 => Reply::Rows(Vec::new()),
                _ => Reply::Rows(vec![Vec::new()]),
            },
        }
    };
    let attempt = taken_twice(by_ourselves).await.unwrap();
    assert!(matches!(&attempt, Attempt::Granted(grant) if grant.token.get() == 900), "{attempt:?}");
}

#[tokio::test(start_paused = true)]
async fn row_taken_by_another_owner_is_refused() {
    let by_another = |number, text: &str| match text {
        text if text.starts_with("SELECT") && number == 0 => owned(None, 0),
        text if text.starts_with("SELECT") => owned(Some(2), 9_000_000),
        _ if number == 0 => Reply::Breaks,
        _ => Reply::Rows(Vec::new()),
    };
    assert!(matches!(taken_twice(by_another).await.unwrap(), Attempt::Busy(_)));
}

#[tokio::test(start_paused = true)]
async fn row_that_cannot_be_read_after_a_lost_answer_is_indeterminate() {
    let silent = |number, text: &str| match text {
        text if text.starts_with("SELECT") && number == 0 => owned(None, 0),
        text if text.starts_with("SELECT") => Reply::Never,
        _ if number == 0 => Reply::Breaks,
        _ => Reply::Rows(Vec::new()),
    };
    let error = taken_twice(silent).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error:?}");
}

/// The third write is applied, and its answer lost, after two others have changed the row first.
fn after_two_that_lost(writes: &AtomicUsize) -> Reply {
    match writes.fetch_add(1, Ordering::Relaxed) {
        0 | 1 | 3 => Reply::Rows(Vec::new()),
        2 => Reply::Breaks,
        _ => Reply::Rows(vec![Vec::new()]),
    }
}

#[tokio::test(start_paused = true)]
async fn row_taken_by_the_last_try_belongs_to_the_claim() {
    let at_last = |_, text: &str| {
        static WRITES: AtomicUsize = AtomicUsize::new(0);
        match text {
            text if text.starts_with("SELECT") && WRITES.load(Ordering::Relaxed) < 4 => owned(None, 0),
            text if text.starts_with("SELECT") => owned(Some(1), 9_000_000),
            _ => after_two_that_lost(&WRITES),
        }
    };
    let attempt = taken_twice(at_last).await.unwrap();
    assert!(matches!(&attempt, Attempt::Granted(grant) if grant.token.get() == 900), "{attempt:?}");
}

/// A replica that is behind answers reads, but for those that go where writes go.
#[tokio::test(start_paused = true)]
async fn row_that_a_replica_shows_as_free_belongs_to_the_claim() {
    let behind = |_, text: &str| {
        static WRITES: AtomicUsize = AtomicUsize::new(0);
        match text {
            text if text.contains("FOR UPDATE") => owned(Some(1), 9_000_000),
            text if text.starts_with("SELECT") => owned(None, 0),
            _ => match WRITES.fetch_add(1, Ordering::Relaxed) {
                0 => Reply::Breaks,
                1..=3 => Reply::Rows(Vec::new()),
                _ => Reply::Rows(vec![Vec::new()]),
            },
        }
    };
    let attempt = taken_twice(behind).await.unwrap();
    assert!(matches!(&attempt, Attempt::Granted(grant) if grant.token.get() == 900), "{attempt:?}");
}

/// A reader at a new name, or an exclusive claim in the optimistic mode.
#[tokio::test(start_paused = true)]
async fn row_that_was_just_made_is_read_where_writes_go() {
    let without_the_row = |_, text: &str| match text {
        text if text.contains("FOR UPDATE") => answer(Value::Bytes(None), 0, 0, ""),
        text if is_read(text) => Reply::Rows(Vec::new()),
        _ => Reply::Rows(vec![Vec::new()]),
    };
    let attempt = backend(without_the_row).try_acquire(&claim()).await.unwrap();
    assert!(matches!(attempt, Attempt::Granted(_)), "{attempt:?}");
}

/// The version that a replica knows is an old one for as long as it is behind.
#[tokio::test(start_paused = true)]
async fn reader_on_a_replica_that_is_behind_is_renewed_by_the_second_write() {
    static WRITES: AtomicUsize = AtomicUsize::new(0);
    let behind = |_, text: &str| match text {
        text if text.contains("FOR UPDATE") => row(true),
        text if is_read(text) => row(true),
        _ => Reply::Rows(vec![Vec::new(); WRITES.fetch_add(1, Ordering::Relaxed)]),
    };
    let (server, said) = server("timeout=500ms", at_once, behind);
    let backend = RowLease::new(ServerTable::new(server, &Namespace::default()));
    let renewed = backend.renew(&[claim()]).await.remove(0).unwrap();
    assert_eq!(renewed, Renewal::Renewed);
    assert_eq!((said.times("FOR UPDATE"), said.times("UPDATE \"leasehold\"")), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn inspect_and_forced_release_of_a_lock_that_a_replica_shows_as_free_meet_its_holder() {
    let behind = |_, text: &str| match text {
        text if text.contains("transaction_read_only") => Reply::Rows(vec![vec![Value::int(1)]]),
        text if text.contains("FOR UPDATE") => owned(Some(2), 9_000_000),
        text if is_read(text) => owned(None, 0),
        _ => Reply::Rows(vec![Vec::new()]),
    };
    let backend = backend(behind);
    for statuses in [backend.inspect(claim().name()).await, backend.force_release(claim().name(), None).await]
    {
        assert_eq!(statuses.unwrap().remove(0).owner, Some(OwnerId::from_u128(2)));
    }
}
