//! A connection to a table that is there and is ours.

use super::batch::plain;
use super::failure::{Doing, failure, is_busy, is_misfit};
use super::files::{FileId, OpenFiles};
use super::options::Options;
use super::place::Place;
use super::schema::{self, Column, Found, Object};
use futures_util::TryStreamExt;
use leasehold_core::{Error, ErrorKind, Result};
use sqlx::sqlite::{SqliteArguments, SqliteConnectOptions, SqliteConnection, SqliteRow, SqliteSynchronous};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Either, Executor as _, Row as _, Sqlite};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long to sleep before asking again for what SQLite itself does not wait for.
const PAUSE: Duration = Duration::from_millis(5);
/// More rows than a statement of ours returns, but for a list: the driver's thread need not wait for a reader.
const ROWS_AHEAD: usize = 256;

pub(super) type Query = sqlx::query::Query<'static, Sqlite, SqliteArguments>;

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Changes the table, and makes it if it is missing.
    Writer,
    /// Only looks.
    Reader,
}

/// What is there of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Schema {
    Missing,
    /// Of schema 1: a column is missing.
    Old,
    Present,
}

/// What came of a statement that ran to its end.
#[derive(Default)]
pub(super) struct Done {
    pub(super) rows: Vec<SqliteRow>,
    /// How many rows it has changed, if it changes any.
    pub(super) changed: u64,
}

#[derive(Debug)]
pub(super) struct Connection {
    sqlite: SqliteConnection,
    files: OpenFiles,
}

impl Connection {
    /// Opens the file; `None` if there is nothing to look at for a reader.
    pub(super) async fn open(place: &Place, options: &Options, role: Role) -> Result<Option<Self>> {
        let Some(file) = find(place, role).await? else {
            return Ok(None);
        };
        let opening = Opening { place, options, role };
        let mut sqlite = opening.connect().await?;
        let found = opening.check_schema(&mut sqlite).await?;
        match (role, found) {
            (Role::Reader, Schema::Missing) => return Ok(None),
            (Role::Reader, Schema::Old) => return Err(schema::older(&options.table, place.file())),
            (Role::Reader, Schema::Present) => {}
            (Role::Writer, found) => opening.make_ready(&mut sqlite, found).await?,
        }
        let files = OpenFiles::of(place, file);
        match files.missing() {
            Some(path) if role == Role::Writer => Err(missing(path)),
            _ => Ok(Some(Self { sqlite, files })),
        }
    }

    /// Ends it, and waits for that: until then SQLite shares the files it has open with every other connection that this
    /// process opens to the same file.
    pub(super) async fn close(self) {
        // What could fail is copying the log into the file, which the next to open it does.
        let _ = self.sqlite.close().await;
    }

    pub(super) async fn run(&mut self, query: Query) -> Result<Done, sqlx::Error> {
        run(&mut self.sqlite, query).await
    }

    pub(super) fn files(&mut self) -> &mut OpenFiles {
        &mut self.files
    }
}

/// Runs a statement to its end.
///
/// Never by `fetch_one` or `fetch_optional`: they stop at the first row, the commit happens when the driver then resets
/// the statement, and what goes wrong there is dropped. A lock would be granted that is not in the file.
async fn run(sqlite: &mut SqliteConnection, query: Query) -> Result<Done, sqlx::Error> {
    let mut done = Done::default();
    let mut results = sqlite.fetch_many(query);
    while let Some(result) = results.try_next().await? {
        match result {
            Either::Left(end) => done.changed = end.rows_affected(),
            Either::Right(row) => done.rows.push(row),
        }
    }
    Ok(done)
}

/// Looks for the file off the runtime's threads, because a path may lead to a file system that does not answer.
async fn find(place: &Place, role: Role) -> Result<Option<FileId>> {
    let place = place.clone();
    let found = tokio::task::spawn_blocking(move || match role {
        Role::Reader => place.find(),
        Role::Writer => find_or_make(&place).map(Some),
    });
    found.await.unwrap_or_else(|error| {
        let message = "the runtime was shut down while the store was opened";
        Err(Error::new(ErrorKind::Unavailable, message).with_source(error))
    })
}

fn find_or_make(place: &Place) -> Result<FileId> {
    if let Some(found) = place.find()? {
        return Ok(found);
    }
    place.create()?;
    place.find()?.ok_or_else(|| {
        let message = format!("{} was made, and is gone again", place.file().display());
        Error::new(ErrorKind::Unavailable, message).with_help("find out who deletes it")
    })
}

struct Opening<'a> {
    place: &'a Place,
    options: &'a Options,
    role: Role,
}

