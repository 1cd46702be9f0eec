//! Connections to servers, and what their replies mean.

mod handshake;
mod link;
mod multiplexed;
mod replicas;
mod route;
mod stream;
mod tls;

pub(crate) use handshake::ServerFacts;
pub(crate) use link::{Call, ConfirmKind, Link, Reply};
pub(crate) use replicas::wait_for;
pub(crate) use route::Route;
pub(crate) use tls::Tls;

use crate::keys::companion_kind;
use crate::scripts::Script;
use crate::server_error::{foreign_data, is_wrong_type, refusal};
use leasehold_core::Result;
use redis::{Cmd, Value};
use std::sync::Arc;

impl Link {
    /// What the answer of a script for one claim, with these keys, means: what it says, or the [refusal] of the server.
    pub(crate) async fn check_reply(
        self: &Arc<Self>,
        script: &Script,
        keys: &[&str],
        answer: Value,
    ) -> Result<Value> {
        match answer {
            Value::ServerError(error) if is_wrong_type(&error) => {
                Err(self.here(Box::pin(self.name_foreign_data(keys)).await))
            }
            answer => self.checked(answer, Some(script)),
        }
    }

    /// Sends one command and gives its reply. Errors: the [refusal] of the server; and as of [`ask`](Self::ask).
    pub(crate) async fn command(self: &Arc<Self>, command: &Cmd) -> Result<Value> {
        let reply = self.request(command).await?;
        self.checked(reply, None)
    }

    /// The same with the reply as it is, which may be an error of the server.
    pub(crate) async fn request(self: &Arc<Self>, command: &Cmd) -> Result<Value> {
        let connection = self.connection().await?;
        connection.request(command).await.map_err(|why| self.here(why.unknown_outcome()))
    }

    /// Makes sure that keys on their way to it may be asked for. With a command behind it: it is good for the next one, and
    /// that must be of no other request. Errors as of [`command`](Self::command).
    pub(crate) async fn may_ask(self: &Arc<Self>) -> Result<()> {
        let connection = self.connection().await?;
        let mut replies = self.send(&connection, vec![redis::cmd("ASKING"), redis::cmd("PING")]).await?;
        self.checked(replies.swap_remove(0), None).map(drop)
    }

    /// What the server says of itself now. Errors as of [`command`](Self::command).
    pub(crate) async fn facts(self: &Arc<Self>) -> Result<ServerFacts> {
        self.command(&redis::cmd("HELLO")).await.map(|reply| ServerFacts::read(&reply))
    }

    /// True if messages on the channel arrive now.
    pub(crate) fn hears(&self) -> bool {
        matches!(self.open_connection(), Ok(Some(connection)) if connection.hears())
    }

    /// True if the other end speaks RESP2, in which no messages come.
    pub(crate) fn lacks_messages(&self) -> bool {
        matches!(self.open_connection(), Ok(Some(connection)) if !connection.takes_messages)
    }

    /// Subscribes to the channel, unless that was done. True if messages on it arrive.
    ///
    /// Never an error. Messages make waiting shorter, and where there are none, because the server or its administrator
    /// allows for none, heartbeats do. Runs as a task: a caller that is not polled must not block the others.
    pub(crate) async fn listen(self: &Arc<Self>) -> bool {
        let Ok(connection) = self.connection().await else { return false };
        let channel = self.channel.clone();
        tokio::spawn(async move { connection.listen(&channel).await }).await.unwrap_or(false)
    }

    /// Finds out which key holds what no lock of ours holds. Looked at afterwards, so that the scripts need not.
    async fn name_foreign_data(self: &Arc<Self>, keys: &[&str]) -> leasehold_core::Error {
        for key in keys {
            match self.command(redis::cmd("TYPE").arg(key)).await {
                Ok(Value::SimpleString(kind))
                    if kind != companion_kind(key).unwrap_or("string") && kind != "none" =>
                {
                    return foreign_data(key, Some(&kind));
                }
                Ok(_) => {}
                Err(_) => break,
            }
        }
        foreign_data(keys.first().unwrap_or(&""), None)
    }

    fn checked(&self, reply: Value, script: Option<&Script>) -> Result<Value> {
        match reply {
            Value::ServerError(error) => Err(self.here(refusal(&error, script))),
            reply => Ok(reply),
        }
    }
}
