use super::connection::{Connection, NoAnswer};
use super::greeting::{self, Greeting, ServerFacts};
use super::route::Route;
use super::stream;
use super::succession::Succession;
use super::tls::refusal_by_peer;
use crate::target::{Address, Target};
use crate::waiters::WaiterRegistry;
use leasehold_core::{Error, ErrorKind, Result};
use redis::{Cmd, Value};
use std::sync::Arc;
use tokio::time::{Instant, timeout_at};

/// Makes a connection that is ready for requests. One deadline covers all steps, and an error names its step.
///
/// # Errors
///
/// Never [`Indeterminate`](ErrorKind::Indeterminate): nothing was asked that changes anything.
pub(super) async fn dial(route: &Arc<Route>, waiters: &Arc<WaiterRegistry>) -> Result<Arc<Connection>> {
    let deadline = Instant::now() + route.connect_timeout();
    let (target, epoch) = route.lead().await?;
    let (connection, facts) = connect(&target, waiters, deadline).await?;
    route.check(&facts)?;
    let connection = Arc::new(connection);
    if let Some(epoch) = epoch {
        Succession::watch(route, &connection, epoch);
    }
    Ok(connection)
}

/// A Sentinel, and the connection to it: made when it is first asked, kept for the next question.
#[derive(Debug)]
pub(crate) struct SentinelLine<'a> {
    sentinel: &'a Target,
    connection: Option<Connection>,
}

impl<'a> SentinelLine<'a> {
    pub(crate) fn to(sentinel: &'a Target) -> Self {
        Self { sentinel, connection: None }
    }

    pub(crate) fn address(&self) -> &Address {
        &self.sentinel.address
    }

    /// Asks it. A connection whose answer was not waited for is not used again.
    ///
    /// # Errors
    ///
    /// Never [`Indeterminate`](ErrorKind::Indeterminate): nothing is asked that changes anything.
    pub(crate) async fn ask(&mut self, question: &Cmd) -> Result<Value> {
        let connection = match self.connection.take().filter(Connection::is_open) {
            Some(connection) => connection,
            None => meet(self.sentinel).await?,
        };
        let answer = connection.request(question).await.map_err(not_greeted)?;
        self.connection = Some(connection);
        Ok(answer)
    }
}

async fn meet(sentinel: &Target) -> Result<Connection> {
    let deadline = Instant::now() + sentinel.timeouts.connect;
    let (connection, facts) = connect(sentinel, &Arc::default(), deadline).await?;
    if !facts.is_sentinel() && !facts.mode.is_empty() {
        let message = format!("it is no Sentinel, but {} {}", facts.flavour, facts.version);
        return Err(Error::new(ErrorKind::Misconfigured, message)
            .with_help("use the URL of one server, redis://host:port, or look at the port"));
    }
    Ok(connection)
}

async fn connect(
    target: &Target,
    waiters: &Arc<WaiterRegistry>,
    deadline: Instant,
) -> Result<(Connection, ServerFacts)> {
    let stream = stream::open(target, deadline).await?;
    let connection = Connection::over(stream, target, Arc::clone(waiters));
    let connection = connection.await.map_err(not_greeted)?;
    let greeted = timeout_at(deadline, greet(&connection, target)).await;
    let facts = greeted.unwrap_or_else(|_| Err(not_greeted(NoAnswer::Overdue(target.timeouts.connect))))?;
    Ok((connection, facts))
}

/// Says who we are, and finds out who answers.
async fn greet(connection: &Connection, target: &Target) -> Result<ServerFacts> {
    let greeting = Greeting::new(target)?;
    let replies = connection.request_all(&greeting.hello()).await.map_err(not_greeted)?;
    if !greeting.is_unknown(&replies) {
        if greeting.asks_for_messages() {
            connection.take_messages();
        }
        return greeting::facts(&replies);
    }
    // An old server, or a proxy: the older way to log in, after which the older protocol is spoken.
    let commands = greeting.without_hello()?;
    let mut replies = connection.request_all(&commands).await.map_err(not_greeted)?;
    let info = replies.pop();
    greeting::facts(&replies)?;
    Ok(info.as_ref().map(ServerFacts::read_info).unwrap_or_default())
}

fn not_greeted(why: NoAnswer) -> Error {
    match why {
        NoAnswer::Overdue(timeout) => {
            let message = format!("it accepted a connection, but did not answer within {timeout:?}");
            Error::new(ErrorKind::Unavailable, message)
                .with_help("look at the server; if the port takes only TLS, write rediss://")
        }
        NoAnswer::Broken(error) if error.kind() == redis::ErrorKind::Parse => {
            // Without its cause: what a stranger says need not be repeated.
            let message = "what answers there does not speak the protocol of Redis";
            Error::new(ErrorKind::Misconfigured, message)
                .with_help("look at the port in the URL; if it takes only TLS, write rediss://")
        }
        NoAnswer::Broken(error) => refusal_by_peer(&error).unwrap_or_else(|| {
            Error::new(ErrorKind::Unavailable, "it accepted a connection and closed it")
                .with_source(error)
                .with_help("look at the log of the server; if the port takes only TLS, write rediss://")
        }),
    }
}
