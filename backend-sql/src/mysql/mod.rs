//! MySQL and MariaDB: one dialect. A clause that only one of the two knows stands in a comment that only that one executes.

mod check;
mod codes;

use crate::server::{
    Answer, ColumnType, Dialect, ErrorClass, Layout, Mode, RawConnection, SslMode, Statement, Target, Texts,
    Value,
};
use async_trait::async_trait;
use leasehold_core::{Error, ErrorKind, Finding, Result};
use leasehold_store_url::StoreUrl;
use secrecy::ExposeSecret;
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlQueryResult, MySqlRow, MySqlSslMode};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor, Row};
use std::sync::Arc;
use std::time::Duration;

const PORT: u16 = 3306;

/// The isolation that `make_row.sql` needs, for a plain read to lock nothing. A server that writes statements into its log keeps its
/// own: it refuses to write under this level.
const READ_COMMITTED: &str = "\
    /*M! , tx_isolation = IF(@@binlog_format = 'STATEMENT', @@tx_isolation, 'READ-COMMITTED') */ \
    /*!80000 , transaction_isolation = IF(@@binlog_format = 'STATEMENT', @@transaction_isolation, 'READ-COMMITTED') */";

pub(crate) static TEXTS: Texts = Texts {
    // `UTC_TIMESTAMP` knows no time zone and is frozen when the statement begins; what has passed since is added, as the
    // difference of two times of the same zone.
    now: "(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + TIMESTAMPDIFF(MICROSECOND, NOW(6), SYSDATE(6)))",
    // '0' and 'OFF' are writable. The addition of the largest number is out of range, which is an error in every mode of SQL.
    one_if_writable: "IF(LOCATE(@@GLOBAL.read_only, '0OFF'), 1, 9223372036854775807)",
    takes_writes: include_str!("takes_writes.sql"),
    refuses_all_writes: false,
    quote: '`',
    numbers_parameters: false,
    layout: include_str!("layout.sql"),
    settings: include_str!("settings.sql"),
    grants: "-- What locking needs, for the user of the locks, whose account may name another host:\n\
        -- GRANT SELECT, INSERT, UPDATE ON {table} TO {user}@'%';\n",
    // `ProxySQL` and `MaxScale` answer `CONNECTION_ID()` themselves, with numbers of their own.
    session_number: None,
    started: None,
    lease_table: Layout {
        schema: include_str!("schema.sql"),
        parts: "BASE TABLE of InnoDB, name varbinary(640) not null primary key, owner binary(16), token bigint not null, \
            ends_at bigint not null, acquired_at bigint not null, version bigint not null, \
            holder varchar(1024) utf8mb4_bin not null, sharers mediumtext utf8mb4_bin",
    },
    acquire: include_str!("acquire.sql"),
    unless_there: "",
    poll: include_str!("poll.sql"),
    // The ways to wake a waiter without a poll need a connection that does nothing else: see `docs/sql.md`.
    notify: None,
    holder_table: Layout {
        schema: include_str!("schema_holders.sql"),
        parts: "BASE TABLE of InnoDB, name varbinary(640) not null primary key, owner binary(16), token bigint not null, \
            acquired_at bigint not null, connection bigint not null, holder varchar(1024) utf8mb4_bin not null, \
            sharers mediumtext utf8mb4_bin",
    },
    row_table: Layout {
        schema: include_str!("schema_rows.sql"),
        parts: "BASE TABLE of InnoDB, name varbinary(640) not null primary key",
    },
    make_row: include_str!("make_row.sql"),
    lock: include_str!("lock.sql"),
    for_share: "/*M! LOCK IN SHARE MODE */ /*!80000 FOR SHARE */",
    enter: include_str!("enter.sql"),
    enter_shared: include_str!("enter_shared.sql"),
    mark: include_str!("mark.sql"),
    remove_sharer: include_str!("remove_sharer.sql"),
    in_transaction: include_str!("in_transaction.sql"),
    end_connection: include_str!("end_connection.sql"),
};

