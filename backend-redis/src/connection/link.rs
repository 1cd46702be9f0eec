//! The link to one server: one connection, shared by all requests, made again after it broke.
//!
//! Beside what its callers ask for, it connects, leaves a primary that was replaced, and sends a script in full to a server that
//! does not have it. It never sends a request again whose answer is missing: that may have been carried out, and only the core
//! knows how to go on.

use super::handshake::{self, ServerFacts};
use super::multiplexed::Connection;
use super::replicas::{Confirming, wait_for};
use super::route::{Route, leave_when_replaced};
use crate::keys::companion_kind;
use crate::locked;
use crate::scripts::Script;
use crate::server_error::{foreign_data, is_wrong_type, refusal, shut_down};
use crate::target::Replicas;
use crate::waiters::WaiterRegistry;
use futures_util::future::BoxFuture;
use leasehold_core::{Error, ErrorKind, Result};
use redis::{Cmd, ServerErrorKind, Value};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// The pause between a failed attempt to connect and the next one: a server that is down, or comes up, is not hammered
/// by all who wait for it.
const PAUSE: Duration = Duration::from_millis(100);
/// Requests of renewals at once. After a stop of the server all leases are due. Their requests in one go would keep it busy for longer
/// than one request may take, and the connection would end at each attempt.
const RENEWALS_AT_ONCE: usize = 64;

/// The link to one server, or to whichever is the primary.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) route: Arc<Route>,
    /// The channel on which this server tells the waiters of this process of their grants.
    pub(crate) channel: String,
    /// They receive the messages of the server.
    waiters: Arc<WaiterRegistry>,
    current: Mutex<Option<Arc<Connection>>>,
    /// One caller connects, the others wait for it. The failure of the last attempt, and when that ended.
    connecting: tokio::sync::Mutex<Option<(Error, Instant)>>,
    closed: AtomicBool,
    renewals: Semaphore,
    /// For grants and for renewals that replicas are to confirm.
    pub(super) confirming: Option<[Arc<Confirming>; 2]>,
}

/// The call of a script.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    pub(crate) script: &'static Script,
    pub(crate) keys: &'a [&'a str],
    pub(crate) args: &'a [&'a str],
    /// True to ask for keys that are on their way to this node of a cluster.
    pub(crate) asking: bool,
    /// So many replicas are to have what it writes.
    pub(crate) confirm: Option<(Replicas, ConfirmKind)>,
}

/// What replicas are to confirm. Requests of one kind wait for each other, and for no others.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ConfirmKind {
    Grant,
    Renewal,
}

/// The reply to a call, which may be an error of the server.
#[derive(Debug)]
pub(crate) struct Reply {
    /// The server that gave it.
    pub(crate) link: Arc<Link>,
    pub(crate) value: Value,
    /// How many replicas have what was written, or why that could not be asked; `None` unless the call wants to know.
    pub(crate) replicas: Option<Result<u32>>,
}

