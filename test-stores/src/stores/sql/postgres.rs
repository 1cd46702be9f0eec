use super::server::SqlServer;
use crate::servers::{PgBouncer, PostgresServer, pgbouncer_missing};
use crate::stores::server_group::{DataServer, Environment};
use async_trait::async_trait;
use leasehold_conformance::Stop;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgSslMode};
use sqlx::{AssertSqlSafe, ConnectOptions, Executor, query, query_as, query_scalar};
use std::any::Any;
use std::time::Duration;
use tokio::task::block_in_place;

/// A connection of this crate's own, not of the code under test.
async fn connect(port: u16, user: &str) -> Result<PgConnection, Stop> {
    let options = PgConnectOptions::new_without_pgpass().host("127.0.0.1").port(port).username(user);
    let options = options.database("postgres").ssl_mode(PgSslMode::Disable);
    options.disable_statement_logging().connect().await.map_err(Stop::failed)
}

impl DataServer for PostgresServer {
    fn port(&self) -> u16 {
        Self::port(self)
    }
}

#[async_trait]
impl SqlServer for PostgresServer {
    const SCHEME: &'static str = "postgres";
    const ALIAS: &'static str = "postgresql";
    const DATABASE: &'static str = "postgres";
    const ADMINISTRATOR: &'static str = "postgres";
    const CONNECTIONS: &'static str = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'locker'";
    const TRANSACTIONS: &'static str =
        "SELECT count(*) FROM pg_stat_activity WHERE usename = 'locker' AND xact_start IS NOT NULL";
    const WALL_CLOCK: &'static str = "SELECT CAST(extract(epoch FROM clock_timestamp()) AS bigint)";
    const WRITTEN: &'static str = "SELECT CAST(pg_current_wal_flush_lsn() - '0/0' AS bigint)";
    const FOLLOWED: &'static str = "SELECT CAST(pg_last_wal_replay_lsn() - '0/0' AS bigint)";

    fn launch(environment: &Environment) -> Result<Self, Stop> {
        Self::start_with(&[], environment)
    }

    async fn launch_pair(environment: &Environment) -> Result<(Self, Self), Stop> {
        block_in_place(|| {
            let primary = Self::launch(environment)?;
            let standby = Self::start_standby_of(&primary)?;
            Ok((primary, standby))
        })
    }

    async fn run(port: u16, statement: &str) -> Result<u64, Stop> {
        let done = connect(port, "postgres").await?.execute(AssertSqlSafe(statement.to_owned())).await;
        done.map(|done| done.rows_affected()).map_err(Stop::failed)
    }

    async fn count(port: u16, statement: &str) -> Result<usize, Stop> {
        let count = query_scalar(AssertSqlSafe(statement.to_owned()));
        let count: i64 =
            count.fetch_one(&mut connect(port, "postgres").await?).await.map_err(Stop::failed)?;
        usize::try_from(count).map_err(Stop::failed)
    }

    async fn delete(port: u16, table: &str, name: &[u8]) -> Result<u64, Stop> {
        let delete = query(AssertSqlSafe(format!("DELETE FROM {table} WHERE name = $1"))).bind(name.to_vec());
        let done = delete.execute(&mut connect(port, "postgres").await?).await;
        done.map(|done| done.rows_affected()).map_err(Stop::failed)
    }

    async fn kill_clients(port: u16) -> Result<(), Stop> {
        let mut administrator = connect(port, "postgres").await?;
        // All in one statement: a waiter must not inherit a lock in between.
        let kill = "SELECT pid, pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'locker'";
        let killed: Vec<(i32, bool)> =
            query_as(kill).fetch_all(&mut administrator).await.map_err(Stop::failed)?;
        let killed: Vec<i32> = killed.into_iter().map(|(pid, _)| pid).collect();
        // A session that is not gone yet goes on with its last statement.
        let left = "SELECT count(*) FROM pg_stat_activity WHERE pid = ANY($1)";
        while query_scalar::<_, i64>(left)
            .bind(&killed)
            .fetch_one(&mut administrator)
            .await
            .map_err(Stop::failed)?
            > 0
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    async fn cut_off(port: u16) -> Result<(), Stop> {
        Self::run(port, "ALTER SYSTEM SET primary_conninfo = ''").await?;
        Self::run(port, "SELECT pg_reload_conf()").await?;
        while Self::count(port, "SELECT count(*) FROM pg_stat_wal_receiver").await? > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    async fn promote(port: u16) -> Result<(), Stop> {
        Self::run(port, "SELECT pg_promote()").await.map(drop)
    }

    async fn connect_as_locker(port: u16) -> Result<Box<dyn Any + Send>, Stop> {
        Ok(Box::new(connect(port, "locker").await?))
    }

    async fn pooler(port: u16) -> Result<(Box<dyn Any + Send>, u16), Stop> {
        if let Some(why) = pgbouncer_missing() {
            return Err(Stop::missing(&why));
        }
        let pooler = block_in_place(|| PgBouncer::start(port, "transaction"))?;
        let port = pooler.port();
        Ok((Box::new(pooler), port))
    }

    fn grants(table: &str) -> Vec<String> {
        vec![
            "DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'locker') THEN \
             CREATE ROLE locker LOGIN PASSWORD 'sesame'; END IF; END $$"
                .to_owned(),
            format!("GRANT SELECT, INSERT, UPDATE ON {table} TO locker"),
        ]
    }

    fn time_zone(offset: &str) -> String {
        format!("ALTER ROLE locker SET timezone = '{offset}'")
    }

    fn isolation(level: &str) -> String {
        format!("ALTER ROLE locker SET default_transaction_isolation = '{level}'")
    }

    fn idle_limit(limit: Duration) -> String {
        format!("ALTER ROLE locker SET idle_in_transaction_session_timeout = {}", limit.as_millis())
    }

    /// A read-only server is a hot standby that follows no primary, until it is promoted.
    fn read_only(&mut self, read_only: bool) -> Result<String, Stop> {
        if !read_only {
            return Ok("SELECT pg_promote()".to_owned());
        }
        std::fs::write(self.data().join("db/standby.signal"), "").map_err(Stop::failed)?;
        self.restart(true)?;
        Ok("SELECT pg_is_in_recovery()".to_owned())
    }
}
