//! Databases, by two statements over the crate `sqlx`.

use super::{ByHand, broken, stored_name, unexpected};
use async_trait::async_trait;
use leasehold::backend::OwnerId;
use leasehold::{Config, LockName, Result};
use rustix::time::{ClockId, clock_gettime};
use secrecy::ExposeSecret;
use sqlx::any::{AnyConnectOptions, install_default_drivers};
use sqlx::{AnyConnection, AssertSqlSafe, ConnectOptions};
use std::sync::{Mutex, PoisonError};
use tokio::sync::{Semaphore, SemaphorePermit};

/// A lease that outlasts every measurement, in microseconds.
const LEASE: i64 = 30_000_000;

/// What differs between databases.
pub(super) struct Dialect {
    scheme: &'static str,
    port: u16,
    /// As many as the backend has by default.
    connections: usize,
    quote: char,
    /// Grants the row of a name, if its lease has ended, with a larger token. Binds the name, the owner, and [`lease`](RawSql::lease).
    acquire: &'static str,
    /// Ends the lease of an owner. Binds the name and the owner.
    release: &'static str,
}

pub(super) static MYSQL: Dialect = Dialect {
    scheme: "mysql",
    port: 3306,
    connections: 8,
    quote: '`',
    acquire: include_str!("mysql_acquire.sql"),
    release: include_str!("mysql_release.sql"),
};
pub(super) static POSTGRES: Dialect = Dialect {
    scheme: "postgres",
    port: 5432,
    connections: 8,
    quote: '"',
    acquire: include_str!("postgres_acquire.sql"),
    release: include_str!("postgres_release.sql"),
};
pub(super) static SQLITE: Dialect = Dialect {
    scheme: "sqlite",
    port: 0,
    connections: 1,
    quote: '"',
    acquire: include_str!("sqlite_acquire.sql"),
    release: include_str!("sqlite_release.sql"),
};

/// A database, and connections to it of which each statement takes one and gives it back. Not the pool of `sqlx`: that one asks
/// the server whether a connection lives whenever it gets one back.
pub(super) struct RawSql {
    config: Config,
    dialect: &'static Dialect,
    /// In quotes.
    table: String,
    owner: OwnerId,
    options: AnyConnectOptions,
    idle: Mutex<Vec<AnyConnection>>,
    permits: Semaphore,
}

impl RawSql {
    /// Connects to nothing yet.
    pub(super) fn new(config: &Config, dialect: &'static Dialect) -> Result<Self> {
        let no_leases = || unexpected("a lock of this mode is a transaction, which has no measure by hand");
        let table = table_of_leases(config).ok_or_else(no_leases)?;
        install_default_drivers();
        Ok(Self {
            config: config.clone(),
            dialect,
            table: format!("{0}{table}{0}", dialect.quote),
            owner: OwnerId::random()?,
            options: options(config, dialect)?.disable_statement_logging(),
            idle: Mutex::default(),
            permits: Semaphore::new(dialect.connections),
        })
    }

    /// A connection, and the permit to have it.
    async fn take(&self) -> Result<(AnyConnection, SemaphorePermit<'_>)> {
        let permit = self.permits.acquire().await.map_err(broken)?;
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = match idle {
            Some(connection) => connection,
            None => self.options.connect().await.map_err(broken)?,
        };
        Ok((connection, permit))
    }

    fn give_back(&self, connection: AnyConnection) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
    }

    async fn run(&self, statement: &str, name: &LockName, numbers: &[i64]) -> Result<()> {
        let statement = statement.replace("{table}", &self.table);
        let query = sqlx::query(AssertSqlSafe(statement));
        let query =
            query.bind(stored_name(&self.config, name).into_bytes()).bind(self.owner.to_bytes().to_vec());
        let query = numbers.iter().fold(query, |query, number| query.bind(*number));
        let (mut connection, _permit) = self.take().await?;
        let rows = query.execute(&mut connection).await.map_err(broken)?.rows_affected();
        self.give_back(connection);
        if rows == 0 { Err(unexpected("a name for measuring is in use")) } else { Ok(()) }
    }

    /// What the acquisition binds behind the owner: the length of the lease; on SQLite, by the clock of the host, now and its end.
    fn lease(&self) -> Vec<i64> {
        if self.dialect.scheme != "sqlite" {
            return vec![LEASE];
        }
        let now = clock_gettime(ClockId::Boottime);
        let now = now.tv_sec * 1_000_000 + now.tv_nsec / 1000;
        vec![now, now + LEASE]
    }
}

#[async_trait]
impl ByHand for RawSql {
    async fn pair(&self, name: &LockName) -> Result<()> {
        self.run(self.dialect.acquire, name, &self.lease()).await?;
        self.run(self.dialect.release, name, &[]).await
    }
}

/// The way to the database, without the parameters of the lock.
fn options(config: &Config, dialect: &Dialect) -> Result<AnyConnectOptions> {
    let parse = |url: String| url.parse::<AnyConnectOptions>().map_err(broken);
    if dialect.scheme == "sqlite" {
        let path = config.url().path()?;
        let encoded = path.replace('%', "%25").replace('?', "%3F").replace('#', "%23");
        return parse(format!("sqlite:{encoded}"));
    }
    let authority = config.url().authority()?;
    let endpoint = authority.only_endpoint()?;
    let host =
        if endpoint.host.contains(':') { format!("[{}]", endpoint.host) } else { endpoint.host.clone() };
    let port = endpoint.port.unwrap_or(dialect.port);
    let mut options = parse(format!("{}://{host}:{port}", dialect.scheme))?;
    let url = &mut options.database_url;
    url.set_path(&authority.path);
    // A URL with a host takes both.
    let _ = url.set_username(authority.user.as_deref().unwrap_or_default());
    if let Some(password) = &authority.password {
        let _ = url.set_password(Some(password.read()?.expose_secret()));
    }
    Ok(options)
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

    #[test]
    fn address_of_a_database_has_no_parameter_of_the_lock() {
        let config = Config::new("mariadb://u%40x@db.example/shop?mode=optimistic&table=locks").unwrap();
        let options = options(&config, &MYSQL).unwrap();
        assert_eq!(options.database_url.as_str(), "mysql://u%40x@db.example:3306/shop");
    }
}
