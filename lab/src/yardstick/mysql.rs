//! MySQL and MariaDB, by two statements over the crate `sqlx`.

use super::connections::Connections;
use super::contract::{
    ByHand, LEASE, ServerCounters, Yardstick, broken, stored_name, table_of_leases, unexpected,
};
use async_trait::async_trait;
use leasehold::backend::OwnerId;
use leasehold::{Config, LockName, Result};
use secrecy::ExposeSecret;
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection};
use sqlx::{AssertSqlSafe, Row};

#[derive(Debug)]
pub(super) struct RawMySql {
    config: Config,
    owner: [u8; 16],
    connections: Connections<MySqlConnection>,
}

impl RawMySql {
    pub(super) fn new(config: &Config) -> Result<Self> {
        let authority = config.url().authority()?;
        let endpoint = authority.only_endpoint()?;
        let mut options = MySqlConnectOptions::new()
            .host(&endpoint.host)
            .port(endpoint.port.unwrap_or(3306))
            .database(&authority.path)
            .username(authority.user.as_deref().unwrap_or_default());
        if let Some(password) = &authority.password {
            options = options.password(password.read()?.expose_secret());
        }
        let (owner, connections) = (OwnerId::random()?.to_bytes(), Connections::new(options));
        Ok(Self { config: config.clone(), owner, connections })
    }

    async fn run(&self, statement: &str, name: &LockName, lease: Option<i64>) -> Result<()> {
        let table = table_of_leases(&self.config).unwrap_or_default();
        let statement = statement.replace("{table}", &format!("`{table}`"));
        let name = stored_name(&self.config, name).into_bytes();
        let mut query = sqlx::query(AssertSqlSafe(statement)).bind(name).bind(self.owner.to_vec());
        if let Some(lease) = lease {
            query = query.bind(lease);
        }
        let (mut connection, _permit) = self.connections.take().await?;
        let done = query.execute(&mut connection).await.map_err(broken)?;
        self.connections.give_back(connection);
        match done.rows_affected() {
            0 => Err(unexpected("a name for measuring is in use")),
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl Yardstick for RawMySql {
    async fn server(&self) -> Result<String> {
        let (mut connection, _permit) = self.connections.take().await?;
        sqlx::query_scalar("SELECT version()").fetch_one(&mut connection).await.map_err(broken)
    }

    fn has(&self, measure: ByHand) -> bool {
        measure == ByHand::Pair && table_of_leases(&self.config).is_some()
    }

    async fn raw_pair(&self, name: &LockName) -> Result<()> {
        self.run(include_str!("mysql_acquire.sql"), name, Some(LEASE)).await?;
        self.run(include_str!("mysql_release.sql"), name, None).await
    }

    async fn counters(&self) -> Result<Option<ServerCounters>> {
        let names = "('Questions', 'Bytes_received', 'Bytes_sent')";
        let status = format!("SHOW GLOBAL STATUS WHERE Variable_name IN {names}");
        let (mut connection, _permit) = self.connections.take().await?;
        let rows = sqlx::query(AssertSqlSafe(status)).fetch_all(&mut connection).await.map_err(broken)?;
        let mut counters = ServerCounters::default();
        for row in rows {
            let name: String = row.try_get(0).map_err(broken)?;
            let value = row.try_get::<String, _>(1).map_err(broken)?.parse().unwrap_or(0);
            if name == "Questions" { counters.commands = value } else { counters.bytes += value }
        }
        Ok(Some(counters))
    }
}
