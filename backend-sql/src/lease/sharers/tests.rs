#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that unwraps fails, which is what it is for")]

use super::*;

const TTL: Duration = Duration::from_secs(1);

fn claim(owner: u128) -> Claim {
    Claim::new(LockName::new("job").unwrap(), OwnerId::from_u128(owner), TTL, "{}".into())
        .with_mode(LockMode::Shared)
}

/// A free row, at this time.
fn row(now: i64) -> LeaseRow {
    LeaseRow {
        stored_name: "job".to_owned(),
        owner: None,
        token: FencingToken::new(7),
        ends_at: 0,
        acquired_at: 0,
        holder: String::new(),
        sharers: String::new(),
        now,
        unix_now: now.unsigned_abs(),
        version: Vec::new(),
    }
}

fn attempt(row: &LeaseRow, owner: u128) -> Decision<Attempt> {
    admit(&claim(owner), row, row.live_sharers().unwrap()).unwrap()
}

/// The row after the grant, and its token.
fn granted(before: &LeaseRow, owner: u128, now: i64) -> (LeaseRow, FencingToken) {
    let Decision::Write(next, Attempt::Granted(grant)) = attempt(before, owner) else {
        panic!("not granted")
    };
    let NextRow { token, ends_at, sharers, .. } = next;
    (LeaseRow { owner: Some(READERS), token, ends_at, sharers, ..row(now) }, grant.token)
}

fn busy_for(row: &LeaseRow, owner: u128) -> Option<Duration> {
    match attempt(row, owner) {
        Decision::Keep(Attempt::Busy(busy)) => busy.ends_in,
        _ => None,
    }
}

#[test]
fn readers_hold_together_with_tokens_of_their_own_until_the_last_end() {
    let (one, first) = granted(&row(100), 1, 500_000);
    let (both, second) = granted(&one, 2, 600_000);
    assert!(first < second && second == both.token);
    assert_eq!(both.ends_at, 500_000 + 1_000_000);
    // The first has ended, the second has not.
    let later = LeaseRow { now: 1_200_000, ..both };
    let sharers = later.live_sharers().unwrap();
    assert_eq!(sharers.readers.iter().map(|reader| reader.token).collect::<Vec<_>>(), [second.get()]);
}

#[test]
fn reader_that_asks_again_keeps_its_token_and_a_lease_from_then() {
    let (held, token) = granted(&row(100), 1, 400_000);
    let (again, same) = granted(&held, 1, 400_000);
    assert_eq!((same, again.token, again.ends_at), (token, held.token, 1_400_000));
}

#[test]
fn hold_of_another_owner_and_its_linger_keep_readers_out() {
    let held = LeaseRow { owner: Some(OwnerId::from_u128(9)), ends_at: 3_100, ..row(100) };
    assert_eq!(busy_for(&held, 1), Some(Duration::from_micros(3_000)));
    assert_eq!(busy_for(&LeaseRow { owner: None, ..held.clone() }, 1), Some(Duration::from_micros(3_000)));
    assert_eq!(busy_for(&LeaseRow { now: 3_100, ..held }, 1), None);
}

/// The column of readers is not touched by an exclusive grant.
#[test]
fn column_means_nothing_in_the_row_of_another_owner() {
    let (held, _) = granted(&row(100), 1, 200);
    let taken = LeaseRow { owner: Some(OwnerId::from_u128(9)), ..held };
    assert!(taken.live_sharers().unwrap().readers.is_empty());
    let Decision::Keep(renewals) = extend(&[&claim(1)], &taken, taken.live_sharers().unwrap()).unwrap()
    else {
        panic!("changed")
    };
    assert_eq!(renewals, [Renewal::Lost(LossCause::Taken)]);
}

#[test]
fn fresh_mark_of_a_writer_keeps_new_readers_out_and_those_that_hold_in() {
    let (mut held, token) = granted(&row(100), 1, 200);
    let mut sharers = held.live_sharers().unwrap();
    sharers.writers.push((OwnerId::from_u128(5).to_hex(), 5_200));
    held.sharers = held.next_row(held.token, &sharers).unwrap().sharers;
    assert_eq!(busy_for(&held, 2), Some(Duration::from_micros(5_000)));
    assert_eq!(granted(&held, 1, 300).1, token);
    held.now = 5_200;
    assert_eq!(busy_for(&held, 2), None);
}

