//! SQLite: the table of leases in one file, for the processes of one host.
//!
//! | looking for | it is in |
//! |---|---|
//! | what a grant, a renewal, a release is | `acquire_one.sql`, `renew.sql`, `release_one.sql`; of several names, and of what is not free: `acquire.sql`, `release.sql` |
//! | how many callers share one statement | `writer.rs`, `batch.rs` |
//! | which files are refused | `place.rs`, `schema.rs` |
//! | what time it is, and which boot | `host_clock.rs` |
//! | a file that is deleted under its users | `link.rs`, `files.rs` |
//! | what an error of SQLite means | `failure.rs` |
//!
//! A statement that writes is a transaction of its own, and takes the lock of the file before it reads anything. If it
//! cannot have it, SQLite waits by its busy time-out and then looks at the file anew (`btreeBeginTrans` in its sources
//! turns `SQLITE_BUSY_SNAPSHOT` into a retry exactly if no transaction was open). So there is no `BEGIN` here: nothing
//! that reads and then writes, nothing that fails because of what it has read, and nothing that a dropped future could
//! leave open.

mod batch;
#[cfg(feature = "bench")]
pub(crate) mod bench;
mod check;
mod connection;
mod failure;
mod file_system;
mod files;
mod host_clock;
mod limit;
mod link;
mod making;
mod options;
mod place;
mod reader;
mod reads;
mod schema;
mod semantics;
mod service;
#[cfg(test)]
mod tests;
mod time_limit;
mod writer;
mod writes;

use crate::lease::{Granting, LeaseTable, NextRow, ReaderTable, Row, SharedRow, foreign_row};
use crate::names::range;
use async_trait::async_trait;
use batch::{Batch, plain};
use failure::{Doing, failure};
use host_clock::HostClock;
use leasehold_core::{
    Claim, Error, ErrorKind, FencingToken, Finding, LockName, Namespace, Purge, Result, Semantics,
};
use leasehold_store_url::StoreUrl;
use options::{Options, TableName};
use place::Place;
use reader::{Reader, Reading};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::OnceCell;
use writer::Writer;

/// How long a statement may take beyond the waits for other writers: much longer than a disk takes that works.
const DISK_WITHIN: Duration = Duration::from_secs(10);

/// The table of leases.
#[derive(Debug)]
pub(crate) struct Table {
    shared: Arc<Shared>,
    reader: Arc<Reader>,
    writer: Writer,
    /// Set once the table is known to have the column of readers.
    has_sharers: OnceCell<()>,
    closed: AtomicBool,
}

/// What a table, its reader and its writer have in common.
#[derive(Debug)]
struct Shared {
    options: Options,
    place: Place,
    namespace: Namespace,
    clock: HostClock,
    statements: Statements,
}

/// The statements for one table, comments taken out.
#[derive(Debug)]
struct Statements {
    acquire: Batch,
    acquire_one: Arc<str>,
    renew: Batch,
    release: Batch,
    end_grant: Arc<str>,
    look: Arc<str>,
    list: Arc<str>,
    idle: Arc<str>,
    purge: Arc<str>,
    some_names: Arc<str>,
    make_row: Arc<str>,
    replace: Arc<str>,
}

impl Statements {
    fn for_table(table: &TableName) -> Self {
        Self {
            acquire: Batch::new(include_str!("acquire.sql"), table, 3, 4),
            acquire_one: plain(include_str!("acquire_one.sql"), table).into(),
            renew: Batch::new(include_str!("renew.sql"), table, 2, 3),
            release: Batch::new(include_str!("release.sql"), table, 2, 3)
                .with_one(include_str!("release_one.sql"), table),
            end_grant: plain(include_str!("end_grant.sql"), table).into(),
            look: plain(include_str!("look.sql"), table).into(),
            list: plain(include_str!("list.sql"), table).into(),
            idle: plain(include_str!("idle.sql"), table).into(),
            purge: plain(include_str!("purge.sql"), table).into(),
            some_names: plain(include_str!("some_names.sql"), table).into(),
            make_row: plain(include_str!("make_row.sql"), table).into(),
            replace: plain(include_str!("replace.sql"), table).into(),
        }
    }
}

impl Table {
    pub(crate) fn new(url: &StoreUrl, namespace: &Namespace) -> Result<Self> {
        Ok(Self::with_clock(Options::parse(url)?, namespace, HostClock::of_this_host()?))
    }

    fn with_clock(options: Options, namespace: &Namespace, clock: HostClock) -> Self {
        let shared = Arc::new(Shared {
            place: Place::new(&options),
            namespace: namespace.clone(),
            clock,
            statements: Statements::for_table(&options.table),
            options,
        });
        let reader = Arc::new(Reader::new(&shared));
        Self {
            writer: Writer::new(&shared, &reader),
            reader,
            shared,
            has_sharers: OnceCell::new(),
            closed: AtomicBool::new(false),
        }
    }

    fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::new(ErrorKind::Closed, "the store was closed").with_help("open it again"));
        }
        Ok(())
    }
}

