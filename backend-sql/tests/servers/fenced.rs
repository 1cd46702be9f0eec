//! The scenario of Kleppmann, *How to do distributed locking* (2016), on tables of the same database.

use crate::kit::{MODES, Server, both, claim_for, granted};
use leasehold_core::{ErrorKind, FencingToken};
use leasehold_sql::{FencedWrite, Parameters};
use sqlx::AssertSqlSafe;
use std::time::Duration;

async fn write(server: &Server, value: i64, token: FencingToken) -> leasehold_core::Result<()> {
    let token_number = i64::try_from(token.get()).unwrap();
    match server {
        Server::MariaDb(_) => {
            let write =
                FencedWrite::update("account", "fence", Parameters::Question)?.set("balance")?.key("id")?;
            let query = sqlx::query(AssertSqlSafe(write.text()));
            let query = query.bind(value).bind(token_number).bind(1).bind(token_number);
            let done = query.execute(&mut server.mysql().await).await.unwrap();
            write.judge(token, done.rows_affected())
        }
        Server::Postgres(_) => {
            let write =
                FencedWrite::update("account", "fence", Parameters::Numbered)?.set("balance")?.key("id")?;
            let query = sqlx::query(AssertSqlSafe(write.text())).bind(value).bind(token_number).bind(1_i64);
            let done = query.execute(&mut server.pg().await).await.unwrap();
            write.judge(token, done.rows_affected())
        }
    }
}

#[tokio::test]
async fn paused_holder_writes_nothing_after_its_successor() {
    for server in both().await {
        let create = "CREATE TABLE account (id BIGINT PRIMARY KEY, balance BIGINT NOT NULL, fence BIGINT NOT NULL DEFAULT 0)";
        server.run(create).await;
        server.run("INSERT INTO account (id, balance) VALUES (1, 0)").await;
        for mode in MODES {
            let (first, second) =
                (server.backend(&format!("mode={mode}")), server.backend(&format!("mode={mode}")));
            let short = claim_for(mode, Duration::from_millis(200));
            let old = granted(&first, &short).await;
            write(&server, 1, old).await.unwrap();
            write(&server, 2, old).await.unwrap();
            // The first holder is paused: it renews nothing, and its lease ends.
            let long = claim_for(mode, Duration::from_secs(30));
            let new = loop {
                if let Some(token) = crate::kit::ask(&second, &long).await {
                    break token;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            };
            assert!(new > old);
            write(&server, 10, new).await.unwrap();
            // It wakes up, and goes on as if nothing had happened.
            let late = write(&server, 3, old).await.unwrap_err();
            assert_eq!(late.kind(), ErrorKind::Lost);
            assert_eq!(server.number("SELECT balance FROM account").await, 10, "{mode}");
            write(&server, 11, new).await.unwrap();
        }
    }
}
