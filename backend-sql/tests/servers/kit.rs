//! The servers, with the table made by `init` and a user who has exactly the rights that the manual asks for.

use leasehold_conformance::server::ServerProcess;
use leasehold_core::{Attempt, Claim, FencingToken, LockBackend, LockName, Namespace, OwnerId, Result};
use leasehold_store_url::StoreUrl;
use leasehold_test_stores::servers::{MariaDbServer, PostgresServer};
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlSslMode};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgSslMode};
use sqlx::{AssertSqlSafe, ConnectOptions, Executor, Row};
use std::ops::DerefMut;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) enum Server {
    MariaDb(MariaDbServer),
    Postgres(PostgresServer),
}

pub(crate) const MODES: [&str; 3] = ["lease", "for-update", "optimistic"];

/// A server of each kind, with the tables of every mode.
pub(crate) async fn both() -> [Server; 2] {
    let both = [Server::mariadb(&[]), Server::postgres(&[])];
    for server in &both {
        server.furnish().await;
    }
    both
}

/// Runs a test that mostly waits on both at once.
pub(crate) async fn on_both(test: impl AsyncFn(Server)) {
    let [one, other] = both().await;
    tokio::join!(test(one), test(other));
}

impl Server {
    pub(crate) fn mariadb(arguments: &[&str]) -> Self {
        Self::MariaDb(MariaDbServer::start_with(arguments, &[]).unwrap())
    }

    pub(crate) fn postgres(arguments: &[&str]) -> Self {
        Self::Postgres(PostgresServer::start_with(arguments, &[]).unwrap())
    }

    pub(crate) fn port(&self) -> u16 {
        match self {
            Self::MariaDb(server) => server.port(),
            Self::Postgres(server) => server.port(),
        }
    }

    pub(crate) fn process(&mut self) -> &mut ServerProcess {
        match self {
            Self::MariaDb(server) => server.deref_mut(),
            Self::Postgres(server) => server.deref_mut(),
        }
    }

    pub(crate) fn is_postgres(&self) -> bool {
        matches!(self, Self::Postgres(_))
    }

    /// As the user with few rights.
    pub(crate) fn url(&self, query: &str) -> String {
        self.url_at(self.port(), "locker:sesame", query)
    }

    pub(crate) fn url_at(&self, port: u16, login: &str, query: &str) -> String {
        match self {
            Self::MariaDb(_) => format!("mariadb://{login}@127.0.0.1:{port}/locks?{query}"),
            Self::Postgres(_) => format!("postgres://{login}@127.0.0.1:{port}/postgres?{query}"),
        }
    }

    pub(crate) fn administrator(&self, query: &str) -> Arc<dyn LockBackend> {
        let login = if self.is_postgres() { "postgres" } else { "root" };
        open(&self.url_at(self.port(), login, query)).unwrap()
    }

    pub(crate) fn backend(&self, query: &str) -> Arc<dyn LockBackend> {
        open(&self.url(query)).unwrap()
    }

    /// The tables of every mode, and the rights.
    pub(crate) async fn furnish(&self) {
        for mode in ["lease", "for-update"] {
            let backend = self.administrator(&format!("mode={mode}"));
            backend.admin().unwrap().init().await.unwrap();
            backend.close().await.unwrap();
        }
        match self {
            Self::MariaDb(_) => {
                self.run("CREATE USER locker@'127.0.0.1' IDENTIFIED BY 'sesame'").await;
            }
            Self::Postgres(_) => {
                self.run("CREATE ROLE locker LOGIN PASSWORD 'sesame'").await;
            }
        }
        for table in ["leasehold", "leasehold_held", "leasehold_held_rows"] {
            match self {
                Self::MariaDb(_) => {
                    let grant =
                        format!("GRANT SELECT, INSERT, UPDATE ON locks.{table} TO locker@'127.0.0.1'");
                    self.run(&grant).await;
                }
                Self::Postgres(_) => {
                    self.run(&format!("GRANT SELECT, INSERT, UPDATE ON {table} TO locker")).await;
                }
            }
        }
    }

