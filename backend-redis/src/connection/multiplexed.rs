use super::role::RoleCheck;
use super::stream::ByteStream;
use crate::reply::not_understood;
use crate::server_error::{Request, refusal};
use crate::target::Target;
use crate::waiters::WaiterRegistry;
use leasehold_core::{Error, ErrorKind};
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Cmd, ProtocolVersion, PushInfo, PushKind, RedisConnectionInfo, RedisError,
    RedisResult, Value,
};
use secrecy::{ExposeSecret, SecretString};
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::watch;
use tokio::task::AbortHandle;

/// One connection of redis-rs that all requests share. It ends for good when it breaks, or when a reply is overdue: replies come
/// in order, so a late one delays all that follow.
#[derive(Debug)]
pub(crate) struct Connection {
    requests: MultiplexedConnection,
    /// The task that writes requests and reads replies.
    task: AbortHandle,
    /// Closed once that task has ended.
    end: watch::Receiver<()>,
    overdue: AtomicBool,
    /// True once the next request is to make another connection.
    left: AtomicBool,
    pub(super) target: Target,
    /// True if the server may send messages between replies.
    pub(super) takes_messages: bool,
    /// True once the channel of the waiters was subscribed to.
    subscribed: AtomicBool,
    /// `None` where the role is not looked at.
    pub(super) role: Option<RoleCheck>,
}

/// Ends with the task of a connection: it has returned, was aborted, or its runtime has ended.
struct EndOnDrop {
    end: Option<watch::Sender<()>>,
    waiters: Arc<WaiterRegistry>,
}

impl Connection {
    /// A connection over this stream, in this protocol. RESP3 begins with `HELLO 3` and the login, RESP2 with nothing.
    pub(super) async fn over(
        stream: Box<dyn ByteStream>,
        target: &Target,
        protocol: ProtocolVersion,
        password: Option<&SecretString>,
        waiters: &Arc<WaiterRegistry>,
    ) -> RedisResult<Self> {
        let mut info = RedisConnectionInfo::default().set_skip_set_lib_name().set_protocol(protocol);
        let mut config = AsyncConnectionConfig::new().set_response_timeout(Some(target.timeouts.request));
        let takes_messages = protocol == ProtocolVersion::RESP3;
        if takes_messages {
            let told = Arc::clone(waiters);
            config = config.set_push_sender(move |message| hear(&told, &message));
        }
        if takes_messages && target.has_login() {
            info = info.set_password(password.map_or("", ExposeSecret::expose_secret));
            info = info.set_username(target.user.as_deref().unwrap_or("default"));
        }
        let (requests, driver) = MultiplexedConnection::new_with_config(&info, stream, config).await?;
        let (ends, end) = watch::channel(());
        let ends = EndOnDrop { end: Some(ends), waiters: Arc::clone(waiters) };
        let task = tokio::spawn(async move {
            let _ends = ends;
            driver.await;
        });
        Ok(Self {
            requests,
            task: task.abort_handle(),
            end,
            overdue: AtomicBool::new(false),
            left: AtomicBool::new(false),
            target: target.clone(),
            takes_messages,
            subscribed: AtomicBool::new(false),
            role: None,
        })
    }

    /// True if it is of use for requests.
    pub(super) fn is_open(&self) -> bool {
        !self.left.load(Ordering::SeqCst) && self.end.has_changed().is_ok()
    }

    /// True if its server said that it is a replica, and locks are none of its business.
    pub(super) fn is_of_replica(&self) -> bool {
        self.role.as_ref().is_some_and(RoleCheck::is_replica)
    }

    /// True if messages on the channel of the waiters arrive.
    pub(super) fn hears(&self) -> bool {
        self.subscribed.load(Ordering::SeqCst)
    }

    /// Subscribes to the channel of the waiters: messages arrive from now on.
    pub(super) async fn subscribe(&self, channel: &str) -> Result<(), Error> {
        let reply = self.request(redis::cmd("SUBSCRIBE").arg(channel)).await;
        match reply.map_err(|why| self.unknown_outcome(why))? {
            Value::Push { kind: PushKind::Subscribe, .. } => self.subscribed.store(true, Ordering::SeqCst),
            Value::ServerError(error) => return Err(refusal(&error, Request::Command("SUBSCRIBE"))),
            _ => return Err(not_understood()),
        }
        Ok(())
    }

    /// Sends one command and waits for its reply, which may be an error of the server.
    pub(super) async fn request(&self, command: &Cmd) -> RedisResult<Value> {
        let mut requests = self.requests.clone();
        self.answer(requests.send_packed_command(command)).await
    }

    /// Sends commands as one piece, with no other's between them; one reply for each, in order.
    pub(super) async fn request_together(&self, commands: Vec<Cmd>) -> RedisResult<Vec<Value>> {
        if let [command] = commands.as_slice() {
            return Ok(vec![self.request(command).await?]);
        }
        let (mut together, count) = (redis::Pipeline::with_capacity(commands.len()), commands.len());
        for command in commands {
            together.add_command(command);
        }
        let mut requests = self.requests.clone();
        self.answer(requests.send_packed_commands(&together, 0, count)).await
    }

    /// The next request is to make another connection. Requests under way get their answers: this one ends behind the last.
    pub(super) fn leave(&self) {
        self.left.store(true, Ordering::SeqCst);
    }

    /// Ends it now. Requests under way get no answer.
    pub(super) fn end(&self) {
        self.leave();
        self.task.abort();
    }

    /// The answer, or why none will come: a time-out, or the end of the connection.
    ///
    /// The library may leave a request in the channel of a task that has ended (tokio-rs/tokio#7714); `end` wakes its caller.
    async fn answer<T>(&self, answer: impl Future<Output = RedisResult<T>>) -> RedisResult<T> {
        let mut end = self.end.clone();
        let answer = tokio::select! {
            biased;
            answer = answer => answer,
            _ = end.changed() => Err(io::Error::from(io::ErrorKind::BrokenPipe).into()),
        };
        if answer.as_ref().is_err_and(RedisError::is_timeout) {
            // The request may still be in a buffer of this host, and would be carried out late.
            self.overdue.store(true, Ordering::SeqCst);
            self.end();
        }
        answer.map_err(|why| if self.overdue.load(Ordering::SeqCst) { overdue() } else { why })
    }

    /// The error for a request that may have been carried out. A request that was never sent gives the same error.
    pub(super) fn unknown_outcome(&self, error: RedisError) -> Error {
        if error.is_timeout() {
            let message = format!("no answer within {:?}", self.target.timeouts.request);
            return Error::new(ErrorKind::Indeterminate, message)
                .with_help("look at the server and at the network to it, or raise timeout in the URL");
        }
        Error::new(ErrorKind::Indeterminate, "the connection broke before the answer came")
            .with_source(error)
            .with_help("look at the log of the server, and at what stands between")
    }
}

pub(super) fn overdue() -> RedisError {
    io::Error::from(io::ErrorKind::TimedOut).into()
}

/// Something came that is no reply. Called before more is read.
fn hear(waiters: &WaiterRegistry, message: &PushInfo) -> Result<(), Infallible> {
    if let (PushKind::Message, [_, Value::BulkString(text)]) = (&message.kind, message.data.as_slice()) {
        waiters.deliver(text);
    }
    Ok(())
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.end();
    }
}

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        // Before the waiters ask again.
        drop(self.end.take());
        self.waiters.wake_all();
    }
}

#[cfg(test)]
mod tests;
