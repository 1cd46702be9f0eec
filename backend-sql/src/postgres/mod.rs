//! PostgreSQL.

mod check;
pub(crate) mod codes;
mod listener;
mod simple;

use crate::server::{
    Answer, ColumnType, Dialect, ErrorClass, Layout, RawConnection, Releases, SslMode, Statement, Target,
    Texts, Value,
};
use async_trait::async_trait;
use leasehold_core::{Error, ErrorKind, Finding, Result};
use leasehold_store_url::StoreUrl;
use secrecy::ExposeSecret;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgQueryResult, PgRow, PgSslMode};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor, Row};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const PORT: u16 = 5432;

pub(crate) static TEXTS: Texts = Texts {
    // `now()` stands still from the beginning of the transaction on, so it is not used. The whole number of microseconds is
    // exact, also where `extract` gives a double, as before version 14.
    now: "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)",
    one_if_writable: "1",
    takes_writes: include_str!("takes_writes.sql"),
    refuses_all_writes: true,
    quote: '"',
    numbers_parameters: true,
    layout: include_str!("layout.sql"),
    settings: include_str!("settings.sql"),
    grants: "-- What locking needs, for the user of the locks:\n\
        GRANT SELECT, INSERT, UPDATE ON {table} TO {user};\n",
    session_number: Some(include_str!("session.sql")),
    started: Some(include_str!("started.sql")),
    lease_table: Layout {
        schema: include_str!("schema.sql"),
        parts: "permanent rows, name bytea not null primary key, owner bytea, token bigint not null, ends_at bigint not null, \
            acquired_at bigint not null, version bigint not null, wanted_until bigint not null, holder text not null, sharers text",
    },
    acquire: include_str!("acquire.sql"),
    unless_there: "ON CONFLICT (name) DO NOTHING",
    poll: include_str!("poll.sql"),
    notify: Some("pg_notify('{channel}', encode(name, 'hex'))"),
    holder_table: Layout {
        schema: include_str!("schema_holders.sql"),
        parts: "permanent rows, name bytea not null primary key, owner bytea, token bigint not null, acquired_at bigint not null, \
            connection bigint not null, holder text not null, sharers text",
    },
    row_table: Layout {
        schema: include_str!("schema_rows.sql"),
        parts: "permanent rows, name bytea not null primary key",
    },
    make_row: include_str!("make_row.sql"),
    lock: include_str!("lock.sql"),
    for_share: "FOR SHARE",
    enter: include_str!("enter.sql"),
    enter_shared: include_str!("enter_shared.sql"),
    mark: include_str!("mark.sql"),
    remove_sharer: include_str!("remove_sharer.sql"),
    in_transaction: include_str!("in_transaction.sql"),
    end_connection: include_str!("end_connection.sql"),
};

/// PostgreSQL from 12 on.
#[derive(Debug)]
pub(crate) struct PostgresDialect {
    target: Arc<Target>,
    /// False until no pooler was found: a statement that is prepared in a session is met there by the next client.
    prepares: Arc<AtomicBool>,
}

#[derive(Debug)]
struct PgRawConnection {
    connection: PgConnection,
    prepares: Arc<AtomicBool>,
}

impl PostgresDialect {
    pub(crate) fn open(url: &StoreUrl) -> Result<Self> {
        let target = Arc::new(Target::from_url(url, "postgres", PORT)?);
        check_environment(&target)?;
        Ok(Self { target, prepares: Arc::default() })
    }

    /// Everything is set here that can be: what is left out, the driver takes from the environment, as `libpq` does. For the
    /// rest of that, see `check_environment`.
    fn options(&self) -> sqlx::Result<PgConnectOptions> {
        let target = &self.target;
        let mut options = PgConnectOptions::new_without_pgpass()
            .host(&target.host)
            .port(target.port)
            .username(&target.user)
            .database(&target.database)
            .application_name("leasehold")
            // A parameter of the start that PgBouncer refuses by default. No answer of ours has a fraction.
            .extra_float_digits(None)
            // An empty one is none.
            .password(target.read_password()?.as_ref().map_or("", ExposeSecret::expose_secret))
            .disable_statement_logging()
            .ssl_mode(match target.encryption.mode {
                SslMode::Disable => PgSslMode::Disable,
                SslMode::Require => PgSslMode::Require,
                SslMode::VerifyCa => PgSslMode::VerifyCa,
                SslMode::VerifyFull => PgSslMode::VerifyFull,
            });
        options = match &target.encryption.root {
            Some(root) => options.ssl_root_cert(root),
            None => options.ssl_root_cert_from_pem(Vec::new()),
        };
        if let Some(socket) = &target.socket {
            options = options.socket(socket);
        }
        if let Some((certificate, key)) = &target.encryption.identity {
            options = options.ssl_client_cert(certificate).ssl_client_key(key);
        }
        Ok(options)
    }
}

