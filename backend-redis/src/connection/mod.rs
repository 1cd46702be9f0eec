//! The link to one server: one connection, shared by all requests, replaced when it breaks.
//!
//! What it does behind its caller's back: it connects, leaves a primary that was replaced, and sends a script in full to a
//! server that does not have it.
//! It never sends a request again whose answer is missing: that may have been carried out, and only the core knows how to go on.

mod call;
mod failover;
mod handshake;
mod multiplexed;
mod replicas;
mod route;
mod sentinel_client;
mod slot;
mod stream;
mod tls;

pub(crate) use call::Call;
pub(crate) use handshake::ServerFacts;
pub(crate) use replicas::{ConfirmKind, Confirmed};
pub(crate) use route::Route;
pub(crate) use sentinel_client::SentinelClient;
pub(crate) use slot::longest_request;
pub(crate) use tls::Tls;

use crate::keys::kind_of;
use crate::scripts::Script;
use crate::server_error::{foreign_data, is_wrong_type, refusal};
use crate::target::{Replicas, Target};
use crate::topology::sentinel::Sentinels;
use crate::waiters::WaiterRegistry;

use failover::FailoverMonitor;
use leasehold_core::{Error, Result};
use redis::{Cmd, Value};
use replicas::Confirmations;
use slot::ConnectionSlot;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

/// The link to one server.
pub(crate) struct Link {
    slot: Arc<ConnectionSlot>,
    grants: Confirmations,
    renewals: Confirmations,
}

impl Link {
    /// A link that connects when it is first needed. `waiters` receives the messages of the server.
    pub(crate) fn new(target: Target, waiters: Arc<WaiterRegistry>) -> Self {
        Self::along(Route::Server(target), waiters)
    }

    /// The same, to whichever server the Sentinels name.
    pub(crate) fn to_primary(sentinels: Sentinels, waiters: Arc<WaiterRegistry>) -> Self {
        Self::along(Route::Primary(sentinels, FailoverMonitor::default()), waiters)
    }

    /// The same, to wherever the route leads.
    pub(crate) fn along(route: Route, waiters: Arc<WaiterRegistry>) -> Self {
        let route = Arc::new(route);
        let (grants, renewals) = (Confirmations::of(&route), Confirmations::of(&route));
        Self { slot: Arc::new(ConnectionSlot::new(route, waiters)), grants, renewals }
    }

    /// Makes sure that there is a connection.
    ///
    /// # Errors
    ///
    /// No server answers, it refuses the login, or it is no server for locks.
    pub(crate) async fn connect(&self) -> Result<()> {
        self.slot.connection().await.map(drop)
    }

    /// Runs a script and gives its reply.
    ///
    /// # Errors
    ///
    /// The [refusal] of the server; [`Indeterminate`](leasehold_core::ErrorKind::Indeterminate) if its answer did not come,
    /// [`Unavailable`](leasehold_core::ErrorKind::Unavailable) and others if nothing was sent.
    pub(crate) async fn run(&self, script: &'static Script, keys: &[&str], args: &[&str]) -> Result<Value> {
        let (reply, _) = self.ask(&Call::new(script, keys, args)).await?;
        self.check_reply(script, keys, reply).await
    }

    /// Calls a script and gives the reply as it is, which may be an error of the server; and if replicas were asked, whether
    /// they have what it wrote.
    pub(crate) async fn ask(&self, call: &Call<'_>) -> Result<(Value, Option<Confirmed>)> {
        match call.confirm {
            None => Ok((self.slot.ask(call).await?, None)),
            Some((replicas, ConfirmKind::Grant)) => self.grants.ask(call, replicas).await,
            Some((replicas, ConfirmKind::Renewal)) => self.renewals.ask(call, replicas).await,
        }
    }

    /// What the answer of a script for one claim, with these keys, means: what it says, or the [refusal] of the server.
    pub(crate) async fn check_reply(&self, script: &Script, keys: &[&str], answer: Value) -> Result<Value> {
        match answer {
            Value::ServerError(error) if is_wrong_type(&error) => {
                Err(Box::pin(self.name_foreign_data(keys)).await)
            }
            answer => self.checked(answer, Some(script)),
        }
    }

