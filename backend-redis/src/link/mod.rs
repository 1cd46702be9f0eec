//! The link to one server: one connection, shared by all requests, replaced when it breaks.
//!
//! What it does behind its caller's back: it connects, leaves a primary that was replaced, and sends a script in full to a
//! server that does not have it.
//! What it does not: send anything twice. A request whose answer was lost may have been carried out, and only the core
//! knows how to go on from there.
//!
//! What is rarely asked has a box of its own, here and in what calls it: a future has room for the largest of its
//! branches, and a thousand waiters that ask at once have a thousand futures. For the same reason a [`Call`] is lent from
//! one to the next: each async function has what it is given twice.

mod call;
mod confirmation;
mod connection;
mod dial;
mod driver;
mod greeting;
mod line;
mod route;
mod side_line;
mod stream;
mod succession;
mod tls;
mod watchdog;
mod welcome;

pub(crate) use call::Call;
pub(crate) use confirmation::{Confirmed, Matter};
pub(crate) use dial::SentinelLine;
pub(crate) use greeting::ServerFacts;
pub(crate) use line::longest_request;
pub(crate) use route::Route;
pub(crate) use tls::Tls;

use crate::keys::kind_of;
use crate::mailbox::Mailbox;
use crate::refusal::{foreign_data, is_wrong_type, refusal};
use crate::scripts::Script;
use crate::sentinel::Sentinels;
use crate::target::{Replicas, Target};
use call::last_or_refusal;
use confirmation::Confirmations;
use connection::Connection;
use leasehold_core::{Error, Result};
use line::Line;
use redis::{Cmd, ServerErrorKind, Value};
use std::fmt;
use std::sync::Arc;
use succession::Succession;

/// Instead of a channel: nothing is heard.
const UNHEARD: &str = "-";

/// The link to one server.
pub(crate) struct Link {
    line: Arc<Line>,
    grants: Confirmations,
    renewals: Confirmations,
}

impl Link {
    /// A link that connects when it is first needed. The mailbox is told what the server says of its own accord.
    pub(crate) fn new(target: Target, mailbox: Arc<Mailbox>) -> Self {
        Self::along(Route::Server(target), mailbox)
    }

    /// The same, to whichever server the Sentinels name.
    pub(crate) fn to_primary(sentinels: Sentinels, mailbox: Arc<Mailbox>) -> Self {
        Self::along(Route::Primary(sentinels, Succession::default()), mailbox)
    }

