//! Requests that are done only when replicas have what they wrote.
//!
//! `WAIT` blocks its connection while a replica is missing. So these requests have a connection of their own, and at most four are in
//! flight: other requests do not wait behind them, and where replicas are missing a crowd of them is refused one by one instead of
//! running into the time-out together. Renewals have a second connection, so that waiting grants cannot delay them.

use super::Call;
use super::call::{is_demoted, is_unknown_script, last_or_refusal};
use super::multiplexed::Connection;
use super::route::Route;
use super::slot::ConnectionSlot;
use crate::server_error::refusal;
use crate::target::Replicas;
use crate::waiters::WaiterRegistry;
use leasehold_core::{Error, ErrorKind, Result};
use redis::{Cmd, Value};
use std::sync::Arc;
use tokio::sync::Semaphore;

/// How many of these requests are under way at once: half of what the time-out has room for if all replicas are gone.
const AT_ONCE: usize = 4;

/// The connection for requests of one matter that replicas are to confirm, made when it is first needed.
pub(super) struct Confirmations {
    slot: Arc<ConnectionSlot>,
    turns: Arc<Semaphore>,
}

/// What replicas are to confirm. Requests of one kind wait for each other, and for no others.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ConfirmKind {
    Grant,
    Renewal,
}

/// What came of waiting for replicas.
#[derive(Debug)]
pub(crate) enum Confirmed {
    /// Enough of them have it.
    Yes,
    /// Only so many have said so in time.
    By(u32),
    /// It could not be asked.
    Unasked(Error),
}

impl Confirmations {
    pub(super) fn of(route: &Arc<Route>) -> Self {
        let slot = Arc::new(ConnectionSlot::new(Arc::clone(route), Arc::<WaiterRegistry>::default()));
        Self { slot, turns: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    pub(super) fn close(&self) {
        self.slot.close();
    }

    /// Calls a script, and waits for replicas to have what it wrote; the reply to the script as it is.
    ///
    /// By a task of its own: a caller may keep its future and not poll it, and would use up a turn.
    pub(super) async fn ask(
        &self,
        call: &Call<'_>,
        replicas: Replicas,
    ) -> Result<(Value, Option<Confirmed>)> {
        let commands = |in_full| [call.commands(in_full), vec![wait_for(replicas)]].concat();
        let (by_digest, in_full) = (commands(false), commands(true));
        let (slot, turns) = (Arc::clone(&self.slot), Arc::clone(&self.turns));
        let done = tokio::spawn(async move {
            let turn = tokio::time::timeout(slot.route.request_timeout(), turns.acquire()).await;
            let Ok(Ok(_turn)) = turn else {
                return Err(slot.here(crowded()));
            };
            let connection = slot.connection().await?;
            let (mut reply, mut waited) = request(&slot, &connection, by_digest).await?;
            if is_unknown_script(&reply) {
                (reply, waited) = request(&slot, &connection, in_full).await?;
            }
            if is_demoted(&reply) {
                connection.leave();
            }
            Ok((reply, Some(read(&slot, replicas, &waited))))
        });
        done.await.unwrap_or_else(|error| Err(self.slot.here(unfinished(error))))
    }

    /// How many replicas follow the server.
    pub(super) async fn count(&self, replicas: Replicas) -> Result<Confirmed> {
        let connection = self.slot.connection().await?;
        let waited = connection.request(&wait_for(replicas)).await;
        let waited = waited.map_err(|why| self.slot.here(why.unknown_outcome()))?;
        Ok(read(&self.slot, replicas, &waited))
    }
}

/// The reply to the script, and to `WAIT` behind it.
async fn request(
    slot: &ConnectionSlot,
    connection: &Connection,
    commands: Vec<Cmd>,
) -> Result<(Value, Value)> {
    let replies = connection.request_together(commands).await;
    let mut replies = replies.map_err(|why| slot.here(why.unknown_outcome()))?;
    let waited = replies.pop().unwrap_or(Value::Nil);
    Ok((last_or_refusal(replies), waited))
}

fn wait_for(replicas: Replicas) -> Cmd {
    // Zero would be for ever.
    let within = u64::try_from(replicas.within.as_millis().max(1)).unwrap_or(u64::MAX);
    redis::cmd("WAIT").arg(replicas.count).arg(within).take()
}

fn read(slot: &ConnectionSlot, replicas: Replicas, waited: &Value) -> Confirmed {
    match waited {
        Value::Int(count) => match u32::try_from(*count) {
            Ok(count) if count >= replicas.count => Confirmed::Yes,
            count => Confirmed::By(count.unwrap_or_default()),
        },
        Value::ServerError(error) => Confirmed::Unasked(slot.here(refusal(error, None))),
        _ => Confirmed::By(0),
    }
}

fn crowded() -> Error {
    let message = "too many requests wait for its replicas already";
    Error::new(ErrorKind::Unavailable, message).with_help("look at its replicas: INFO replication")
}

fn unfinished(error: tokio::task::JoinError) -> Error {
    Error::new(ErrorKind::Indeterminate, "the runtime was shut down while replicas were waited for")
        .with_source(error)
        .with_help("ask on a runtime that lives as long as the answer takes")
}
