//! A SQLite file, by two statements on one connection of the crate `sqlx`.

use super::contract::{ByHand, LEASE, Yardstick, broken, stored_name, table_of_leases, unexpected};
use async_trait::async_trait;
use leasehold::backend::OwnerId;
use leasehold::{Config, LockName, Result};
use rustix::time::{ClockId, clock_gettime};
use sqlx::sqlite::{SqliteArguments, SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, ConnectOptions};
use tokio::sync::Mutex;

#[derive(Debug)]
pub(super) struct RawSqlite {
    config: Config,
    owner: OwnerId,
    connection: Mutex<Option<SqliteConnection>>,
}

type Query = sqlx::query::Query<'static, sqlx::Sqlite, SqliteArguments>;

impl RawSqlite {
    pub(super) fn new(config: &Config) -> Result<Self> {
        Ok(Self { config: config.clone(), owner: OwnerId::random()?, connection: Mutex::default() })
    }

    fn query(&self, statement: &str, name: &LockName) -> Query {
        let table = table_of_leases(&self.config).unwrap_or_default();
        let statement = statement.replace("{table}", &format!("\"{table}\""));
        let name = stored_name(&self.config, name).into_bytes();
        sqlx::query(AssertSqlSafe(statement)).bind(name).bind(self.owner.to_bytes().to_vec())
    }

    async fn run(&self, query: Query) -> Result<()> {
        let mut slot = self.connection.lock().await;
        let connection = match slot.take() {
            Some(connection) => slot.insert(connection),
            None => {
                let options = SqliteConnectOptions::new().filename(self.config.url().path()?);
                slot.insert(options.connect().await.map_err(broken)?)
            }
        };
        match query.execute(connection).await.map_err(broken)?.rows_affected() {
            0 => Err(unexpected("a name for measuring is in use")),
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl Yardstick for RawSqlite {
    async fn server(&self) -> Result<String> {
        let mut connection = SqliteConnectOptions::new().connect().await.map_err(broken)?;
        let version = sqlx::query_scalar("SELECT sqlite_version()").fetch_one(&mut connection).await;
        version.map(|version: String| format!("SQLite {version}")).map_err(broken)
    }

    fn has(&self, measure: ByHand) -> bool {
        measure == ByHand::Pair
    }

    async fn raw_pair(&self, name: &LockName) -> Result<()> {
        let now = clock_gettime(ClockId::Boottime);
        let now = now.tv_sec * 1_000_000 + now.tv_nsec / 1000;
        self.run(self.query(include_str!("sqlite_acquire.sql"), name).bind(now).bind(now + LEASE)).await?;
        self.run(self.query(include_str!("sqlite_release.sql"), name)).await
    }
}
