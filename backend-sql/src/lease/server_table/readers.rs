//! The readers of a row on a server: read, and replaced if the row has the version that was read.

use super::{ServerTable, micros, read_owner, read_token};
use crate::lease::{NextRow, READERS, ReadFor, ReaderTable, SharedRow, foreign_row};
use crate::server::{PoolClass, StatementKind, Value};
use async_trait::async_trait;
use leasehold_core::{Claim, Error, LockName, Result};
use std::time::Duration;

#[async_trait]
impl ReaderTable for ServerTable {
    async fn read_shared(&self, name: &LockName, reason: ReadFor) -> Result<Option<SharedRow>> {
        let statement = match reason {
            ReadFor::Attempt | ReadFor::Holder => &self.statements.read_shared,
            ReadFor::Loss => &self.statements.read_shared_where_writes_go,
        };
        let (class, values) = (class(reason != ReadFor::Attempt), [Value::bytes(self.stored(name))]);
        let answer = self.server.read(class, statement, &values).await?;
        let Some(row) = answer.rows.first() else {
            if reason == ReadFor::Loss {
                self.server.must_take_writes().await?;
            }
            return Ok(None);
        };
        read_shared(row).map(Some).ok_or_else(|| self.foreign(name))
    }

    async fn make_row(&self, name: &LockName) -> Result<()> {
        let values = [Value::bytes(self.stored(name))];
        self.server
            .execute(PoolClass::Attempt, StatementKind::MakeRow, &self.statements.make_row, &values)
            .await
            .map(|_| ())
    }

    async fn replace(
        &self,
        name: &LockName,
        was: &SharedRow,
        next: &NextRow,
        is_holder: bool,
    ) -> Result<bool> {
        let taker = next.taker.as_ref();
        let values = [
            Value::bytes(self.stored(name)),
            Value::int(was.version.first().copied().unwrap_or_default()),
            Value::bytes(taker.map_or(READERS, Claim::owner).to_bytes()),
            Value::int(next.token.get()),
            Value::int(next.ends_at),
            Value::text(&next.sharers),
            Value::int(next.before),
            micros(taker.map_or(Duration::ZERO, Claim::ttl)),
            Value::text(taker.map_or("", |claim| claim.holder())),
        ];
        let replace = &self.statements.replace;
        let is_replaced =
            self.end(class(is_holder), StatementKind::Write, replace, &values).await?.changed == 1;
        if is_replaced {
            let left = u64::try_from(next.ends_at - was.now).unwrap_or(0);
            self.server.target().headroom.holds_for(Duration::from_micros(left));
        }
        Ok(is_replaced)
    }

    fn foreign(&self, name: &LockName) -> Error {
        foreign_row(name, &self.server.target().table)
    }
}

/// A connection is kept for holders.
fn class(is_holder: bool) -> PoolClass {
    if is_holder { PoolClass::Renewal } else { PoolClass::Attempt }
}

/// A row as `read_shared.sql` answers it.
fn read_shared(values: &[Value]) -> Option<SharedRow> {
    let [owner, token, ends_at, version, sharers, now] = values else { return None };
    let now = now.as_int()?;
    Some(SharedRow {
        owner: read_owner(owner)?,
        token: read_token(token)?,
        ends_at: ends_at.as_int()?,
        sharers: sharers.as_text().unwrap_or_default().to_owned(),
        now,
        unix_now: u64::try_from(now).ok()?,
        version: vec![version.as_int()?],
    })
}

#[cfg(all(test, feature = "postgres"))]
mod tests;
