//! The link to one server: one connection, shared by all requests, replaced when it breaks.
//!
//! What it does behind its caller's back: it connects, and sends a script in full to a server that does not have it.
//! What it does not: send anything twice. A request whose answer was lost may have been carried out, and only the core
//! knows how to go on from there.

mod connection;
mod dial;
mod driver;
mod greeting;
mod line;
mod side_line;
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
use leasehold_core::{Error, Result};
use line::Line;
use redis::{Cmd, ServerErrorKind, Value};
use std::fmt;
use std::sync::Arc;

/// Instead of a channel: nothing is heard.
const UNHEARD: &str = "-";

/// The link to one server.
pub(crate) struct Link {
    line: Arc<Line>,
}

impl Link {
    /// A link that connects when it is first needed. The mailbox is told what the server says of its own accord.
    pub(crate) fn new(target: Target, mailbox: Arc<Mailbox>) -> Self {
        Self { line: Arc::new(Line::new(target, mailbox)) }
    }

    /// Makes sure that there is a connection.
    ///
    /// # Errors
    ///
    /// Why there is none: no server, one that lets us not in, or one that is none for locks.
    pub(crate) async fn connect(&self) -> Result<()> {
        self.line.connection().await.map(drop)
    }

    /// Runs a script and gives its reply.
    ///
    /// # Errors
    ///
    /// The [refusal] of the server; [`Indeterminate`](leasehold_core::ErrorKind::Indeterminate) if its answer did not come,
    /// [`Unavailable`](leasehold_core::ErrorKind::Unavailable) and others if nothing was sent.
    pub(crate) async fn run(&self, script: &Script, keys: &[&str], args: &[&str]) -> Result<Value> {
        let connection = self.line.connection().await?;
        self.run_on(&connection, script, keys, args).await
    }

    /// Runs a script for somebody who will wait for a message on this channel. It has one argument more: the channel, if
    /// messages arrive, else [`UNHEARD`]. Also says whether they do. Errors as of [`run`](Self::run).
    pub(crate) async fn run_listening(
        &self,
        script: &Script,
        keys: &[&str],
        args: &[&str],
        channel: &str,
    ) -> Result<(Value, bool)> {
        let connection = self.line.connection().await?;
        let hears = connection.hears();
        let channel = if hears { channel } else { UNHEARD };
        let reply = self.run_on(&connection, script, keys, &[args, &[channel]].concat()).await?;
        Ok((reply, hears))
    }

    /// Subscribes to the channel, unless that was done. True if messages on it arrive.
    ///
    /// Never an error. Messages make waiting shorter, and where there are none, because the server or its administrator
    /// allows for none, heartbeats do.
    pub(crate) async fn listen(&self, channel: &str) -> bool {
        self.line.listen(channel).await
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

    /// The connection of the client library, without time limits and retries. Errors as of connecting.
    #[cfg(feature = "bench")]
    pub(crate) async fn bare(&self) -> Result<redis::aio::MultiplexedConnection> {
        self.line.connection().await.map(|connection| connection.bare())
    }

    /// Ends the connection. What is under way gets no answer.
    pub(crate) fn close(&self) {
        self.line.close();
    }

    /// Finds out which key holds what no lock of ours holds. Looked at afterwards, so that the scripts need not.
    async fn name_foreign_data(&self, keys: &[&str]) -> Error {
        for key in keys {
            match self.command(redis::cmd("TYPE").arg(key)).await {
                Ok(Value::SimpleString(kind)) if kind != kind_of(key) && kind != "none" => {
                    return self.line.here(foreign_data(key, Some(&kind)));
                }
                Ok(_) => {}
                Err(_) => break,
            }
        }
        self.line.here(foreign_data(keys.first().unwrap_or(&""), None))
    }

    async fn request(&self, command: &Cmd) -> Result<Value> {
        let connection = self.line.connection().await?;
        self.request_on(&connection, command).await
    }

    async fn request_on(&self, connection: &Connection, command: &Cmd) -> Result<Value> {
        let answer = connection.request(command).await;
        answer.map_err(|why| self.line.here(why.unknown_outcome()))
    }

    fn checked(&self, reply: Value, script: Option<&Script>) -> Result<Value> {
        match reply {
            Value::ServerError(error) => Err(self.line.here(refusal(&error, script))),
            reply => Ok(reply),
        }
    }
}

fn is_unknown_script(reply: &Value) -> bool {
    matches!(reply, Value::ServerError(error) if error.kind() == Some(ServerErrorKind::NoScript))
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("target", &self.line.target).finish_non_exhaustive()
    }
}
