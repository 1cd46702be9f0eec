//! MySQL and MariaDB: one dialect, for what differs between the two is not used, or asked for in a comment that only
//! one of them executes.

mod check;
mod codes;

use crate::server::{
    Answer, Dialect, Encryption, ForUpdate, Found, Kind, Leases, Link, Meaning, Mode, ReleaseListener,
    Statement, Table, TableName, Target, Value,
};
use async_trait::async_trait;
use futures_util::TryStreamExt;
use leasehold_core::{Error, FencingToken, Finding};
use secrecy::ExposeSecret;
use sqlx::mysql::{MySqlArguments, MySqlConnectOptions, MySqlConnection, MySqlRow, MySqlSslMode};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Either, Executor, MySql, Row};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const PORT: u16 = 3306;

const COLUMNS_OF: &str = include_str!("columns.sql");
const TABLE_OF: &str = include_str!("table.sql");

/// What `make_row.sql` needs, for a plain read to lock nothing. Not where the server writes statements into its log: there
/// it refuses to write under this level.
const TO_SEE_WHAT_IS_COMMITTED: &str = "\
    /*M! , tx_isolation = IF(@@binlog_format = 'STATEMENT', @@tx_isolation, 'READ-COMMITTED') */ \
    /*!80000 , transaction_isolation = IF(@@binlog_format = 'STATEMENT', @@transaction_isolation, 'READ-COMMITTED') */";

/// The columns of the tables, as `columns.sql` finds them.
const LEASE: &[(&str, &str)] = &[
    ("name", "varbinary(640) not null"),
    ("owner", "binary(16)"),
    ("token", "bigint not null"),
    ("ends_at", "bigint not null"),
    ("acquired_at", "bigint not null"),
    ("version", "bigint not null"),
    ("holder", "varchar(1024) utf8mb4_bin not null"),
    ("sharers", "mediumtext utf8mb4_bin"),
];
const HOLDERS: &[(&str, &str)] = &[
    ("name", "varbinary(640) not null"),
    ("owner", "binary(16)"),
    ("token", "bigint not null"),
    ("acquired_at", "bigint not null"),
    ("connection", "bigint not null"),
    ("holder", "varchar(1024) utf8mb4_bin not null"),
];

/// MySQL from 8.0, MariaDB from 10.6 on.
#[derive(Debug)]
pub(crate) struct MySqlDialect {
    target: Arc<Target>,
}

struct MySqlLink(MySqlConnection);

impl MySqlDialect {
    pub(crate) fn new(target: Arc<Target>) -> Self {
        Self { target }
    }

    /// The driver's own settings of a session are left out, so that one statement does for all.
    fn options(&self) -> sqlx::Result<MySqlConnectOptions> {
        let target = &self.target;
        let options = MySqlConnectOptions::new()
            .host(&target.host)
            .port(target.port)
            .username(&target.user)
            .database(&target.database)
            .pipes_as_concat(false)
            .no_engine_substitution(false)
            .timezone(None)
            .set_names(false)
            .disable_statement_logging();
        let options = target
            .read_password()?
            .iter()
            .fold(options, |options, password| options.password(password.expose_secret()));
        let options = target.socket.iter().fold(options, MySqlConnectOptions::socket);
        let (mode, files) = match &target.encryption {
            Encryption::None => (MySqlSslMode::Disabled, None),
            Encryption::Anybody => (MySqlSslMode::Required, None),
            Encryption::Authority(files) => (MySqlSslMode::VerifyCa, Some(files)),
            Encryption::Full(files) => (MySqlSslMode::VerifyIdentity, Some(files)),
        };
        let options = options.ssl_mode(mode);
        let Some(files) = files else {
            return Ok(options);
        };
        let options = files.root.iter().fold(options, MySqlConnectOptions::ssl_ca);
        Ok(match &files.identity {
            Some((certificate, key)) => options.ssl_client_cert(certificate).ssl_client_key(key),
            None => options,
        })
    }

    /// For how many seconds a statement waits for a row: whole ones, and one at least.
    fn patience(&self) -> u64 {
        self.target.timeout.as_secs().max(1)
    }
}

