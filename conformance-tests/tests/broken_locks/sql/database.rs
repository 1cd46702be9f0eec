use crate::subject::Address;
use async_trait::async_trait;
use leasehold_conformance::proxy::Proxy;
use leasehold_conformance::servers::MariaDbServer;
use leasehold_conformance::{Cannot, Store};
use leasehold_core::{
    Attempt, Claim, DistributedLock, Error, ErrorKind, LockAdmin, LockBackend, LockClient, Outcome, Promises,
    Release, Renewal, Result, Semantics,
};
use sqlx::mysql::{MySqlConnectOptions, MySqlPool, MySqlPoolOptions, MySqlQueryResult, MySqlSslMode};
use sqlx::query::Query;
use sqlx::{MySql, mysql::MySqlArguments};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OnceCell;

pub(crate) type Step<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// The steps of a lock: what exactly is sent to the server.
#[derive(Clone, Copy)]
pub(crate) struct Steps {
    /// Makes the table.
    pub(crate) table: &'static str,
    pub(crate) acquire: for<'a> fn(&'a Database, &'a Claim) -> Step<'a, Attempt>,
    pub(crate) renew: for<'a> fn(&'a Database, &'a Claim) -> Step<'a, Renewal>,
    pub(crate) release: for<'a> fn(&'a Database, &'a Claim) -> Step<'a, Release>,
}

pub(crate) struct Database {
    steps: Steps,
    pool: MySqlPool,
    patience: Duration,
    made: OnceCell<()>,
}

pub(crate) fn lock(steps: Steps, address: &Address) -> Arc<dyn DistributedLock> {
    let (host, port) = address.server.split_once(':').unwrap();
    let options = MySqlConnectOptions::new().host(host).port(port.parse().unwrap()).username("root");
    let options = options.database(MariaDbServer::DATABASE).ssl_mode(MySqlSslMode::Disabled);
    let pool = MySqlPoolOptions::new().max_connections(1).acquire_timeout(address.patience);
    // No ping: the reply that a case holds back is to be that of a statement of ours.
    let pool = pool.test_before_acquire(false);
    let pool = pool.connect_lazy_with(options);
    let database = Database { steps, pool, patience: address.patience, made: OnceCell::new() };
    Arc::new(LockClient::new(Arc::new(database)))
}

impl Database {
    pub(crate) async fn run(&self, query: Query<'_, MySql, MySqlArguments>) -> Result<MySqlQueryResult> {
        let table = sqlx::query(self.steps.table);
        self.made
            .get_or_try_init(|| async { self.in_time(table.execute(&self.pool)).await.map(drop) })
            .await?;
        self.in_time(query.execute(&self.pool)).await
    }

    /// The one row of a query, as a number.
    pub(crate) async fn number(&self, query: Query<'_, MySql, MySqlArguments>) -> Result<Option<i64>> {
        use sqlx::Row;
        self.make_table().await?;
        let row = self.in_time(query.fetch_optional(&self.pool)).await?;
        Ok(row.map(|row| row.get_unchecked(0)))
    }

    async fn make_table(&self) -> Result<()> {
        let table = || self.in_time(sqlx::query(self.steps.table).execute(&self.pool));
        self.made.get_or_try_init(|| async { table().await.map(drop) }).await.map(drop)
    }

    async fn in_time<T>(&self, asked: impl Future<Output = sqlx::Result<T>>) -> Result<T> {
        match tokio::time::timeout(self.patience, asked).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(Error::new(ErrorKind::Indeterminate, error.to_string())),
            Err(_) => Err(Error::new(ErrorKind::Indeterminate, "no answer")),
        }
    }
}

#[async_trait]
impl LockBackend for Database {
    fn semantics(&self) -> Semantics {
        Semantics::lease("mariadb", "by hand", Promises::new(|_| Outcome::Holds))
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        (self.steps.acquire)(self, claim).await
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        leasehold_core::renew_each(claims, |claim| (self.steps.renew)(self, claim)).await
    }

    async fn release(&self, claim: &Claim, _linger: Duration) -> Result<Release> {
        (self.steps.release)(self, claim).await
    }

    async fn changed(&self, _claim: &Claim) {
        std::future::pending::<()>().await;
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        None
    }

    async fn close(&self) -> Result<()> {
        self.pool.close().await;
        Ok(())
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Database")
    }
}

/// A server for one case.
#[derive(Debug)]
struct Server(MariaDbServer);

pub(crate) fn plain_store() -> std::result::Result<Box<dyn Store>, Cannot> {
    let server = MariaDbServer::start().map_err(|error| Cannot::new(error.to_string()))?;
    Ok(Box::new(Server(server)))
}

#[async_trait]
impl Store for Server {
    fn address(&self) -> String {
        format!("127.0.0.1:{} 5000", self.0.port())
    }

    async fn proxied(&self, patience: Duration) -> std::result::Result<(Proxy, String), Cannot> {
        let target = ([127, 0, 0, 1], self.0.port()).into();
        let proxy = Proxy::to(target).await.map_err(|error| Cannot::new(error.to_string()))?;
        let address = format!("{} {}", proxy.address(), patience.as_millis());
        Ok((proxy, address))
    }
}
