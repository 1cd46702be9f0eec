use super::cannot;
use super::server::{Sql, SqlServer};
use async_trait::async_trait;
use leasehold_conformance::Cannot;
use leasehold_conformance::servers::MariaDbServer;
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlSslMode};
use sqlx::{AssertSqlSafe, ConnectOptions, Executor, query, query_scalar};
use std::ops::DerefMut;

/// MariaDB, used with exactly the rights that the manual asks for.
pub(crate) type MariaDb = Sql<MariaDbServer>;

/// As the suite's own administrator: root.
async fn root(port: u16) -> Result<MySqlConnection, Cannot> {
    let options = MySqlConnectOptions::new().host("127.0.0.1").port(port).username("root");
    let options = options.database(MariaDbServer::DATABASE).ssl_mode(MySqlSslMode::Disabled);
    options.disable_statement_logging().connect().await.map_err(cannot)
}

#[async_trait]
impl SqlServer for MariaDbServer {
    const SCHEME: &'static str = "mariadb";
    const ALIAS: &'static str = "mysql";
    const DATABASE: &'static str = Self::DATABASE;
    const ADMINISTRATOR: &'static str = "root";

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
        let done = root(port).await?.execute(AssertSqlSafe(statement.to_owned())).await;
        done.map(|done| done.rows_affected()).map_err(cannot)
    }

    async fn count(port: u16, table: &str) -> Result<i64, Cannot> {
        let count = query_scalar(AssertSqlSafe(format!("SELECT count(*) FROM {table}")));
        count.fetch_one(&mut root(port).await?).await.map_err(cannot)
    }

    async fn delete(port: u16, table: &str, name: &[u8]) -> Result<u64, Cannot> {
        let delete = query(AssertSqlSafe(format!("DELETE FROM {table} WHERE name = ?"))).bind(name.to_vec());
        delete.execute(&mut root(port).await?).await.map(|done| done.rows_affected()).map_err(cannot)
    }

    fn grants(table: &str) -> Vec<String> {
        vec![
            "CREATE USER IF NOT EXISTS locker@'127.0.0.1' IDENTIFIED BY 'sesame'".to_owned(),
            format!("GRANT SELECT, INSERT, UPDATE ON {}.{table} TO locker@'127.0.0.1'", Self::DATABASE),
        ]
    }
}
