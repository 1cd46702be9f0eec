//! MariaDB and MySQL, which differ in little.

use super::server::SqlServer;
use crate::pooler::MariaDbPooler;
use crate::servers::{MariaDbServer, MySqlServer};
use crate::stores::connect::loopback;
use crate::stores::server_group::{DataServer, Environment};
use async_trait::async_trait;
use leasehold_conformance::Stop;
use sqlx::error::DatabaseError;
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlDatabaseError, MySqlSslMode};
use sqlx::{AssertSqlSafe, ConnectOptions, Executor, query, query_scalar};
use std::any::Any;
use std::time::Duration;
use tokio::task::block_in_place;

/// A connection of this crate's own, not of the code under test.
async fn connect(port: u16, user: &str, password: Option<&str>) -> Result<MySqlConnection, Stop> {
    let options = MySqlConnectOptions::new().host("127.0.0.1").port(port).username(user);
    let options = password.into_iter().fold(options, MySqlConnectOptions::password);
    let options = options.database(MariaDbServer::DATABASE).ssl_mode(MySqlSslMode::Disabled);
    options.disable_statement_logging().connect().await.map_err(Stop::failed)
}

/// `ER_CANNOT_CONVERT_STRING`
fn is_no_text(error: &dyn DatabaseError) -> bool {
    error.try_downcast_ref::<MySqlDatabaseError>().is_some_and(|error| error.number() == 3854)
}

async fn root(port: u16) -> Result<MySqlConnection, Stop> {
    connect(port, "root", None).await
}

/// What differs between the two.
pub(in crate::stores) trait MySqlCompatible: DataServer + Sized {
    const SCHEME: &'static str;
    const ALIAS: &'static str;
    const OPTIONS: &'static str;
    /// The setting that ends idle transactions, or their sessions.
    const IDLE_LIMIT: &'static str;

    fn launch(environment: &Environment) -> Result<Self, Stop>;
    /// Two servers that can follow each other, the first of which has this environment.
    fn launch_two(environment: &Environment) -> Result<(Self, Self), Stop>;
}

impl DataServer for MariaDbServer {
    fn port(&self) -> u16 {
        Self::port(self)
    }
}

impl DataServer for MySqlServer {
    fn port(&self) -> u16 {
        Self::port(self)
    }
}

impl MySqlCompatible for MariaDbServer {
    const SCHEME: &'static str = "mariadb";
    const ALIAS: &'static str = "mysql";
    const OPTIONS: &'static str = "";
    const IDLE_LIMIT: &'static str = "idle_transaction_timeout";

    fn launch(environment: &Environment) -> Result<Self, Stop> {
        Self::start_with(&[], environment)
    }

    fn launch_two(environment: &Environment) -> Result<(Self, Self), Stop> {
        let primary = Self::start_with(&["--server-id=1", "--log-bin=changes"], environment);
        let replica = Self::start_with(&["--server-id=2", "--read-only"], &[]);
        Ok((primary?, replica?))
    }
}

impl MySqlCompatible for MySqlServer {
    const SCHEME: &'static str = "mysql";
    const ALIAS: &'static str = "mariadb";
    /// The server takes passwords that it has not seen lately over TLS alone.
    const OPTIONS: &'static str = "&sslmode=require";
    const IDLE_LIMIT: &'static str = "wait_timeout";

    fn launch(environment: &Environment) -> Result<Self, Stop> {
        if !environment.is_empty() {
            return Err(Stop::skipped("the server has a C library of its own, for which no clock is there"));
        }
        Self::start()
    }

    fn launch_two(_: &Environment) -> Result<(Self, Self), Stop> {
        Err(Stop::skipped(
            "a replica of it has to be set up in words of its own, which nobody has tried here",
        ))
    }
}

#[async_trait]
impl<Server: MySqlCompatible> SqlServer for Server {
    const SCHEME: &'static str = <Self as MySqlCompatible>::SCHEME;
    const ALIAS: &'static str = <Self as MySqlCompatible>::ALIAS;
    const OPTIONS: &'static str = <Self as MySqlCompatible>::OPTIONS;
    const DATABASE: &'static str = MariaDbServer::DATABASE;
    const ADMINISTRATOR: &'static str = "root";
    const CONNECTIONS: &'static str =
        "SELECT count(*) FROM information_schema.processlist WHERE user = 'locker'";
    const WALL_CLOCK: &'static str = "SELECT CAST(UNIX_TIMESTAMP(SYSDATE()) AS SIGNED)";
    // The last number of `domain-server-number`.
    const WRITTEN: &'static str = "SELECT CAST(SUBSTRING_INDEX(@@gtid_binlog_pos, '-', -1) AS SIGNED)";
    const FOLLOWED: &'static str = "SELECT CAST(SUBSTRING_INDEX(@@gtid_slave_pos, '-', -1) AS SIGNED)";
    const TRANSACTIONS: &'static str = "SELECT count(*) FROM information_schema.innodb_trx";

