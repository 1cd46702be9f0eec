use super::{Contended, Row, Tokens};
use async_trait::async_trait;
use leasehold_core::{Claim, FencingToken, Finding, LockName, Namespace, Purge, Result, Semantics};
use std::fmt;
use std::pin::Pin;
use std::time::Duration;

/// What became of a claim that asked for a row.
pub(crate) enum Granting {
    Granted(Tokens),
    /// Refused, and the row as it was then or soon after; `None` if there was none by then.
    Refused(Option<Row>),
    /// Refused because somebody else has it. What the row looks like was not asked for.
    #[cfg_attr(not(feature = "_server"), expect(dead_code, reason = "SQLite always looks"))]
    Held,
}

/// A table of leases. Each of its writes is one atomic statement that answers which of the claims it was given it
/// changed.
#[async_trait]
pub(crate) trait LeaseTable: fmt::Debug + Send + Sync {
    /// Asks for the row of a claim's name.
    async fn grant(&self, claim: &Claim) -> Result<Granting>;

    /// Extends leases; true for each claim, in their order, that still had one.
    async fn renew(&self, claims: &[Claim]) -> Vec<Result<bool>>;

    /// Ends a claim's lease; false if it had none.
    async fn release(&self, claim: &Claim, linger: Duration) -> Result<bool>;

    /// Ends the grant with this last token, and any linger after it; false if there was nothing to end.
    async fn end_grant(&self, name: &LockName, last: FencingToken) -> Result<bool>;

    /// The row of a name.
    async fn look(&self, name: &LockName) -> Result<Option<Row>>;

    /// The rows of these names, of those that there are. Asked where a holder waits for the answer.
    async fn look_at_each(&self, names: &[&LockName]) -> Result<Vec<Row>>;

    /// The rows whose names begin so, in the order of their bytes.
    async fn list(&self, prefix: &str) -> Result<Vec<Row>>;

    /// Ends when asking again for a claim may give another answer; where nobody tells, never. It was free a moment ago, so
    /// it is not among the contended any more: it is asked for, and not looked at again. All in one future, and no async
    /// method: what a waiter keeps would be several times as large.
    fn changed<'a>(
        &'a self,
        claim: &'a Claim,
        contended: &'a Contended,
    ) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

    /// Forgets, or counts, the names that nobody has held for so long.
    async fn purge(&self, idle: Duration, purge: Purge) -> Result<u64>;

    /// True if a claim that waits need not ask: it is told when that changes.
    fn keeps_waiting(&self, claim: &Claim) -> bool;

    /// Makes what is missing.
    async fn init(&self) -> Result<()>;

    /// What [`init`](Self::init) would run.
    fn init_script(&self) -> String;

    /// What weakens the promises.
    async fn check(&self) -> Result<Vec<Finding>>;

    /// Gives the connections back. What was asked for before is done.
    async fn close(&self);

    fn semantics(&self) -> Semantics;

    fn namespace(&self) -> &Namespace;
}
