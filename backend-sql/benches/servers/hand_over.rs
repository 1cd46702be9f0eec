//! From a release to the next holder, with many who wait; beside the database's own named locks, for which every waiter
//! has a connection of its own.

use crate::kit::{MODES, Server};
use leasehold_core::{AcquireOptions, DistributedLock, LockClient, LockName};
use sqlx::AssertSqlSafe;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

const HAND_OVERS: usize = 200;

/// When it was released last, and what the hand-overs took.
type Clock = Arc<Mutex<(Option<Instant>, Vec<Duration>)>>;

pub(crate) async fn measure(server: &Server) {
    let store = if server.is_postgres() { "postgres" } else { "mariadb" };
    for waiters in [8, 64] {
        for mode in MODES {
            let clock = Clock::default();
            let mut set = JoinSet::new();
            // Each is a client of its own, as if in a process of its own.
            for _ in 0..waiters {
                let backend = server
                    .backend(&format!("mode={mode}&connections=1&timeout=20s&connect_timeout=20s&holds=4"));
                let (client, clock) = (LockClient::new(backend), Arc::clone(&clock));
                let name = LockName::new(format!("{mode}-{waiters}")).unwrap();
                set.spawn(async move {
                    let options = AcquireOptions::new().with_wait(Duration::from_secs(120));
                    for _ in 0..HAND_OVERS / waiters {
                        let guard = client.acquire_with(&name, &options).await.unwrap();
                        entered(&clock);
                        tokio::time::sleep(Duration::from_millis(2)).await;
                        leaves(&clock);
                        guard.release().await.unwrap();
                    }
                    client.close().await.unwrap();
                });
            }
            set.join_all().await;
            report(store, mode, waiters, &clock);
        }
        raw(server, store, waiters).await;
    }
}

async fn raw(server: &Server, store: &str, waiters: usize) {
    let (lock, unlock, what) = match server.is_postgres() {
        true => ("SELECT pg_advisory_lock(42)", "SELECT pg_advisory_unlock(42)", "advisory"),
        false => ("SELECT GET_LOCK('bench', 120)", "SELECT RELEASE_LOCK('bench')", "GET_LOCK"),
    };
    let clock = Clock::default();
    let mut set = JoinSet::new();
    for _ in 0..waiters {
        let clock = Arc::clone(&clock);
        let mut connection = match server.is_postgres() {
            true => Raw::Postgres(server.pg().await),
            false => Raw::MySql(server.mysql().await),
        };
        set.spawn(async move {
            for _ in 0..HAND_OVERS / waiters {
                connection.run(lock).await;
                entered(&clock);
                tokio::time::sleep(Duration::from_millis(2)).await;
                leaves(&clock);
                connection.run(unlock).await;
            }
        });
    }
    set.join_all().await;
    report(store, what, waiters, &clock);
}

enum Raw {
    MySql(sqlx::mysql::MySqlConnection),
    Postgres(sqlx::postgres::PgConnection),
}

impl Raw {
    async fn run(&mut self, statement: &str) {
        use sqlx::Executor;
        let statement = AssertSqlSafe(statement.to_owned());
        match self {
            Self::MySql(connection) => connection.execute(statement).await.map(drop).unwrap(),
            Self::Postgres(connection) => connection.execute(statement).await.map(drop).unwrap(),
        }
    }
}

fn entered(clock: &Clock) {
    let mut clock = clock.lock().unwrap();
    if let Some(released) = clock.0.take() {
        clock.1.push(released.elapsed());
    }
}

fn leaves(clock: &Clock) {
    clock.lock().unwrap().0 = Some(Instant::now());
}

fn report(store: &str, what: &str, waiters: usize, clock: &Clock) {
    let mut took = clock.lock().unwrap().1.clone();
    took.sort();
    let (median, p95) = (took[took.len() / 2], took[took.len() * 95 / 100]);
    println!("{store:8} {what:11} {waiters:3} waiters: hand-over {median:9.2?} median, {p95:9.2?} p95");
}
