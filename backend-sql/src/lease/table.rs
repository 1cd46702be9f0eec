use super::{Contended, Row};
use async_trait::async_trait;
use leasehold_core::{Claim, FencingToken, Finding, LockName, Namespace, Purge, Result, Semantics};
use std::fmt;
use std::pin::Pin;
use std::time::Duration;

/// The outcome of an attempt to take a row.
pub(crate) enum Granting {
    Granted(FencingToken),
    /// Refused; the row as it was read after the refusal, `None` if it was gone by then.
    Refused(Option<Row>),
    /// Refused because another owner holds the row, which was not read.
    #[cfg_attr(not(feature = "_server"), expect(dead_code, reason = "SQLite always looks"))]
    Held,
}

/// A table of leases. Each write is one atomic statement, whose answer says for which claims it changed a row.
#[async_trait]
pub(crate) trait LeaseTable: fmt::Debug + Send + Sync {
    /// Asks for the row of a claim's name.
    async fn grant(&self, claim: &Claim) -> Result<Granting>;

    /// Extends leases; true for each claim, in their order, that still had one.
    async fn renew(&self, claims: &[Claim]) -> Vec<Result<bool>>;

    /// Ends a claim's lease; false if it had none.
    async fn release(&self, claim: &Claim, linger: Duration) -> Result<bool>;

    /// Ends the grant with this token, and any linger after it; false if there was nothing to end.
    async fn end_grant(&self, name: &LockName, token: FencingToken) -> Result<bool>;

    /// The row of a name.
    async fn look(&self, name: &LockName) -> Result<Option<Row>>;

    /// The rows of these names; a missing row is left out. A holder waits for the answer.
    async fn look_at_each(&self, names: &[&LockName]) -> Result<Vec<Row>>;

    /// The rows whose names begin with `prefix`, in the order of their bytes.
    async fn list(&self, prefix: &str) -> Result<Vec<Row>>;

    /// Ends when asking again for a claim may give another answer; where nobody tells, never. It was free a moment ago, so
    /// it is not among the contended any more: it is asked for, and not looked at again. All in one future, and no async
    /// method: what a waiter keeps would be several times as large.
    fn changed<'a>(
        &'a self,
        claim: &'a Claim,
        contended: &'a Contended,
    ) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

    /// Deletes, or counts, the names that have been idle for `idle`.
    async fn purge(&self, idle: Duration, purge: Purge) -> Result<u64>;

    /// True if a waiting claim need not ask yet, because [`changed`](Self::changed) will end.
    fn keeps_waiting(&self, claim: &Claim) -> bool;

    /// Creates the table if it is missing.
    async fn init(&self) -> Result<()>;

    /// The statements that [`init`](Self::init) runs.
    fn init_script(&self) -> String;

    /// Findings about settings that weaken the promises.
    async fn check(&self) -> Result<Vec<Finding>>;

    /// True if the table is there. A look must not make it.
    async fn is_there(&self) -> Result<bool>;

    /// Deletes the row of a name if nobody holds it.
    async fn forget(&self, name: &LockName) -> Result<()>;

    /// Closes the connections, after the calls that were made before.
    async fn close(&self);

    fn semantics(&self) -> Semantics;

    fn namespace(&self) -> &Namespace;
}
