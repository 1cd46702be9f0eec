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
use crate::server::{Server, Statement, Value};
use leasehold_core::{Claim, FencingToken, Result};

/// The statement that grants by compare-and-set.
#[derive(Debug)]
pub(crate) struct CompareAndSet {
    take: Statement,
}

/// A row as it was read, with its version and the time.
struct Read {
    row: Row,
    version: i64,
    /// The server's clock at that time.
    now: u64,
}

impl Read {
    fn of(values: &[Value]) -> Option<Self> {
        let [.., version, _holder, now] = values else { return None };
        let now = u64::try_from(now.as_int()?).ok()?;
        Some(Self { row: read_row(values)?, version: version.as_int()?, now })
    }
}

impl CompareAndSet {
    pub(crate) fn new(server: &Server) -> Self {
        let (dialect, table) = (server.dialect(), &server.target().table);
        Self { take: Statement::new(include_str!("take.sql"), dialect, table) }
    }

    pub(crate) async fn grant(&self, table: &ServerTable, claim: &Claim) -> Result<Granting> {
        let Some(read) = table.read(claim.name(), Read::of).await? else {
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
