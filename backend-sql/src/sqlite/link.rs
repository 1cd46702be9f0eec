use super::Shared;
use super::connection::{Connection, Done, Query, Role};
use super::failure::{Doing, failure, is_busy, is_misfit};
use super::reader::Reader;
use leasehold_core::{Error, ErrorKind, Result};
use sqlx::sqlite::SqliteRow;
use std::sync::Arc;

/// How often a statement is run on a file that turns out to have been replaced.
const TRIES: usize = 3;

/// One connection: opened when it is first used, and again when its file is not the one under its path any more.
#[derive(Debug)]
pub(super) struct Link {
    shared: Arc<Shared>,
    role: Role,
    connection: Option<Connection>,
    /// The reader, which a writer takes along when it turns to another file.
    reader: Option<Arc<Reader>>,
}

impl Link {
    pub(super) fn of_reader(shared: &Arc<Shared>) -> Self {
        Self { shared: Arc::clone(shared), role: Role::Reader, connection: None, reader: None }
    }

    pub(super) fn of_writer(shared: &Arc<Shared>, reader: &Arc<Reader>) -> Self {
        Self {
            shared: Arc::clone(shared),
            role: Role::Writer,
            connection: None,
            reader: Some(Arc::clone(reader)),
        }
    }

    /// The rows that a statement answers; none if a reader finds no table.
    pub(super) async fn rows(&mut self, query: impl Fn() -> Query + Send) -> Result<Vec<SqliteRow>> {
        Ok(self.run(query).await?.rows)
    }

    /// Runs a statement; nothing comes of it if a reader finds no table.
    ///
    /// The answer is that of the file which the path led to after it was given. What was done to another is repeated.
    pub(super) async fn run(&mut self, query: impl Fn() -> Query + Send) -> Result<Done> {
        for turn in 1..=TRIES {
            let Some(connection) = self.connected().await? else {
                return Ok(Done::default());
            };
            if connection.files().were_in_place() {
                match connection.run(query()).await {
                    Ok(done) if connection.files().is_in_place() => return Ok(done),
                    // The table may have been dropped; a new connection makes it again, or says what is there instead.
                    Err(error) if is_misfit(&error) && turn < TRIES => {}
                    Err(error) if connection.files().all_are_in_place() => return Err(self.failed(error)),
                    _ => {}
                }
            }
            self.leave_file().await;
        }
        Err(self.replaced_too_often())
    }

    /// Makes the file and the table if they are missing.
    pub(super) async fn reopen(&mut self) -> Result<()> {
        self.disconnect().await;
        self.connected().await.map(|_| ())
    }

    /// Gives the connection back. The driver closes it on its own thread, which nobody waits for: it may copy the log
    /// into the file then, and a process that ends meanwhile leaves that to the next.
    pub(super) fn close(&mut self) {
        self.connection = None;
    }

    /// Lets go of the file, and waits until SQLite has.
    pub(super) async fn disconnect(&mut self) {
        if let Some(connection) = self.connection.take() {
            connection.close().await;
        }
    }

    async fn connected(&mut self) -> Result<Option<&mut Connection>> {
        if self.connection.is_none() {
            let Shared { place, options, .. } = &*self.shared;
            self.connection = Connection::open(place, options, self.role).await?;
        }
        Ok(self.connection.as_mut())
    }

    /// After anything but a busy file the connection is given up: the next one looks at everything anew.
    fn failed(&mut self, error: sqlx::Error) -> Error {
        if !is_busy(&error) {
            self.connection = None;
        }
        let doing = match self.role {
            Role::Writer => Doing::Writing,
            Role::Reader => Doing::Reading,
        };
        let Shared { place, options, .. } = &*self.shared;
        failure(error, doing, place.file(), options.busy_timeout)
    }

    async fn leave_file(&mut self) {
        let file = self.shared.place.file().display();
        tracing::warn!(target: "leasehold", "store_replaced: {file}, a side file of it or its table is gone; the locks in it are lost");
        self.disconnect().await;
        if let Some(reader) = &self.reader {
            reader.leave_file().await;
        }
    }

    fn replaced_too_often(&self) -> Error {
        let file = self.shared.place.file().display();
        Error::new(ErrorKind::Unavailable, format!("{file} was replaced {TRIES} times while it was used"))
            .with_help("find out who deletes it or its side files; clean-up jobs of temporary directories do")
    }
}
