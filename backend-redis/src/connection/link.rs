//! The link to one server: it sends requests on connections that are made again after they broke.
//!
//! Beside what its callers ask for, it connects, leaves a primary that was replaced, and sends a script in full to a server that
//! does not have it. It never sends a request again whose answer is missing: that may have been carried out, and only the core
//! knows how to go on.

use super::handshake::ServerFacts;
use super::manager::ConnectionManager;
use super::multiplexed::Connection;
use super::route::Route;
use crate::keys::companion_kind;
use crate::reply::parse;
use crate::scripts::Script;
use crate::server_error::{Request, foreign_data, refusal, replica, shut_down};
use crate::target::Replicas;
use crate::waiters::WaiterRegistry;
use leasehold_core::{Error, ErrorKind, Result};
use redis::{Cmd, ServerErrorKind, Value};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, Semaphore};
use tokio::time::{Instant, timeout};

/// Requests of renewals at once. After a stop of the server all leases are due. Their requests in one go would keep it busy for longer
/// than one request may take, and the connection would end at each attempt.
const RENEWALS_AT_ONCE: usize = 64;
/// Requests at once that replicas are to confirm: half of what the time-out has room for if all replicas are gone.
const CONFIRMATIONS_AT_ONCE: usize = 4;

/// The pause after a refused subscription. Waiters ask meanwhile, as they do where no messages arrive. A refusal is not for ever: a
/// server that is busy with a program refuses this too, and rights may be granted.
const RESUBSCRIBE_PAUSE: Duration = Duration::from_secs(5);
/// The pause after one that ended its connection, as a proxy may do it: that costs other requests their answers.
const HANG_UP_PAUSE: Duration = Duration::from_secs(60);

/// The link to one server, or to whichever is the primary.
#[derive(Debug)]
pub(crate) struct ServerLink {
    pub(crate) route: Arc<Route>,
    /// The channel on which this server tells the waiters of this process of their grants.
    pub(crate) channel: String,
    requests: Arc<ConnectionManager>,
    /// Why the last subscription failed, and until when it is not tried again. One caller subscribes, the others wait for it.
    unheard: Arc<Mutex<Option<(Error, Instant)>>>,
    renewals: Semaphore,
    /// For the requests of each [`ConfirmKind`], and how many more may be under way.
    ///
    /// `WAIT` blocks its connection while a replica is missing. So these requests have a connection of their own, and only a few
    /// are under way at once: other requests do not wait behind them, and where replicas are missing, a crowd of them is refused
    /// one by one instead of running into the time-out together.
    confirmed: [(Arc<ConnectionManager>, Semaphore); 2],
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ScriptCall<'a> {
    pub(crate) script: &'static Script,
    pub(crate) keys: &'a [&'a str],
    pub(crate) args: &'a [&'a str],
    /// True to ask for keys that are on their way to this node of a cluster.
    pub(crate) asking: bool,
    /// So many replicas are to have what it writes.
    pub(crate) confirm: Option<(Replicas, ConfirmKind)>,
}

/// What replicas are to confirm. Requests of one kind wait for each other, and for no others: waiting grants delay no renewal.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ConfirmKind {
    Grant,
    Renewal,
}

/// The reply to the call of a script, which may be an error of the server.
#[derive(Debug)]
pub(crate) struct ScriptReply {
    pub(crate) link: Arc<ServerLink>,
    pub(crate) value: Value,
    /// How many replicas have what was written, or why that could not be asked. 0 unless the call wants to know.
    pub(crate) replicas: Result<u32>,
}

impl ScriptCall<'_> {
    /// The script, by its digest or in full, between the command that is good for the next one and that which waits for the
    /// last write of its connection.
    pub(super) fn commands(&self, in_full: bool) -> Vec<Cmd> {
        let script = self.script.call(in_full, self.keys, self.args);
        let asking = self.asking.then(|| redis::cmd("ASKING"));
        let wait = self.confirm.map(|(replicas, _)| wait_for(replicas));
        asking.into_iter().chain([script]).chain(wait).collect()
    }
}

