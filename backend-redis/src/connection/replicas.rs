//! Requests that are done only when replicas have what they wrote.
//!
//! `WAIT` blocks its connection while a replica is missing. So these requests have a connection of their own, and at most four are in
//! flight: other requests do not wait behind them, and where replicas are missing a crowd of them is refused one by one instead of
//! running into the time-out together. Renewals have a second connection, so that waiting grants cannot delay them.

use super::Call;
use super::link::Link;
use super::route::Route;
use crate::server_error::{refusal, shut_down};
use crate::target::Replicas;
use leasehold_core::{Error, ErrorKind, Result};
use redis::{Cmd, Value};
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// How many of these requests are under way at once: half of what the time-out has room for if all replicas are gone.
const AT_ONCE: usize = 4;

/// The link for requests of one kind that replicas are to confirm.
#[derive(Debug)]
pub(super) struct Confirming {
    pub(super) link: Arc<Link>,
    turns: Semaphore,
}

impl Confirming {
    pub(super) fn along(route: &Arc<Route>) -> Self {
        let link = Arc::new(Link::along(Arc::clone(route), Arc::default(), String::new()));
        Self { link, turns: Semaphore::new(AT_ONCE) }
    }

    /// Calls a script, and waits for replicas to have what it wrote: the replies to its commands, and how many have it.
    ///
    /// Runs as a task: a caller may keep its future and not poll it, and would use up a turn.
    pub(super) async fn ask(self: &Arc<Self>, call: &Call<'_>) -> Result<(Vec<Value>, Result<u32>)> {
        let (by_digest, in_full, this) = (call.commands(false), call.commands(true), Arc::clone(self));
        let done = tokio::spawn(async move {
            let turn = timeout(this.link.route.timeouts().request, this.turns.acquire()).await;
            let Ok(Ok(_turn)) = turn else {
                let message = "too many requests wait for its replicas already";
                let crowded = Error::new(ErrorKind::Unavailable, message);
                return Err(this.link.here(crowded.with_help("look at its replicas: INFO replication")));
            };
            let mut replies = this.link.send_script(by_digest, || in_full).await?;
            let count = this.read(replies.pop());
            Ok((replies, count))
        });
        done.await.unwrap_or_else(|_| {
            Err(self.link.here(shut_down(ErrorKind::Indeterminate, "while replicas were waited for")))
        })
    }

    fn read(&self, waited: Option<Value>) -> Result<u32> {
        match waited {
            Some(Value::Int(count)) => Ok(u32::try_from(count).unwrap_or_default()),
            Some(Value::ServerError(error)) => Err(self.link.here(refusal(&error, None))),
            _ => Ok(0),
        }
    }
}

/// Asks how many replicas have the last write of the connection, or just follow the server.
pub(crate) fn wait_for(replicas: Replicas) -> Cmd {
    // Zero would be for ever.
    let within = u64::try_from(replicas.within.as_millis().max(1)).unwrap_or(u64::MAX);
    redis::cmd("WAIT").arg(replicas.count).arg(within).take()
}