impl<'a> Call<'a> {
    pub(crate) fn new(script: &'static Script, keys: &'a [&'a str], args: &'a [&'a str]) -> Self {
        Self { script, keys, args, asking: false, confirm: None }
    }

    /// The script, by its digest or in full, between the command that is good for the next one and that which waits for the
    /// last write of its connection.
    pub(super) fn commands(&self, in_full: bool) -> Vec<Cmd> {
        let script = self.script.call(in_full, self.keys, self.args);
        let asking = self.asking.then(|| redis::cmd("ASKING"));
        let wait = self.confirm.map(|(replicas, _)| wait_for(replicas));
        asking.into_iter().chain([script]).chain(wait).collect()
    }
}

impl Link {
    /// A link that connects when it is first needed.
    pub(crate) fn new(route: Route, waiters: Arc<WaiterRegistry>, channel: String) -> Arc<Self> {
        let route = Arc::new(route);
        let confirming = [(); 2].map(|()| Arc::new(Confirming::along(&route)));
        Arc::new(Self { confirming: Some(confirming), ..Self::along(route, waiters, channel) })
    }

    /// The same, without the links for requests that replicas are to confirm.
    pub(super) fn along(route: Arc<Route>, waiters: Arc<WaiterRegistry>, channel: String) -> Self {
        Self {
            route,
            channel,
            waiters,
            current: Mutex::default(),
            connecting: tokio::sync::Mutex::default(),
            closed: AtomicBool::new(false),
            renewals: Semaphore::new(RENEWALS_AT_ONCE),
            confirming: None,
        }
    }

    /// Calls a script and gives the reply as it is. The error is [`Indeterminate`](ErrorKind::Indeterminate) if the answer did not
    /// come, [`Unavailable`](ErrorKind::Unavailable) and others if nothing was sent.
    pub(crate) async fn ask(self: &Arc<Self>, call: &Call<'_>) -> Result<Reply> {
        let (mut replies, replicas) = match (call.confirm, &self.confirming) {
            (Some((_, kind)), Some(confirming)) => {
                let (replies, count) = confirming[kind as usize].ask(call).await?;
                (replies, Some(count))
            }
            _ => {
                // It is never closed. A renewal that waits here until its lease has ended, or was released, changes nothing.
                let _turn = if call.script.is_renewal() { self.renewals.acquire().await.ok() } else { None };
                (self.send_script(call.commands(false), || call.commands(true)).await?, None)
            }
        };
        // Without `ASKING` a node refuses the call: the first error is the cause of the last.
        let refused = replies.iter().position(|reply| matches!(reply, Value::ServerError(_)));
        let value = match replies.last() {
            Some(Value::ServerError(_)) => replies.swap_remove(refused.unwrap_or_default()),
            _ => replies.pop().unwrap_or(Value::Nil),
        };
        Ok(Reply { link: Arc::clone(self), value, replicas })
    }

    /// Sends a script in full if the server does not have it. An answer that did not come is not asked for again.
    pub(super) async fn send_script(
        self: &Arc<Self>,
        by_digest: Vec<Cmd>,
        in_full: impl FnOnce() -> Vec<Cmd>,
    ) -> Result<Vec<Value>> {
        let connection = self.connection().await?;
        let mut replies = self.send(&connection, by_digest).await?;
        let is_unknown = |error: &redis::ServerError| error.kind() == Some(ServerErrorKind::NoScript);
        if replies.iter().any(|reply| matches!(reply, Value::ServerError(error) if is_unknown(error))) {
            replies = self.send(&connection, in_full()).await?;
        }
        if replies.iter().any(is_demoted) {
            connection.leave();
        }
        Ok(replies)
    }

    /// Sends commands with no other's between them, and gives the reply to each.
    pub(super) async fn send(&self, connection: &Connection, commands: Vec<Cmd>) -> Result<Vec<Value>> {
        connection.request_together(commands).await.map_err(|why| self.here(why.unknown_outcome()))
    }

    /// The connection, made if there is none. An error says that no server answers, that it refuses the login, or that it is no server
    /// for locks.
    ///
    /// Runs as a task: a caller that is not polled must not block the others.
    pub(crate) async fn connection(self: &Arc<Self>) -> Result<Arc<Connection>> {
        if let Some(connection) = self.open_connection()? {
            return Ok(connection);
        }
        let made = tokio::spawn(Arc::clone(self).reconnect()).await;
        let ended = |_| Err(self.here(shut_down(ErrorKind::Unavailable, "while the connection was made")));
        made.unwrap_or_else(ended)
    }

    /// The connection, if there is one that is of use for requests.
    pub(super) fn open_connection(&self) -> Result<Option<Arc<Connection>>> {
        if self.closed.load(Ordering::SeqCst) {
            return Err(Error::closed());
        }
        let connection = locked(&self.current).clone();
        Ok(connection.filter(|connection| connection.is_open()))
    }

    /// Connects, or waits for another task that is at it. However many wait, one connects.
    async fn reconnect(self: Arc<Self>) -> Result<Arc<Connection>> {
        let begin = Instant::now();
        let mut last_failure = self.connecting.lock().await;
        if let Some(connection) = self.open_connection()? {
            return Ok(connection);
        }
        if let Some((failure, ended)) = &*last_failure {
            if *ended > begin {
                // It failed while this call waited for it.
                return Err(failure.clone());
            }
            tokio::time::sleep_until(*ended + PAUSE).await;
        }
        let made = self.connect().await.map_err(|error| self.here(error));
        *last_failure = made.as_ref().err().map(|error| (error.clone(), Instant::now()));
        let connection = made?;
        tracing::debug!(target: "leasehold", server = %self.route, "connected");
        *locked(&self.current) = Some(Arc::clone(&connection));
        // Looked at after the connection was left there: of this and `close`, one sees the other.
        self.open_connection().inspect_err(|_| drop(locked(&self.current).take()))?;
        Ok(connection)
    }

    /// One deadline covers all steps. A route to a primary leads through the links to its Sentinels, so the future has a given type.
    fn connect(&self) -> BoxFuture<'_, Result<Arc<Connection>>> {
        Box::pin(async {
            let deadline = Instant::now() + self.route.timeouts().connect;
            let (target, epoch) = self.route.lead().await?;
            let (connection, facts) = handshake::connect(&target, &self.waiters, deadline).await?;
            self.route.check(&facts)?;
            let connection = Arc::new(connection);
            if let Some(epoch) = epoch {
                let route = Arc::clone(&self.route);
                tokio::spawn(leave_when_replaced(route, Arc::downgrade(&connection), epoch));
            }
            Ok(connection)
        })
    }

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
    async fn name_foreign_data(self: &Arc<Self>, keys: &[&str]) -> Error {
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

    /// Ends the connections, and makes no other. What is under way gets no answer.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        if let Some(connection) = locked(&self.current).take() {
            connection.end();
        }
        self.confirming.iter().flatten().for_each(|confirming| confirming.link.close());
        self.route.close();
    }

    /// Says of an error where it happened.
    pub(crate) fn here(&self, error: Error) -> Error {
        error.context(format_args!("{} at {}", self.route.kind(), self.route))
    }
}

/// True if the server, or one claim of a request to it, says that it is no primary. Where it was found may lead to another
/// server by now, be it a Sentinel or a name in the DNS; so the next request makes a connection. Requests under way are
/// refused too, and that nothing was done is a better answer than none.
fn is_demoted(reply: &Value) -> bool {
    let is_replica = |kind| matches!(kind, ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown);
    match reply {
        Value::ServerError(error) => error.kind().is_some_and(is_replica),
        Value::Array(answers) => answers.iter().any(is_demoted),
        _ => false,
    }
}
