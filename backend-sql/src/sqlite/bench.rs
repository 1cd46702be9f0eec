//! The file without a library over it, for `leasehold bench`.

use super::connection::{Connection, Done, Query, Role};
use super::failure::{Doing, failure};
use super::host_clock::HostClock;
use super::options::Options;
use super::{Shared, Table};
use async_trait::async_trait;
use leasehold_core::bench::{ByHand, Counters, Yardstick};
use leasehold_core::{Error, ErrorKind, HolderInfo, LockName, Namespace, OwnerId, Result};
use leasehold_store_url::StoreUrl;
use sqlx::{AssertSqlSafe, Row as _};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

/// As long as no measurement takes.
const LEASE: Duration = Duration::from_secs(30);
/// How many rows are deleted by one statement: SQLite takes 32 766 parameters.
const AT_ONCE: usize = 4096;

/// One connection, in turns, and the two statements of a lease for one claim each.
#[derive(Debug)]
pub(crate) struct Raw {
    shared: Arc<Shared>,
    connection: Mutex<Option<Connection>>,
    owner: Vec<u8>,
    holder: String,
}

impl Raw {
    pub(crate) fn new(url: &StoreUrl, namespace: &Namespace) -> Result<Self> {
        let table = Table::with_clock(Options::parse(url)?, namespace, HostClock::of_this_host()?);
        Ok(Self {
            shared: Arc::clone(&table.shared),
            connection: Mutex::default(),
            owner: OwnerId::random()?.to_bytes().to_vec(),
            holder: HolderInfo::this_process().to_json(),
        })
    }

    /// Runs a statement; nothing comes of it if there is no file.
    async fn run(&self, query: Query) -> Result<Done> {
        let mut slot = self.connection.lock().await;
        let Shared { place, options, .. } = &*self.shared;
        if slot.is_none() {
            *slot = Connection::open(place, options, Role::Writer).await?;
        }
        let Some(connection) = slot.as_mut() else { return Ok(Done::default()) };
        let done = connection.run(query).await;
        done.map_err(|error| failure(error, Doing::Writing, place.file(), options.busy_timeout))
    }

    async fn expect_one(&self, query: Query) -> Result<()> {
        match self.run(query).await?.changed {
            1 => Ok(()),
            _ => Err(Error::new(ErrorKind::Busy, "a name for measuring is in use")),
        }
    }
}

#[async_trait]
impl Yardstick for Raw {
    async fn server(&self) -> Result<String> {
        let done = self.run(sqlx::query("SELECT sqlite_version()")).await?;
        let version = done.rows.first().and_then(|row| row.try_get::<String, _>(0).ok());
        Ok(format!("SQLite {}", version.as_deref().unwrap_or("of unknown version")))
    }

    fn has(&self, measure: ByHand) -> bool {
        measure == ByHand::Pair
    }

    async fn raw_pair(&self, name: &LockName) -> Result<()> {
        let Shared { clock, statements, .. } = &*self.shared;
        let (now, boot) = (clock.now(), clock.boot().map(str::to_owned));
        let acquire = sqlx::query(AssertSqlSafe(Arc::clone(&statements.acquire_one)))
            .bind(self.shared.stored_name(name))
            .bind(self.owner.clone())
            .bind(now.plus(LEASE).0)
            .bind(self.holder.clone())
            .bind(now.0)
            .bind(clock.unix_micros())
            .bind(boot.clone());
        self.expect_one(acquire).await?;
        let release = sqlx::query(AssertSqlSafe(statements.release.of(1).0))
            .bind(self.shared.stored_name(name))
            .bind(self.owner.clone())
            .bind(0_i64)
            .bind(clock.now().0)
            .bind(boot);
        self.expect_one(release).await
    }

    async fn counters(&self) -> Result<Option<Counters>> {
        Ok(None)
    }

    async fn forget(&self, names: &[LockName]) -> Result<()> {
        let table = self.shared.options.table.quoted();
        for some in names.chunks(AT_ONCE) {
            let places = vec!["?"; some.len()].join(", ");
            let text: Arc<str> = format!("DELETE FROM {table} WHERE name IN ({places})").into();
            let query = some.iter().fold(sqlx::query(AssertSqlSafe(text)), |query, name| {
                query.bind(self.shared.stored_name(name))
            });
            self.run(query).await?;
        }
        Ok(())
    }
}
