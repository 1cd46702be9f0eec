//! Optimistic locking: read the row, then change it if its version is still the one that was read.
//!
//! For databases in which no statement may wait for another transaction's decision. Every change of a row makes its version
//! one larger, so one comparison in the statement that grants shows whether the row has changed. A claim that loses the race
//! reads again.
//!
//! Only the grant is made in this way. A renewal and a release compare the owner, which belongs to one grant. The rows are
//! those of the leases, and both modes may be used side by side.

#[cfg(all(test, feature = "postgres"))]
mod tests;

use crate::lease::{Granting, ReaderTable as _, Row, RowState, ServerTable, read_row};
use crate::server::{PoolClass, Server, Statement, Value};
use leasehold_core::{Claim, FencingToken, LockName, Result};

/// The statements that grant by compare-and-set.
#[derive(Debug)]
pub(crate) struct CompareAndSet {
    read: Statement,
    take: Statement,
}

/// A row as it was read, with its version and the time.
struct Read {
    row: Row,
    version: i64,
    /// The server's clock at that time.
    now: u64,
}

impl CompareAndSet {
    pub(crate) fn new(server: &Server) -> Self {
        let (dialect, table) = (server.dialect(), &server.target().table);
        Self {
            read: Statement::new(include_str!("read.sql"), dialect, table),
            take: Statement::new(include_str!("take.sql"), dialect, table),
        }
    }

    pub(crate) async fn grant(&self, table: &ServerTable, claim: &Claim) -> Result<Granting> {
        let Some(read) = self.read(table, claim.name()).await? else {
            // Creates a free row, so that there is a version to compare with. Another client may have created it first.
            table.make_row(claim.name()).await?;
            return Ok(Granting::Refused(None));
        };
        let next = match read.row.state {
            RowState::Free => FencingToken::after(Some(read.row.token), read.now),
            _ => None,
        };
        match next {
            Some(token) => self.take(table, claim, read.version, token).await,
            None => Ok(Granting::Refused(Some(read.row))),
        }
    }

    async fn read(&self, table: &ServerTable, name: &LockName) -> Result<Option<Read>> {
        let values = [Value::bytes(table.stored(name))];
        let answer = table.server().read(PoolClass::Attempt, &self.read, &values).await?;
        let Some(row) = answer.rows.first() else {
            return Ok(None);
        };
        let read = || {
            let (now, row) = row.split_last()?;
            let version = row.get(5)?.as_int()?;
            Some(Read { row: read_row(row)?, version, now: u64::try_from(now.as_int()?).ok()? })
        };
        read().map(Some).ok_or_else(|| table.foreign(name))
    }

    /// Grants the row with this token if it still has the version that was read.
    async fn take(
        &self,
        table: &ServerTable,
        claim: &Claim,
        version: i64,
        token: FencingToken,
    ) -> Result<Granting> {
        let values = [
            Value::bytes(table.stored(claim.name())),
            Value::int(version),
            Value::bytes(claim.owner().to_bytes()),
            Value::int(token.get()),
            Value::int(claim.ttl().as_micros()),
            Value::text(claim.holder()),
        ];
        let sent = table.server().grant(&self.take, &values).await;
        let was_sent_before = sent.1;
        Ok(match table.settled(claim, sent).await?.changed {
            1 => Granting::Granted(token),
            // The first sending may have changed the row, or an earlier attempt of this claim, which gave another token.
            0 if was_sent_before => Granting::Refused(table.row_of(claim).await?),
            _ => Granting::Refused(None),
        })
    }
}
