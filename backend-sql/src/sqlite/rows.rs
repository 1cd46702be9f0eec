//! A row as it is read.

use super::host_clock::{HostClock, HostTime};
use crate::lease::LeaseRow;
use leasehold_core::{FencingToken, OwnerId};
use sqlx::Row as _;
use sqlx::sqlite::SqliteRow;

/// A row of another boot is free, whatever it says. The clock is read after the row was: see [`HostClock::is_of_another_boot`].
pub(super) fn read_row(row: &SqliteRow, clock: &HostClock) -> Result<LeaseRow, sqlx::Error> {
    let now = clock.now();
    let time = |column| row.try_get(column).map(HostTime);
    let (ends_at, linger_until, written_at) = (time("ends_at")?, time("linger_until")?, time("written_at")?);
    let is_free = clock.is_of_another_boot(written_at, row.try_get("boot")?, now);
    let lingers = linger_until > ends_at;
    let token = row.try_get("token")?;
    Ok(LeaseRow {
        stored_name: String::from_utf8(row.try_get("name")?).map_err(decode)?,
        owner: if is_free || lingers { None } else { Some(read_owner(row.try_get("owner")?)?) },
        token: read_token(token)?,
        ends_at: if is_free { 0 } else { ends_at.max(linger_until).0 },
        acquired_at: row.try_get("acquired_at")?,
        holder: row.try_get("holder")?,
        sharers: row.try_get("sharers")?,
        now: now.0,
        unix_now: clock.unix_micros().unsigned_abs(),
        version: vec![token, ends_at.0, linger_until.0, written_at.0],
    })
}

/// True if a row is free although what is written in it goes on: it is of another boot.
pub(super) fn is_of_another_boot(row: &LeaseRow) -> bool {
    row.ends_in().is_none()
        && matches!(*row.version, [_, ends_at, linger_until, _] if ends_at.max(linger_until) > row.now)
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