#[async_trait]
impl Dialect for MySqlDialect {
    async fn log_in(&self) -> sqlx::Result<Box<dyn Link>> {
        Ok(Box::new(MySqlLink(self.options()?.connect().await?)))
    }

    /// What a session of ours is like. Its SQL mode is ours and not the server's: strict, so that nothing is ever cut short
    /// in silence, and without `SIMULTANEOUS_ASSIGNMENT`, which is part of `ORACLE`: `acquire.sql` lives by the order of its
    /// assignments, and would grant a lock without entering its owner. In UTC; for writing; and with the server's
    /// own limits, for a statement that we no longer wait for still runs. `autocommit` is switched off and on, which ends a
    /// transaction that `init_connect` has begun: a grant in it would be rolled back. MariaDB alone executes `/*M! */`.
    fn session(&self) -> String {
        let seconds = self.target.timeout.as_secs_f64();
        let (patience, isolation) = match self.target.mode {
            Mode::ForUpdate => (1, TO_SEE_WHAT_IS_COMMITTED),
            Mode::Lease | Mode::Optimistic => (self.patience(), ""),
        };
        format!(
            "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', sql_select_limit = 18446744073709551615, \
             sql_big_selects = 1, time_zone = '+00:00', \
             innodb_lock_wait_timeout = {patience}, autocommit = 0, autocommit = 1 \
             {isolation} /*M! , max_statement_time = {seconds:.3}, tx_read_only = 0 */ \
             /*!80000 , transaction_read_only = 0 */"
        )
    }

    fn meaning(&self, error: &sqlx::Error) -> Meaning {
        match error {
            // Of `caching_sha2_password` and its like, which without TLS want the password encrypted with RSA: by code
            // that leaks the key by its timing (RUSTSEC-2023-0071), which is why the driver has none here.
            sqlx::Error::Configuration(_) if self.target.encryption == Encryption::None => {
                Meaning::PasswordInTheClear
            }
            error => codes::meaning(error),
        }
    }

    /// `UTC_TIMESTAMP` knows no time zone and is frozen when the statement begins; what has passed since is added, as
    /// the difference of two times of the same zone.
    fn now(&self) -> &'static str {
        "(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + TIMESTAMPDIFF(MICROSECOND, NOW(6), SYSDATE(6)))"
    }

    fn parameter(&self, _number: usize) -> String {
        "?".to_owned()
    }

    fn parameters_have_numbers(&self) -> bool {
        false
    }

    fn quoted(&self, table: &TableName) -> String {
        format!("`{table}`")
    }

    fn leases(&self) -> Leases {
        Leases {
            acquire: include_str!("acquire.sql"),
            release: include_str!("release.sql"),
            end_grant: include_str!("end_grant.sql"),
            make_row: include_str!("make_lease_row.sql"),
            poll: include_str!("poll.sql"),
            replace: include_str!("replace.sql"),
            sends_messages: false,
        }
    }

    /// The ways to wake a waiter without a poll need a connection that does nothing else: see `docs/sql.md`.
    async fn listen(&self) -> Option<sqlx::Result<Box<dyn ReleaseListener>>> {
        None
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
            beat_before_the_end: true,
            is_of_this_run: Some(include_str!("is_of_this_run.sql")),
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

    /// In READ COMMITTED, where looking for a row that is not there locks nothing: else all who meet at a new name
    /// would lock the gap, and nobody could make the row.
    ///
    /// Whole seconds, rounded up: the holder must know that its time is over before the server ends the transaction. MariaDB has
    /// limits for idle transactions, and those for transactions that have only read, or have written, come before the one for all
    /// (`THD::get_net_wait_timeout`). MySQL, whose comment begins with its version, knows only idle connections.
    fn begin(&self, idle: Duration) -> String {
        let (seconds, patience) = (idle.as_millis().div_ceil(1000), self.patience());
        format!(
            "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; \
             SET SESSION autocommit = 0, innodb_lock_wait_timeout = {patience} \
             /*M! , idle_transaction_timeout = {seconds} \
             , idle_readonly_transaction_timeout = 0, idle_write_transaction_timeout = 0 */ \
             /*!80000 , wait_timeout = {seconds} */"
        )
    }

    /// Without the token: the right to read transactions by their connections covers those of all users, so it is not needed here.
    fn end_connection(&self, number: i64, _: FencingToken) -> String {
        format!("KILL CONNECTION {number}")
    }

    async fn look_at(&self, link: &mut dyn Link, table: &TableName) -> sqlx::Result<Option<Found>> {
        let name = [Value::text(table.as_str())];
        let of_table = link.ask(&Statement::new(TABLE_OF, self, table), &name).await?;
        let Some([Value::Text(engine), Value::Text(kind)]) = of_table.rows.first().map(Vec::as_slice) else {
            return Ok(None);
        };
        let (engine, kind) = (engine.as_deref().unwrap_or("none"), kind.as_deref().unwrap_or_default());
        let columns = link.ask(&Statement::new(COLUMNS_OF, self, table), &name).await?;
        let in_key = |part: &Value, _: &str| part.as_text().map(str::to_owned);
        Ok(Some(Found::new(fault(engine, kind), &columns.rows, in_key)))
    }

    /// `ProxySQL` and `MaxScale` answer `CONNECTION_ID()` themselves, with numbers of their own.
    fn session_number(&self) -> Option<&'static str> {
        None
    }

    async fn refuses(&self, link: &mut dyn Link) -> sqlx::Result<Option<Error>> {
        check::refuses(&self.target, link, self).await
    }

    async fn check(&self, link: &mut dyn Link) -> sqlx::Result<Vec<Finding>> {
        check::check(&self.target, link, self).await
    }
}