impl ServerLink {
    /// A link that connects when it is first needed.
    pub(crate) fn new(route: Route, waiters: Arc<WaiterRegistry>, channel: String) -> Arc<Self> {
        let confirmed = [(); 2].map(|()| (Arc::default(), Semaphore::new(CONFIRMATIONS_AT_ONCE)));
        Arc::new(Self {
            route: Arc::new(route),
            channel,
            requests: Arc::new(ConnectionManager::new(waiters)),
            unheard: Arc::default(),
            renewals: Semaphore::new(RENEWALS_AT_ONCE),
            confirmed,
        })
    }

    /// Calls a script and gives the reply as it is. The error is [`Indeterminate`](ErrorKind::Indeterminate) if the answer did not
    /// come, [`Unavailable`](ErrorKind::Unavailable) and others if nothing was sent.
    pub(crate) async fn ask(self: &Arc<Self>, call: &ScriptCall<'_>) -> Result<ScriptReply> {
        let mut replies = if let Some((_, kind)) = call.confirm {
            self.ask_confirmed(call, kind).await?
        } else {
            // It is never closed. A renewal that waits here until its lease has ended, or was released, changes nothing.
            let _turn = if call.script.is_renewal() { self.renewals.acquire().await.ok() } else { None };
            self.send_script(&self.requests, call.commands(false), || call.commands(true)).await?
        };
        let count = call.confirm.and_then(|_| replies.pop()).unwrap_or(Value::Int(0));
        let replicas = self.checked(count, Request::Command("WAIT")).and_then(|count| parse(&count));
        // Without `ASKING` a node refuses the call: the first error is the cause of the last.
        let refused = replies.iter().position(|reply| matches!(reply, Value::ServerError(_)));
        let value = match replies.last() {
            Some(Value::ServerError(_)) => replies.swap_remove(refused.unwrap_or_default()),
            _ => replies.pop().unwrap_or(Value::Nil),
        };
        Ok(ScriptReply { link: Arc::clone(self), value, replicas })
    }

    /// Calls a script, and waits for replicas to have what it wrote. The last reply is that to `WAIT`.
    ///
    /// Runs as a task: a caller may keep its future and not poll it, and would use up a turn.
    async fn ask_confirmed(self: &Arc<Self>, call: &ScriptCall<'_>, kind: ConfirmKind) -> Result<Vec<Value>> {
        let (by_digest, in_full, this) = (call.commands(false), call.commands(true), Arc::clone(self));
        let done = tokio::spawn(async move {
            let (manager, turns) = &this.confirmed[kind as usize];
            let turn = timeout(this.route.target().timeouts.request, turns.acquire()).await;
            let Ok(Ok(_turn)) = turn else {
                let message = "too many requests wait for its replicas already";
                let crowded = Error::new(ErrorKind::Unavailable, message);
                let crowded = crowded.with_help("look at its replicas: INFO replication");
                return Err(this.route.with_address(crowded));
            };
            this.send_script(manager, by_digest, || in_full).await
        });
        let ended = |_| shut_down(ErrorKind::Indeterminate, "while replicas were waited for");
        done.await.unwrap_or_else(|why| Err(self.route.with_address(ended(why))))
    }

    /// Sends a script in full if the server does not have it. An answer that did not come is not asked for again.
    async fn send_script(
        &self,
        manager: &Arc<ConnectionManager>,
        by_digest: Vec<Cmd>,
        in_full: impl FnOnce() -> Vec<Cmd>,
    ) -> Result<Vec<Value>> {
        let connection = self.connected_to_primary(manager).await?;
        let mut replies = self.send_asking_role(&connection, by_digest).await?;
        let is_unknown = |error: &redis::ServerError| error.kind() == Some(ServerErrorKind::NoScript);
        if replies.iter().any(|reply| matches!(reply, Value::ServerError(error) if is_unknown(error))) {
            replies = self.send(&connection, in_full()).await?;
        }
        if replies.iter().any(is_demoted) {
            connection.leave();
        }
        Ok(replies)
    }

