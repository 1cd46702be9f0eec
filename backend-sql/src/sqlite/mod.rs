//! SQLite: the table of leases in one file, for the processes of one host.
//!
//! | subject | file |
//! |---|---|
//! | a grant, a renewal, a release | `acquire.sql`, `renew.sql`, `release.sql` |
//! | several callers in one statement | `batch.rs` |
//! | a row as it is read | `rows.rs` |
//! | the readers of a shared hold in a row | `readers.rs`, `replace.sql` |
//! | the turns of a connection | `connection_slot.rs` |
//! | a file that is made, or deleted under its users | `files.rs` |
//! | the files and tables that are refused | `path_checks.rs`, `schema.rs` |
//! | the host's clock and boot | `host_clock.rs` |
//! | errors of SQLite, and of calls to the file system | `failure.rs`, `database_path.rs` |
//!
//! A statement that writes is a transaction of its own, and takes the lock of the file before it reads anything. If it
//! cannot have it, SQLite waits by its busy time-out and then looks at the file anew (`btreeBeginTrans` in its sources
//! turns `SQLITE_BUSY_SNAPSHOT` into a retry exactly if no transaction was open). So there is no `BEGIN` here: no
//! transaction that reads and then writes, none that fails because of a change since its read, and none that a dropped future
//! could leave open.

mod batch;
mod check;
mod connection;
mod connection_slot;
mod database_path;
mod failure;
mod files;
mod host_clock;
mod network_fs;
mod options;
mod path_checks;
mod readers;
mod rows;
mod schema;
mod semantics;
mod settings;
#[cfg(test)]
mod tests;

use crate::lease::{Granting, LeaseRow, LeaseTable, foreign_row};
use crate::names::{hex, range};
use async_trait::async_trait;
use batch::{Batch, Change, ChangeKind, ChangedOwners};
use connection::Role;
use connection_slot::ConnectionHandle;
use host_clock::{HostClock, micros};
use leasehold_core::{
    Claim, Error, ErrorKind, FencingToken, Finding, LockName, Namespace, Purge, Result, Semantics,
};
use leasehold_store_url::StoreUrl;
use options::Options;
use rows::read_row;
use settings::Settings;
use sqlx::Row as _;
use sqlx::sqlite::SqliteRow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The table of leases.
///
/// It has a connection that writes, because SQLite runs one write at a time, and one that only reads, so that reads do not wait for
/// writes.
#[derive(Debug)]
pub(crate) struct SqliteTable {
    settings: Arc<Settings>,
    reader: ConnectionHandle,
    writer: ConnectionHandle,
    batch: Batch,
    closed: AtomicBool,
}

impl SqliteTable {
    pub(crate) fn new(url: &StoreUrl, namespace: &Namespace) -> Result<Self> {
        Ok(Self::with_clock(Options::parse(url)?, namespace, HostClock::of_this_host()?))
    }

    fn with_clock(options: Options, namespace: &Namespace, clock: HostClock) -> Self {
        let settings = Arc::new(Settings { options, namespace: namespace.clone(), clock });
        let reader = ConnectionHandle::new(&settings, Role::Reader, None);
        let writer = ConnectionHandle::new(&settings, Role::Writer, Some(reader.clone()));
        Self {
            batch: Batch::new(&settings, &writer),
            writer,
            reader,
            settings,
            closed: AtomicBool::new(false),
        }
    }

    fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::new(ErrorKind::Closed, "the store was closed").with_help("open it again"));
        }
        Ok(())
    }

    /// Makes changes by the next statement of their kind.
    async fn change(&self, kind: ChangeKind, changes: Vec<Change>) -> Result<ChangedOwners> {
        self.check_open()?;
        self.batch.change(kind, changes).await
    }

    /// Reads the row of a name by `read_row` or `read_shared`.
    async fn read<T>(
        &self,
        name: &LockName,
        read: fn(&SqliteRow, &HostClock) -> Result<T, sqlx::Error>,
    ) -> Result<Option<T>> {
        self.check_open()?;
        let (settings, stored) = (self.settings.clone(), self.settings.stored_name(name));
        let query = move || settings.query(include_str!("look.sql")).bind(stored.clone());
        let rows = self.reader.run(query).await?.rows;
        let row = rows.first().map(|row| read(row, &self.settings.clock)).transpose();
        row.map_err(|error| foreign_row(name, &self.settings.options.path).with_source(error))
    }
}

