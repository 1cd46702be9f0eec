//! MariaDB, and MySQL, which differ in little.

use super::{SqlServer, cannot};
use crate::pooler::MariaDbPooler;
use crate::servers::{MariaDbServer, MySqlServer};
use async_trait::async_trait;
use leasehold_conformance::Cannot;
use leasehold_conformance::server::ServerProcess;
use sqlx::error::DatabaseError;
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlDatabaseError, MySqlSslMode};
use sqlx::{AssertSqlSafe, ConnectOptions, Executor, query, query_scalar};
use std::any::Any;
use std::net::Ipv4Addr;
use std::ops::DerefMut;
use std::time::Duration;

/// A connection of the suite's own.
async fn connect(port: u16, user: &str, password: Option<&str>) -> Result<MySqlConnection, Cannot> {
    let options = MySqlConnectOptions::new().host("127.0.0.1").port(port).username(user);
    let options = password.into_iter().fold(options, MySqlConnectOptions::password);
    let options = options.database(MariaDbServer::DATABASE).ssl_mode(MySqlSslMode::Disabled);
    options.disable_statement_logging().connect().await.map_err(cannot)
}

/// `ER_CANNOT_CONVERT_STRING`
fn is_no_text(error: &dyn DatabaseError) -> bool {
    error.try_downcast_ref::<MySqlDatabaseError>().is_some_and(|error| error.number() == 3854)
}

async fn root(port: u16) -> Result<MySqlConnection, Cannot> {
    connect(port, "root", None).await
}

/// In what they differ.
pub(crate) trait MySqlCompatible:
    std::fmt::Debug + DerefMut<Target = ServerProcess> + Send + Sync + Sized + 'static
{
    const SCHEME: &'static str;
    const ALIAS: &'static str;
    const OPTIONS: &'static str;
    /// What ends a transaction that is idle, or the session with it.
    const IDLE_LIMIT: &'static str;

    fn launch(environment: &[(String, String)]) -> Result<Self, Cannot>;
    /// Two, the second of which is to follow the first, which has this environment.
    fn launch_pair(environment: &[(String, String)]) -> Result<(Self, Self), Cannot>;
    fn port(&self) -> u16;
}

impl MySqlCompatible for MariaDbServer {
    const SCHEME: &'static str = "mariadb";
    const ALIAS: &'static str = "mysql";
    const OPTIONS: &'static str = "";
    const IDLE_LIMIT: &'static str = "idle_transaction_timeout";

    fn launch(environment: &[(String, String)]) -> Result<Self, Cannot> {
        Self::start_with(&[], environment).map_err(cannot)
    }

    fn launch_pair(environment: &[(String, String)]) -> Result<(Self, Self), Cannot> {
        let primary = Self::start_with(&["--server-id=1", "--log-bin=changes"], environment);
        let follower = Self::start_with(&["--server-id=2", "--read-only"], &[]);
        Ok((primary.map_err(cannot)?, follower.map_err(cannot)?))
    }

    fn port(&self) -> u16 {
        Self::port(self)
    }
}

impl MySqlCompatible for MySqlServer {
    const SCHEME: &'static str = "mysql";
    const ALIAS: &'static str = "mariadb";
    /// The server takes passwords that it has not seen lately over TLS alone.
    const OPTIONS: &'static str = "&sslmode=require";
    const IDLE_LIMIT: &'static str = "wait_timeout";

    fn launch(environment: &[(String, String)]) -> Result<Self, Cannot> {
        if !environment.is_empty() {
            return Err(Cannot::new("the server has a C library of its own, for which no clock is there"));
        }
        Self::start().map_err(cannot)
    }

    fn launch_pair(_: &[(String, String)]) -> Result<(Self, Self), Cannot> {
        Err(Cannot::new("a replica of it has to be set up in words of its own, which nobody has tried here"))
    }