#[async_trait]
impl Dialect for PostgresDialect {
    fn texts(&self) -> &'static Texts {
        &TEXTS
    }

    fn target(&self) -> &Arc<Target> {
        &self.target
    }

    async fn log_in(&self) -> sqlx::Result<Box<dyn RawConnection>> {
        let connection = self.options()?.connect().await?;
        Ok(Box::new(PgRawConnection { connection, prepares: Arc::clone(&self.prepares) }))
    }

    /// What a session of ours is like: the isolation under which one statement sees what others have committed before it
    /// got the lock of the row; the server's own limits, for a statement that we no longer wait for still runs; and
    /// commits that are on the disk before they are answered, unless the administrator wants even more. The limit for whole
    /// transactions, which the server has from version 17 on, would end every hold of `for-update` after that time.
    ///
    /// In one round trip, which tells to which server the connection leads; in one more where that may not be asked. Two settings are
    /// changed only from one value, and without `set_config()`, which may be revoked.
    async fn set_up(&self, connection: &mut dyn RawConnection) -> sqlx::Result<Option<String>> {
        let millis = self.target.timeout.as_millis();
        let first = |server: &str| {
            format!(
                "SELECT ({server}), current_setting('synchronous_commit'), current_setting('transaction_timeout', true); \
                 SET default_transaction_isolation = 'read committed'; \
                 SET statement_timeout = {millis}; SET lock_timeout = {millis}; SET bytea_output = 'hex'"
            )
        };
        let said = match connection.first_row(&first(include_str!("server.sql"))).await {
            Err(error) if self.error_class(&error) == ErrorClass::Denied => {
                connection.first_row(&first("NULL")).await?
            }
            said => said?,
        };
        let mut said = said.into_iter();
        let server = said.next().flatten();
        if said.next().flatten().as_deref() == Some("off") {
            connection.tell("SET synchronous_commit = on").await?;
        }
        if said.next().flatten().is_some_and(|limit| limit != "0") {
            connection.tell("SET transaction_timeout = 0").await?;
        }
        Ok(server)
    }

    fn error_class(&self, error: &sqlx::Error) -> ErrorClass {
        codes::error_class(error)
    }

    async fn listen(&self) -> Option<sqlx::Result<Releases>> {
        Some(listener::releases(self).await)
    }

    /// A setting of our own, by which `lock.sql` sees that this transaction is still open.
    fn begin(&self, idle: Duration) -> String {
        let millis = idle.as_millis();
        format!(
            "BEGIN; SET LOCAL idle_in_transaction_session_timeout = {millis}; \
             SET LOCAL leasehold.transaction = 'open'"
        )
    }

    fn sessions_are_own(&self) {
        self.prepares.store(true, Ordering::Release);
    }

    fn findings(&self, setting: &dyn Fn(&str) -> String) -> Vec<Finding> {
        check::findings(setting)
    }
}

#[async_trait]
impl RawConnection for PgRawConnection {
    async fn ask(&mut self, statement: &Statement, values: &[Value]) -> sqlx::Result<Answer> {
        let results = if self.prepares.load(Ordering::Acquire) {
            let query = sqlx::query(AssertSqlSafe(Arc::clone(&statement.text)));
            self.connection.fetch_many(statement.in_place(values).fold(query, |query, value| match value {
                Value::Bytes(bytes) => query.bind(bytes.as_deref()),
                Value::Int(number) => query.bind(*number),
                Value::Text(text) => query.bind(text.as_deref()),
            }))
        } else {
            self.connection.fetch_many(AssertSqlSafe(statement.with_values(values, simple::literal)))
        };
        let counts = |done: &PgQueryResult| (done.rows_affected(), 0);
        Answer::collect(results, &statement.columns, counts, read).await
    }

    async fn first_row(&mut self, question: &str) -> sqlx::Result<Vec<Option<String>>> {
        let rows = self.connection.fetch_all(AssertSqlSafe(question.to_owned())).await?;
        let Some(row) = rows.first() else { return Ok(Vec::new()) };
        (0..row.len()).map(|at| row.try_get_unchecked(at)).collect()
    }

    async fn close(self: Box<Self>) {
        let _ = self.connection.close().await;
    }
}

fn read(row: &PgRow, at: usize, kind: ColumnType) -> sqlx::Result<Value> {
    Ok(match kind {
        ColumnType::Bytes => Value::Bytes(row.try_get(at)?),
        ColumnType::Int => Value::Int(row.try_get(at)?),
        ColumnType::Text => Value::Text(row.try_get(at)?),
    })
}

/// Refuses the variables that would decide in the place of the URL: which table is meant, by a `search_path`, or who is
/// shown to the server. Two processes with one URL must mean one lock.
fn check_environment(target: &Target) -> Result<()> {
    let shows_nobody = target.encryption.mode != SslMode::Disable && target.encryption.identity.is_none();
    let decides = |name: &&str| match std::env::var(name) {
        Ok(options) if *name == "PGOPTIONS" => !options.is_empty(),
        Ok(_) => shows_nobody,
        // The driver ignores a variable that is no text.
        Err(_) => false,
    };
    let Some(name) = ["PGOPTIONS", "PGSSLCERT", "PGSSLKEY"].into_iter().find(decides) else { return Ok(()) };
    let message = format!("{name} is set in the environment, and would decide in the place of the URL");
    Err(Error::new(ErrorKind::Misconfigured, message).with_help(
        "unset it for this program; or say the same by ALTER ROLE … SET …, or by sslcert and sslkey in the URL",
    ))
}
