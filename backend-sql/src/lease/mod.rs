//! The strategy of leases in rows: what a row means for an attempt, a renewal and a release, whatever the database.
//!
//! The table underneath answers in single atomic statements which of the claims it was given it changed. Everything
//! that it refused is looked at here, with a plain read.

mod admin;
mod contended;
mod row;

pub(crate) use row::{Row, Standing};

use crate::sqlite::Table;
use async_trait::async_trait;
use contended::Contended;
use leasehold_core::{
    Attempt, Busy, Claim, Error, ErrorKind, FencingToken, Grant, LockAdmin, LockBackend, LockName, LossCause,
    Namespace, OwnerId, Release, Renewal, Result, Semantics, StoreUrl,
};
use std::time::Duration;

/// How often an attempt is made anew because the row it was refused by has changed meanwhile. Enough to take what
/// somebody left behind; a lock that changes hands any faster is busy.
const ATTEMPTS: usize = 3;

/// Locks as leases, one row per name. Rows are never deleted: the next token is made from the last.
#[derive(Debug)]
pub struct RowLease {
    table: Table,
    contended: Contended,
}

/// What became of a claim that asked for a row.
pub(crate) enum Granting {
    Granted(FencingToken),
    /// Refused, and the row as it was then or soon after; `None` if there was none by then.
    Refused(Option<Row>),
}

impl RowLease {
    /// The backend for the database at `url`. Touches no database: the first use does.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid), naming the part of the URL and the way out.
    pub fn open(url: &StoreUrl, namespace: &Namespace) -> Result<Self> {
        Ok(Self { table: Table::new(url, namespace)?, contended: Contended::default() })
    }
}

#[async_trait]
impl LockBackend for RowLease {
    fn semantics(&self) -> Semantics {
        self.table.semantics()
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        if self.contended.has(claim.name())
            && let Some(busy) = self.still_busy(claim).await?
        {
            return Ok(Attempt::Busy(busy));
        }
        for _ in 0..ATTEMPTS {
            let row = match self.table.grant(claim).await? {
                Granting::Granted(token) => return Ok(self.granted(claim.name(), token)),
                Granting::Refused(row) => row,
            };
            let Some(row) = row else { continue };
            if let Some(busy) = row.busy_for(claim.owner()) {
                self.contended.add(claim.name());
                return Ok(Attempt::Busy(busy));
            }
            if matches!(row.standing, Standing::Free) {
                tokens_left(&row)?;
            } else if let Some(token) = self.renewed(claim).await? {
                // Held by this very claim: the reply to an earlier attempt was lost.
                return Ok(self.granted(claim.name(), token));
            }
        }
        Ok(Attempt::Busy(Busy::new()))
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        let tokens = self.table.renew(claims).await;
        let mut answers = Vec::with_capacity(claims.len());
        for (claim, token) in claims.iter().zip(tokens) {
            answers.push(match token {
                Ok(Some(_)) => Ok(Renewal::Renewed),
                Ok(None) => Ok(Renewal::Lost(self.why_lost(claim).await)),
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

    /// Nobody tells: a waiter asks again at its own pace.
    async fn changed(&self, _claim: &Claim) {
        std::future::pending::<()>().await;
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
    /// A lock that was busy a moment ago is read before it is asked for. A write takes the lock of the whole database,
    /// even where it then changes nothing, and the holder's release would have to wait for it.
    async fn still_busy(&self, claim: &Claim) -> Result<Option<Busy>> {
        let row = self.table.look(claim.name()).await?;
        Ok(row.and_then(|row| row.busy_for(claim.owner())))
    }

    fn granted(&self, name: &LockName, token: FencingToken) -> Attempt {
        self.contended.remove(name);
        Attempt::Granted(Grant::new(token))
    }

    async fn renewed(&self, claim: &Claim) -> Result<Option<FencingToken>> {
        let mut tokens = self.table.renew(std::slice::from_ref(claim)).await;
        tokens.pop().unwrap_or(Ok(None))
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
