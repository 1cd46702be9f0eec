//! PostgreSQL, by two statements over the crate `sqlx`.

use super::connections::Connections;
use super::contract::{ByHand, LEASE, Yardstick, broken, changed, stored_name, table_of_leases};
use async_trait::async_trait;
use leasehold::backend::OwnerId;
use leasehold::{Config, LockName, Result};
use secrecy::ExposeSecret;
use sqlx::AssertSqlSafe;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgListener, PgPoolOptions};
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

#[derive(Debug)]
pub(super) struct RawPostgres {
    config: Config,
    owner: OwnerId,
    connections: Connections<PgConnection>,
    /// Another connection, on which a waiter listens.
    listener: Mutex<Option<PgListener>>,
}

impl RawPostgres {
    pub(super) fn new(config: &Config) -> Result<Self> {
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
        let (owner, connections) = (OwnerId::random()?, Connections::new(options));
        Ok(Self { config: config.clone(), owner, connections, listener: Mutex::default() })
    }

    fn channel(&self) -> String {
        format!("leasehold_bench_{}", self.owner.to_hex())
    }

    fn query(&self, statement: &str, name: &LockName) -> PgQuery {
        let table = table_of_leases(&self.config).unwrap_or_default();
        let statement = statement.replace("{table}", &format!("\"{table}\""));
        let name = stored_name(&self.config, name).into_bytes();
        sqlx::query(AssertSqlSafe(statement)).bind(name).bind(self.owner.to_bytes().to_vec())
    }

    async fn run(&self, query: PgQuery) -> Result<()> {
        let (mut connection, _permit) = self.connections.take().await?;
        let done = query.execute(&mut connection).await.map_err(broken)?;
        self.connections.give_back(connection);
        changed(done.rows_affected())
    }

    async fn acquire(&self, name: &LockName) -> Result<()> {
        self.run(self.query(include_str!("postgres_acquire.sql"), name).bind(LEASE)).await
    }
}

type PgQuery = sqlx::query::Query<'static, sqlx::Postgres, sqlx::postgres::PgArguments>;

#[async_trait]
impl Yardstick for RawPostgres {
    async fn server(&self) -> Result<String> {
        let (mut connection, _permit) = self.connections.take().await?;
        sqlx::query_scalar("SELECT version()").fetch_one(&mut connection).await.map_err(broken)
    }

    fn has(&self, measure: ByHand) -> bool {
        measure != ByHand::TokenlessPair && table_of_leases(&self.config).is_some()
    }

    async fn raw_pair(&self, name: &LockName) -> Result<()> {
        self.acquire(name).await?;
        self.run(self.query(include_str!("postgres_release.sql"), name)).await
    }

    async fn raw_notice(&self, name: &LockName) -> Result<Duration> {
        let mut listener = self.listener.lock().await;
        if listener.is_none() {
            let pool = PgPoolOptions::new().max_connections(1);
            let pool = pool.connect_lazy_with(self.connections.options.clone());
            let mut connected = PgListener::connect_with(&pool).await.map_err(broken)?;
            connected.listen(&self.channel()).await.map_err(broken)?;
            *listener = Some(connected);
        }
        let Some(listener) = listener.as_mut() else { return Err(crate::load::unmeasured()) };
        self.acquire(name).await?;
        let begin = Instant::now();
        let told = async {
            listener.recv().await.map_err(broken)?;
            Ok(begin.elapsed())
        };
        let release = self.query(include_str!("postgres_notify.sql"), name).bind(self.channel());
        tokio::try_join!(self.run(release), told).map(|((), told)| told)
    }
}