/// A change of each question would wake the waiters of the name each time.
/// A writer that has died would keep readers out for as long as the clock was set back.
#[test]
fn mark_from_before_the_clock_was_set_back_keeps_no_reader_out() {
    let (held, _) = granted(&row(5_000), 1, 5_000);
    let mut sharers = held.live_sharers().unwrap();
    sharers.writers.push((OwnerId::from_u128(5).to_hex(), held.now + MARK_LASTS + 1));
    let marked = LeaseRow { sharers: serde_json::to_string(&sharers).unwrap(), ..held };
    assert_eq!(busy_for(&marked, 2), None);
}

#[test]
fn mark_is_left_under_readers_only_and_renewed_when_half_of_it_is_over() {
    let writer = OwnerId::from_u128(5);
    let marked = |row: &LeaseRow| match mark(writer, row, row.live_sharers().unwrap()).unwrap() {
        Decision::Write(next, ()) => Some(LeaseRow { sharers: next.sharers, ..row.clone() }),
        Decision::Keep(()) => None,
    };
    assert!(marked(&row(100)).is_none());
    let (held, _) = granted(&row(100), 1, 900_000);
    let (held, _) = granted(&held, 1, 200);
    let held = marked(&held).unwrap();
    assert!(marked(&LeaseRow { now: 200 + MARK_LASTS / 2 - 1, ..held.clone() }).is_none());
    let later = LeaseRow { now: 200 + MARK_LASTS / 2, ..held };
    let renewed = marked(&later).unwrap();
    assert_eq!(renewed.live_sharers().unwrap().writers[0].1, later.now + MARK_LASTS);
}

fn taken(row: &LeaseRow, claim: &Claim) -> Decision<Attempt> {
    take(claim, row, row.live_sharers().unwrap()).unwrap()
}

#[test]
fn exclusive_claim_takes_a_free_row_with_a_larger_token() {
    let free = LeaseRow { owner: Some(OwnerId::from_u128(9)), ends_at: 100, ..row(100) };
    let claim = claim(1).with_mode(LockMode::Exclusive);
    let Decision::Write(next, Attempt::Granted(grant)) = taken(&free, &claim) else { panic!("not granted") };
    assert_eq!(next.taker.unwrap().owner(), claim.owner());
    assert_eq!((next.token, next.ends_at), (grant.token, 1_000_100));
    assert!(grant.token > free.token);
    let held = LeaseRow { ends_at: 3_100, ..free.clone() };
    let Decision::Keep(Attempt::Busy(busy)) = taken(&held, &claim) else { panic!("not refused") };
    assert_eq!((busy.ends_in, busy.queued), (Some(Duration::from_micros(3_000)), false));
    let last = LeaseRow { token: FencingToken::new(FencingToken::MAX_COUNTED), ..free };
    assert!(take(&claim, &last, Sharers::default()).is_err(), "no token is left");
}

#[test]
fn exclusive_claim_that_holds_the_row_keeps_its_token_unless_its_lease_ends_before_the_write() {
    let claim = claim(1).with_mode(LockMode::Exclusive);
    let held = LeaseRow { owner: Some(claim.owner()), ends_at: 3_100, ..row(100) };
    let Decision::Write(next, Attempt::Granted(grant)) = taken(&held, &claim) else { panic!("not granted") };
    assert_eq!((next.token, grant.token, next.before), (held.token, held.token, 3_100));
}

#[test]
fn exclusive_claim_behind_readers_leaves_a_mark_if_it_waits() {
    let (held, _) = granted(&row(100), 1, 200);
    let claim = claim(5).with_mode(LockMode::Write);
    assert!(matches!(taken(&held, &claim), Decision::Keep(Attempt::Busy(_))));
    let Decision::Write(next, Attempt::Busy(busy)) = taken(&held, &claim.with_waiting(true)) else {
        panic!("no mark")
    };
    assert!(busy.queued && next.taker.is_none());
    assert_eq!(busy_for(&LeaseRow { sharers: next.sharers, ..held }, 2), Some(Duration::from_secs(2)));
}

#[test]
fn renewal_extends_those_that_hold_and_shortens_none() {
    let (held, _) = granted(&row(100), 1, 200);
    let Decision::Write(next, renewals) =
        extend(&[&claim(2), &claim(1)], &held, held.live_sharers().unwrap()).unwrap()
    else {
        panic!("not changed")
    };
    assert_eq!(renewals, [Renewal::Lost(LossCause::Gone), Renewal::Renewed]);
    assert_eq!(next.ends_at, 1_000_200);
    assert_eq!(next.before, held.ends_at, "a lease that ends before the write is not brought back");
}

#[test]
fn column_that_another_program_wrote_is_not_read() {
    let spoiled = LeaseRow { owner: Some(READERS), sharers: "{".to_owned(), ..row(100) };
    assert!(spoiled.live_sharers().is_none());
}
