//! The strategy of leases in rows: what a row means for an attempt, a renewal and a release, whatever the database.
//!
//! The table underneath answers in single atomic statements which of the claims it was given it changed. Everything
//! that it refused is looked at here, with a plain read.

mod admin;
mod contended;
mod row;
#[cfg(feature = "_server")]
mod server_table;
mod table;
#[cfg(feature = "_server")]
mod watch;

pub(crate) use row::{Row, Standing};
#[cfg(feature = "_server")]
pub(crate) use server_table::{ServerTable, read_row};
pub(crate) use table::{Granting, LeaseTable};

use async_trait::async_trait;
use contended::Contended;
use leasehold_core::{
    Attempt, Busy, Claim, Error, ErrorKind, FencingToken, Grant, LockAdmin, LockBackend, LockName, LossCause,
    OwnerId, Release, Renewal, Result, Semantics,
};
use std::time::Duration;

/// How often an attempt is made anew because the row it was refused by has changed meanwhile. Enough to take what
/// somebody left behind; a lock that changes hands any faster is busy.
const ATTEMPTS: usize = 3;

/// Locks as leases, one row per name. Rows are never deleted: the next token is made from the last.
#[derive(Debug)]
pub struct RowLease {
    table: Box<dyn LeaseTable>,
    contended: Contended,
}

impl RowLease {
    pub(crate) fn new(table: impl LeaseTable + 'static) -> Self {
        Self { table: Box::new(table), contended: Contended::default() }
    }
}

#[async_trait]
impl LockBackend for RowLease {
    fn semantics(&self) -> Semantics {
        self.table.semantics()
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        if claim.waits() && self.table.keeps_waiting(claim) {
            return Ok(Attempt::Busy(Busy::new()));
        }
        if self.contended.has(claim.name())
            && let Some(busy) = self.still_busy(claim).await?
        {
            return Ok(Attempt::Busy(busy));
        }
        for _ in 0..ATTEMPTS {
            let row = match self.table.grant(claim).await? {
                Granting::Granted(token) => return Ok(self.granted(claim.name(), token)),
                Granting::Held => {
                    self.contended.add(claim.name());
                    return Ok(Attempt::Busy(Busy::new()));
                }
                Granting::Refused(row) => row,
            };
            let Some(row) = row else { continue };
            if let Some(busy) = row.busy_for(claim.owner()) {
                self.contended.add(claim.name());
                return Ok(Attempt::Busy(busy));
            }
            if matches!(row.standing, Standing::Free) {
                tokens_left(&row)?;
            } else if self.renewed(claim).await? {
                // Held by this very claim: the reply to an earlier attempt was lost.
                return Ok(self.granted(claim.name(), row.token));
            }
        }
        Ok(Attempt::Busy(Busy::new()))
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        let renewed = self.table.renew(claims).await;
        let mut answers = Vec::with_capacity(claims.len());
        for (claim, renewed) in claims.iter().zip(renewed) {
            answers.push(match renewed {
                Ok(true) => Ok(Renewal::Renewed),
                Ok(false) => Ok(Renewal::Lost(self.why_lost(claim).await)),
                Err(error) => Err(error),
            });
        }
        answers
    }

    async fn release(&self, claim: &Claim, linger: Duration) -> Result<Release> {
        match self.table.release(claim, linger).await? {
            true => Ok(Release::Released),
            false => Ok(Release::NotHeld),
        }
    }

    async fn changed(&self, claim: &Claim) {
        self.table.changed(claim).await;
        // It was free a moment ago, so it is asked for, and not looked at again.
        self.contended.remove(claim.name());
    }

    /// Never: a holder hears of a loss from its next renewal.
    async fn suspects(&self) -> Vec<OwnerId> {
        std::future::pending().await
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        Some(self)
    }

    async fn close(&self) -> Result<()> {
        self.table.close().await;
        Ok(())
    }
}

impl RowLease {
    /// A lock that was busy a moment ago is read before it is asked for. A write takes the lock of the row, or in SQLite
    /// of the whole database, even where it then changes nothing, and the holder's release would have to wait for it.
    async fn still_busy(&self, claim: &Claim) -> Result<Option<Busy>> {
        let Some(row) = self.table.look(claim.name()).await? else {
            return Ok(None);
        };
        if matches!(row.standing, Standing::Free) {
            tokens_left(&row)?;
        }
        Ok(row.busy_for(claim.owner()))
    }

    fn granted(&self, name: &LockName, token: FencingToken) -> Attempt {
        self.contended.remove(name);
        Attempt::Granted(Grant::new(token))
    }

    async fn renewed(&self, claim: &Claim) -> Result<bool> {
        self.table.renew(std::slice::from_ref(claim)).await.pop().unwrap_or(Ok(false))
    }

    /// That it is lost is certain; to say why, the row is read. If it cannot be, nobody is accused.
    async fn why_lost(&self, claim: &Claim) -> LossCause {
        match self.table.look(claim.name()).await {
            Ok(Some(row)) if row.is_held_by_another(claim.owner()) => LossCause::Taken,
            _ => LossCause::Gone,
        }
    }
}

fn tokens_left(row: &Row) -> Result<()> {
    if row.token.get() < FencingToken::MAX_COUNTED {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Misconfigured, "the fencing tokens of this name are used up")
        .with_help("use another name; a clock far in the future may have used them up"))
}