    fn port(&self) -> u16 {
        Self::port(self)
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

    async fn launch(environment: Vec<(String, String)>) -> Result<Self, Cannot> {
        let start = move || <Self as MySqlCompatible>::launch(&environment);
        tokio::task::spawn_blocking(start).await.map_err(cannot)?
    }

    async fn launch_pair(environment: Vec<(String, String)>) -> Result<(Self, Self), Cannot> {
        let start = move || <Self as MySqlCompatible>::launch_pair(&environment);
        let (primary, follower) = tokio::task::spawn_blocking(start).await.map_err(cannot)??;
        let follow = format!(
            "CHANGE MASTER TO master_host = '127.0.0.1', master_port = {}, master_user = 'root', \
             master_password = '', master_connect_retry = 1, master_use_gtid = slave_pos",
            MySqlCompatible::port(&primary)
        );
        for statement in [&follow, "START SLAVE"] {
            Self::run(MySqlCompatible::port(&follower), statement).await?;
        }
        Ok((primary, follower))
    }

    fn port(&self) -> u16 {
        MySqlCompatible::port(self)
    }

    fn process(&mut self) -> &mut ServerProcess {
        self.deref_mut()
    }

    async fn run(port: u16, statement: &str) -> Result<u64, Cannot> {
        let done = root(port).await?.execute(AssertSqlSafe(statement.to_owned())).await;
        done.map(|done| done.rows_affected()).map_err(cannot)
    }

    async fn count(port: u16, statement: &str) -> Result<usize, Cannot> {
        let count = query_scalar(AssertSqlSafe(statement.to_owned()));
        let count: i64 = count.fetch_one(&mut root(port).await?).await.map_err(cannot)?;
        usize::try_from(count).map_err(cannot)
    }

    async fn delete(port: u16, table: &str, name: &[u8]) -> Result<u64, Cannot> {
        let delete = query(AssertSqlSafe(format!("DELETE FROM {table} WHERE name = ?"))).bind(name.to_vec());
        delete.execute(&mut root(port).await?).await.map(|done| done.rows_affected()).map_err(cannot)
    }

    async fn kill_clients(port: u16) -> Result<(), Cannot> {
        let mut root = root(port).await?;
        let clients = "SELECT CAST(id AS SIGNED) FROM information_schema.processlist WHERE user = 'locker'";
        let clients: Vec<i64> = loop {
            match query_scalar(clients).fetch_all(&mut root).await {
                // MySQL cannot show the statement of a client at that moment: the bytes of an owner are no text.
                Err(sqlx::Error::Database(error)) if is_no_text(&*error) => {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                listed => break listed.map_err(cannot)?,
            }
        };
        // All at once: whoever waited is not to inherit a lock in between.
        for client in &clients {
            let _ = root.execute(AssertSqlSafe(format!("KILL {client}"))).await;
        }
        for client in clients {
            // Until it is gone, or has gone by itself: it would go on with what it was asked before.
            while root.execute(AssertSqlSafe(format!("KILL {client}"))).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        Ok(())
    }

    async fn cut_off(port: u16) -> Result<(), Cannot> {
        Self::run(port, "STOP SLAVE").await.map(drop)
    }

    async fn promote(port: u16) -> Result<(), Cannot> {
        for statement in ["STOP SLAVE", "RESET SLAVE ALL", "SET GLOBAL read_only = 0"] {
            Self::run(port, statement).await?;
        }
        Ok(())
    }

    async fn stranger(port: u16) -> Result<Box<dyn Any + Send>, Cannot> {
        Ok(Box::new(connect(port, "locker", Some("sesame")).await?))
    }

    async fn pooler(port: u16) -> Result<(Box<dyn Any + Send>, u16), Cannot> {
        if !<Self as MySqlCompatible>::OPTIONS.is_empty() {
            return Err(Cannot::new("what passes is encrypted, and our pooler understands nothing of it"));
        }
        let pooler = MariaDbPooler::to((Ipv4Addr::LOCALHOST, port).into()).await.map_err(cannot)?;
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

    fn read_only(&mut self, read_only: bool) -> Result<String, Cannot> {
        Ok(format!("SET GLOBAL read_only = {}", u8::from(read_only)))
    }
}
