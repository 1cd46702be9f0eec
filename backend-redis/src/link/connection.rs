use super::driver::Driver;
use super::side_line::{self, SideLine};
use super::stream::Stream;
use super::watchdog::InFlight;
use super::welcome::Welcoming;
use crate::target::{Address, Target};
use crate::waiters::WaiterRegistry;
use futures_util::future::try_join_all;
use leasehold_core::{Error, ErrorKind};
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Cmd, ProtocolVersion, PushInfo, PushKind, RedisConnectionInfo, RedisError,
    RedisResult, Value,
};
use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::mem;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;
use tokio::sync::{Mutex, Notify};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::Instant;

/// How many requests are written at once, if so many are there. All at once, and the server would wait while this process
/// makes up the next ones, and the other way round: measured with 64 tasks, a quarter of the throughput.
const AT_ONCE: usize = 32;

/// One connection that all requests share. It ends for good when it breaks, or when an answer is overdue: replies come
/// in the order of their requests, so those behind a lost one would wait as well.
#[derive(Debug)]
pub(super) struct Connection {
    requests: MultiplexedConnection,
    /// Writes requests and reads replies.
    driver: Arc<Driver>,
    /// Its task.
    task: AbortHandle,
    /// Wakes everybody when that task is no more.
    gone: Arc<Notify>,
    health: Arc<Health>,
    /// The server at its other end.
    target: Target,
    /// True once the server has agreed to send messages between replies.
    takes_messages: AtomicBool,
    /// True once the channel of the waiters was subscribed to.
    subscribed: AtomicBool,
    /// Whoever has it subscribes, if that time has come; the others wait for it.
    subscribing: Mutex<Option<Instant>>,
    /// Where messages come if they cannot come here.
    side_line: SideLine,
}

#[derive(Debug, Default)]
struct Health {
    in_flight: InFlight,
    overdue: AtomicBool,
    /// True once it was left, or ended from here: the driver is a moment later.
    left: AtomicBool,
}

/// Why a request got no answer.
#[derive(Debug)]
pub(super) enum NoAnswer {
    /// None came within this time.
    Overdue(Duration),
    /// The connection broke first.
    Broken(RedisError),
}

impl Connection {
    /// A connection over this stream, on which nothing was said yet.
    pub(super) async fn over(
        stream: Box<dyn Stream>,
        target: &Target,
        waiters: Arc<WaiterRegistry>,
    ) -> Result<Self, NoAnswer> {
        // No login and no library name: they are said in the greeting, where a refusal can be understood.
        let silent =
            RedisConnectionInfo::default().set_skip_set_lib_name().set_protocol(ProtocolVersion::RESP3);
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(None)
            .set_pipeline_buffer_size(AT_ONCE)
            .set_push_sender(move |message| hear(&waiters, &message));
        let made = MultiplexedConnection::new_with_config(&silent, Welcoming::new(stream), config).await;
        let (requests, driver) = made.map_err(NoAnswer::Broken)?;
        let gone = Arc::<Notify>::default();
        let driver = Driver::new(driver, Arc::clone(&gone));
        let task = tokio::spawn(driver.task());
        let connection = Self {
            requests,
            driver,
            task: task.abort_handle(),
            gone,
            health: Arc::default(),
            target: target.clone(),
            takes_messages: AtomicBool::new(false),
            subscribed: AtomicBool::new(false),
            subscribing: Mutex::default(),
            side_line: SideLine::default(),
        };
        let (asking, health) = (connection.requests.clone(), Arc::clone(&connection.health));
        tokio::spawn(guard(task, asking, health, target.timeouts.request));
        Ok(connection)
    }

    /// Where its other end is.
    pub(super) fn address(&self) -> &Address {
        &self.target.address
    }

    /// True if it is of use for requests. Also false when the runtime that the connection lived on has ended.
    pub(super) fn is_open(&self) -> bool {
        let Health { overdue, left, .. } = &*self.health;
        !overdue.load(Ordering::SeqCst) && !left.load(Ordering::SeqCst) && !self.task.is_finished()
    }

    /// The greeting was answered: from now on, the server may speak without being asked.
    pub(super) fn take_messages(&self) {
        self.takes_messages.store(true, Ordering::SeqCst);
    }

    /// True if messages on the channel of the waiters arrive.
    pub(super) fn hears(&self) -> bool {
        self.subscribed.load(Ordering::SeqCst) || self.side_line.is_open()
    }

    /// Subscribes to the channel of the waiters: on this connection, or in the older protocol on one beside it, made again
    /// when it breaks. However many ask, one command is sent. True if messages arrive from now on.
    pub(super) async fn listen(&self, waiters: &Arc<WaiterRegistry>, channel: &str) -> bool {
        match self.takes_messages.load(Ordering::SeqCst) {
            true => self.subscribe(channel).await,
            false => self.side_line.open(&self.target, waiters, channel).await,
        }
    }

    /// A refusal is not for ever: a server that is busy with a program refuses this too, and rights may be granted.
    async fn subscribe(&self, channel: &str) -> bool {
        let mut not_before = self.subscribing.lock().await;
        if self.hears() {
            return true;
        }
        if not_before.is_some_and(|moment| Instant::now() < moment) {
            return false;
        }
        let reply = self.request(redis::cmd("SUBSCRIBE").arg(channel)).await;
        let is_done = matches!(reply, Ok(Value::Push { kind: PushKind::Subscribe, .. }));
        self.subscribed.store(is_done, Ordering::SeqCst);
        *not_before = Some(Instant::now() + side_line::PAUSE);
        is_done
    }

