//! A row as it is read.

use super::host_clock::{HostClock, HostTime};
use crate::lease::{LeaseRow, RowState, SharedRow};
use leasehold_core::{FencingToken, OwnerId};
use sqlx::Row as _;
use sqlx::sqlite::SqliteRow;
use std::time::{Duration, SystemTime};

/// A row, and true if it is free only because it was written in another boot: then its lease must be ended before it can be granted.
pub(super) type SeenRow = (LeaseRow, bool);

/// The clock is read after the row was: see [`HostClock::is_of_another_boot`].
pub(super) fn read_row(row: &SqliteRow, clock: &HostClock) -> Result<SeenRow, sqlx::Error> {
    let now = clock.now();
    let [ends_at, linger_until, written_at] = read_times(row)?;
    let of_another_boot = clock.is_of_another_boot(written_at, row.try_get("boot")?, now);
    let state = if of_another_boot {
        RowState::Free
    } else if ends_at > now {
        RowState::Held { ends_in: ends_at.since(now) }
    } else if linger_until > now {
        RowState::Lingering { ends_in: linger_until.since(now) }
    } else {
        RowState::Free
    };
    let acquired_at = u64::try_from(row.try_get::<i64, _>("acquired_at")?).map(Duration::from_micros);
    let row = LeaseRow {
        stored_name: String::from_utf8(row.try_get("name")?).map_err(decode)?,
        owner: read_owner(row.try_get("owner")?)?,
        token: read_token(row.try_get("token")?)?,
        state,
        holder: row.try_get("holder")?,
        acquired_at: acquired_at.ok().and_then(|time| SystemTime::UNIX_EPOCH.checked_add(time)),
    };
    Ok((row, of_another_boot))
}

/// A row of another boot is free, whatever it says.
pub(super) fn read_shared(row: &SqliteRow, clock: &HostClock) -> Result<SharedRow, sqlx::Error> {
    let now = clock.now();
    let [ends_at, linger_until, written_at] = read_times(row)?;
    let is_free = clock.is_of_another_boot(written_at, row.try_get("boot")?, now);
    let lingers = linger_until > ends_at;
    let token = row.try_get("token")?;
    Ok(SharedRow {
        owner: if is_free || lingers { None } else { Some(read_owner(row.try_get("owner")?)?) },
        token: read_token(token)?,
        ends_at: if is_free { 0 } else { ends_at.max(linger_until).0 },
        sharers: row.try_get("sharers")?,
        now: now.0,
        unix_now: clock.unix_micros().unsigned_abs(),
        version: vec![token, ends_at.0, linger_until.0, written_at.0],
    })
}

fn read_times(row: &SqliteRow) -> Result<[HostTime; 3], sqlx::Error> {
    let read = |column| row.try_get(column).map(HostTime);
    Ok([read("ends_at")?, read("linger_until")?, read("written_at")?])
}

pub(super) fn read_owner(bytes: &[u8]) -> Result<OwnerId, sqlx::Error> {
    OwnerId::from_bytes(bytes).ok_or_else(|| sqlx::Error::Decode("an owner has 16 bytes".into()))
}

pub(super) fn read_token(number: i64) -> Result<FencingToken, sqlx::Error> {
    u64::try_from(number).map(FencingToken::new).map_err(decode)
}

fn decode(error: impl std::error::Error + Send + Sync + 'static) -> sqlx::Error {
    sqlx::Error::Decode(Box::new(error))
}
