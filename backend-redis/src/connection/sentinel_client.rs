use super::handshake;
use super::multiplexed::Connection;
use crate::target::{Address, Target};
use leasehold_core::{Error, ErrorKind, Result};
use redis::{Cmd, Value};
use std::sync::Arc;
use tokio::time::Instant;

/// A Sentinel, and the connection to it: made when it is first asked, kept for the next question.
#[derive(Debug)]
pub(crate) struct SentinelClient<'a> {
    sentinel: &'a Target,
    connection: Option<Connection>,
}

impl<'a> SentinelClient<'a> {
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
    /// Never [`Indeterminate`](ErrorKind::Indeterminate): no question changes anything.
    pub(crate) async fn ask(&mut self, question: &Cmd) -> Result<Value> {
        let connection = match self.connection.take().filter(Connection::is_open) {
            Some(connection) => connection,
            None => connect(self.sentinel).await?,
        };
        let answer = connection.request(question).await.map_err(handshake::refused)?;
        self.connection = Some(connection);
        Ok(answer)
    }
}

async fn connect(sentinel: &Target) -> Result<Connection> {
    let deadline = Instant::now() + sentinel.timeouts.connect;
    let (connection, facts) = handshake::connect(sentinel, &Arc::default(), deadline).await?;
    if !facts.is_sentinel() && !facts.mode.is_empty() {
        let message = format!("it is no Sentinel, but {} {}", facts.flavour, facts.version);
        return Err(Error::new(ErrorKind::Misconfigured, message)
            .with_help("use the URL of one server, redis://host:port, or look at the port"));
    }
    Ok(connection)
}
