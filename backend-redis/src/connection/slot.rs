//! Holds the connection to one server. One task makes it, or makes it again after it broke, while the others wait.

use super::call::{Call, is_demoted, is_unknown_script, last_or_refusal};
use super::failover::FailoverMonitor;
use super::handshake::connect;
use super::multiplexed::Connection;
use super::route::Route;
use crate::target::Timeouts;
use crate::waiters::WaiterRegistry;
use leasehold_core::{Error, ErrorKind, Result};
use redis::{Cmd, Value};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::task::JoinError;
use tokio::time::Instant;

/// The pause between a failed attempt to connect and the next one: a server that is down, or comes up, is not hammered
/// by all who wait for it.
const PAUSE: Duration = Duration::from_millis(100);

/// How long a request may take at most that finds no connection: the pause, connecting, and its time-out.
pub(crate) fn longest_request(timeouts: Timeouts) -> Duration {
    PAUSE + timeouts.connect + timeouts.request
}

/// The present connection to one server, and the way to the next.
pub(super) struct ConnectionSlot {
    pub(super) route: Arc<Route>,
    /// Told of the messages of the server.
    waiters: Arc<WaiterRegistry>,
    current: Mutex<Option<Arc<Connection>>>,
    /// One caller connects, the others wait for it.
    connecting: tokio::sync::Mutex<LastAttempt>,
    /// Attempts to connect that have ended.
    attempts: AtomicU64,
    closed: AtomicBool,
}

/// The last attempt to connect, if it failed.
#[derive(Default)]
struct LastAttempt {
    failure: Option<Error>,
    pause_until: Option<Instant>,
}

impl ConnectionSlot {
    pub(super) fn new(route: Arc<Route>, waiters: Arc<WaiterRegistry>) -> Self {
        Self {
            route,
            waiters,
            current: Mutex::default(),
            connecting: tokio::sync::Mutex::default(),
            attempts: AtomicU64::new(0),
            closed: AtomicBool::new(false),
        }
    }

    /// The connection, made if there is none.
    ///
    /// Runs as a task: a caller that is not polled must not block the others.
    pub(super) async fn connection(self: &Arc<Self>) -> Result<Arc<Connection>> {
        match self.open_connection()? {
            Some(connection) => Ok(connection),
            None => {
                let made = tokio::spawn(Arc::clone(self).reconnect()).await;
                made.unwrap_or_else(|error| Err(self.here(reconnect_cancelled(error))))
            }
        }
    }

    /// Calls a script and gives the reply as it is. A script that the server does not have is sent in full; an answer that did
    /// not come is not asked for again.
    pub(super) async fn ask(self: &Arc<Self>, call: &Call<'_>) -> Result<Value> {
        let connection = self.connection().await?;
        let mut replies = self.send(&connection, call.commands(false)).await?;
        if replies.last().is_some_and(is_unknown_script) {
            replies = self.send(&connection, call.commands(true)).await?;
        }
        let reply = last_or_refusal(replies);
        if is_demoted(&reply) {
            connection.leave();
        }
        Ok(reply)
    }

    async fn send(&self, connection: &Connection, mut commands: Vec<Cmd>) -> Result<Vec<Value>> {
        let replies = match commands.pop() {
            Some(command) if commands.is_empty() => {
                connection.request(&command).await.map(|reply| vec![reply])
            }
            last => connection.request_together(commands.into_iter().chain(last).collect()).await,
        };
        replies.map_err(|why| self.here(why.unknown_outcome()))
    }

    /// True if messages on the channel of the waiters arrive now.
    pub(super) fn hears(&self) -> bool {
        matches!(self.open_connection(), Ok(Some(connection)) if connection.hears())
    }

    /// True if there is a connection on which no messages come.
    pub(super) fn lacks_messages(&self) -> bool {
        matches!(self.open_connection(), Ok(Some(connection)) if !connection.takes_messages)
    }

    /// Makes sure that messages on the channel of the waiters arrive; false if they cannot. By a task of its own, as above.
    pub(super) async fn listen(self: &Arc<Self>, channel: &str) -> bool {
        let Ok(connection) = self.connection().await else {
            return false;
        };
        let channel = channel.to_owned();
        let listening = tokio::spawn(async move { connection.listen(&channel).await });
        listening.await.unwrap_or(false)
    }

    /// Ends the connection, and makes no other.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        if let Some(connection) = self.current_slot().take() {
            connection.end();
        }
    }

    /// Says of an error where it happened.
    pub(super) fn here(&self, error: Error) -> Error {
        error.context(format_args!("Redis at {}", self.route))
    }

    fn open_connection(&self) -> Result<Option<Arc<Connection>>> {
        if self.closed.load(Ordering::SeqCst) {
            return Err(Error::closed());
        }
        let connection = self.current_slot().clone();
        Ok(connection.filter(|connection| connection.is_open()))
    }

    /// Connects, or waits for another task that is at it. However many wait, one connects.
    async fn reconnect(self: Arc<Self>) -> Result<Arc<Connection>> {
        let ended_before = self.attempts.load(Ordering::SeqCst);
        let mut last = self.connecting.lock().await;
        if let Some(connection) = self.open_connection()? {
            return Ok(connection);
        }
        if let Some(failure) = &last.failure
            && self.attempts.load(Ordering::SeqCst) > ended_before
        {
            // It failed while this call waited for it.
            return Err(failure.clone());
        }
        if let Some(moment) = last.pause_until {
            tokio::time::sleep_until(moment).await;
        }
        let made = self.connect().await;
        self.attempts.fetch_add(1, Ordering::SeqCst);
        match made {
            Ok(connection) => {
                tracing::debug!(target: "leasehold", server = %self.route, "connected");
                *last = LastAttempt::default();
                self.install(connection)
            }
            Err(error) => {
                let error = self.here(error);
                *last =
                    LastAttempt { failure: Some(error.clone()), pause_until: Some(Instant::now() + PAUSE) };
                Err(error)
            }
        }
    }

    /// One deadline covers all steps.
    async fn connect(&self) -> Result<Arc<Connection>> {
        let deadline = Instant::now() + self.route.connect_timeout();
        let (target, epoch) = self.route.lead().await?;
        let (connection, facts) = connect(&target, &self.waiters, deadline).await?;
        self.route.check(&facts)?;
        let connection = Arc::new(connection);
        if let Some(epoch) = epoch {
            FailoverMonitor::watch(&self.route, &connection, epoch);
        }
        Ok(connection)
    }

    fn install(&self, connection: Arc<Connection>) -> Result<Arc<Connection>> {
        *self.current_slot() = Some(Arc::clone(&connection));
        // Looked at after the connection was left there: of this and `close`, one sees the other.
        match self.open_connection() {
            Ok(_) => Ok(connection),
            Err(closed) => {
                self.current_slot().take();
                Err(closed)
            }
        }
    }

    fn current_slot(&self) -> MutexGuard<'_, Option<Arc<Connection>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn reconnect_cancelled(error: JoinError) -> Error {
    Error::new(ErrorKind::Unavailable, "the runtime was shut down while the connection was made")
        .with_source(error)
        .with_help("ask again, on a runtime that lives as long as the answer takes")
}