impl Opening<'_> {
    async fn connect(&self) -> Result<SqliteConnection> {
        let options = SqliteConnectOptions::new()
            .filename(self.place.file())
            .busy_timeout(self.options.busy_timeout)
            .synchronous(SqliteSynchronous::Full)
            // A schema that somebody else wrote runs none of its functions for us (<https://sqlite.org/security.html>).
            .pragma("trusted_schema", "OFF")
            .row_buffer_size(ROWS_AHEAD)
            .disable_statement_logging();
        let options = match self.role {
            Role::Reader => options.pragma("query_only", "ON"),
            Role::Writer => options,
        };
        options.connect().await.map_err(|error| self.failed(error))
    }

    async fn check_schema(&self, sqlite: &mut SqliteConnection) -> Result<Schema> {
        let (table, file) = (&self.options.table, self.place.file());
        let objects = self.read_all(sqlite, include_str!("objects.sql"), read_object).await?;
        match schema::judge(table, file, &objects)? {
            Found::Nothing => Ok(Schema::Missing),
            Found::Ours => Ok(Schema::Present),
            Found::Table => {
                let columns = self.read_all(sqlite, include_str!("columns.sql"), read_column).await?;
                let is_complete = schema::check_columns(table, file, &columns)?;
                Ok(if is_complete { Schema::Present } else { Schema::Old })
            }
        }
    }

    /// One statement makes the table if it is missing: of several processes that run it at once, one makes it and all go
    /// on. What is there after it is looked at again; which also opens the log of a file that was just put into WAL mode.
    async fn make_ready(&self, sqlite: &mut SqliteConnection, found: Schema) -> Result<()> {
        self.enter_wal(sqlite).await?;
        let statement = match found {
            Schema::Missing => schema::create_statement(&self.options.table),
            Schema::Old => plain(include_str!("add_sharers.sql"), &self.options.table),
            Schema::Present => return self.check_schema(sqlite).await.map(|_| ()),
        };
        match run(sqlite, sqlx::query(AssertSqlSafe(statement))).await {
            // Another process has added the column meanwhile.
            Err(error) if found == Schema::Old && is_misfit(&error) => {}
            Err(error) => return Err(self.failed(error)),
            Ok(_) => {}
        }
        match self.check_schema(sqlite).await? {
            Schema::Old => Err(schema::older(&self.options.table, self.place.file())),
            _ => Ok(()),
        }
    }

    /// Puts the file into WAL mode, in which readers do not wait for the writer. It stays in it. The change needs the
    /// file for itself, and SQLite does not wait for that by its busy time-out.
    async fn enter_wal(&self, sqlite: &mut SqliteConnection) -> Result<()> {
        let give_up = Instant::now() + self.options.busy_timeout;
        loop {
            let answer = run(sqlite, sqlx::query("PRAGMA journal_mode = WAL")).await;
            match answer.and_then(|done| done.rows.first().map(|row| row.try_get::<String, _>(0)).transpose())
            {
                Ok(Some(mode)) if mode == "wal" => return Ok(()),
                Ok(mode) => return Err(self.no_wal(mode.as_deref().unwrap_or("unknown"))),
                Err(error) if is_busy(&error) && Instant::now() < give_up => tokio::time::sleep(PAUSE).await,
                Err(error) => return Err(self.failed(error)),
            }
        }
    }

    async fn read_all<T>(
        &self,
        sqlite: &mut SqliteConnection,
        template: &str,
        read: fn(&SqliteRow) -> Result<T, sqlx::Error>,
    ) -> Result<Vec<T>> {
        let table = &self.options.table;
        let query = sqlx::query(AssertSqlSafe(plain(template, table))).bind(table.as_str().to_owned());
        let done = run(sqlite, query).await;
        let read = done.and_then(|done| done.rows.iter().map(read).collect());
        read.map_err(|error| self.failed(error))
    }

    fn no_wal(&self, mode: &str) -> Error {
        let file = self.place.file().display();
        Error::new(ErrorKind::Misconfigured, format!("{file} stays in journal mode {mode}"))
            .with_help("put it on a file system with shared memory, on which SQLite can use WAL mode")
    }

    fn failed(&self, error: sqlx::Error) -> Error {
        // Nothing of a lock is written yet, so nothing is unknown.
        failure(error, Doing::Reading, self.place.file(), self.options.busy_timeout)
    }
}

fn missing(side_file: &Path) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!("{} was deleted while it was in use", side_file.display()),
    )
    .with_help("end the programs that still have it open, for instance those that fuser finds; a new one is made then")
}

fn read_object(row: &SqliteRow) -> Result<Object, sqlx::Error> {
    Ok(Object { kind: row.try_get(0)?, name: row.try_get(1)?, sql: row.try_get(2)? })
}

fn read_column(row: &SqliteRow) -> Result<Column, sqlx::Error> {
    Ok(Column {
        name: row.try_get(0)?,
        kind: row.try_get(1)?,
        not_null: row.try_get(2)?,
        in_primary_key: row.try_get::<i64, _>(3)? > 0,
    })
}
