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

use crate::lease::{Granting, LeaseTable, NextRow, Row, ServerTable, SharedRow, Standing};
use crate::server::{Doing, Lane, Server, Statement, Value};
use async_trait::async_trait;
use leasehold_core::{Claim, Error, FencingToken, Finding, LockName, Namespace, Purge, Result, Semantics};
use std::time::Duration;

/// The table of leases, granted by compare-and-set.
#[derive(Debug)]
pub(crate) struct OptimisticTable {
    leases: ServerTable,
    server: Server,
    make_row: Statement,
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

impl OptimisticTable {
    pub(crate) fn new(server: Server, namespace: &Namespace, semantics: Semantics) -> Self {
        let (dialect, table) = (server.dialect(), &server.target().table);
        Self {
            make_row: Statement::new(dialect.leases().make_row, dialect, table),
            read: Statement::new(include_str!("read.sql"), dialect, table),
            take: Statement::new(include_str!("take.sql"), dialect, table),
            leases: ServerTable::new(server.clone(), namespace, semantics),
            server,
        }
    }

    async fn read(&self, name: &LockName, stored: &[u8]) -> Result<Option<Read>> {
        let values = [Value::bytes(stored)];
        let answer = self.server.ask(Lane::Asking, Doing::Looking, &self.read, &values).await?;
        let Some(row) = answer.rows.first() else {
            return Ok(None);
        };
        let read = || {
            let (now, row) = row.split_last()?;
            let version = row.get(5)?.as_int()?;
            Some(Read { row: crate::lease::read_row(row)?, version, now: u64::try_from(now.as_int()?).ok()? })
        };
        read().map(Some).ok_or_else(|| self.server.foreign_row(name))
    }

    /// Grants the row with this token if it still has the version that was read.
    async fn take(&self, claim: &Claim, name: &[u8], version: i64, token: FencingToken) -> Result<Granting> {
        let values = [
            Value::bytes(name),
            Value::int(version),
            Value::bytes(claim.owner().to_bytes()),
            Value::int(token.get()),
            Value::int(claim.ttl().as_micros()),
            Value::text(claim.holder()),
        ];
        let asked = self.server.asked(Lane::Asking, Doing::Keeping, &self.take, &values).await;
        let may_have_been_done = asked.may_have_been_done;
        Ok(match self.leases.settled(claim, asked).await?.changed {
            1 => {
                self.server.target().headroom.holds_for(claim.ttl());
                Granting::Granted(token)
            }
            // The first sending may have changed the row, or an earlier attempt of this claim, which gave another token.
            0 if may_have_been_done => Granting::Refused(self.leases.row_of(claim).await?),
            _ => Granting::Refused(None),
        })
    }
}

#[async_trait]
impl LeaseTable for OptimisticTable {
    async fn grant(&self, claim: &Claim) -> Result<Granting> {
        let name = self.leases.namespace().stored(claim.name().as_str()).into_bytes();
        let Some(read) = self.read(claim.name(), &name).await? else {
            // Creates a free row, so that there is a version to compare with. Another client may have created it first.
            self.server.ask(Lane::Asking, Doing::Making, &self.make_row, &[Value::bytes(name)]).await?;
            return Ok(Granting::Refused(None));
        };
        let next = match read.row.standing {
            Standing::Free => FencingToken::after(Some(read.row.token), read.now),
            _ => None,
        };
        let Some(token) = next else {
            return Ok(Granting::Refused(Some(read.row)));
        };
        self.take(claim, &name, read.version, token).await
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<bool>> {
        self.leases.renew(claims).await
    }

    async fn release(&self, claim: &Claim, linger: Duration) -> Result<bool> {
        self.leases.release(claim, linger).await
    }

    async fn end_grant(&self, name: &LockName, token: FencingToken) -> Result<bool> {
        self.leases.end_grant(name, token).await
    }

    async fn look(&self, name: &LockName) -> Result<Option<Row>> {
        self.leases.look(name).await
    }

    async fn look_at_each(&self, names: &[&LockName]) -> Result<Vec<Row>> {
        self.leases.look_at_each(names).await
    }

    async fn read_shared(&self, name: &LockName, is_holder: bool) -> Result<Option<SharedRow>> {
        self.leases.read_shared(name, is_holder).await
    }

    async fn make_row(&self, name: &LockName) -> Result<()> {
        self.leases.make_row(name).await
    }

    async fn replace(
        &self,
        name: &LockName,
        was: &SharedRow,
        next: &NextRow,
        is_holder: bool,
    ) -> Result<bool> {
        self.leases.replace(name, was, next, is_holder).await
    }

    fn foreign(&self, name: &LockName) -> Error {
        self.leases.foreign(name)
    }

    async fn list(&self, prefix: &str) -> Result<Vec<Row>> {
        self.leases.list(prefix).await
    }

    async fn changed(&self, claim: &Claim) {
        self.leases.changed(claim).await;
    }

    fn is_known_held(&self, claim: &Claim) -> bool {
        self.leases.is_known_held(claim)
    }

    async fn purge(&self, idle: Duration, purge: Purge) -> Result<u64> {
        self.leases.purge(idle, purge).await
    }

    async fn init(&self) -> Result<()> {
        self.leases.init().await
    }

    fn init_script(&self) -> String {
        self.leases.init_script()
    }

    async fn check(&self) -> Result<Vec<Finding>> {
        self.leases.check().await
    }

    async fn is_there(&self) -> Result<bool> {
        self.leases.is_there().await
    }

    async fn forget(&self, name: &LockName) -> Result<()> {
        self.leases.forget(name).await
    }

    async fn close(&self) {
        self.leases.close().await;
    }

    fn semantics(&self) -> Semantics {
        self.leases.semantics()
    }

    fn namespace(&self) -> &Namespace {
        self.leases.namespace()
    }
}