/// MySQL from 8.0, MariaDB from 10.6 on.
#[derive(Debug)]
pub(crate) struct MySqlDialect {
    target: Arc<Target>,
}

#[derive(Debug)]
struct MySqlRawConnection(MySqlConnection);

impl MySqlDialect {
    pub(crate) fn open(url: &StoreUrl) -> Result<Self> {
        let name = if url.scheme() == "mariadb" { "mariadb" } else { "mysql" };
        Ok(Self { target: Arc::new(Target::from_url(url, name, PORT)?) })
    }

    /// The driver's own settings of a session are left out, so that one statement does for all.
    fn options(&self) -> sqlx::Result<MySqlConnectOptions> {
        let target = &self.target;
        let mut options = MySqlConnectOptions::new()
            .host(&target.host)
            .port(target.port)
            .username(&target.user)
            .database(&target.database)
            .pipes_as_concat(false)
            .no_engine_substitution(false)
            .timezone(None)
            .set_names(false)
            .disable_statement_logging()
            .ssl_mode(match target.encryption.mode {
                SslMode::Disable => MySqlSslMode::Disabled,
                SslMode::Require => MySqlSslMode::Required,
                SslMode::VerifyCa => MySqlSslMode::VerifyCa,
                SslMode::VerifyFull => MySqlSslMode::VerifyIdentity,
            });
        if let Some(password) = target.read_password()? {
            options = options.password(password.expose_secret());
        }
        if let Some(socket) = &target.socket {
            options = options.socket(socket);
        }
        if let Some(root) = &target.encryption.root {
            options = options.ssl_ca(root);
        }
        if let Some((certificate, key)) = &target.encryption.identity {
            options = options.ssl_client_cert(certificate).ssl_client_key(key);
        }
        Ok(options)
    }
}

