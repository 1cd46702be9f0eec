//! What is read: rows, and how they stand.

use super::Table;
use super::host_clock::{HostClock, HostTime};
use super::reader::Reading;
use crate::lease::{ReaderTable as _, Row, SharedRow, Standing, foreign_row};
use leasehold_core::{FencingToken, LockName, OwnerId, Result};
use sqlx::Row as _;
use sqlx::sqlite::SqliteRow;
use std::time::{Duration, SystemTime};

/// A row, and whether it is free only because it is of another boot: then it does not say so by itself.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) row: Row,
    pub(super) of_another_boot: bool,
}

impl Table {
    pub(super) async fn see(&self, name: &LockName) -> Result<Option<Seen>> {
        let reading = Reading::Row(self.shared.stored_name(name));
        let seen = self.read(reading).await?.pop().transpose();
        seen.map_err(|error| foreign_row(name, &self.shared.place.file().display()).with_source(error))
    }

    /// The row of a name, for a change of its readers.
    pub(super) async fn see_shared(&self, name: &LockName) -> Result<Option<SharedRow>> {
        self.check_open()?;
        let rows = self.reader.rows(Reading::Row(self.shared.stored_name(name))).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let clock = &self.shared.clock;
        let read = read_shared(row, clock, clock.now());
        read.map(Some).map_err(|error| self.foreign(name).with_source(error))
    }

    /// The rows whose stored names begin so. What is none of ours says nothing, and keeps the others from nothing.
    pub(super) async fn see_all(&self, prefix: &[u8]) -> Result<Vec<Seen>> {
        let seen = self.read(Reading::RowsThatBegin(prefix.to_vec())).await?;
        Ok(seen.into_iter().filter_map(|seen| seen.ok()).collect())
    }

    /// The last of some stored names from `first` on and before `behind`; none if there is none there.
    pub(super) async fn last_of_some(&self, first: &[u8], behind: &[u8]) -> Result<Option<Vec<u8>>> {
        let rows = self.reader.rows(Reading::LastOfSome(first.to_vec(), behind.to_vec())).await?;
        let last = rows.first().map_or(Ok(None), |row| row.try_get(0));
        last.map_err(|error| self.shared.unreadable(error))
    }

    /// The clock is read after the rows were: see [`HostClock::is_of_another_boot`].
    async fn read(&self, reading: Reading) -> Result<Vec<Result<Seen, sqlx::Error>>> {
        self.check_open()?;
        let rows = self.reader.rows(reading).await?;
        let clock = &self.shared.clock;
        let now = clock.now();
        Ok(rows.iter().map(|row| read_row(row, clock, now)).collect())
    }
}

fn read_row(row: &SqliteRow, clock: &HostClock, now: HostTime) -> Result<Seen, sqlx::Error> {
    let [token, ends_at, linger_until, written_at, acquired_at] =
        [2, 3, 4, 5, 7].map(|column| row.try_get::<i64, _>(column));
    let boot: Option<&str> = row.try_get(6)?;
    let of_another_boot = clock.is_of_another_boot(HostTime(written_at?), boot, now);
    Ok(Seen {
        row: Row {
            stored_name: text(row.try_get(0)?)?,
            owner: read_owner(row.try_get(1)?)?,
            token: read_token(token?)?,
            standing: if of_another_boot {
                Standing::Free
            } else {
                standing(HostTime(ends_at?), HostTime(linger_until?), now)
            },
            holder: row.try_get(8)?,
            acquired_at: unix_time(acquired_at?),
        },
        of_another_boot,
    })
}

/// A row of another boot is free, whatever it says.
fn read_shared(row: &SqliteRow, clock: &HostClock, now: HostTime) -> Result<SharedRow, sqlx::Error> {
    let [token, ends_at, linger_until, written_at] = [2, 3, 4, 5].map(|column| row.try_get::<i64, _>(column));
    let (token, ends_at, linger_until, written_at) = (token?, ends_at?, linger_until?, written_at?);
    let is_free = clock.is_of_another_boot(HostTime(written_at), row.try_get(6)?, now);
    let lingers = linger_until > ends_at;
    Ok(SharedRow {
        owner: if is_free || lingers { None } else { Some(read_owner(row.try_get(1)?)?) },
        token: read_token(token)?,
        ends_at: if is_free { 0 } else { ends_at.max(linger_until) },
        sharers: row.try_get(9)?,
        now: now.0,
        unix_now: clock.unix_micros().unsigned_abs(),
        version: vec![token, ends_at, linger_until, written_at],
    })
}

fn standing(ends_at: HostTime, linger_until: HostTime, now: HostTime) -> Standing {
    if ends_at > now {
        Standing::Held { ends_in: ends_at.since(now) }
    } else if linger_until > now {
        Standing::Lingering { ends_in: linger_until.since(now) }
    } else {
        Standing::Free
    }
}

fn text(bytes: &[u8]) -> Result<String, sqlx::Error> {
    std::str::from_utf8(bytes).map(str::to_owned).map_err(decode)
}

pub(super) fn read_owner(bytes: &[u8]) -> Result<OwnerId, sqlx::Error> {
    OwnerId::from_bytes(bytes).ok_or_else(|| sqlx::Error::Decode("an owner has 16 bytes".into()))
}

pub(super) fn read_token(number: i64) -> Result<FencingToken, sqlx::Error> {
    u64::try_from(number).map(FencingToken::new).map_err(decode)
}

fn unix_time(micros: i64) -> Option<SystemTime> {
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_micros(u64::try_from(micros).ok()?))
}

fn decode(error: impl std::error::Error + Send + Sync + 'static) -> sqlx::Error {
    sqlx::Error::Decode(Box::new(error))
}
