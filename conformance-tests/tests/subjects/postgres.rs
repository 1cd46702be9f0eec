use super::cannot;
use super::server::{Sql, SqlServer};
use async_trait::async_trait;
use leasehold_conformance::Cannot;
use leasehold_conformance::servers::PostgresServer;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgSslMode};
use sqlx::{AssertSqlSafe, ConnectOptions, Executor, query, query_scalar};
use std::ops::DerefMut;

/// PostgreSQL, used with exactly the rights that the manual asks for.
pub(crate) type Postgres = Sql<PostgresServer>;

/// As the suite's own administrator.
async fn administrator(port: u16) -> Result<PgConnection, Cannot> {
    let options = PgConnectOptions::new_without_pgpass().host("127.0.0.1").port(port).username("postgres");
    let options = options.database("postgres").ssl_mode(PgSslMode::Disable);
    options.disable_statement_logging().connect().await.map_err(cannot)
}

#[async_trait]
impl SqlServer for PostgresServer {
    const SCHEME: &'static str = "postgres";
    const ALIAS: &'static str = "postgresql";
    const DATABASE: &'static str = "postgres";
    const ADMINISTRATOR: &'static str = "postgres";

    fn launch() -> Result<Self, Cannot> {
        Self::start().map_err(cannot)
    }

    fn port_of(&self) -> u16 {
        self.port()
    }

    fn process(&mut self) -> &mut leasehold_conformance::servers::ServerProcess {
        self.deref_mut()
    }

    async fn run(port: u16, statement: &str) -> Result<u64, Cannot> {
        let done = administrator(port).await?.execute(AssertSqlSafe(statement.to_owned())).await;
        done.map(|done| done.rows_affected()).map_err(cannot)
    }

    async fn count(port: u16, table: &str) -> Result<i64, Cannot> {
        let count = query_scalar(AssertSqlSafe(format!("SELECT count(*) FROM {table}")));
        count.fetch_one(&mut administrator(port).await?).await.map_err(cannot)
    }

    async fn delete(port: u16, table: &str, name: &[u8]) -> Result<u64, Cannot> {
        let delete = query(AssertSqlSafe(format!("DELETE FROM {table} WHERE name = $1"))).bind(name.to_vec());
        delete.execute(&mut administrator(port).await?).await.map(|done| done.rows_affected()).map_err(cannot)
    }

    fn grants(table: &str) -> Vec<String> {
        vec![
            "DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'locker') THEN \
             CREATE ROLE locker LOGIN PASSWORD 'sesame'; END IF; END $$"
                .to_owned(),
            format!("GRANT SELECT, INSERT, UPDATE ON {table} TO locker"),
        ]
    }
}
