//! Connections and statements without a library over them.

use crate::Kind;
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlSslMode};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgSslMode};
use sqlx::{AssertSqlSafe, ConnectOptions, Executor, query};
use std::sync::Arc;

pub(crate) async fn mysql(port: u16) -> MySqlConnection {
    let options = MySqlConnectOptions::new().host("127.0.0.1").port(port).username("root").database("locks");
    let options = options.ssl_mode(MySqlSslMode::Disabled).disable_statement_logging();
    options.connect().await.unwrap()
}

pub(crate) async fn postgres(port: u16) -> PgConnection {
    let options = PgConnectOptions::new_without_pgpass().host("127.0.0.1").port(port).username("postgres");
    let options = options.database("postgres").ssl_mode(PgSslMode::Disable).disable_statement_logging();
    options.connect().await.unwrap()
}

/// The token that was answered, or the number of changed rows.
pub(crate) async fn run_on_mysql(
    connection: &mut MySqlConnection,
    template: &Template,
    values: &[Value],
) -> u64 {
    let statement = query(AssertSqlSafe(Arc::clone(&template.text)));
    let bound = template.places.iter().fold(statement, |statement, place| match &values[*place] {
        Value::Bytes(bytes) => statement.bind(bytes.clone()),
        Value::Int(number) => statement.bind(*number),
        Value::Text(text) => statement.bind(*text),
    });
    let done = connection.execute(bound).await.unwrap();
    done.last_insert_id().max(done.rows_affected())
}

#[derive(Clone)]
pub(crate) enum Value {
    Bytes(Vec<u8>),
    Int(i64),
    Text(&'static str),
}

/// A statement of ours as a server takes it.
pub(crate) struct Template {
    text: Arc<str>,
    /// Which value stands where, for a server that counts places and not values.
    places: Vec<usize>,
}

impl Template {
    pub(crate) const MYSQL_NOW: &str = "(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + TIMESTAMPDIFF(MICROSECOND, NOW(6), SYSDATE(6)))";

    pub(crate) fn new(kind: Kind, template: &str) -> Self {
        let lines = template.lines().filter(|line| !line.starts_with("--"));
        let template = lines.collect::<Vec<_>>().join("\n").replace("{table}", "leasehold");
        let template = template.replace("{channel}", "leasehold").replace("{one_if_writable}", "1");
        let template = template.replace(
            "{now}",
            match kind {
                Kind::MariaDb => Self::MYSQL_NOW,
                Kind::Postgres => "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)",
            },
        );
        let mut parts = template.split(':');
        let (mut text, mut places) = (parts.next().unwrap_or_default().to_owned(), Vec::new());
        for part in parts {
            let (number, rest) = part.split_at(1);
            places.push(number.parse::<usize>().unwrap() - 1);
            match kind {
                Kind::MariaDb => text.push('?'),
                Kind::Postgres => text += &format!("${number}"),
            }
            text += rest;
        }
        Self { text: text.trim_end().trim_end_matches(';').into(), places }
    }
}
