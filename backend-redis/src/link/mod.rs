//! The link to one server: one connection, shared by all requests, replaced when it breaks.
//!
//! What it does behind its caller's back: it connects, and sends a script in full to a server that does not have it.
//! What it does not: send anything twice. A request whose answer was lost may have been carried out, and only the core
//! knows how to go on from there.

mod connection;
mod dial;
mod driver;
mod greeting;
mod stream;
mod tls;
mod watchdog;
mod welcome;

pub(crate) use greeting::ServerFacts;
pub(crate) use tls::Tls;

use crate::keys::kind_of;
use crate::mailbox::Mailbox;
use crate::refusal::{foreign_data, is_wrong_type, refusal};
use crate::scripts::Script;
use crate::target::Target;
use connection::Connection;
use leasehold_core::{Error, ErrorKind, Result};
use redis::{Cmd, ServerErrorKind, Value};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// The pause between a failed attempt to connect and the next one: a server that is down, or comes up, is not hammered
/// by all who wait for it.
const PAUSE: Duration = Duration::from_millis(100);

/// Instead of a channel: nothing is heard.
const UNHEARD: &str = "-";

/// The link to one server.
pub(crate) struct Link {
    target: Target,
    /// Who is told what the server says of its own accord.
    mailbox: Arc<Mailbox>,
    current: Mutex<Option<Arc<Connection>>>,
    /// Whoever has it connects; the others wait for it.
    dialing: tokio::sync::Mutex<LastAttempt>,
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

impl Link {
    /// A link that connects when it is first needed.
    pub(crate) fn new(target: Target, mailbox: Arc<Mailbox>) -> Self {
        Self {
            target,
            mailbox,
            current: Mutex::default(),
            dialing: tokio::sync::Mutex::default(),
            attempts: AtomicU64::new(0),
            closed: AtomicBool::new(false),
        }
    }

    /// Runs a script and gives its reply.
    ///
    /// # Errors
    ///
    /// The [refusal] of the server; [`Indeterminate`](ErrorKind::Indeterminate) if its answer did not come,
    /// [`Unavailable`](ErrorKind::Unavailable) and others if nothing was sent.
    pub(crate) async fn run(&self, script: &Script, keys: &[&str], args: &[&str]) -> Result<Value> {
        let connection = self.connection().await?;
        self.run_on(&connection, script, keys, args).await
    }

    /// Runs a script for somebody who will wait for a message on this channel. It has one argument more: the channel,
    /// if the connection is subscribed to it, else [`UNHEARD`]. Errors as of [`run`](Self::run).
    pub(crate) async fn run_listening(
        &self,
        script: &Script,
        keys: &[&str],
        args: &[&str],
        channel: &str,
    ) -> Result<Value> {
        let connection = self.connection().await?;
        let channel = if connection.is_subscribed() { channel } else { UNHEARD };
        self.run_on(&connection, script, keys, &[args, &[channel]].concat()).await
    }

    /// Subscribes to the channel, unless that was done. True if it was now: who waits unheard had better ask again.
    ///
    /// Never an error. Messages make waiting shorter, and where there are none, because the server or its administrator
    /// allows for none, heartbeats do.
    pub(crate) async fn listen(&self, channel: &str) -> bool {
        match self.connection().await {
            Ok(connection) => connection.subscribe(channel).await,
            Err(_) => false,
        }
    }

    async fn run_on(
        &self,
        connection: &Connection,
        script: &Script,
        keys: &[&str],
        args: &[&str],
    ) -> Result<Value> {
        let mut reply = self.request_on(connection, &script.by_digest(keys, args)).await?;
        if is_unknown_script(&reply) {
            reply = self.request_on(connection, &script.in_full(keys, args)).await?;
        }
        match reply {
            Value::ServerError(error) if is_wrong_type(&error) => Err(self.name_foreign_data(keys).await),
            reply => self.checked(reply, Some(script)),
        }
    }

    /// Sends one command and gives its reply. Errors as of [`run`](Self::run).
    pub(crate) async fn command(&self, command: &Cmd) -> Result<Value> {
        let reply = self.request(command).await?;
        self.checked(reply, None)
    }

    /// What the server says of itself now. Errors as of [`run`](Self::run).
    pub(crate) async fn facts(&self) -> Result<ServerFacts> {
        self.command(&greeting::question()).await.map(|reply| ServerFacts::read(&reply))
    }

    /// Ends the connection. What is under way gets no answer.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        if let Some(connection) = self.current_slot().take() {
            connection.end();
        }
    }

    /// Finds out which key holds what no lock of ours holds. Looked at afterwards, so that the scripts need not.
    async fn name_foreign_data(&self, keys: &[&str]) -> Error {
        for key in keys {
            match self.command(redis::cmd("TYPE").arg(key)).await {
                Ok(Value::SimpleString(kind)) if kind != kind_of(key) && kind != "none" => {
                    return self.here(foreign_data(key, Some(&kind)));
                }
                Ok(_) => {}
                Err(_) => break,
            }
        }
        self.here(foreign_data(keys.first().unwrap_or(&""), None))
    }

    async fn request(&self, command: &Cmd) -> Result<Value> {
        let connection = self.connection().await?;
        self.request_on(&connection, command).await
    }

    async fn request_on(&self, connection: &Connection, command: &Cmd) -> Result<Value> {
        let answer = connection.request(command).await;
        answer.map_err(|why| self.here(why.unknown_outcome()))
    }

    fn checked(&self, reply: Value, script: Option<&Script>) -> Result<Value> {
        match reply {
            Value::ServerError(error) => Err(self.here(refusal(&error, script))),
            reply => Ok(reply),
        }
    }

    fn here(&self, error: Error) -> Error {
        error.context(format_args!("Redis at {}", self.target.address))
    }
}

/// Getting a connection.
impl Link {
    async fn connection(&self) -> Result<Arc<Connection>> {
        match self.open_connection()? {
            Some(connection) => Ok(connection),
            None => self.reconnect().await,
        }
    }

    fn open_connection(&self) -> Result<Option<Arc<Connection>>> {
        if self.closed.load(Ordering::SeqCst) {
            return Err(Error::new(ErrorKind::Closed, "the client was closed").with_help("make a new one"));
        }
        let connection = self.current_slot().clone();
        Ok(connection.filter(|connection| connection.is_open()))
    }

    /// Connects, or waits for another task that is at it. However many wait, one connects.
    async fn reconnect(&self) -> Result<Arc<Connection>> {
        let ended_before = self.attempts.load(Ordering::SeqCst);
        let mut last = self.dialing.lock().await;
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
        let dialed = dial::dial(&self.target, &self.mailbox).await;
        self.attempts.fetch_add(1, Ordering::SeqCst);
        match dialed {
            Ok(connection) => {
                tracing::debug!(target: "leasehold", server = %self.target.address, "connected");
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

    fn install(&self, connection: Connection) -> Result<Arc<Connection>> {
        let connection = Arc::new(connection);
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

fn is_unknown_script(reply: &Value) -> bool {
    matches!(reply, Value::ServerError(error) if error.kind() == Some(ServerErrorKind::NoScript))
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("target", &self.target).finish_non_exhaustive()
    }
}