#[async_trait]
impl Dialect for MySqlDialect {
    fn texts(&self) -> &'static Texts {
        &TEXTS
    }

    fn target(&self) -> &Arc<Target> {
        &self.target
    }

    async fn log_in(&self) -> sqlx::Result<Box<dyn RawConnection>> {
        Ok(Box::new(MySqlRawConnection(self.options()?.connect().await?)))
    }

    /// What a session of ours is like. Its SQL mode is ours and not the server's: strict, so that nothing is ever cut short
    /// in silence, and without `SIMULTANEOUS_ASSIGNMENT`, which is part of `ORACLE`: `acquire.sql` lives by the order of its
    /// assignments, and would grant a lock without entering its owner. In UTC; for writing; and with the server's own limits, for a
    /// statement that we no longer wait for still runs. What `init_connect` may have done is undone: a time that it has fixed, by which no
    /// lease ends, and a transaction, which `autocommit` ends: a grant in it would be rolled back. MariaDB alone executes `/*M! */`.
    async fn set_up(&self, connection: &mut dyn RawConnection) -> sqlx::Result<Option<String>> {
        let seconds = self.target.timeout.as_secs_f64();
        // How long a statement waits for a row: whole seconds, and one at least.
        let (lock_wait, isolation) = match self.target.mode {
            Mode::ForUpdate => (1, READ_COMMITTED),
            Mode::Lease | Mode::Optimistic => (self.target.timeout.as_secs().max(1), ""),
        };
        let session = format!(
            "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', sql_select_limit = 18446744073709551615, \
             sql_big_selects = 1, time_zone = '+00:00', timestamp = DEFAULT, \
             innodb_lock_wait_timeout = {lock_wait}, autocommit = 0, autocommit = 1 \
             {isolation} /*M! , max_statement_time = {seconds:.3}, tx_read_only = 0 */ \
             /*!80000 , transaction_read_only = 0 */"
        );
        connection.tell(&session).await?;
        // By a statement of its own: not every pooler takes several at once.
        match connection.first_row(include_str!("server.sql")).await {
            Err(error) if !matches!(codes::error_class(&error), ErrorClass::Broken | ErrorClass::Ended) => {
                Ok(None)
            }
            said => Ok(said?.into_iter().next().flatten()),
        }
    }

    fn error_class(&self, error: &sqlx::Error) -> ErrorClass {
        match error {
            // Of `caching_sha2_password` and its like, which without TLS want the password encrypted with RSA: by code
            // that leaks the key by its timing (RUSTSEC-2023-0071), which is why the driver has none here.
            sqlx::Error::Configuration(_) if self.target.encryption.mode == SslMode::Disable => {
                ErrorClass::PasswordInTheClear
            }
            error => codes::error_class(error),
        }
    }

    /// In READ COMMITTED, where looking for a row that is not there locks nothing: else all who meet at a new name
    /// would lock the gap, and nobody could make the row.
    ///
    /// The time is in whole seconds, rounded up: the holder must know that its time is over before the server ends the transaction. MariaDB has
    /// limits for idle transactions, and those for transactions that have only read, or have written, come before the one for all
    /// (`THD::get_net_wait_timeout`). MySQL, whose comment begins with its version, knows only idle connections.
    fn begin(&self, idle: Duration) -> String {
        let (seconds, lock_wait) = (idle.as_millis().div_ceil(1000), self.target.timeout.as_secs().max(1));
        format!(
            "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; \
             SET SESSION autocommit = 0, innodb_lock_wait_timeout = {lock_wait} \
             /*M! , idle_transaction_timeout = {seconds} \
             , idle_readonly_transaction_timeout = 0, idle_write_transaction_timeout = 0 */ \
             /*!80000 , wait_timeout = {seconds} */"
        )
    }

    /// Two nodes have two clocks, by which a lease that one has granted may be over on the other; and a row that is locked on one is
    /// free on the others until a commit. So nothing is granted there unless one node alone decides.
    fn other_writers(&self) -> Option<(&'static str, Error)> {
        let refusal = Error::new(ErrorKind::Misconfigured, check::TWO_GRANT).with_help(check::ONE_WRITES);
        (!self.target.galera_single_writer).then_some((include_str!("galera.sql"), refusal))
    }

    fn findings(&self, setting: &dyn Fn(&str) -> String) -> Vec<Finding> {
        check::findings(&self.target, setting)
    }
}

#[async_trait]
impl RawConnection for MySqlRawConnection {
    async fn ask(&mut self, statement: &Statement, values: &[Value]) -> sqlx::Result<Answer> {
        let query = sqlx::query(AssertSqlSafe(Arc::clone(&statement.text)));
        let query = statement.in_place(values).fold(query, |query, value| match value {
            Value::Bytes(bytes) => query.bind(bytes.as_deref()),
            Value::Int(number) => query.bind(*number),
            Value::Text(text) => query.bind(text.as_deref()),
        });
        let counts = |done: &MySqlQueryResult| (done.rows_affected(), done.last_insert_id());
        Answer::collect(self.0.fetch_many(query), &statement.columns, counts, read).await
    }

    async fn first_row(&mut self, question: &str) -> sqlx::Result<Vec<Option<String>>> {
        let rows = self.0.fetch_all(AssertSqlSafe(question.to_owned())).await?;
        let Some(row) = rows.first() else { return Ok(Vec::new()) };
        (0..row.len()).map(|at| row.try_get_unchecked(at)).collect()
    }

    async fn close(self: Box<Self>) {
        let _ = self.0.close().await;
    }
}

/// Unchecked as to the type: integers have many here, and are read alike.
fn read(row: &MySqlRow, at: usize, kind: ColumnType) -> sqlx::Result<Value> {
    Ok(match kind {
        ColumnType::Bytes => Value::Bytes(row.try_get_unchecked(at)?),
        ColumnType::Int => Value::Int(row.try_get_unchecked(at)?),
        ColumnType::Text => Value::Text(row.try_get_unchecked(at)?),
    })
}
