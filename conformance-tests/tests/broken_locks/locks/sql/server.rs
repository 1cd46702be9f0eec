use crate::subject::cannot;
use async_trait::async_trait;
use leasehold_conformance::proxy::Proxy;
use leasehold_conformance::{Administrator, Stop, Store};
use leasehold_test_stores::servers::{MariaDbServer, PostgresServer};
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlSslMode};
use sqlx::{AssertSqlSafe, Connection, Executor, query_scalar};
use std::time::Duration;
use tempfile::TempDir;

const TABLES: &str =
    concat!("--init-file=", env!("CARGO_MANIFEST_DIR"), "/tests/broken_locks/locks/sql/tables.sql");

/// A server of its own, and its port.
#[derive(Debug)]
struct Server<S> {
    _server: S,
    port: u16,
    administrator: Option<MariaDb>,
}

#[derive(Debug)]
struct File(TempDir);

/// A `mariadbd` of its own, with the tables of all mistakes.
pub(crate) fn mariadb() -> Result<Box<dyn Store>, Stop> {
    let server = MariaDbServer::start_with(&[TABLES], &[]).map_err(cannot)?;
    let port = server.port();
    Ok(Box::new(Server { _server: server, port, administrator: Some(MariaDb { port }) }))
}

/// A `postgres` of its own.
pub(crate) fn postgres() -> Result<Box<dyn Store>, Stop> {
    let server = PostgresServer::start().map_err(cannot)?;
    let port = server.port();
    Ok(Box::new(Server { _server: server, port, administrator: None }))
}

/// A SQLite file of its own.
pub(crate) fn sqlite() -> Result<Box<dyn Store>, Stop> {
    Ok(Box::new(File(TempDir::new().map_err(cannot)?)))
}

#[async_trait]
impl<S: std::fmt::Debug + Send + Sync + 'static> Store for Server<S> {
    fn address(&self) -> String {
        format!("127.0.0.1:{} 5000", self.port)
    }

    async fn proxied(&self, patience: Duration) -> Result<(Proxy, String), Stop> {
        let proxy = Proxy::to(([127, 0, 0, 1], self.port).into()).await.map_err(cannot)?;
        let address = format!("{} {}", proxy.address(), patience.as_millis());
        Ok((proxy, address))
    }

    fn administrator(&self) -> Result<&dyn Administrator, Stop> {
        match &self.administrator {
            Some(administrator) => Ok(administrator),
            None => Err(Stop::skipped("nobody looks after it")),
        }
    }
}

/// The administrator of a MariaDB, as far as the cases need one that are named for a mistake.
#[derive(Debug)]
struct MariaDb {
    port: u16,
}

impl MariaDb {
    async fn connect(&self) -> Result<MySqlConnection, Stop> {
        let options = MySqlConnectOptions::new().host("127.0.0.1").port(self.port).username("root");
        MySqlConnection::connect_with(&options.ssl_mode(MySqlSslMode::Disabled)).await.map_err(cannot)
    }
}

#[async_trait]
impl Administrator for MariaDb {
    async fn kill_connections(&self) -> Result<(), Stop> {
        let mut connection = self.connect().await?;
        let others = "SELECT CAST(id AS SIGNED) FROM information_schema.processlist
                      WHERE id <> CONNECTION_ID() AND command <> 'Daemon' AND user = 'root'";
        let others: Vec<i64> = query_scalar(others).fetch_all(&mut connection).await.map_err(cannot)?;
        for other in others {
            // It may have gone by itself.
            let _ = connection.execute(AssertSqlSafe(format!("KILL {other}"))).await;
        }
        Ok(())
    }

    async fn open_transactions(&self) -> Result<usize, Stop> {
        let count = query_scalar("SELECT COUNT(*) FROM information_schema.innodb_trx");
        let count: i64 = count.fetch_one(&mut self.connect().await?).await.map_err(cannot)?;
        usize::try_from(count).map_err(cannot)
    }

    async fn set_time_zone(&self, offset: &str) -> Result<(), Stop> {
        let set = AssertSqlSafe(format!("SET GLOBAL time_zone = '{offset}'"));
        self.connect().await?.execute(set).await.map(drop).map_err(cannot)
    }
}

#[async_trait]
impl Store for File {
    fn address(&self) -> String {
        format!("{} 5000", self.0.path().join("locks.db").display())
    }
}
