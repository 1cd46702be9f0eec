//! Optimistic grants: a read of the row, then a change if the row still has the version that was read.
//!
//! For databases in which no statement may wait for another transaction's decision. Every change of a row makes its version
//! one larger, so one comparison in the statement that grants shows whether the row has changed. A claim that loses the race
//! reads again.
//!
//! Only the grant is made in this way. A renewal and a release compare the owner, which belongs to one grant. The rows are
//! those of the leases, and both modes may be used side by side.

#[cfg(all(test, feature = "postgres"))]
mod tests;

use super::{ServerTable, micros, read_row};
use crate::lease::{Granting, LeaseRow, ReaderTable as _, RowState};
use crate::server::Value;
use leasehold_core::{Claim, FencingToken, Result};

/// A row as it was read, with its version and the time.
struct VersionedRow {
    row: LeaseRow,
    version: i64,
    /// The server's clock at that time.
    now: u64,
}

impl VersionedRow {
    fn read(values: &[Value]) -> Option<Self> {
        let [.., version, _holder, now] = values else { return None };
        let now = u64::try_from(now.as_int()?).ok()?;
        Some(Self { row: read_row(values)?, version: version.as_int()?, now })
    }
}

impl ServerTable {
    /// Grants a free row by compare-and-set.
    pub(super) async fn grant_by_version(&self, claim: &Claim) -> Result<Granting> {
        let Some(read) = self.read(claim.name(), VersionedRow::read).await? else {
            // Creates a free row, so that there is a version to compare with. Another client may have created it first.
            self.make_row(claim.name()).await?;
            return Ok(Granting::Refused(None));
        };
        let next = match read.row.state {
            RowState::Free => FencingToken::after(Some(read.row.token), read.now),
            _ => None,
        };
        match next {
            Some(token) => self.take(claim, read.version, token).await,
            None => Ok(Granting::Refused(Some(read.row))),
        }
    }

    /// Grants the row with this token if it still has the version that was read.
    async fn take(&self, claim: &Claim, version: i64, token: FencingToken) -> Result<Granting> {
        let values = [
            Value::bytes(self.stored(claim.name())),
            Value::int(version),
            Value::bytes(claim.owner().to_bytes()),
            Value::int(token.get()),
            micros(claim.ttl()),
            Value::text(claim.holder()),
        ];
        let sent = self.server.grant(&self.statements.take, &values).await;
        let was_sent_before = sent.1;
        Ok(match self.settled(claim, sent).await?.changed {
            1 => Granting::Granted(token),
            // The first sending may have changed the row, or an earlier attempt of this claim, which gave another token.
            0 if was_sent_before => Granting::Refused(self.row_of(claim).await?),
            _ => Granting::Refused(None),
        })
    }
}