    /// True if messages on the channel of the waiters arrive now.
    pub(crate) fn hears(&self) -> bool {
        self.slot.hears()
    }

    /// True if the other end speaks RESP2, in which no messages come.
    pub(crate) fn lacks_messages(&self) -> bool {
        self.slot.lacks_messages()
    }

    /// Subscribes to the channel, unless that was done. True if messages on it arrive.
    ///
    /// Never an error. Messages make waiting shorter, and where there are none, because the server or its administrator
    /// allows for none, heartbeats do.
    pub(crate) async fn listen(&self, channel: &str) -> bool {
        self.slot.listen(channel).await
    }

    /// Sends one command and gives its reply. Errors as of [`run`](Self::run).
    pub(crate) async fn command(&self, command: &Cmd) -> Result<Value> {
        let reply = self.request(command).await?;
        self.checked(reply, None)
    }

    /// Makes sure that keys on their way to it may be asked for. With a command behind it: it is good for the next one, and
    /// that must be nobody else's. Errors as of [`run`](Self::run).
    pub(crate) async fn may_ask(&self) -> Result<()> {
        let connection = self.slot.connection().await?;
        let commands = vec![redis::cmd("ASKING"), redis::cmd("PING")];
        let replies = connection.request_together(commands).await;
        let mut replies = replies.map_err(|why| self.slot.here(why.unknown_outcome()))?;
        self.checked(replies.swap_remove(0), None).map(drop)
    }

    /// What the server says of itself now. Errors as of [`run`](Self::run).
    pub(crate) async fn facts(&self) -> Result<ServerFacts> {
        self.command(&handshake::question()).await.map(|reply| ServerFacts::read(&reply))
    }

    /// The connection of the client library, without time limits and retries. Errors as of connecting.
    #[cfg(feature = "bench")]
    pub(crate) async fn bare(&self) -> Result<redis::aio::MultiplexedConnection> {
        self.slot.connection().await.map(|connection| connection.bare())
    }

    /// How many replicas follow the server, where so many are asked for. Errors as of [`run`](Self::run).
    pub(crate) async fn count_replicas(&self, replicas: Replicas) -> Result<Confirmed> {
        self.grants.count(replicas).await
    }

    /// True if a password is sent along it unencrypted, over a network.
    pub(crate) fn shows_password(&self) -> bool {
        self.slot.route.shows_password()
    }

    /// The addresses behind the host name of one server.
    pub(crate) async fn addresses(&self) -> Vec<IpAddr> {
        self.slot.route.addresses().await
    }

    /// Where it leads, for people.
    pub(crate) fn place(&self) -> &Route {
        &self.slot.route
    }

    /// Ends the connections. What is under way gets no answer.
    pub(crate) fn close(&self) {
        self.slot.close();
        self.grants.close();
        self.renewals.close();
    }

    /// Says of an error where it happened.
    pub(crate) fn here(&self, error: Error) -> Error {
        self.slot.here(error)
    }

    /// Finds out which key holds what no lock of ours holds. Looked at afterwards, so that the scripts need not.
    async fn name_foreign_data(&self, keys: &[&str]) -> Error {
        for key in keys {
            match self.command(redis::cmd("TYPE").arg(key)).await {
                Ok(Value::SimpleString(kind)) if kind != kind_of(key) && kind != "none" => {
                    return self.slot.here(foreign_data(key, Some(&kind)));
                }
                Ok(_) => {}
                Err(_) => break,
            }
        }
        self.slot.here(foreign_data(keys.first().unwrap_or(&""), None))
    }

    async fn request(&self, command: &Cmd) -> Result<Value> {
        let connection = self.slot.connection().await?;
        let answer = connection.request(command).await;
        answer.map_err(|why| self.slot.here(why.unknown_outcome()))
    }

    fn checked(&self, reply: Value, script: Option<&Script>) -> Result<Value> {
        match reply {
            Value::ServerError(error) => Err(self.slot.here(refusal(&error, script))),
            reply => Ok(reply),
        }
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("route", &self.slot.route).finish_non_exhaustive()
    }
}