#[async_trait]
impl LeaseTable for SqliteTable {
    /// Asks for the row of a claim's name. If it is refused because of a lease of an earlier boot, that lease is ended, and
    /// the row is free for the next attempt.
    async fn grant(&self, claim: &Claim) -> Result<Granting> {
        let granted = self.change(ChangeKind::Grant, vec![(claim.clone(), claim.ttl())]).await?;
        if let Some(token) = granted.get(&claim.owner()) {
            return Ok(Granting::Granted(*token));
        }
        let Some((row, of_another_boot)) = self.read(claim.name(), read_row).await? else {
            return Ok(Granting::Refused(None));
        };
        if of_another_boot {
            self.end_grant(claim.name(), row.token).await?;
        }
        Ok(Granting::Refused(Some(row)))
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<bool>> {
        let changes = claims.iter().map(|claim| (claim.clone(), claim.ttl())).collect();
        let renewed = self.change(ChangeKind::Renew, changes).await;
        let is_renewed = |claim: &Claim| match &renewed {
            Ok(renewed) => Ok(renewed.contains_key(&claim.owner())),
            Err(error) => Err(error.clone()),
        };
        claims.iter().map(is_renewed).collect()
    }

    async fn release(&self, claim: &Claim, linger: Duration) -> Result<bool> {
        let released = self.change(ChangeKind::Release, vec![(claim.clone(), linger)]).await?;
        Ok(released.contains_key(&claim.owner()))
    }

    async fn end_grant(&self, name: &LockName, token: FencingToken) -> Result<bool> {
        self.check_open()?;
        let (settings, name) = (self.settings.clone(), self.settings.stored_name(name));
        let token = i64::try_from(token.get()).unwrap_or(i64::MAX);
        let query = move || {
            let query = settings.query(include_str!("end_grant.sql"));
            query.bind(settings.clock.now().0).bind(name.clone()).bind(token)
        };
        Ok(self.writer.run(query).await?.changed == 1)
    }

    async fn look(&self, name: &LockName) -> Result<Option<LeaseRow>> {
        Ok(self.read(name, read_row).await?.map(|(row, _)| row))
    }

    async fn look_at_each(&self, names: &[&LockName]) -> Result<Vec<LeaseRow>> {
        let mut rows = Vec::new();
        for name in names {
            rows.extend(self.look(name).await?);
        }
        Ok(rows)
    }

    /// Rows that another program has written are left out.
    async fn list(&self, prefix: &str) -> Result<Vec<LeaseRow>> {
        self.check_open()?;
        let settings = self.settings.clone();
        let (first, end) = range(self.namespace().stored(prefix));
        let query = move || settings.query(include_str!("list.sql")).bind(first.clone()).bind(end.clone());
        let rows = self.reader.run(query).await?.rows;
        let rows = rows.iter().filter_map(|row| read_row(row, &self.settings.clock).ok());
        Ok(rows.map(|(row, _)| row).collect())
    }

    async fn purge(&self, idle: Duration, purge: Purge) -> Result<u64> {
        self.check_open()?;
        let (settings, (first, end)) = (self.settings.clone(), range(self.namespace().stored("")));
        let query = move || {
            let text =
                if purge == Purge::Delete { include_str!("purge.sql") } else { include_str!("idle.sql") };
            let token = settings.clock.unix_micros().saturating_sub(micros(idle));
            let query = settings.query(text).bind(first.clone()).bind(end.clone());
            query.bind(settings.clock.now().0).bind(token)
        };
        if purge != Purge::Delete {
            let rows = self.reader.run(query).await?.rows;
            let count = rows.first().map_or(Ok(0_i64), |row| row.try_get(0));
            return count.map(i64::unsigned_abs).map_err(|error| self.settings.unreadable(error));
        }
        let mut purged = 0;
        // A purge creates no store.
        while self.settings.options.path.file.exists() {
            let some = self.writer.run(query.clone()).await?.changed;
            if some == 0 {
                break;
            }
            purged += some;
        }
        Ok(purged)
    }

    async fn init(&self) -> Result<()> {
        self.check_open()?;
        // Any statement of the writer makes what is missing.
        let settings = self.settings.clone();
        let query = move || settings.query(include_str!("look.sql")).bind(Vec::<u8>::new());
        self.writer.run(query).await.map(drop)
    }

    fn init_script(&self) -> String {
        let create = self.settings.options.statement(include_str!("schema.sql"));
        format!("PRAGMA journal_mode = WAL;\n\n{create}")
    }

    async fn close(&self) {
        self.closed.store(true, Ordering::Release);
        for worker in [&self.writer, &self.reader] {
            let closed = worker.call(async |mut slot| {
                slot.close();
                Ok(())
            });
            // If the runtime has ended, the connection closes with the table.
            let _ = closed.await;
        }
    }

    /// Never returns: waiters poll.
    async fn changed(&self, _: &Claim) {
        std::future::pending::<()>().await;
    }

    async fn check(&self) -> Result<Vec<Finding>> {
        self.findings().await
    }

    async fn is_there(&self) -> Result<bool> {
        Ok(self.journal_mode().await?.is_some())
    }

    async fn forget(&self, names: &[LockName]) -> Result<()> {
        let names: Vec<String> = names.iter().map(|name| hex(&self.settings.stored_name(name))).collect();
        let (settings, names) = (self.settings.clone(), serde_json::json!(names).to_string());
        let query = move || {
            settings.query(include_str!("forget.sql")).bind(names.clone()).bind(settings.clock.now().0)
        };
        self.writer.run(query).await.map(drop)
    }

    fn semantics(&self) -> Semantics {
        semantics::semantics(self.settings.options.path.allow_network_fs)
    }

    fn namespace(&self) -> &Namespace {
        &self.settings.namespace
    }
}
