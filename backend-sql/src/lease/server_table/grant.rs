//! The grant of a free row by one statement.

use super::{ServerTable, micros, read_token};
use crate::lease::{LeaseRow, LeaseTable as _, ReadFor};
use crate::server::{Answer, Value};
use leasehold_core::{Claim, Error, ErrorKind, FencingToken, Result};

/// What `acquire.sql` of MySQL and MariaDB answers in place of a token if one other owner holds the row, or it lingers.
pub(super) const HELD_BY_ONE: u64 = FencingToken::MAX_COUNTED + 1;
/// The same if the row is free, and its tokens are used up.
const USED_UP: u64 = FencingToken::MAX_COUNTED + 3;

impl ServerTable {
    /// The answer to `acquire.sql`. A statement that was sent twice, and refused the second time, has granted nothing, unless the row is the
    /// claim's. A first one that still runs, on a server that has reset its connection, may grant one lease that no claim uses.
    pub(super) async fn acquire(&self, claim: &Claim) -> Result<Answer> {
        let values = [
            Value::bytes(self.stored(claim.name())),
            Value::bytes(claim.owner().to_bytes()),
            micros(claim.ttl()),
            Value::text(claim.holder()),
            micros(self.server.target().timeout),
        ];
        let (answer, was_sent_before) = self.server.grant(&self.statements.acquire, &values).await;
        let refused = match answer {
            Err(refused) if was_sent_before && refused.kind() != ErrorKind::Indeterminate => refused,
            answer => return answer,
        };
        let reason = match refused.kind() {
            // A server that takes no writes locks no row, and shows it all the same.
            ErrorKind::Unavailable => ReadFor::Holder,
            _ => ReadFor::Loss,
        };
        let row = self.look(claim.name(), reason).await.map_err(unknown)?;
        let is_granted = row.is_some_and(|row| row.owner == Some(claim.owner()));
        Err(if is_granted { unknown(refused) } else { refused })
    }

    /// The token in the answer to `acquire.sql`: a row of PostgreSQL, or the `LAST_INSERT_ID()` of MySQL and MariaDB. `None` if refused.
    pub(super) async fn granted_token(&self, claim: &Claim, answer: &Answer) -> Result<Option<FencingToken>> {
        match answer.first() {
            Some(token) => read_token(token).map(Some).ok_or_else(|| self.server.unreadable()),
            // `MariaDB` leaves `LAST_INSERT_ID()` out if a trigger ran: the row shows whether it was granted.
            None if answer.last_id == 0 && answer.changed > 0 => {
                let row = self.look(claim.name(), ReadFor::Loss).await.map_err(unknown)?;
                row.as_ref().map_or(Ok(()), LeaseRow::check_tokens)?;
                Ok(row.filter(|row| row.owner == Some(claim.owner())).map(|row| row.token))
            }
            None if answer.last_id == USED_UP => Err(Error::tokens_used_up()),
            None if answer.last_id > FencingToken::MAX_COUNTED || answer.last_id == 0 => Ok(None),
            None => Ok(Some(FencingToken::new(answer.last_id))),
        }
    }
}

fn unknown(error: Error) -> Error {
    error.with_kind(ErrorKind::Indeterminate)
}
