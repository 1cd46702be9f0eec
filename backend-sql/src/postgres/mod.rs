//! PostgreSQL.

mod check;
mod codes;
pub(crate) mod environment;
mod listener;
mod simple;

use crate::server::{
    Answer, Dialect, Encryption, ForUpdate, Found, Kind, Leases, Link, Meaning, ReleaseListener, Statement,
    Table, TableName, Target, Value,
};
use async_trait::async_trait;
use futures_util::TryStreamExt;
use leasehold_core::{FencingToken, Finding};
use secrecy::ExposeSecret;
use sqlx::postgres::{PgArguments, PgConnectOptions, PgConnection, PgRow, PgSslMode};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Either, Executor, Postgres, Row};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub(crate) const PORT: u16 = 5432;

const COLUMNS_OF: &str = include_str!("columns.sql");
const TABLE_OF: &str = include_str!("table.sql");

/// The columns of the tables, as `columns.sql` finds them.
const LEASE: &[(&str, &str)] = &[
    ("name", "bytea not null"),
    ("owner", "bytea"),
    ("token", "bigint not null"),
    ("ends_at", "bigint not null"),
    ("acquired_at", "bigint not null"),
    ("version", "bigint not null"),
    ("wanted_until", "bigint not null"),
    ("holder", "text not null"),
    ("sharers", "text"),
];
const HOLDERS: &[(&str, &str)] = &[
    ("name", "bytea not null"),
    ("owner", "bytea"),
    ("token", "bigint not null"),
    ("acquired_at", "bigint not null"),
    ("connection", "bigint not null"),
    ("holder", "text not null"),
];

/// PostgreSQL from 12 on.
#[derive(Debug)]
pub(crate) struct PostgresDialect {
    target: Arc<Target>,
    /// False until no pooler was found: a statement that is prepared in a session is met there by the next client.
    prepares: Arc<AtomicBool>,
}

struct PgLink {
    connection: PgConnection,
    prepares: Arc<AtomicBool>,
}

impl PostgresDialect {
    pub(crate) fn new(target: Arc<Target>) -> Self {
        Self { target, prepares: Arc::default() }
    }

    /// Everything is set here that can be: what is left out, the driver takes from the environment, as `libpq` does. For the
    /// rest of that, see `environment.rs`.
    pub(crate) fn options(&self) -> sqlx::Result<PgConnectOptions> {
        let target = &self.target;
        let options = PgConnectOptions::new_without_pgpass()
            .host(&target.host)
            .port(target.port)
            .username(&target.user)
            .database(&target.database)
            .application_name("leasehold")
            // A parameter of the start that PgBouncer refuses by default. No answer of ours has a fraction.
            .extra_float_digits(None)
            // An empty one is none.
            .password(target.read_password()?.as_ref().map_or("", ExposeSecret::expose_secret))
            .disable_statement_logging();
        let options = target.socket.iter().fold(options, PgConnectOptions::socket);
        let (mode, files) = match &target.encryption {
            Encryption::None => (PgSslMode::Disable, None),
            Encryption::Anybody => (PgSslMode::Require, None),
            Encryption::Authority(files) => (PgSslMode::VerifyCa, Some(files)),
            Encryption::Full(files) => (PgSslMode::VerifyFull, Some(files)),
        };
        let options = options.ssl_mode(mode);
        let Some(files) = files else {
            return Ok(options);
        };
        let options = match &files.root {
            Some(root) => options.ssl_root_cert(root),
            None => options.ssl_root_cert_from_pem(Vec::new()),
        };
        Ok(match &files.identity {
            Some((certificate, key)) => options.ssl_client_cert(certificate).ssl_client_key(key),
            None => options,
        })
    }
}

#[async_trait]
impl Dialect for PostgresDialect {
    async fn log_in(&self) -> sqlx::Result<Box<dyn Link>> {
        let connection = self.options()?.connect().await?;
        Ok(Box::new(PgLink { connection, prepares: Arc::clone(&self.prepares) }))
    }

    /// What a session of ours is like: the isolation under which one statement sees what others have committed before it
    /// got the lock of the row; the server's own limits, for a statement that we no longer wait for still runs; and
    /// commits that are on the disk before they are answered, unless the administrator wants even more. The limit for whole
    /// transactions, which the server has from version 17 on, would end every hold of `for-update` after that time.
    fn session(&self) -> String {
        let millis = self.target.timeout.as_millis();
        format!(
            "SET default_transaction_isolation = 'read committed'; SET default_transaction_read_only = off; \
             SET statement_timeout = {millis}; SET lock_timeout = {millis}; \
             SET bytea_output = 'hex'; \
             SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'; \
             SELECT set_config('transaction_timeout', '0', false) WHERE current_setting('transaction_timeout', true) <> '0'"
        )
    }

    fn meaning(&self, error: &sqlx::Error) -> Meaning {
        codes::meaning(error)
    }

