//! The same statements by hand: what anybody would write who knew them.

use crate::Kind;
use leasehold_core::OwnerId;
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlSslMode};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgSslMode};
use sqlx::{AssertSqlSafe, ConnectOptions, Executor, Row, query};
use std::sync::{Arc, Mutex};
use tokio::sync::Semaphore;

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

enum Link {
    MySql(MySqlConnection),
    Postgres(PgConnection),
}

/// As many connections as a client of ours has by default, and the two statements of a lease.
#[derive(Clone)]
pub(crate) struct Raw(Arc<Inner>);

struct Inner {
    idle: Mutex<Vec<Link>>,
    free: Semaphore,
    acquire: Template,
    release: Template,
}

const CONNECTIONS: usize = 8;

impl Raw {
    pub(crate) async fn connect(kind: Kind, port: u16) -> Self {
        let mut idle = Vec::new();
        for _ in 0..CONNECTIONS {
            idle.push(match kind {
                Kind::MariaDb => Link::MySql(mysql(port).await),
                Kind::Postgres => Link::Postgres(postgres(port).await),
            });
        }
        let (acquire, release) = match kind {
            Kind::MariaDb => {
                (include_str!("../../src/mysql/acquire.sql"), include_str!("../../src/mysql/release.sql"))
            }
            Kind::Postgres => (
                include_str!("../../src/postgres/acquire.sql"),
                include_str!("../../src/postgres/release.sql"),
            ),
        };
        Self(Arc::new(Inner {
            idle: Mutex::new(idle),
            free: Semaphore::new(CONNECTIONS),
            acquire: Template::new(kind, acquire),
            release: Template::new(kind, release),
        }))
    }

    /// Acquires and releases, each in one statement on whatever connection is free.
    pub(crate) async fn pair(&self, name: &str) {
        let owner = OwnerId::random().unwrap().as_u128().to_be_bytes().to_vec();
        let (name, ttl) = (Value::Bytes(name.as_bytes().to_vec()), Value::Int(30_000_000));
        let holder = Value::Text(r#"{"user":"root","host":"vm","pid":12345,"doing":"servers"}"#);
        let acquire = [name.clone(), Value::Bytes(owner.clone()), ttl, holder];
        assert!(self.run(&self.0.acquire, &acquire).await > 1, "not granted");
        let release = [Value::Int(0), name, Value::Bytes(owner)];
        assert_eq!(self.run(&self.0.release, &release).await, 1, "not released");
    }

    /// The token that was answered, or the number of changed rows.
    async fn run(&self, template: &Template, values: &[Value]) -> u64 {
        let _free = self.0.free.acquire().await.unwrap();
        let mut link = self.0.idle.lock().unwrap().pop().unwrap();
        let answer = match &mut link {
            Link::MySql(connection) => run_on_mysql(connection, template, values).await,
            Link::Postgres(connection) => {
                let statement = query(AssertSqlSafe(Arc::clone(&template.text)));
                let bound = values.iter().fold(statement, |statement, value| match value {
                    Value::Bytes(bytes) => statement.bind(bytes.clone()),
                    Value::Int(number) => statement.bind(*number),
                    Value::Text(text) => statement.bind(*text),
                });
                if template.answers {
                    connection.fetch_one(bound).await.unwrap().get::<i64, _>(0).unsigned_abs()
                } else {
                    connection.execute(bound).await.unwrap().rows_affected()
                }
            }
        };
        self.0.idle.lock().unwrap().push(link);
        answer
    }
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
    answers: bool,
}

impl Template {
    pub(crate) const MYSQL_NOW: &str = "(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + TIMESTAMPDIFF(MICROSECOND, NOW(6), SYSDATE(6)))";

    pub(crate) fn new(kind: Kind, template: &str) -> Self {
        let lines = template.lines().filter(|line| !line.starts_with("--"));
        let template = lines.collect::<Vec<_>>().join("\n").replace("{table}", "leasehold");
        let template = template.replace("{channel}", "leasehold");
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
        let answers = text.contains("RETURNING");
        Self { text: text.trim_end().trim_end_matches(';').into(), places, answers }
    }
}