    /// The same as [`send`](Self::send), and finds out from time to time whether the server is a primary still. If it is not, what it
    /// says of a lock does not count.
    async fn send_asking_role(&self, connection: &Connection, mut commands: Vec<Cmd>) -> Result<Vec<Value>> {
        let asked = connection.role.as_ref().and_then(|role| Some((role, role.question()?)));
        let Some((role, question)) = asked else { return self.send(connection, commands).await };
        commands.push(question);
        let mut replies = self.send(connection, commands).await?;
        role.note(&replies.pop().unwrap_or(Value::Nil));
        match connection.is_of_replica() && !replies.iter().any(is_demoted) {
            true => Err(self.route.with_address(replica().with_kind(ErrorKind::Indeterminate))),
            false => Ok(replies),
        }
    }

    /// Sends commands with no other's between them, and gives the reply to each.
    async fn send(&self, connection: &Connection, commands: Vec<Cmd>) -> Result<Vec<Value>> {
        let sent = connection.request_together(commands).await;
        sent.map_err(|why| self.route.with_address(connection.unknown_outcome(why)))
    }

    /// The connection, made if there is none. An error says that no server answers, that it refuses the login, or that it is no server
    /// for locks.
    pub(crate) async fn connection(&self) -> Result<Arc<Connection>> {
        self.connected(&self.requests).await
    }

    /// The same, and no connection to a replica.
    async fn connected_to_primary(&self, manager: &Arc<ConnectionManager>) -> Result<Arc<Connection>> {
        let connection = self.connected(manager).await?;
        if !connection.is_of_replica() {
            return Ok(connection);
        }
        // It may be a primary by now, or its address may lead to one.
        connection.leave();
        let connection = self.connected(manager).await?;
        if connection.is_of_replica() { Err(self.route.with_address(replica())) } else { Ok(connection) }
    }

    /// Runs as a task: a caller that is not polled must not block the others.
    async fn connected(&self, manager: &Arc<ConnectionManager>) -> Result<Arc<Connection>> {
        if let Some(connection) = manager.open_connection()? {
            return Ok(connection);
        }
        let (manager, route) = (Arc::clone(manager), Arc::clone(&self.route));
        let made = tokio::spawn(async move {
            let connect = route.connect(&manager.waiters);
            manager.connection(connect).await
        });
        let ended = |_| shut_down(ErrorKind::Unavailable, "while the connection was made");
        made.await.unwrap_or_else(|why| Err(self.route.with_address(ended(why))))
    }

    /// What the answer of a script for one claim, with these keys, means: what it says, or the [refusal] of the server.
    pub(crate) async fn check_reply(&self, script: &Script, keys: &[&str], answer: Value) -> Result<Value> {
        match answer {
            Value::ServerError(error) if error.code() == "WRONGTYPE" => {
                Err(self.route.with_address(Box::pin(self.name_foreign_data(keys)).await))
            }
            answer => self.checked(answer, Request::Script(script)),
        }
    }

    /// Sends one command and gives its reply. Errors: the [refusal] of the server; and as of [`ask`](Self::ask).
    pub(crate) async fn command(&self, command: &Cmd) -> Result<Value> {
        let connection = self.connection().await?;
        let reply = connection.request(command).await;
        let reply = reply.map_err(|why| self.route.with_address(connection.unknown_outcome(why)))?;
        self.checked(reply, Request::of(command))
    }

    /// The same, and no replica answers.
    pub(crate) async fn command_to_primary(&self, command: Cmd) -> Result<Value> {
        let connection = self.connected_to_primary(&self.requests).await?;
        let mut replies = self.send_asking_role(&connection, vec![command.clone()]).await?;
        self.checked(replies.pop().unwrap_or(Value::Nil), Request::of(&command))
    }

