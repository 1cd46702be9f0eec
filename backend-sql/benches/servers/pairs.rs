//! Acquire and release, beside the same two statements on a pool of the driver's with as many connections.

use crate::kit::{MODES, Server, claim, granted};
use leasehold_core::LockBackend;
use sqlx::mysql::{MySqlConnectOptions, MySqlPool, MySqlPoolOptions, MySqlSslMode};
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions, PgSslMode};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

const CONNECTIONS: u32 = 8;
const ROUNDS: usize = 5;
const PAIRS: usize = 1_200;

const MYSQL_ACQUIRE: &str = "INSERT INTO leasehold (name, owner, token, ends_at, acquired_at, version, holder) \
    VALUES (?, ?, LAST_INSERT_ID(1), 9e15, 0, 1, '{}') ON DUPLICATE KEY UPDATE \
    token = LAST_INSERT_ID(token + 1), owner = VALUES(owner), ends_at = 9e15";
const MYSQL_RELEASE: &str = "UPDATE leasehold SET owner = NULL, ends_at = 0 WHERE name = ? AND owner = ?";
const PG_ACQUIRE: &str = "INSERT INTO leasehold AS l (name, owner, token, ends_at, acquired_at, version, holder) \
    VALUES ($1, $2, 1, 9000000000000000, 0, 1, '{}') ON CONFLICT (name) DO UPDATE SET \
    token = l.token + 1, owner = excluded.owner, ends_at = excluded.ends_at RETURNING token";
const PG_RELEASE: &str = "UPDATE leasehold SET owner = NULL, ends_at = 0 WHERE name = $1 AND owner = $2";

#[derive(Clone)]
enum Raw {
    MySql(MySqlPool),
    Postgres(PgPool),
}

impl Raw {
    async fn to(server: &Server) -> Self {
        if server.is_postgres() {
            let options = PgConnectOptions::new_without_pgpass().host("127.0.0.1").port(server.port());
            let options = options.username("postgres").database("postgres").ssl_mode(PgSslMode::Disable);
            let pool = PgPoolOptions::new().max_connections(CONNECTIONS).connect_with(options);
            return Self::Postgres(pool.await.unwrap());
        }
        let options = MySqlConnectOptions::new().host("127.0.0.1").port(server.port()).username("root");
        let options = options.database("locks").ssl_mode(MySqlSslMode::Disabled);
        let pool = MySqlPoolOptions::new().max_connections(CONNECTIONS).connect_with(options);
        Self::MySql(pool.await.unwrap())
    }

    async fn pair(&self, name: &str) {
        let owner = vec![7_u8; 16];
        match self {
            Self::MySql(pool) => {
                let acquire = sqlx::query(MYSQL_ACQUIRE).bind(name.as_bytes()).bind(&owner);
                acquire.execute(pool).await.unwrap();
                let release = sqlx::query(MYSQL_RELEASE).bind(name.as_bytes()).bind(&owner);
                release.execute(pool).await.unwrap();
            }
            Self::Postgres(pool) => {
                let acquire = sqlx::query(PG_ACQUIRE).bind(name.as_bytes()).bind(&owner);
                acquire.fetch_one(pool).await.unwrap();
                let release = sqlx::query(PG_RELEASE).bind(name.as_bytes()).bind(&owner);
                release.execute(pool).await.unwrap();
            }
        }
    }
}

pub(crate) async fn measure(server: &Server) {
    let store = if server.is_postgres() { "postgres" } else { "mariadb" };
    let raw = Raw::to(server).await;
    for tasks in [1, 64] {
        for mode in MODES {
            let backend =
                server.backend(&format!("mode={mode}&connections={CONNECTIONS}&timeout=60s&holds=80"));
            let (mut ours, mut bare) = (Vec::new(), Vec::new());
            // In turn, so that both meet the same weather; the first round warms up.
            for round in 0..=ROUNDS {
                let bare_rate = rate(tasks, {
                    let raw = raw.clone();
                    move |name| {
                        let raw = raw.clone();
                        async move { raw.pair(&name).await }
                    }
                })
                .await;
                let ours_rate = rate(tasks, {
                    let backend = backend.clone();
                    move |name| {
                        let backend = backend.clone();
                        async move { pair(&backend, &name).await }
                    }
                })
                .await;
                if round > 0 {
                    bare.push(bare_rate);
                    ours.push(ours_rate);
                }
            }
            let (ours, bare) = (median(ours), median(bare));
            println!(
                "{store:8} {mode:11} {tasks:3} tasks: {ours:8.0} pairs/s, bare {bare:8.0}, ratio {:.2}",
                ours / bare
            );
            backend.close().await.unwrap();
        }
    }
}

async fn pair(backend: &Arc<dyn LockBackend>, name: &str) {
    let claim = claim(name);
    granted(backend, &claim).await;
    backend.release(&claim, Duration::ZERO).await.unwrap();
}

/// Pairs in a second, each task on a name of its own.
async fn rate<F, Fut>(tasks: usize, pair: F) -> f64
where
    F: Fn(String) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = ()> + Send,
{
    let each = PAIRS / tasks;
    let start = Instant::now();
    let mut set = JoinSet::new();
    for task in 0..tasks {
        let pair = pair.clone();
        set.spawn(async move {
            for _ in 0..each {
                pair(format!("bench-{task}")).await;
            }
        });
    }
    set.join_all().await;
    (each * tasks) as f64 / start.elapsed().as_secs_f64()
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}
