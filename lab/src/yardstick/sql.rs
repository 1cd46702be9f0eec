//! Databases, by two statements over the crate `sqlx`.

use super::{ServerCounters, Yardstick, broken, stored_name, unexpected};
use async_trait::async_trait;
use leasehold::backend::OwnerId;
use leasehold::{Config, LockName, Result};
use rustix::time::{ClockId, clock_gettime};
use secrecy::ExposeSecret;
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection};
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Row};
use std::sync::{Mutex, PoisonError};
use tokio::sync::{Semaphore, SemaphorePermit};

/// A lease that outlasts every measurement, in microseconds.
const LEASE: i64 = 30_000_000;

type OptionsOf<D> = <<D as Dialect>::Connection as Connection>::Options;

/// What differs between databases.
pub(super) trait Dialect: Send + Sync + 'static {
    type Connection: Connection + Send;
    /// As many as the backend has by default.
    const CONNECTIONS: usize;
    const QUOTE: char;
    const VERSION: &str;
    /// Grants the row of a name, if its lease has ended, with a larger token. Binds the name, the owner, and what `lease` tells.
    const ACQUIRE: &str;
    /// Ends the lease of an owner.
    const RELEASE: &str;

    fn options(config: &Config) -> Result<OptionsOf<Self>>;

    fn lease() -> Vec<i64> {
        vec![LEASE]
    }

    /// Answers how many rows have changed.
    fn execute(
        connection: &mut Self::Connection,
        statement: String,
        texts: [Vec<u8>; 2],
        numbers: &[i64],
    ) -> impl Future<Output = sqlx::Result<u64>> + Send;

    fn version(connection: &mut Self::Connection) -> impl Future<Output = sqlx::Result<String>> + Send;

    fn counters(
        _connection: &mut Self::Connection,
    ) -> impl Future<Output = sqlx::Result<Option<ServerCounters>>> + Send {
        async { Ok(None) }
    }
}

/// What is written alike for each, over types of its own.
macro_rules! requests {
    ($connection:ty) => {
        type Connection = $connection;

        async fn execute(
            connection: &mut $connection,
            statement: String,
            [name, owner]: [Vec<u8>; 2],
            numbers: &[i64],
        ) -> sqlx::Result<u64> {
            let query = sqlx::query::<<$connection as Connection>::Database>(AssertSqlSafe(statement));
            let query =
                numbers.iter().fold(query.bind(name).bind(owner), |query, number| query.bind(*number));
            Ok(query.execute(connection).await?.rows_affected())
        }

        async fn version(connection: &mut $connection) -> sqlx::Result<String> {
            sqlx::query_scalar(Self::VERSION).fetch_one(connection).await
        }
    };
}

/// As it is, and MariaDB.
#[derive(Debug)]
pub(super) struct MySql;

impl Dialect for MySql {
    const CONNECTIONS: usize = 8;
    const QUOTE: char = '`';
    const VERSION: &str = "SELECT version()";
    const ACQUIRE: &str = include_str!("mysql_acquire.sql");
    const RELEASE: &str = include_str!("mysql_release.sql");

    requests!(MySqlConnection);

    fn options(config: &Config) -> Result<MySqlConnectOptions> {
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
        Ok(options)
    }

    async fn counters(connection: &mut MySqlConnection) -> sqlx::Result<Option<ServerCounters>> {
        let names = "('Questions', 'Bytes_received', 'Bytes_sent')";
        let status = format!("SHOW GLOBAL STATUS WHERE Variable_name IN {names}");
        let mut counters = ServerCounters::default();
        for row in sqlx::query(AssertSqlSafe(status)).fetch_all(connection).await? {
            let name: String = row.try_get(0)?;
            let value = row.try_get::<String, _>(1)?.parse().unwrap_or(0);
            if name == "Questions" { counters.commands = value } else { counters.bytes += value }
        }
        Ok(Some(counters))
    }
}

#[derive(Debug)]
pub(super) struct Postgres;

impl Dialect for Postgres {
    const CONNECTIONS: usize = 8;
    const QUOTE: char = '"';
    const VERSION: &str = "SELECT version()";
    const ACQUIRE: &str = include_str!("postgres_acquire.sql");
    const RELEASE: &str = include_str!("postgres_release.sql");

    requests!(PgConnection);

    fn options(config: &Config) -> Result<PgConnectOptions> {
        let authority = config.url().authority()?;
        let endpoint = authority.only_endpoint()?;
        let mut options = PgConnectOptions::new_without_pgpass()
            .host(&endpoint.host)
            .port(endpoint.port.unwrap_or(5432))
            .database(&authority.path)
            .username(authority.user.as_deref().unwrap_or_default());
        if let Some(password) = &authority.password {
            options = options.password(password.read()?.expose_secret());
        }
        Ok(options)
    }
}

