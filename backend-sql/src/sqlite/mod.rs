//! SQLite: the table of leases in one file, for the processes of one host.
//!
//! | subject | file |
//! |---|---|
//! | a grant, a renewal, a release | `acquire.sql`, `renew.sql`, `release.sql` |
//! | several callers in one statement | `batch.rs` |
//! | a row as it is read | `rows.rs` |
//! | a change of a row that was read | `replace.sql` |
//! | the turns of a connection | `connection_slot.rs` |
//! | a file that is made, or deleted under its users | `files.rs` |
//! | the files and tables that are refused | `path_checks.rs`, `connection.rs` |
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
mod rows;
mod semantics;
mod settings;
#[cfg(test)]
mod tests;

use crate::lease::{Granting, LeaseRow, LeaseTable, NextRow, READERS, REASONS_WITHIN, ReadFor, foreign_row};
use crate::names::{hex, range};
use async_trait::async_trait;
use batch::{Batch, ChangeKind};
use connection::Role;
use connection_slot::ConnectionHandle;
use host_clock::{HostClock, micros};
use leasehold_core::{
    Claim, Error, FencingToken, Finding, LockName, Namespace, Purge, Renewal, Result, Semantics,
};
use leasehold_store_url::StoreUrl;
use options::Options;
use rows::{is_of_another_boot, read_row};
use settings::Settings;
use sqlx::Row as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// The table of leases.
///
/// One connection writes, because SQLite runs one write at a time. One only reads, and does not wait for writes.
#[derive(Debug)]
pub(crate) struct SqliteTable {
    settings: Arc<Settings>,
    reader: ConnectionHandle,
    writer: ConnectionHandle,
    batch: Batch,
}

impl SqliteTable {
    pub(crate) fn new(url: &StoreUrl, namespace: &Namespace) -> Result<Self> {
        Ok(Self::with_clock(Options::parse(url)?, namespace, HostClock::of_this_host()?))
    }

    fn with_clock(options: Options, namespace: &Namespace, clock: HostClock) -> Self {
        let settings = Arc::new(Settings { options, namespace: namespace.clone(), clock });
        let reader = ConnectionHandle::new(&settings, Role::Reader, None);
        let writer = ConnectionHandle::new(&settings, Role::Writer, Some(reader.clone()));
        Self { batch: Batch::new(&settings, &writer), writer, reader, settings }
    }
}

#[async_trait]
impl LeaseTable for SqliteTable {
    /// If a claim is refused because of a lease of an earlier boot, that lease is ended: the row is free for the next attempt.
    async fn grant(&self, claim: &Claim) -> Result<Granting> {
        let granted = self.batch.change(ChangeKind::Grant, vec![(claim.clone(), claim.ttl())]).await?;
        if let Some(token) = granted.get(&claim.owner()) {
            return Ok(Granting::Granted(*token));
        }
        let row = self.look(claim.name(), ReadFor::Attempt).await?;
        if let Some(row) = row.as_ref().filter(|row| is_of_another_boot(row)) {
            self.end_grant(claim.name(), row.token).await?;
        }
        Ok(Granting::Refused(row))
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        let changes = claims.iter().map(|claim| (claim.clone(), claim.ttl())).collect();
        let renewed = match self.batch.change(ChangeKind::Renew, changes).await {
            Ok(renewed) => renewed,
            Err(error) => return vec![Err(error); claims.len()],
        };
        // A loss is certain; its cause is left out if it is not read in time. One limit for all: other holders wait for the answer.
        let is_renewed = |claim: &&Claim| renewed.contains_key(&claim.owner());
        let shortest = claims.iter().filter(is_renewed).map(Claim::ttl).min();
        let until = Instant::now() + shortest.map_or(REASONS_WITHIN, |ttl| REASONS_WITHIN.min(ttl / 8));
        let mut answers = Vec::with_capacity(claims.len());
        for claim in claims {
            if is_renewed(&claim) {
                answers.push(Ok(Renewal::Renewed));
                continue;
            }
            let row = timeout_at(until, self.look(claim.name(), ReadFor::Holder)).await;
            let row = row.ok().and_then(Result::ok).flatten();
            answers.push(Ok(Renewal::Lost(LeaseRow::loss_of(claim.owner(), row.as_ref()))));
        }
        answers
    }

    async fn release(&self, claim: &Claim, linger: Duration) -> Result<bool> {
        let released = self.batch.change(ChangeKind::Release, vec![(claim.clone(), linger)]).await?;
        Ok(released.contains_key(&claim.owner()))
    }