    fn launch(environment: &Environment) -> Result<Self, Stop> {
        <Self as MySqlCompatible>::launch(environment)
    }

    async fn launch_pair(environment: &Environment) -> Result<(Self, Self), Stop> {
        let (primary, replica) = block_in_place(|| Self::launch_two(environment))?;
        let follow = format!(
            "CHANGE MASTER TO master_host = '127.0.0.1', master_port = {}, master_user = 'root', \
             master_password = '', master_connect_retry = 1, master_use_gtid = slave_pos",
            primary.port()
        );
        for statement in [&follow, "START SLAVE"] {
            Self::run(replica.port(), statement).await?;
        }
        Ok((primary, replica))
    }

    async fn run(port: u16, statement: &str) -> Result<u64, Stop> {
        let done = root(port).await?.execute(AssertSqlSafe(statement.to_owned())).await;
        done.map(|done| done.rows_affected()).map_err(Stop::failed)
    }

    async fn count(port: u16, statement: &str) -> Result<usize, Stop> {
        let count = query_scalar(AssertSqlSafe(statement.to_owned()));
        let count: i64 = count.fetch_one(&mut root(port).await?).await.map_err(Stop::failed)?;
        usize::try_from(count).map_err(Stop::failed)
    }

    async fn delete(port: u16, table: &str, name: &[u8]) -> Result<u64, Stop> {
        let delete = query(AssertSqlSafe(format!("DELETE FROM {table} WHERE name = ?"))).bind(name.to_vec());
        delete.execute(&mut root(port).await?).await.map(|done| done.rows_affected()).map_err(Stop::failed)
    }

    async fn kill_clients(port: u16) -> Result<(), Stop> {
        let mut root = root(port).await?;
        let clients = "SELECT CAST(id AS SIGNED) FROM information_schema.processlist WHERE user = 'locker'";
        let clients: Vec<i64> = loop {
            match query_scalar(clients).fetch_all(&mut root).await {
                // MySQL cannot show the statement of a client at that moment: the bytes of an owner are no text.
                Err(sqlx::Error::Database(error)) if is_no_text(&*error) => {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                listed => break listed.map_err(Stop::failed)?,
            }
        };
        // All without a pause: a waiter must not inherit a lock in between.
        for client in &clients {
            let _ = root.execute(AssertSqlSafe(format!("KILL {client}"))).await;
        }
        for client in clients {
            // A session that is not gone yet goes on with its last statement.
            while root.execute(AssertSqlSafe(format!("KILL {client}"))).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        Ok(())
    }

    async fn cut_off(port: u16) -> Result<(), Stop> {
        Self::run(port, "STOP SLAVE").await.map(drop)
    }

    async fn promote(port: u16) -> Result<(), Stop> {
        for statement in ["STOP SLAVE", "RESET SLAVE ALL", "SET GLOBAL read_only = 0"] {
            Self::run(port, statement).await?;
        }
        Ok(())
    }

    async fn connect_as_locker(port: u16) -> Result<Box<dyn Any + Send>, Stop> {
        Ok(Box::new(connect(port, "locker", Some("sesame")).await?))
    }

    async fn pooler(port: u16) -> Result<(Box<dyn Any + Send>, u16), Stop> {
        if !<Self as MySqlCompatible>::OPTIONS.is_empty() {
            return Err(Stop::skipped("what passes is encrypted, and our pooler understands nothing of it"));
        }
        let pooler = MariaDbPooler::to(loopback(port)).await.map_err(Stop::failed)?;
        let port = pooler.address().port();
        Ok((Box::new(pooler), port))
    }

    fn grants(table: &str) -> Vec<String> {
        vec![
            "CREATE USER IF NOT EXISTS locker@'127.0.0.1' IDENTIFIED BY 'sesame'".to_owned(),
            format!(
                "GRANT SELECT, INSERT, UPDATE ON {}.{table} TO locker@'127.0.0.1'",
                MariaDbServer::DATABASE
            ),
        ]
    }

    fn time_zone(offset: &str) -> String {
        format!("SET GLOBAL time_zone = '{offset}'")
    }

    fn isolation(level: &str) -> String {
        format!("SET GLOBAL TRANSACTION ISOLATION LEVEL {level}")
    }

    fn idle_limit(limit: Duration) -> String {
        format!("SET GLOBAL {} = {}", Self::IDLE_LIMIT, limit.as_secs().max(1))
    }

    fn read_only(&mut self, read_only: bool) -> Result<String, Stop> {
        Ok(format!("SET GLOBAL read_only = {}", u8::from(read_only)))
    }
}