#[derive(Debug)]
pub(super) struct Sqlite;

impl Dialect for Sqlite {
    const CONNECTIONS: usize = 1;
    const QUOTE: char = '"';
    const VERSION: &str = "SELECT 'SQLite ' || sqlite_version()";
    const ACQUIRE: &str = include_str!("sqlite_acquire.sql");
    const RELEASE: &str = include_str!("sqlite_release.sql");

    requests!(SqliteConnection);

    fn options(config: &Config) -> Result<SqliteConnectOptions> {
        Ok(SqliteConnectOptions::new().filename(config.url().path()?))
    }

    /// By the clock of the host: now, and the end of the lease.
    fn lease() -> Vec<i64> {
        let now = clock_gettime(ClockId::Boottime);
        let now = now.tv_sec * 1_000_000 + now.tv_nsec / 1000;
        vec![now, now + LEASE]
    }
}

/// A database, and connections to it of which each statement takes one and gives it back. Not the pool of `sqlx`: that one asks
/// the server whether a connection lives whenever it gets one back.
pub(super) struct RawSql<D: Dialect> {
    config: Config,
    owner: OwnerId,
    options: OptionsOf<D>,
    idle: Mutex<Vec<D::Connection>>,
    permits: Semaphore,
}

impl<D: Dialect> RawSql<D> {
    /// Connects to nothing yet.
    pub(super) fn new(config: &Config) -> Result<Self> {
        Ok(Self {
            config: config.clone(),
            owner: OwnerId::random()?,
            options: D::options(config)?.disable_statement_logging(),
            idle: Mutex::default(),
            permits: Semaphore::new(D::CONNECTIONS),
        })
    }

    /// A connection, and the permit to have it.
    async fn take(&self) -> Result<(D::Connection, SemaphorePermit<'_>)> {
        let permit = self.permits.acquire().await.map_err(broken)?;
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = match idle {
            Some(connection) => connection,
            None => self.options.connect().await.map_err(broken)?,
        };
        Ok((connection, permit))
    }

    fn give_back(&self, connection: D::Connection) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
    }

    async fn run(&self, statement: &str, name: &LockName, numbers: &[i64]) -> Result<()> {
        let (table, quote) = (table_of_leases(&self.config).unwrap_or_default(), D::QUOTE);
        let statement = statement.replace("{table}", &format!("{quote}{table}{quote}"));
        let texts = [stored_name(&self.config, name).into_bytes(), self.owner.to_bytes().to_vec()];
        let (mut connection, _permit) = self.take().await?;
        let rows = D::execute(&mut connection, statement, texts, numbers).await.map_err(broken)?;
        self.give_back(connection);
        if rows == 0 { Err(unexpected("a name for measuring is in use")) } else { Ok(()) }
    }
}

#[async_trait]
impl<D: Dialect> Yardstick for RawSql<D> {
    async fn server(&self) -> Result<String> {
        D::version(&mut self.take().await?.0).await.map_err(broken)
    }

    fn has_pair(&self) -> bool {
        table_of_leases(&self.config).is_some()
    }

    async fn pair(&self, name: &LockName) -> Result<()> {
        self.run(D::ACQUIRE, name, &D::lease()).await?;
        self.run(D::RELEASE, name, &[]).await
    }

    async fn counters(&self) -> Result<Option<ServerCounters>> {
        let (mut connection, _permit) = self.take().await?;
        let counters = D::counters(&mut connection).await.map_err(broken)?;
        self.give_back(connection);
        Ok(counters)
    }
}

impl<D: Dialect> std::fmt::Debug for RawSql<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RawSql").field("config", &self.config).finish_non_exhaustive()
    }
}

/// The table of leases; `None` where a lock is a transaction.
fn table_of_leases(config: &Config) -> Option<String> {
    let mut query = config.url().query();
    let has_leases = query.take("mode").is_none_or(|mode| mode != "for-update");
    has_leases.then(|| query.take("table").unwrap_or_else(|| "leasehold".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transactions_have_no_table_of_leases() {
        let table = |url| table_of_leases(&Config::new(url).unwrap());
        assert_eq!(table("mysql://u@h/db?mode=for-update"), None);
        assert_eq!(table("mysql://u@h/db?mode=optimistic&table=locks").as_deref(), Some("locks"));
        assert_eq!(table("sqlite:locks.db").as_deref(), Some("leasehold"));
    }
}