    /// Sends one command and waits for its reply, which may be an error of the server.
    pub(super) async fn request(&self, command: &Cmd) -> Result<Value, NoAnswer> {
        let _ticket = self.health.in_flight.enter();
        let mut requests = self.requests.clone();
        let answer = pin!(requests.send_packed_command(command));
        self.answer(answer).await
    }

    /// Sends several commands in one go; one reply for each, in order.
    pub(super) async fn request_all(&self, commands: &[Cmd]) -> Result<Vec<Value>, NoAnswer> {
        // Not as a pipeline of the client: that one keeps the error of a broken connection to itself.
        try_join_all(commands.iter().map(|command| self.request(command))).await
    }

    /// The connection of the client library, without what is ours.
    #[cfg(feature = "bench")]
    pub(super) fn bare(&self) -> MultiplexedConnection {
        self.requests.clone()
    }

    /// Sends several commands as one piece, with nobody else's between them; one reply for each, in order.
    pub(super) async fn request_together(&self, commands: Vec<Cmd>) -> Result<Vec<Value>, NoAnswer> {
        let _ticket = self.health.in_flight.enter();
        let mut together = redis::Pipeline::with_capacity(commands.len());
        let count = commands.len();
        for command in commands {
            together.add_command(command);
        }
        let mut requests = self.requests.clone();
        let answer = pin!(requests.send_packed_commands(&together, 0, count));
        self.answer(answer).await
    }

    /// The next request is to make another one. Who waits for an answer has it: the connection ends behind the last of them.
    pub(super) fn leave(&self) {
        self.health.left.store(true, Ordering::SeqCst);
    }

    /// Ends it now. Who waits for an answer is told that none will come.
    pub(super) fn end(&self) {
        self.leave();
        self.task.abort();
        self.side_line.end();
    }

    /// The answer, or that none will come.
    ///
    /// The library does not always say that. A request that has its place in the channel to the driver when the driver
    /// goes is put there all the same, and lies there until the last sender is gone (tokio-rs/tokio#7714), which is the
    /// one who waits for it. And nobody looks for overdue requests any more.
    ///
    /// By reference: the future of the library has a kilobyte, and handed over it would be kept twice.
    async fn answer<T>(
        &self,
        mut answer: Pin<&mut impl Future<Output = RedisResult<T>>>,
    ) -> Result<T, NoAnswer> {
        // Made before the request is: from here on it cannot miss the end.
        let mut gone = pin!(self.gone.notified());
        let (under_way, mut is_made) = (self.driver.enter(), false);
        let answer = poll_fn(|cx| match answer.as_mut().poll(cx) {
            // What was answered before the end is an answer.
            Poll::Ready(answer) => Poll::Ready(answer),
            Poll::Pending => {
                if !mem::replace(&mut is_made, true) {
                    under_way.is_made();
                }
                gone.as_mut().poll(cx).map(|()| Err(io::Error::from(io::ErrorKind::BrokenPipe).into()))
            }
        });
        answer.await.map_err(|error| self.no_answer(error))
    }

    fn no_answer(&self, error: RedisError) -> NoAnswer {
        if self.health.overdue.load(Ordering::SeqCst) {
            NoAnswer::Overdue(self.target.timeouts.request)
        } else {
            NoAnswer::Broken(error)
        }
    }
}

/// Something came that is no reply. Called by the driver, before it reads on.
fn hear(waiters: &WaiterRegistry, message: &PushInfo) -> Result<(), Infallible> {
    match (&message.kind, message.data.as_slice()) {
        (PushKind::Message, [_, Value::BulkString(text)]) => waiters.deliver(text),
        (PushKind::Disconnection, _) => waiters.wake_all(),
        _ => {}
    }
    Ok(())
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.end();
    }
}

/// Ends the connection when an answer is overdue. Lives as long as the driver does.
async fn guard(
    driver: JoinHandle<()>,
    requests: MultiplexedConnection,
    health: Arc<Health>,
    timeout: Duration,
) {
    let abort = driver.abort_handle();
    tokio::select! {
        _ = driver => {}
        () = health.in_flight.overdue(timeout, || ping(requests.clone())) => {
            health.overdue.store(true, Ordering::SeqCst);
            abort.abort();
        }
    }
}

async fn ping(mut requests: MultiplexedConnection) -> RedisResult<Value> {
    requests.send_packed_command(&redis::cmd("PING")).await
}

impl NoAnswer {
    /// The error for a request that may have been carried out. That one of them never left this process cannot be told
    /// apart from that, and need not be.
    pub(super) fn unknown_outcome(self) -> Error {
        match self {
            Self::Overdue(timeout) => {
                Error::new(ErrorKind::Indeterminate, format!("no answer within {timeout:?}"))
                    .with_help("look at the server and at the network to it, or raise timeout in the URL")
            }
            Self::Broken(error) => {
                Error::new(ErrorKind::Indeterminate, "the connection broke before the answer came")
                    .with_source(error)
                    .with_help("look at the log of the server, and at what stands between")
            }
        }
    }
}

#[cfg(test)]
mod tests;