    /// Makes sure that keys on their way to it may be asked for. With a command behind it: it is good for the next one, and
    /// that must be of no other request. Errors as of [`command`](Self::command).
    pub(crate) async fn may_ask(&self) -> Result<()> {
        let connection = self.connection().await?;
        let mut replies = self.send(&connection, vec![redis::cmd("ASKING"), redis::cmd("PING")]).await?;
        self.checked(replies.swap_remove(0), Request::Command("ASKING")).map(drop)
    }

    /// What the server says of itself now. Errors as of [`command`](Self::command).
    pub(crate) async fn facts(&self) -> Result<ServerFacts> {
        let question = if self.connection().await?.takes_messages { "HELLO" } else { "INFO" };
        self.command(&redis::cmd(question)).await.map(|reply| ServerFacts::read(&reply))
    }

    /// The name of this run of the server. Errors as of [`command`](Self::command).
    pub(crate) async fn run_id(&self) -> Result<String> {
        self.command(&redis::cmd("INFO")).await.map(|reply| ServerFacts::read(&reply).run_id)
    }

    /// True if messages on the channel arrive now.
    pub(crate) fn hears(&self) -> bool {
        matches!(self.requests.open_connection(), Ok(Some(connection)) if connection.hears())
    }

    /// Subscribes to the channel, unless that was done: messages on it arrive. Where there are none, because the server, a proxy or
    /// an administrator allows for none, heartbeats make do. Runs as a task: a caller that is not polled must not block the others.
    pub(crate) async fn listen(&self) -> Result<()> {
        let connection = self.connection().await?;
        if !connection.takes_messages {
            let message = "the connection speaks RESP2, in which the server sends no messages";
            let help = "let what stands between pass HELLO 3 on, or leave protocol=resp2 out of the URL";
            return Err(Error::new(ErrorKind::Unsupported, message).with_help(help));
        }
        let (channel, unheard) = (self.channel.clone(), Arc::clone(&self.unheard));
        let subscribed = tokio::spawn(async move {
            let mut last = unheard.lock().await;
            if let Some((why, _)) = last.as_ref().filter(|(_, until)| Instant::now() < *until) {
                return Err(why.clone());
            }
            if connection.hears() {
                return Ok(());
            }
            let subscribed = connection.subscribe(&channel).await;
            let pause = if connection.is_open() { RESUBSCRIBE_PAUSE } else { HANG_UP_PAUSE };
            *last = subscribed.as_ref().err().map(|why| (why.clone(), Instant::now() + pause));
            subscribed
        });
        let ended = |_| Err(shut_down(ErrorKind::Unavailable, "during a subscription"));
        subscribed.await.unwrap_or_else(ended).map_err(|why| self.route.with_address(why))
    }

    /// Finds out which key holds what no lock of ours holds. Looked at afterwards, so that the scripts need not.
    async fn name_foreign_data(&self, keys: &[&str]) -> Error {
        for key in keys {
            let reply = self.command(redis::cmd("TYPE").arg(key)).await;
            let Ok(Value::SimpleString(kind)) = reply else { break };
            if !["none", companion_kind(key).unwrap_or("string")].contains(&&*kind) {
                return foreign_data(key, Some(&kind));
            }
        }
        foreign_data(keys.first().unwrap_or(&""), None)
    }

    fn checked(&self, reply: Value, sent: Request<'_>) -> Result<Value> {
        match reply {
            Value::ServerError(error) => Err(self.route.with_address(refusal(&error, sent))),
            reply => Ok(reply),
        }
    }

    /// Ends the connections, and makes no other. What is under way gets no answer.
    pub(crate) fn close(&self) {
        self.requests.close();
        self.confirmed.iter().for_each(|(manager, _)| manager.close());
        if let Route::Primary(sentinels) = &*self.route {
            sentinels.close();
        }
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

/// Asks how many replicas have the last write of the connection, or just follow the server.
pub(crate) fn wait_for(replicas: Replicas) -> Cmd {
    // Zero would be for ever.
    let within = u64::try_from(replicas.within.as_millis().max(1)).unwrap_or(u64::MAX);
    redis::cmd("WAIT").arg(replicas.count).arg(within).take()
}
