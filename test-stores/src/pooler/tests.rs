//! The pooler, seen by a client that is not ours.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that unwraps fails, which is what it is for; one that does not run says so"
)]

use super::MariaDbPooler;
use crate::servers::{MariaDbServer, mariadb_server_missing};
use leasehold_conformance::Stop;
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlSslMode};
use sqlx::{ConnectOptions, Connection, Row, query, query_scalar, raw_sql};
use std::net::Ipv4Addr;

const SESSION: &str = "SELECT CONNECTION_ID()";

struct Clients {
    one: MySqlConnection,
    other: MySqlConnection,
    _between: (MariaDbServer, MariaDbPooler),
}

/// `None` where there is no server, and `LEASEHOLD_SKIP_MISSING` allows that.
async fn clients() -> Option<Clients> {
    if let Some(why) = mariadb_server_missing() {
        match Stop::missing(&why) {
            Stop::Skipped(why) => eprintln!("{why}"),
            stop => panic!("{stop:?}"),
        }
        return None;
    }
    let server = MariaDbServer::start().unwrap();
    let pooler = MariaDbPooler::to((Ipv4Addr::LOCALHOST, server.port()).into()).await.unwrap();
    let options = MySqlConnectOptions::new().host("127.0.0.1").port(pooler.address().port());
    let options =
        options.username("root").database(MariaDbServer::DATABASE).ssl_mode(MySqlSslMode::Preferred);
    let (one, other) = (options.connect().await.unwrap(), options.connect().await.unwrap());
    Some(Clients { one, other, _between: (server, pooler) })
}

async fn number(client: &mut MySqlConnection, question: &'static str) -> i64 {
    raw_sql(question).fetch_one(client).await.unwrap().try_get_unchecked(0).unwrap()
}

#[tokio::test]
async fn session_is_lent_for_one_statement_or_one_transaction() {
    let Some(mut clients) = clients().await else { return };
    let mut seen = Vec::new();
    for _ in 0..4 {
        seen.push(number(&mut clients.one, SESSION).await);
    }
    assert!(seen.windows(2).all(|two| two[0] != two[1]), "one session after another: {seen:?}");
    assert_eq!(seen[0], number(&mut clients.other, SESSION).await, "whoever comes next gets the next one");

    let mut transaction = clients.one.begin().await.unwrap();
    let own = number(&mut transaction, SESSION).await;
    for _ in 0..4 {
        assert_ne!(number(&mut clients.other, SESSION).await, own, "lent, and to nobody else");
        assert_eq!(number(&mut transaction, SESSION).await, own);
    }
    transaction.commit().await.unwrap();
    for statement in ["CREATE TABLE counters (n INT) ENGINE = InnoDB", "SET autocommit = 0"] {
        raw_sql(statement).execute(&mut clients.one).await.unwrap();
    }
    for _ in 0..2 {
        raw_sql("INSERT INTO counters VALUES (1)").execute(&mut clients.one).await.unwrap();
        let own = number(&mut clients.one, SESSION).await;
        assert_eq!(
            number(&mut clients.one, SESSION).await,
            own,
            "the first statement has begun a transaction"
        );
        raw_sql("ROLLBACK").execute(&mut clients.one).await.unwrap();
        assert_ne!(number(&mut clients.one, SESSION).await, own, "and that is over");
        assert_eq!(
            number(&mut clients.other, "SELECT @@autocommit").await,
            1,
            "of one client, not of the other"
        );
    }
    assert_eq!(number(&mut clients.other, "SELECT COUNT(*) FROM counters").await, 0);
}

/// A lock that a session holds excludes no client of a pooler, as behind `PgBouncer`.
#[tokio::test]
async fn session_lock_behind_a_pooler_is_granted_twice() {
    let Some(Clients { mut one, mut other, _between }) = clients().await else { return };
    const LOCK: &str = "SELECT GET_LOCK('a', 0)";
    assert_eq!(number(&mut one, LOCK).await, 1);
    assert_eq!(number(&mut one, LOCK).await, 0, "by the other session it is refused what it has");
    assert_eq!(number(&mut other, LOCK).await, 1, "and who is lent the first has it too");
}

async fn echo(client: &mut MySqlConnection, statement: &'static str, given: i64) -> i64 {
    query_scalar(statement).bind(given).fetch_one(client).await.unwrap()
}

#[tokio::test]
async fn settings_and_prepared_statements_follow_their_client() {
    let Some(mut clients) = clients().await else { return };
    raw_sql("SET SESSION lock_wait_timeout = 17").execute(&mut clients.one).await.unwrap();
    for round in 0..4_i64 {
        assert_eq!(number(&mut clients.one, "SELECT @@lock_wait_timeout").await, 17);
        assert_eq!(echo(&mut clients.one, "SELECT CAST(? AS SIGNED)", round).await, round);
        assert_eq!(echo(&mut clients.other, "SELECT CAST(? AS SIGNED) + 100", round).await, round + 100);
    }
    let wrong = query("SELECT wrong").execute(&mut clients.one).await.unwrap_err();
    assert!(wrong.to_string().contains("Unknown column"), "{wrong}");
    let rows = query_scalar::<_, i64>("SELECT 1 UNION SELECT 2").fetch_all(&mut clients.one).await.unwrap();
    assert_eq!(rows, [1, 2], "an error is an answer, and others follow");
}
