use super::connection::{Connection, Role, SqliteQuery, StatementResult};
use super::failure::{is_busy, is_misfit};
use super::settings::Settings;
use leasehold_core::{Error, ErrorKind, Result};
use sqlx::Connection as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{Mutex, OwnedMutexGuard, oneshot};
use tokio::time::timeout;

/// How often a statement is run on a file that turns out to have been replaced.
const TRIES: usize = 3;
/// The time of a call for the disk, beside the waits for other writers: much longer than a disk takes that works.
const DISK_TIME: Duration = Duration::from_secs(10);

/// A connection that is opened when it is first used, and again when its path leads to another file.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    settings: Arc<Settings>,
    role: Role,
    connection: Option<Connection>,
    is_closed: bool,
    /// The reader that leaves a replaced file together with this writer.
    reader: Option<ConnectionHandle>,
}

impl ConnectionSlot {
    /// Runs a statement; without a result if a reader finds no table.
    ///
    /// The result is that of the file to which the path leads after the statement. A statement that ran on a replaced file is repeated.
    pub(super) async fn run(&mut self, query: impl Fn() -> SqliteQuery + Send) -> Result<StatementResult> {
        if self.is_closed {
            return Err(Error::new(ErrorKind::Closed, "the store was closed").with_help("open it again"));
        }
        // Four waits for other writers, as when the file must be made first, and the disk.
        let (time, kind) = (self.settings.options.busy_timeout * 4 + DISK_TIME, self.role.unknown());
        timeout(time, self.run_on_file(query)).await.unwrap_or_else(|_| {
            Err(Error::new(kind, format!("the database did not answer within {time:?}"))
                .with_help("look at the disk under it; a frozen or failing one stops every write"))
        })
    }

    /// Gives the connection back, for ever. The driver closes it later on a thread of its own: it may copy the log into the file then, and
    /// a process that ends meanwhile leaves that to the next.
    pub(super) fn close(&mut self) {
        (self.connection, self.is_closed) = (None, true);
    }

    /// Closes the connection, and waits: until then SQLite shares its open files with the other connections of this process to the file.
    pub(super) async fn disconnect(&mut self) {
        if let Some(connection) = self.connection.take() {
            // Only the copy of the log into the file can fail, and the next process that opens it makes that copy.
            let _ = connection.sqlite.close().await;
        }
    }

    async fn run_on_file(&mut self, query: impl Fn() -> SqliteQuery + Send) -> Result<StatementResult> {
        for turn in 1..=TRIES {
            if self.connection.is_none() {
                self.connection = Connection::open(&self.settings.options, self.role).await?;
            }
            let Some(connection) = self.connection.as_mut() else {
                return Ok(StatementResult::default());
            };
            if connection.files.were_in_place() {
                match connection.run(query()).await {
                    Ok(done) if connection.files.is_in_place() => return Ok(done),
                    // The table may have been dropped; a new connection makes it again, or names the object in its place.
                    Err(error) if is_misfit(&error) && turn < TRIES => {}
                    Err(error) if connection.files.all_are_in_place() => return Err(self.failed(error)),
                    _ => {}
                }
            }
            self.leave_file().await;
        }
        let message = format!("{} was replaced {TRIES} times while it was used", self.settings.options.path);
        Err(Error::new(ErrorKind::Unavailable, message).with_help(
            "find out who deletes it or its side files; clean-up jobs of temporary directories do",
        ))
    }

    /// After any error but a busy file the connection is given up: the next one checks everything anew.
    fn failed(&mut self, error: sqlx::Error) -> Error {
        if !is_busy(&error) {
            self.connection = None;
        }
        self.settings.options.failure(error, self.role.unknown())
    }

    async fn leave_file(&mut self) {
        let file = &self.settings.options.path;
        tracing::warn!(target: "leasehold", "store_replaced: {file}, a side file of it or its table is gone; the locks in it are lost");
        self.disconnect().await;
        if let Some(reader) = &self.reader {
            let left = reader.call(async |mut slot| {
                slot.disconnect().await;
                Ok(())
            });
            // If the runtime ends, the reader notices the replaced file by itself.
            let _ = left.await;
        }
    }
}

/// A connection, and the calls that wait for it.
///
/// Each call runs in a task of its own, so that a caller that is not polled holds up no other. If the runtime of a call ends, the
/// next call goes on with the connection.
#[derive(Clone, Debug)]
pub(super) struct ConnectionHandle(Arc<Mutex<ConnectionSlot>>);

impl ConnectionHandle {
    /// A writer has the reader beside it.
    pub(super) fn new(settings: &Arc<Settings>, role: Role, reader: Option<Self>) -> Self {
        let settings = Arc::clone(settings);
        let slot = ConnectionSlot { settings, role, connection: None, is_closed: false, reader };
        Self(Arc::new(Mutex::new(slot)))
    }

    pub(super) async fn run(
        &self,
        query: impl Fn() -> SqliteQuery + Send + Sync + 'static,
    ) -> Result<StatementResult> {
        self.call(async move |mut slot| slot.run(query).await).await
    }

    /// Runs a call when the connection is free, unless its caller has gone by then: it must not change anything later.
    pub(super) async fn call<T, F>(
        &self,
        call: impl FnOnce(OwnedMutexGuard<ConnectionSlot>) -> F + Send + 'static,
    ) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        self.spawn(async move |slot| {
            if !reply.is_closed() {
                let _ = reply.send(call(slot).await);
            }
        })?;
        answer.await.unwrap_or_else(|_| Err(runtime_ended()))
    }

    /// Starts a task that runs as soon as the connection is free.
    pub(super) fn spawn<F>(
        &self,
        job: impl FnOnce(OwnedMutexGuard<ConnectionSlot>) -> F + Send + 'static,
    ) -> Result<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let runtime = Handle::try_current().map_err(|_| {
            let message = "using a store needs a Tokio runtime, and there is none here";
            Error::new(ErrorKind::Misconfigured, message)
                .with_help("call it from async code that runs on Tokio, for instance under #[tokio::main]")
        })?;
        let slot = Arc::clone(&self.0);
        runtime.spawn(async move { job(slot.lock_owned().await).await });
        Ok(())
    }
}

pub(super) fn runtime_ended() -> Error {
    Error::new(ErrorKind::Indeterminate, "the runtime on which the store was used has ended")
        .with_help("ask again; runtimes that share a store should live as long as it is used")
}