#[async_trait]
impl LeaseTable for Table {
    /// Asks for the row of a claim's name. If it is refused because of a lease of an earlier boot, that lease is ended, and
    /// the row is free for the next attempt.
    async fn grant(&self, claim: &Claim) -> Result<Granting> {
        self.check_open()?;
        if let Some(token) = self.writer.grant(claim).await? {
            return Ok(Granting::Granted(token));
        }
        let Some(seen) = self.see(claim.name()).await? else {
            return Ok(Granting::Refused(None));
        };
        if seen.of_another_boot {
            self.writer.end_grant(claim.name(), seen.row.token).await?;
        }
        Ok(Granting::Refused(Some(seen.row)))
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<bool>> {
        let renewed = match self.check_open() {
            Ok(()) => self.writer.renew(claims).await,
            Err(error) => Err(error),
        };
        match renewed {
            Ok(renewed) => renewed,
            Err(error) => claims.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    async fn release(&self, claim: &Claim, linger: Duration) -> Result<bool> {
        self.check_open()?;
        self.writer.release(claim, linger).await
    }

    async fn end_grant(&self, name: &LockName, token: FencingToken) -> Result<bool> {
        self.check_open()?;
        self.writer.end_grant(name, token).await
    }

    async fn look(&self, name: &LockName) -> Result<Option<Row>> {
        Ok(self.see(name).await?.map(|seen| seen.row))
    }

    async fn look_at_each(&self, names: &[&LockName]) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        for name in names {
            rows.extend(self.look(name).await?);
        }
        Ok(rows)
    }

    async fn list(&self, prefix: &str) -> Result<Vec<Row>> {
        let seen = self.see_all(self.namespace().stored(prefix).as_bytes()).await?;
        Ok(seen.into_iter().map(|seen| seen.row).collect())
    }

    /// Some names at a time, whatever becomes of them, so that nobody waits for long.
    async fn purge(&self, idle: Duration, purge: Purge) -> Result<u64> {
        self.check_open()?;
        // Nothing is made for who only looks.
        if !self.shared.place.file().exists() {
            return Ok(0);
        }
        let (mut first, behind) = range(self.namespace().stored(""));
        let mut forgotten = 0;
        while let Some(last) = self.last_of_some(&first, &behind).await? {
            // The smallest that is larger.
            let next = [last.as_slice(), &[0]].concat();
            forgotten += self.writer.purge((first, next.clone()), idle, purge).await?;
            first = next;
        }
        Ok(forgotten)
    }

    async fn init(&self) -> Result<()> {
        self.check_open()?;
        self.writer.open().await
    }

    fn init_script(&self) -> String {
        let create = schema::create_statement(&self.shared.options.table);
        format!("PRAGMA journal_mode = WAL;\n\n{create}")
    }

    async fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.writer.close().await;
        self.reader.close().await;
    }

    /// Never: waiters poll.
    async fn changed(&self, _: &Claim) {
        std::future::pending::<()>().await;
    }

    async fn check(&self) -> Result<Vec<Finding>> {
        self.findings().await
    }

    async fn is_there(&self) -> Result<bool> {
        Ok(!self.reader.rows(Reading::JournalMode).await?.is_empty())
    }

    async fn forget(&self, name: &LockName) -> Result<()> {
        let name = self.shared.stored_name(name);
        let next = [name.as_slice(), &[0]].concat();
        self.writer.purge((name, next), Duration::ZERO, Purge::Delete).await.map(drop)
    }

    fn semantics(&self) -> Semantics {
        semantics::semantics(self.shared.options.allow_network_fs)
    }

    fn namespace(&self) -> &Namespace {
        &self.shared.namespace
    }
}

#[async_trait]
impl ReaderTable for Table {
    async fn read_shared(&self, name: &LockName, _: bool) -> Result<Option<SharedRow>> {
        // The writer adds the column to a table of schema 1. A look at a store that is not there makes none.
        if self.shared.place.file().exists() {
            self.has_sharers.get_or_try_init(|| self.writer.open()).await?;
        }
        self.see_shared(name).await
    }

    async fn make_row(&self, name: &LockName) -> Result<()> {
        self.check_open()?;
        self.writer.make_row(name).await
    }

    async fn replace(&self, name: &LockName, was: &SharedRow, next: &NextRow, _: bool) -> Result<bool> {
        self.check_open()?;
        self.writer.replace(name, was, next).await
    }

    fn foreign(&self, name: &LockName) -> Error {
        foreign_row(name, &self.shared.place.file().display())
    }
}

impl Shared {
    /// How long one call may take: four waits for other writers, as when the file must be made first, and the disk. A grant is
    /// one of the call's statements or two.
    fn answers_within(&self) -> Duration {
        self.options.busy_timeout * 4 + DISK_WITHIN
    }

    fn stored_name(&self, name: &LockName) -> Vec<u8> {
        self.namespace.stored(name.as_str()).into_bytes()
    }

    fn unreadable(&self, error: sqlx::Error) -> Error {
        let file = self.place.file();
        failure(error, Doing::Reading, file, self.options.busy_timeout)
    }
}