fn fault(engine: &str, kind: &str) -> Option<String> {
    if kind != "BASE TABLE" {
        return Some(format!("it is a {}", kind.to_ascii_lowercase()));
    }
    (!engine.eq_ignore_ascii_case("InnoDB")).then(|| format!("its engine is {engine} and should be InnoDB"))
}

#[async_trait]
impl Link for MySqlLink {
    async fn ask(&mut self, statement: &Statement, values: &[Value]) -> sqlx::Result<Answer> {
        let query = sqlx::query(AssertSqlSafe(Arc::clone(&statement.text)));
        let query = statement.places.iter().fold(query, |query, place| bind(query, &values[*place]));
        let mut answer = Answer::default();
        let mut results = self.0.fetch_many(query);
        while let Some(result) = results.try_next().await? {
            match result {
                Either::Left(done) => {
                    answer.changed = done.rows_affected();
                    answer.last_id = done.last_insert_id();
                }
                Either::Right(row) => answer.rows.push(read(&row, &statement.columns)?),
            }
        }
        Ok(answer)
    }

    async fn tell(&mut self, text: &str) -> sqlx::Result<()> {
        self.0.execute(AssertSqlSafe(text.to_owned())).await.map(drop)
    }

    async fn close(self: Box<Self>) {
        let _ = self.0.close().await;
    }
}

fn bind<'q>(query: Query<'q, MySql, MySqlArguments>, value: &Value) -> Query<'q, MySql, MySqlArguments> {
    match value {
        Value::Bytes(bytes) => query.bind(bytes.as_deref()),
        Value::Int(number) => query.bind(*number),
        Value::Text(text) => query.bind(text.as_deref()),
    }
}

/// Unchecked as to the type: integers have many here, and are read alike.
fn read(row: &MySqlRow, columns: &[Kind]) -> sqlx::Result<Vec<Value>> {
    let read = |(at, kind): (usize, &Kind)| {
        Ok(match kind {
            Kind::Bytes => Value::Bytes(row.try_get_unchecked(at)?),
            Kind::Int => Value::Int(row.try_get_unchecked(at)?),
            Kind::Text => Value::Text(row.try_get_unchecked(at)?),
        })
    };
    columns.iter().enumerate().map(read).collect()
}

impl fmt::Debug for MySqlLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MySqlLink")
    }
}