    async fn end_grant(&self, name: &LockName, token: FencingToken) -> Result<bool> {
        let (settings, name) = (self.settings.clone(), self.settings.stored_name(name));
        let token = i64::try_from(token.get()).unwrap_or(i64::MAX);
        let query = move || {
            let query = settings.query(include_str!("end_grant.sql"));
            query.bind(settings.clock.now().0).bind(name.clone()).bind(token)
        };
        Ok(self.writer.run(query).await?.changed == 1)
    }

    async fn look(&self, name: &LockName, _: ReadFor) -> Result<Option<LeaseRow>> {
        let (settings, stored) = (self.settings.clone(), self.settings.stored_name(name));
        let query = move || settings.query(include_str!("look.sql")).bind(stored.clone());
        let rows = self.reader.run(query).await?.rows;
        let row = rows.first().map(|row| read_row(row, &self.settings.clock)).transpose();
        row.map_err(|error| self.foreign(name).with_source(error))
    }

    async fn make_row(&self, name: &LockName) -> Result<()> {
        let (settings, name) = (self.settings.clone(), self.settings.stored_name(name));
        let make = move || {
            let query = settings.query(include_str!("make_row.sql")).bind(name.clone());
            query.bind(READERS.to_bytes().to_vec()).bind(settings.clock.now().0).bind(settings.clock.boot())
        };
        self.writer.run(make).await.map(drop)
    }

    async fn replace(&self, name: &LockName, was: &LeaseRow, next: &NextRow, _: bool) -> Result<bool> {
        let (settings, name) = (self.settings.clone(), self.settings.stored_name(name));
        let (was, next) = (was.clone(), next.clone());
        let replace = move || {
            let (query, clock) = (settings.query(include_str!("replace.sql")), &settings.clock);
            let query = query
                .bind(name.clone())
                .bind(READERS.to_bytes().to_vec())
                .bind(next.token.get().cast_signed());
            let query = query.bind(next.ends_at).bind(next.sharers.clone());
            let query = query.bind(clock.now().0).bind(clock.unix_micros()).bind(clock.boot());
            let query = was.version.iter().fold(query, |query, number| query.bind(*number));
            query.bind(was.sharers.clone()).bind(next.before)
        };
        Ok(self.writer.run(replace).await?.changed == 1)
    }

    fn foreign(&self, name: &LockName) -> Error {
        foreign_row(name, &self.settings.options.path)
    }

    /// Rows that another program has written are left out.
    async fn list(&self, prefix: &str) -> Result<Vec<LeaseRow>> {
        let settings = self.settings.clone();
        let (first, end) = range(self.namespace().stored(prefix));
        let query = move || settings.query(include_str!("list.sql")).bind(first.clone()).bind(end.clone());
        let rows = self.reader.run(query).await?.rows;
        Ok(rows.iter().filter_map(|row| read_row(row, &self.settings.clock).ok()).collect())
    }

    async fn purge(&self, idle: Duration, purge: Purge) -> Result<u64> {
        let (settings, (mut from, end)) = (self.settings.clone(), range(self.namespace().stored("")));
        let query_from = move |from: Vec<u8>| {
            let (settings, end) = (settings.clone(), end.clone());
            move || {
                let text =
                    if purge == Purge::Delete { include_str!("purge.sql") } else { include_str!("idle.sql") };
                let token = settings.clock.unix_micros().saturating_sub(micros(idle));
                let query = settings.query(text).bind(from.clone()).bind(end.clone());
                query.bind(settings.clock.now().0).bind(token)
            }
        };
        if purge != Purge::Delete {
            let rows = self.reader.run(query_from(from)).await?.rows;
            let count = rows.first().map_or(Ok(0_i64), |row| row.try_get(0));
            return count.map(i64::unsigned_abs).map_err(|error| self.settings.unreadable(error));
        }
        let mut purged = 0;
        // A purge creates no store.
        while self.settings.options.path.file.exists() {
            let rows = self.writer.run(query_from(from)).await?.rows;
            let Some(last) = rows.iter().filter_map(|row| row.try_get::<Vec<u8>, _>(0).ok()).max() else {
                break;
            };
            from = [last.as_slice(), &[0]].concat();
            purged += rows.len() as u64;
        }
        Ok(purged)
    }

    async fn init(&self) -> Result<()> {
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

    async fn check(&self) -> Result<(Vec<Finding>, bool)> {
        self.findings().await
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
