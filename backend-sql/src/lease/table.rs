use super::{LeaseRow, NextRow};
use async_trait::async_trait;
use leasehold_core::{
    Claim, Error, FencingToken, Finding, KnownServers, LockName, Namespace, Purge, Renewal, Result, Semantics,
};
use std::fmt;
use std::time::Duration;

pub(crate) enum Granting {
    Granted(FencingToken),
    /// Refused, and the row was not read: it is held, or lingers after a release.
    #[cfg_attr(not(feature = "_server"), expect(dead_code, reason = "SQLite always looks"))]
    Held,
    /// Refused; the row as it was read after the refusal, `None` if it was gone by then.
    Refused(Option<LeaseRow>),
}

/// A table of leases. Each write is one atomic statement, whose answer says for which claims it changed a row.
#[async_trait]
pub(crate) trait LeaseTable: fmt::Debug + Send + Sync {
    /// True in the optimistic mode: rows change by [`replace`](Self::replace) alone.
    fn is_optimistic(&self) -> bool {
        false
    }

    /// Asks for the row of a claim's name. If a claim that waits is refused, and readers may hold the row, it is read too.
    async fn grant(&self, claim: &Claim) -> Result<Granting>;

    /// Extends leases; the answers in the order of the claims.
    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>>;

    /// Ends a claim's lease; false if it had none.
    async fn release(&self, claim: &Claim, linger: Duration) -> Result<bool>;

    /// Ends the grant with this token, and any linger after it; false if there was nothing to end.
    async fn end_grant(&self, name: &LockName, token: FencingToken) -> Result<bool>;

    /// Reads the row of a name. Only [`ReadFor::Loss`] is sure to be answered by the primary.
    async fn look(&self, name: &LockName, reason: ReadFor) -> Result<Option<LeaseRow>>;

    /// Fails on a server that takes no writes, which does not know whether a lock is free.
    async fn check_writes(&self) -> Result<()> {
        Ok(())
    }

    /// Makes the row of a name, free. Succeeds also if another process has just made it.
    async fn make_row(&self, name: &LockName) -> Result<()>;

    /// Changes a row if it is as it was read, and the change is in time; false if not.
    async fn replace(&self, name: &LockName, was: &LeaseRow, next: &NextRow, is_holder: bool)
    -> Result<bool>;

    fn foreign(&self, name: &LockName) -> Error;

    /// The rows whose names begin with `prefix`, in the order of their bytes.
    async fn list(&self, prefix: &str) -> Result<Vec<LeaseRow>>;

    /// Ends when another attempt of a claim may be granted; never where waiters only poll.
    async fn changed(&self, claim: &Claim);

    /// True if an attempt of a claim that waits would be refused, as far as is known. Its row is then polled on for it.
    fn keep_polling_if_held(&self, _: &Claim) -> bool {
        false
    }

    /// Deletes, or counts, the names that have been idle for `idle`. The next token is made of the clock: it is larger than a deleted one,
    /// unless the clock is set back by more than `idle`.
    async fn purge(&self, idle: Duration, purge: Purge) -> Result<u64>;

    /// Creates the table if it is missing.
    async fn init(&self) -> Result<()>;

    fn init_script(&self) -> String;

    /// Findings about settings that weaken the promises; and true if the table is there, which a check does not make.
    async fn check(&self) -> Result<(Vec<Finding>, bool)>;

    /// Deletes the rows of names that are not held.
    async fn forget(&self, names: &[LockName]) -> Result<()>;

    /// Closes the connections, after the calls that were made before.
    async fn close(&self);

    fn semantics(&self) -> Semantics;

    /// The servers that have answered; `None` without a server.
    fn servers(&self) -> Option<&KnownServers> {
        None
    }

    fn namespace(&self) -> &Namespace;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadFor {
    /// A replica may answer, behind a proxy that sends reads there.
    Attempt,
    /// The same; uses the connection kept for holders.
    Holder,
    /// The answer decides who holds, or whether a lock is free: read on the primary.
    Loss,
}
