//! How a row is read, and how the readers of a shared hold are replaced in it.

use super::Table;
use super::host_clock::{HostClock, HostTime};
use crate::lease::{NextRow, READERS, ReaderTable, Row, RowState, SharedRow, foreign_row};
use async_trait::async_trait;
use leasehold_core::{Error, FencingToken, LockName, OwnerId, Result};
use sqlx::Row as _;
use sqlx::sqlite::SqliteRow;
use std::time::{Duration, SystemTime};

/// A row, and true if it is free only because it was written in another boot: then its lease must be ended before it can be granted.
pub(super) type SeenRow = (Row, bool);

impl Table {
    /// Reads the row of a name by `read_row` or `read_shared`.
    pub(super) async fn read<T>(
        &self,
        name: &LockName,
        read: fn(&SqliteRow, &HostClock) -> Result<T, sqlx::Error>,
    ) -> Result<Option<T>> {
        self.check_open()?;
        let (shared, stored) = (self.shared.clone(), self.shared.stored_name(name));
        let query = move || shared.query(include_str!("look.sql")).bind(stored.clone());
        let rows = self.reader.run(query).await?.rows;
        let row = rows.first().map(|row| read(row, &self.shared.clock)).transpose();
        row.map_err(|error| foreign_row(name, &self.shared.options.path).with_source(error))
    }
}

#[async_trait]
impl ReaderTable for Table {
    async fn read_shared(&self, name: &LockName, _: bool) -> Result<Option<SharedRow>> {
        // The writer adds the column to a table of schema 1. A read of a store that does not exist creates none.
        if self.shared.options.path.file.exists() {
            self.has_sharers.get_or_try_init(|| self.open()).await?;
        }
        self.read(name, read_shared).await
    }

    async fn make_row(&self, name: &LockName) -> Result<()> {
        self.check_open()?;
        let (shared, name) = (self.shared.clone(), self.shared.stored_name(name));
        let make = move || {
            let query = shared.query(include_str!("make_row.sql")).bind(name.clone());
            query.bind(READERS.to_bytes().to_vec()).bind(shared.clock.now().0).bind(shared.boot())
        };
        self.writer.run(make).await.map(drop)
    }

    async fn replace(&self, name: &LockName, was: &SharedRow, next: &NextRow, _: bool) -> Result<bool> {
        self.check_open()?;
        let (shared, name) = (self.shared.clone(), self.shared.stored_name(name));
        let (was, next) = (was.clone(), next.clone());
        let replace = move || {
            let query = shared.query(include_str!("replace.sql")).bind(name.clone());
            let query = query.bind(READERS.to_bytes().to_vec()).bind(next.token.get().cast_signed());
            let query = query.bind(next.ends_at).bind(next.sharers.clone());
            let query = query.bind(shared.clock.now().0).bind(shared.clock.unix_micros()).bind(shared.boot());
            let query = was.version.iter().fold(query, |query, number| query.bind(*number));
            query.bind(was.sharers.clone()).bind(next.before)
        };
        Ok(self.writer.run(replace).await?.changed == 1)
    }

    fn foreign(&self, name: &LockName) -> Error {
        foreign_row(name, &self.shared.options.path)
    }
}

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
    let row = Row {
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