    /// The same, to wherever the route leads.
    pub(crate) fn along(route: Route, mailbox: Arc<Mailbox>) -> Self {
        let route = Arc::new(route);
        let (grants, renewals) = (Confirmations::of(&route), Confirmations::of(&route));
        Self { line: Arc::new(Line::new(route, mailbox)), grants, renewals }
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
    pub(crate) async fn run(&self, script: &'static Script, keys: &[&str], args: &[&str]) -> Result<Value> {
        let call = Call::new(script, keys, args);
        let connection = self.line.connection().await?;
        match self.ask_on(&connection, &call).await? {
            // Apart from the usual reply, which is handed through with nothing else to wait for.
            refusal @ Value::ServerError(_) => Box::pin(self.understood(&call, refusal)).await,
            reply => Ok(reply),
        }
    }

    /// Calls a script and gives the very reply, which may be an error of the server.
    pub(crate) async fn ask(&self, call: &Call<'_>) -> Result<Value> {
        let connection = self.line.connection().await?;
        self.ask_on(&connection, call).await
    }

    /// As [`ask`](Self::ask), for somebody who will wait for a message on this channel. The script has one argument more:
    /// the channel, if messages arrive, else [`UNHEARD`]. Also says whether they do.
    pub(crate) async fn ask_listening(&self, call: &Call<'_>, channel: &str) -> Result<(Value, bool)> {
        let connection = self.line.connection().await?;
        let hears = connection.hears();
        let channel = if hears { channel } else { UNHEARD };
        let args = [call.args, &[channel]].concat();
        let reply = self.ask_on(&connection, &Call { args: &args, ..*call }).await?;
        Ok((reply, hears))
    }

    /// As [`ask`](Self::ask); afterwards waits for replicas to have what it wrote, and says whether they have.
    pub(crate) async fn ask_confirmed(
        &self,
        call: &Call<'_>,
        replicas: Replicas,
        matter: Matter,
    ) -> Result<(Value, Confirmed)> {
        match matter {
            Matter::Grant => self.grants.ask(call, replicas).await,
            Matter::Renewal => self.renewals.ask(call, replicas).await,
        }
    }

    /// What the reply to a script means: what it answers, or the [refusal] of the server.
    pub(crate) async fn understood(&self, call: &Call<'_>, reply: Value) -> Result<Value> {
        match reply {
            Value::ServerError(error) if is_wrong_type(&error) => {
                Err(Box::pin(self.name_foreign_data(call.keys)).await)
            }
            reply => self.checked(reply, Some(call.script)),
        }
    }

    /// Subscribes to the channel, unless that was done. True if messages on it arrive.
    ///
    /// Never an error. Messages make waiting shorter, and where there are none, because the server or its administrator
    /// allows for none, heartbeats do.
    pub(crate) async fn listen(&self, channel: &str) -> bool {
        self.line.listen(channel).await
    }

    async fn ask_on(&self, connection: &Connection, call: &Call<'_>) -> Result<Value> {
        let mut reply = self.send(connection, call, false).await?;
        if is_unknown_script(&reply) {
            reply = Box::pin(self.send(connection, call, true)).await?;
        }
        if is_demoted(&reply) {
            connection.leave();
        }
        Ok(reply)
    }

    async fn send(&self, connection: &Connection, call: &Call<'_>, in_full: bool) -> Result<Value> {
        let command = call.command(in_full);
        let answer = match call.before() {
            None => connection.request(&command).await,
            Some(before) => {
                let replies = Box::pin(connection.request_together(vec![before, command])).await;
                replies.map(last_or_refusal)
            }
        };
        answer.map_err(|why| self.line.here(why.unknown_outcome()))
    }

    /// Sends one command and gives its reply. Errors as of [`run`](Self::run).
    pub(crate) async fn command(&self, command: &Cmd) -> Result<Value> {
        let reply = self.request(command).await?;
        self.checked(reply, None)
    }

    /// Makes sure that keys on their way to it may be asked for. With a command behind it: it is good for the next one, and
    /// that must be nobody else's. Errors as of [`run`](Self::run).
    pub(crate) async fn may_ask(&self) -> Result<()> {
        let connection = self.line.connection().await?;
        let commands = vec![redis::cmd("ASKING"), redis::cmd("PING")];
        let replies = connection.request_together(commands).await;
        let mut replies = replies.map_err(|why| self.line.here(why.unknown_outcome()))?;
        self.checked(replies.swap_remove(0), None).map(drop)
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

    /// How many replicas follow the server, where so many are asked for. Errors as of [`run`](Self::run).
    pub(crate) async fn count_replicas(&self, replicas: Replicas) -> Result<Confirmed> {
        self.grants.count(replicas).await
    }

    /// True if a password is sent along it unencrypted, over a network.
    pub(crate) fn shows_password(&self) -> bool {
        self.line.route.shows_password()
    }

    /// Where it leads, for people.
    pub(crate) fn place(&self) -> &Route {
        &self.line.route
    }

    /// Ends the connections. What is under way gets no answer.
    pub(crate) fn close(&self) {
        self.line.close();
        self.grants.close();
        self.renewals.close();
    }

    /// Says of an error where it happened.
    pub(crate) fn here(&self, error: Error) -> Error {
        self.line.here(error)
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

/// True if the server was a primary when the connection was made, and is none now. Where it was found may lead to another
/// by now, be it a Sentinel or a name in the DNS; so the next request makes a connection. What others have asked is refused too,
/// and that nothing was done is a better answer than none.
fn is_demoted(reply: &Value) -> bool {
    let is_replica = |kind| matches!(kind, ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown);
    matches!(reply, Value::ServerError(error) if error.kind().is_some_and(is_replica))
}

fn is_unknown_script(reply: &Value) -> bool {
    matches!(reply, Value::ServerError(error) if error.kind() == Some(ServerErrorKind::NoScript))
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("route", &self.line.route).finish_non_exhaustive()
    }
}
