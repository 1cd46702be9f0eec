//! P05: the victim of a deadlock is asked for again, within its deadline.

use crate::kit::{Server, both, claim, granted, until};
use leasehold_core::Renewal;
use sqlx::{AssertSqlSafe, Executor};
use std::time::{Duration, Instant};

/// How many deadlocks the server has found.
async fn deadlocks(server: &Server) -> i64 {
    match server {
        Server::MariaDb(_) => {
            let status = "SELECT CAST(variable_value AS SIGNED) FROM information_schema.global_status \
                          WHERE variable_name = 'INNODB_DEADLOCKS'";
            server.number(status).await
        }
        Server::Postgres(_) => server.number("SELECT sum(deadlocks)::bigint FROM pg_stat_database").await,
    }
}

/// Two leases are renewed in one statement, in the order of their names. A third party has the second one locked, and
/// asks for the first when the renewal has it: one of the two must give way, and it is arranged that it is the renewal.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn renewal_that_is_the_victim_of_a_deadlock_is_repeated() {
    for server in both().await {
        let (waits, heavier): (&str, &[&str]) = match &server {
            // The one that has changed less is the victim.
            Server::MariaDb(_) => (
                "SELECT count(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'",
                &[
                    "CREATE TABLE ballast (n INT) ENGINE = InnoDB",
                    "BEGIN",
                    "INSERT INTO ballast SELECT seq FROM seq_1_to_1000",
                ],
            ),
            // The one that looks first is. It looks once, so the third party must have asked by then.
            Server::Postgres(_) => {
                server.run("ALTER ROLE locker SET deadlock_timeout = '3s'").await;
                (
                    "SELECT count(*) FROM pg_stat_activity WHERE usename = 'locker' AND wait_event_type = 'Lock'",
                    &["SET deadlock_timeout = '1min'", "BEGIN"],
                )
            }
        };
        let backend = server.backend("timeout=10s");
        let held = [claim("a"), claim("b")];
        for claim in &held {
            granted(&backend, claim).await;
        }
        let before = deadlocks(&server).await;
        let lock = |name: &str| format!("SELECT name FROM leasehold WHERE name = '{name}' FOR UPDATE");
        let third: Vec<String> = heavier.iter().map(ToString::to_string).chain([lock("b")]).collect();
        let mut third = Third::begin(&server, &third).await;
        let renewing = tokio::spawn({
            let (backend, held) = (backend.clone(), held.clone());
            async move { backend.renew(&held).await }
        });
        until("the renewal waits for the second row", &server, waits).await;
        third.run(&lock("a")).await;
        third.run("COMMIT").await;
        for renewed in renewing.await.unwrap() {
            assert_eq!(renewed.unwrap(), Renewal::Renewed);
        }
        // A session of PostgreSQL that has just told its figures tells the next ones when it was idle for ten seconds.
        let start = Instant::now();
        while deadlocks(&server).await == before {
            assert!(start.elapsed() < Duration::from_secs(30), "there was no deadlock");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// Another program's connection.
enum Third {
    MySql(sqlx::mysql::MySqlConnection),
    Postgres(sqlx::postgres::PgConnection),
}

impl Third {
    async fn begin(server: &Server, statements: &[String]) -> Self {
        let mut third = match server {
            Server::MariaDb(_) => Self::MySql(server.mysql().await),
            Server::Postgres(_) => Self::Postgres(server.pg().await),
        };
        for statement in statements {
            third.run(statement).await;
        }
        third
    }

    async fn run(&mut self, statement: &str) {
        let statement = AssertSqlSafe(statement.to_owned());
        match self {
            Self::MySql(connection) => drop(connection.execute(statement).await.unwrap()),
            Self::Postgres(connection) => drop(connection.execute(statement).await.unwrap()),
        }
    }
}