    pub(crate) async fn mysql(&self) -> MySqlConnection {
        let options = MySqlConnectOptions::new().host("127.0.0.1").port(self.port()).username("root");
        let options = options.database("locks").ssl_mode(MySqlSslMode::Disabled);
        options.disable_statement_logging().connect().await.unwrap()
    }

    pub(crate) async fn pg(&self) -> PgConnection {
        self.pg_as("postgres", self.port()).await
    }

    pub(crate) async fn pg_as(&self, user: &str, port: u16) -> PgConnection {
        let options = PgConnectOptions::new_without_pgpass().host("127.0.0.1").port(port);
        let options = options.username(user).database("postgres").ssl_mode(PgSslMode::Disable);
        // PgBouncer refuses it.
        let options = options.extra_float_digits(None);
        options.disable_statement_logging().connect().await.unwrap()
    }

    /// Runs a statement as the administrator; how many rows it changed.
    pub(crate) async fn run(&self, statement: &str) -> u64 {
        let statement = AssertSqlSafe(statement.to_owned());
        match self {
            Self::MariaDb(_) => self.mysql().await.execute(statement).await.unwrap().rows_affected(),
            Self::Postgres(_) => self.pg().await.execute(statement).await.unwrap().rows_affected(),
        }
    }

    /// The number that a query answers.
    pub(crate) async fn number(&self, query: &str) -> i64 {
        let query = AssertSqlSafe(query.to_owned());
        match self {
            Self::MariaDb(_) => self.mysql().await.fetch_one(query).await.unwrap().get_unchecked(0),
            Self::Postgres(_) => self.pg().await.fetch_one(query).await.unwrap().get(0),
        }
    }

    pub(crate) async fn kill_connection(&self, number: i64) {
        match self {
            Self::MariaDb(_) => self.run(&format!("KILL {number}")).await,
            Self::Postgres(_) => self.run(&format!("SELECT pg_terminate_backend({number})")).await,
        };
    }

    /// Ends every connection of `locker`, as an administrator does.
    pub(crate) async fn kill_connections(&self) {
        match self {
            Self::MariaDb(_) => {
                self.run("KILL USER locker").await;
            }
            Self::Postgres(_) => {
                self.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'locker'")
                    .await;
            }
        }
    }
}

/// Until a query answers more than 0.
pub(crate) async fn until(what: &str, server: &Server, count: &str) {
    let start = Instant::now();
    while server.number(count).await == 0 {
        // On a busy machine a login may take longer than a client waits, which then asks again only after ten seconds.
        assert!(start.elapsed() < Duration::from_secs(30), "waited in vain until {what}");
        // InnoDB shows a copy, and makes a new one only when it was not asked for a tenth of a second.
        tokio::time::sleep(Duration::from_millis(150)).await;
    }
}

pub(crate) fn open(url: &str) -> Result<Arc<dyn LockBackend>> {
    leasehold_sql::open(&StoreUrl::parse(url)?, &Namespace::default())
}

pub(crate) fn claim(name: &str) -> Claim {
    claim_for(name, Duration::from_secs(30))
}

pub(crate) fn claim_for(name: &str, ttl: Duration) -> Claim {
    Claim::new(LockName::new(name).unwrap(), OwnerId::random().unwrap(), ttl, "{}".into())
}

/// The token of a grant; `None` if it was busy.
pub(crate) async fn ask(backend: &Arc<dyn LockBackend>, claim: &Claim) -> Option<FencingToken> {
    match backend.try_acquire(claim).await.unwrap() {
        Attempt::Granted(grant) => Some(grant.token),
        Attempt::Busy(_) => None,
    }
}

/// As [`ask`], of a lock that must be had.
pub(crate) async fn granted(backend: &Arc<dyn LockBackend>, claim: &Claim) -> FencingToken {
    ask(backend, claim).await.expect("the lock is free")
}

/// The token of a grant, once a holder that has gone is noticed.
pub(crate) async fn until_granted(
    backend: &Arc<dyn LockBackend>,
    claim: &Claim,
    within: Duration,
) -> FencingToken {
    let start = Instant::now();
    loop {
        if let Some(token) = ask(backend, claim).await {
            return token;
        }
        assert!(start.elapsed() < within, "still held after {within:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