    /// Not `now()`: that one stands still from the beginning of the transaction on. The whole number of microseconds is
    /// exact, also where `extract` gives a double, as before version 14.
    fn now(&self) -> &'static str {
        "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)"
    }

    fn parameter(&self, number: usize) -> String {
        format!("${number}")
    }

    fn parameters_have_numbers(&self) -> bool {
        true
    }

    fn quoted(&self, table: &TableName) -> String {
        format!("\"{table}\"")
    }

    fn leases(&self) -> Leases {
        Leases {
            acquire: include_str!("acquire.sql"),
            release: include_str!("release.sql"),
            end_grant: include_str!("end_grant.sql"),
            make_row: include_str!("make_lease_row.sql"),
            poll: include_str!("poll.sql"),
            replace: include_str!("replace.sql"),
            sends_messages: true,
        }
    }

    async fn listen(&self) -> Option<sqlx::Result<Box<dyn ReleaseListener>>> {
        let listener = listener::PgReleaseListener::connect(self).await;
        Some(listener.map(|listener| Box::new(listener) as Box<dyn ReleaseListener>))
    }

    fn lease_table(&self, name: TableName) -> Table {
        Table {
            name,
            schema: include_str!("schema.sql"),
            columns: LEASE,
            added: Some(("sharers", include_str!("add_sharers.sql"))),
        }
    }

    fn for_update(&self) -> ForUpdate {
        ForUpdate {
            make_row: include_str!("make_row.sql"),
            lock_now: include_str!("lock_now.sql"),
            lock: include_str!("lock.sql"),
            enter: include_str!("enter.sql"),
            beat: include_str!("beat.sql"),
            beat_before_the_end: false,
            is_of_this_run: None,
        }
    }

    fn for_update_tables(&self, holders: TableName, rows: TableName) -> [Table; 2] {
        [
            Table {
                name: holders,
                schema: include_str!("schema_holders.sql"),
                columns: HOLDERS,
                added: None,
            },
            Table { name: rows, schema: include_str!("schema_rows.sql"), columns: &LEASE[..1], added: None },
        ]
    }

    /// A setting of our own, by which `lock.sql` sees that this transaction is still open.
    fn begin(&self, idle: Duration) -> String {
        let millis = idle.as_millis();
        format!(
            "BEGIN; SET LOCAL idle_in_transaction_session_timeout = {millis}; \
             SET LOCAL leasehold.transaction = 'open'"
        )
    }

    fn end_connection(&self, number: i64, token: FencingToken) -> String {
        format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
             WHERE pid = {number} AND application_name = 'leasehold' \
             AND floor(extract(epoch FROM xact_start) * 1000000) <= {token}"
        )
    }

    async fn look_at(&self, link: &mut dyn Link, table: &TableName) -> sqlx::Result<Option<Found>> {
        let name = [Value::text(&self.quoted(table))];
        let of_table = link.ask(&Statement::new(TABLE_OF, self, table), &name).await?;
        let Some([Value::Text(kind)]) = of_table.rows.first().map(Vec::as_slice) else {
            return Ok(None);
        };
        let columns = link.ask(&Statement::new(COLUMNS_OF, self, table), &name).await?;
        let fault = fault(kind.as_deref().unwrap_or_default());
        let in_key = |place: &Value, name: &str| place.as_int().map(|_| name.to_owned());
        Ok(Some(Found::new(fault, &columns.rows, in_key)))
    }

    fn session_number(&self) -> Option<&'static str> {
        Some(include_str!("session.sql"))
    }

    fn sessions_are_own(&self) {
        self.prepares.store(true, Ordering::Release);
    }

    async fn check(&self, link: &mut dyn Link) -> sqlx::Result<Vec<Finding>> {
        check::check(&self.target, link, self).await
    }
}

/// By `relkind` and `relpersistence`. An unlogged table is emptied when the server crashes.
fn fault(kind: &str) -> Option<String> {
    match kind {
        "rp" | "pp" => None,
        "ru" => Some("it is UNLOGGED: a crash of the server would empty it".to_owned()),
        "rt" => Some("it is a temporary table".to_owned()),
        _ => Some("it is no table".to_owned()),
    }
}

#[async_trait]
impl Link for PgLink {
    async fn ask(&mut self, statement: &Statement, values: &[Value]) -> sqlx::Result<Answer> {
        let mut answer = Answer::default();
        let mut results = if self.prepares.load(Ordering::Acquire) {
            let query = sqlx::query(AssertSqlSafe(Arc::clone(&statement.text)));
            let places = statement.places.iter();
            self.connection.fetch_many(places.fold(query, |query, place| bind(query, &values[*place])))
        } else {
            self.connection.fetch_many(AssertSqlSafe(simple::with_values(&statement.text, values)))
        };
        while let Some(result) = results.try_next().await? {
            match result {
                Either::Left(done) => answer.changed = done.rows_affected(),
                Either::Right(row) => answer.rows.push(read(&row, &statement.columns)?),
            }
        }
        Ok(answer)
    }

    async fn tell(&mut self, text: &str) -> sqlx::Result<()> {
        self.connection.execute(AssertSqlSafe(text.to_owned())).await.map(drop)
    }

    async fn close(self: Box<Self>) {
        let _ = self.connection.close().await;
    }
}

fn bind<'q>(query: Query<'q, Postgres, PgArguments>, value: &Value) -> Query<'q, Postgres, PgArguments> {
    match value {
        Value::Bytes(bytes) => query.bind(bytes.as_deref()),
        Value::Int(number) => query.bind(*number),
        Value::Text(text) => query.bind(text.as_deref()),
    }
}

fn read(row: &PgRow, columns: &[Kind]) -> sqlx::Result<Vec<Value>> {
    let read = |(at, kind): (usize, &Kind)| {
        Ok(match kind {
            Kind::Bytes => Value::Bytes(row.try_get(at)?),
            Kind::Int => Value::Int(row.try_get(at)?),
            Kind::Text => Value::Text(row.try_get(at)?),
        })
    };
    columns.iter().enumerate().map(read).collect()
}

impl fmt::Debug for PgLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PgLink")
    }
}
