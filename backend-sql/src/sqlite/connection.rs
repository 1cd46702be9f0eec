//! A connection to a table that is there and is ours.

use super::database_path::{DatabasePath, FileId, cannot};
use super::failure::is_busy;
use super::files::OpenFiles;
use super::options::Options;
use crate::layout::compare;
use futures_util::TryStreamExt;
use leasehold_core::{Error, ErrorKind, Result};
use sqlx::sqlite::{SqliteArguments, SqliteConnectOptions, SqliteConnection, SqliteRow, SqliteSynchronous};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Either, Executor as _, Sqlite};
use std::time::{Duration, Instant};

/// The pause before the change to WAL mode is tried again: SQLite does not wait for that by itself.
const WAL_AGAIN_AFTER: Duration = Duration::from_millis(5);
/// More rows than a statement of ours returns, but for a list and a purge: the driver's thread need not wait for a reader.
const ROWS_AHEAD: usize = 256;

/// What `schema.sql` makes, in the words of `layout.sql`.
const PARTS: &str = "table, name BLOB NOT NULL PRIMARY KEY, owner BLOB NOT NULL, token INTEGER NOT NULL, ends_at INTEGER NOT NULL, \
    linger_until INTEGER NOT NULL, written_at INTEGER NOT NULL, boot TEXT, acquired_at INTEGER NOT NULL, holder TEXT NOT NULL, \
    sharers TEXT NOT NULL";

pub(super) type SqliteQuery = sqlx::query::Query<'static, Sqlite, SqliteArguments>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Changes the table, and makes it if it is missing.
    Writer,
    /// Changes and makes nothing.
    Reader,
}

#[derive(Default)]
pub(super) struct StatementResult {
    pub(super) rows: Vec<SqliteRow>,
    /// The number of rows that it has changed, if it changes any.
    pub(super) changed: u64,
}

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) sqlite: SqliteConnection,
    pub(super) files: OpenFiles,
}

impl Role {
    /// The kind of a failure that leaves open what a statement has done.
    pub(super) fn unknown(self) -> ErrorKind {
        match self {
            Self::Writer => ErrorKind::Indeterminate,
            Self::Reader => ErrorKind::Unavailable,
        }
    }
}

impl Connection {
    /// Opens the file; `None` if a reader finds no file or no table.
    pub(super) async fn open(options: &Options, role: Role) -> Result<Option<Self>> {
        let file = match find(&options.path, role).await? {
            Some(file) => file,
            None if role == Role::Reader => return Ok(None),
            None => return Err(cannot("find", &options.path.file, std::io::ErrorKind::NotFound)),
        };
        let mut sqlite = connect(options, role).await?;
        let is_there = table_is_there(&mut sqlite, options).await?;
        match role {
            Role::Reader if !is_there => return Ok(None),
            Role::Reader => {}
            // One statement makes the table if it is missing: of several processes that run it at once, one makes it and all go on. The
            // table is looked at again after it, which also opens the log of a file that was just put into WAL mode.
            Role::Writer => {
                enter_wal(&mut sqlite, options).await?;
                if !is_there {
                    let make = AssertSqlSafe(options.statement(include_str!("schema.sql")));
                    sqlite.execute(make).await.map_err(|error| nothing_written(options, error))?;
                }
                table_is_there(&mut sqlite, options).await?;
            }
        }
        let files = OpenFiles::new(&options.path, file);
        if role == Role::Writer {
            files.check_complete()?;
        }
        Ok(Some(Self { sqlite, files }))
    }

    /// Runs a statement to its end.
    ///
    /// Never by `fetch_one` or `fetch_optional`: they stop at the first row, the commit happens when the driver then resets
    /// the statement, and an error of the commit is dropped. A lock would be granted that is not in the file.
    pub(super) async fn run(&mut self, query: SqliteQuery) -> Result<StatementResult, sqlx::Error> {
        let mut result = StatementResult::default();
        let mut results = self.sqlite.fetch_many(query);
        while let Some(part) = results.try_next().await? {
            match part {
                Either::Left(end) => result.changed = end.rows_affected(),
                Either::Right(row) => result.rows.push(row),
            }
        }
        Ok(result)
    }
}

/// Finds the file off the runtime's threads, because a path may lead to a file system that does not answer.
async fn find(path: &DatabasePath, role: Role) -> Result<Option<FileId>> {
    let path = path.clone();
    let found = tokio::task::spawn_blocking(move || match (path.find()?, role) {
        (None, Role::Writer) => path.create().and_then(|()| path.find()),
        (found, _) => Ok(found),
    });
    found.await.unwrap_or_else(|error| {
        let message = "the runtime was shut down while the store was opened";
        Err(Error::new(ErrorKind::Unavailable, message).with_source(error))
    })
}

async fn connect(options: &Options, role: Role) -> Result<SqliteConnection> {
    let connect = SqliteConnectOptions::new()
        .filename(&options.path.file)
        .busy_timeout(options.busy_timeout)
        .synchronous(SqliteSynchronous::Full)
        // A schema of another program runs none of its functions for us (<https://sqlite.org/security.html>).
        .pragma("trusted_schema", "OFF")
        .row_buffer_size(ROWS_AHEAD)
        .disable_statement_logging();
    let connect = match role {
        Role::Reader => connect.pragma("query_only", "ON"),
        Role::Writer => connect,
    };
    connect.connect().await.map_err(|error| nothing_written(options, error))
}

/// True if the table is there, false if nothing is.
///
/// # Errors
///
/// If something else has its name. A trigger is refused as well: it runs inside our statements, and could do anything to them.
async fn table_is_there(sqlite: &mut SqliteConnection, options: &Options) -> Result<bool> {
    let parts = sqlx::query_scalar(include_str!("layout.sql")).bind(options.table.as_str());
    let parts: Vec<String> =
        parts.fetch_all(sqlite).await.map_err(|error| nothing_written(options, error))?;
    if parts.is_empty() {
        return Ok(false);
    }
    compare(&format_args!("{} in {}", options.table, options.path), &parts, PARTS).map(|()| true)
}

/// Puts the file into WAL mode, in which readers do not wait for the writer. It stays in it. The change needs the
/// file for itself, and SQLite does not wait for that by its busy time-out.
async fn enter_wal(sqlite: &mut SqliteConnection, options: &Options) -> Result<()> {
    let give_up = Instant::now() + options.busy_timeout;
    loop {
        match sqlx::query_scalar::<_, String>("PRAGMA journal_mode = WAL").fetch_all(&mut *sqlite).await {
            Ok(modes) if modes == ["wal"] => return Ok(()),
            Ok(modes) => {
                let message = format!("{} stays in journal mode {}", options.path, modes.concat());
                return Err(Error::new(ErrorKind::Misconfigured, message).with_help(
                    "put it on a file system with shared memory, on which SQLite can use WAL mode",
                ));
            }
            Err(error) if is_busy(&error) && Instant::now() < give_up => {
                tokio::time::sleep(WAL_AGAIN_AFTER).await;
            }
            Err(error) => return Err(nothing_written(options, error)),
        }
    }
}

/// The error of a connection that is being opened: nothing of a lock is written yet, so nothing is unknown.
fn nothing_written(options: &Options, error: sqlx::Error) -> Error {
    options.failure(error, ErrorKind::Unavailable)
}
