//! The file without a library over it, for `leasehold bench`.

use super::batch::{ACQUIRE_ONE, RELEASE_ONE, hex};
use super::connection::{Connection, Done, Query, Role};
use super::host_clock::HostClock;
use super::options::Options;
use super::{Shared, Table};
use async_trait::async_trait;
use leasehold_core::bench::{ByHand, Counters, Yardstick};
use leasehold_core::{Claim, Error, ErrorKind, HolderInfo, LockName, Namespace, OwnerId, Result};
use leasehold_store_url::StoreUrl;
use sqlx::Row as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

/// As long as no measurement takes.
const LEASE: Duration = Duration::from_secs(30);

/// One connection, in turns, and the two statements of a lease for one claim each.
#[derive(Debug)]
pub(crate) struct Raw {
    shared: Arc<Shared>,
    connection: Mutex<Option<Connection>>,
    owner: OwnerId,
    holder: Arc<str>,
}

impl Raw {
    pub(crate) fn new(url: &StoreUrl, namespace: &Namespace) -> Result<Self> {
        let table = Table::with_clock(Options::parse(url)?, namespace, HostClock::of_this_host()?);
        Ok(Self {
            shared: table.shared,
            connection: Mutex::default(),
            owner: OwnerId::random()?,
            holder: HolderInfo::this_process().to_json().into(),
        })
    }

    async fn run(&self, query: Query) -> Result<Done> {
        let mut slot = self.connection.lock().await;
        let options = &self.shared.options;
        if slot.is_none() {
            *slot = Connection::open(options, Role::Writer).await?;
        }
        let Some(connection) = slot.as_mut() else { return Ok(Done::default()) };
        let done = connection.run(query).await;
        done.map_err(|error| options.failure(error, Role::Writer.unknown()))
    }

    async fn change(&self, statement: &str, claim: Claim, time: Duration) -> Result<()> {
        let query = self.shared.change_one(statement, &(claim, time), self.shared.clock.unix_micros());
        match self.run(query).await?.changed {
            1 => Ok(()),
            _ => Err(Error::new(ErrorKind::Busy, "a name for measuring is in use")),
        }
    }
}

#[async_trait]
impl Yardstick for Raw {
    async fn server(&self) -> Result<String> {
        let rows = self.run(sqlx::query("SELECT sqlite_version()")).await?.rows;
        let version = rows.first().and_then(|row| row.try_get::<String, _>(0).ok());
        Ok(format!("SQLite {}", version.as_deref().unwrap_or("of unknown version")))
    }

    fn has(&self, measure: ByHand) -> bool {
        measure == ByHand::Pair
    }

    async fn raw_pair(&self, name: &LockName) -> Result<()> {
        let claim = Claim::new(name.clone(), self.owner, LEASE, Arc::clone(&self.holder));
        self.change(ACQUIRE_ONE, claim.clone(), LEASE).await?;
        self.change(RELEASE_ONE, claim, Duration::ZERO).await
    }

    async fn counters(&self) -> Result<Option<Counters>> {
        Ok(None)
    }

    async fn forget(&self, names: &[LockName]) -> Result<()> {
        let names: Vec<String> = names.iter().map(|name| hex(&self.shared.stored_name(name))).collect();
        let names = serde_json::json!(names).to_string();
        self.run(self.shared.query(include_str!("forget.sql")).bind(names)).await.map(drop)
    }
}
