use super::rows::{LockedRow, Rows};
use crate::lock_mutex;
use crate::server::{Answer, ErrorClass, PooledConnection, StatementKind};
use leasehold_core::{Claim, FencingToken, LockMode, LockName, Loss, LossCause, Result};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{Instant, timeout_at};

/// A lock in hand: an open transaction that has a row locked.
pub(super) struct TransactionHold {
    pub(super) name: LockName,
    mode: LockMode,
    pub(super) token: FencingToken,
    /// The server's number of the connection.
    pub(super) number: i64,
    pub(super) ttl: Duration,
    state: Mutex<State>,
    /// When the question was sent whose answer, the last one so far, was that it holds.
    alive_at: std::sync::Mutex<Option<Instant>>,
}

enum State {
    Quiet(PooledConnection),
    /// A question without an answer yet. To drop it would close the connection, and give the lock away.
    Asked(Pin<Box<dyn Future<Output = (PooledConnection, sqlx::Result<Answer>)> + Send>>),
    /// The last question got an error, from the server or from this side. To close the connection would give the lock away while
    /// its holder still believes in it: the release closes it.
    Failed {
        _connection: PooledConnection,
    },
    /// The server takes no writes; the connection is closed.
    Demoted,
    Dead,
}

/// The state of a hold, as the server has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeepAlive {
    /// The transaction is open, on a server whose locks count.
    Holds,
    /// The server takes no writes: it may have been replaced, and another has its locks now.
    Demoted,
    /// The transaction has ended, or can no longer be asked: the hold is over, though its row may stay locked until the release.
    Dead,
}

impl TransactionHold {
    pub(super) fn new(claim: &Claim, token: FencingToken, locked: LockedRow) -> Self {
        Self {
            name: claim.name().clone(),
            mode: claim.mode(),
            token,
            number: locked.number,
            ttl: claim.ttl(),
            state: Mutex::new(State::Quiet(locked.connection)),
            alive_at: std::sync::Mutex::default(),
        }
    }

    /// True if the claim cannot hold beside it.
    pub(super) fn excludes(&self, claim: &Claim) -> bool {
        self.name == *claim.name() && self.mode.conflicts_with(claim.mode())
    }

    pub(super) fn was_alive_within(&self, time: Duration) -> bool {
        let alive_at = *lock_mutex(&self.alive_at);
        alive_at.is_some_and(|alive_at| alive_at.elapsed() < time)
    }

    /// Asks the server on this connection whether the hold is good. An error says that no answer came in time.
    pub(super) async fn keep_alive(&self, rows: &Rows) -> Result<KeepAlive> {
        let deadline = Instant::now() + rows.server.target().timeout;
        let mut state = self.state(deadline, rows, StatementKind::Write).await?;
        // The answer to an earlier question comes first; it says nothing about now.
        if matches!(*state, State::Asked(_)) {
            state.answer(rows, deadline).await?;
        }
        *state = match std::mem::replace(&mut *state, State::Dead) {
            State::Quiet(mut connection) => {
                let question = Arc::clone(&rows.keep_alive);
                State::Asked(Box::pin(async move {
                    let said = connection.raw().ask(&question, &[]).await;
                    (connection, said)
                }))
            }
            other => other,
        };
        let sent_at = Instant::now();
        let keep_alive = state.answer(rows, deadline).await?;
        *lock_mutex(&self.alive_at) = (keep_alive == KeepAlive::Holds).then_some(sent_at);
        Ok(keep_alive)
    }

    /// Ends the transaction, and answers its connection; `None` if the hold was over before. On a server that takes no writes any more,
    /// the error is a loss: another may have had the lock since. After any other error the outcome is unknown: the connection is
    /// closed, and the server ends the transaction when it notices.
    pub(super) async fn end(&self, rows: &Rows) -> Result<Option<PooledConnection>> {
        let deadline = Instant::now() + rows.server.target().timeout;
        let mut state = self.state(deadline, rows, StatementKind::End).await?;
        if matches!(*state, State::Asked(_))
            && let Err(error) = state.answer(rows, deadline).await
        {
            *state = State::Dead;
            return Err(error);
        }
        let mut connection = match std::mem::replace(&mut *state, State::Dead) {
            State::Quiet(connection) => connection,
            State::Demoted => return Err(Loss::new(LossCause::ReadOnly).into()),
            _ => return Ok(None),
        };
        // A server that was replaced by another may keep its connections.
        if !rows.server.dialect().texts().refuses_all_writes {
            let question = connection.raw().ask(&rows.keep_alive, &[]);
            match rows.server.in_time(StatementKind::End, question).await? {
                Ok(answer) if answer.is_one() => {}
                Ok(_) => {
                    connection.found_dead();
                    return Err(Loss::new(LossCause::ReadOnly).into());
                }
                Err(error) if rows.server.dialect().error_class(&error) == ErrorClass::Ended => {
                    return Ok(None);
                }
                Err(error) => return Err(rows.server.failure(error, StatementKind::End)),
            }
        }
        Ok(rows.end_transaction(&mut connection).await?.then_some(connection))
    }

    /// Removes the entry of the holder, after the end of its transaction on this connection.
    pub(super) async fn leave(&self, rows: &Rows, connection: PooledConnection) {
        let leave = rows.leave(&self.name, self.mode, self.token);
        if !self.mode.is_shared() {
            // Before the entry is removed, which takes another connection: a server may have none left for it.
            connection.give_back();
            leave.await;
        } else if leave.await {
            // The connection of a reader whose entry stays is closed: the entry names its number, and would be taken for a hold as long as
            // there is a session with that number.
            connection.give_back();
        }
    }

    /// The state, which may be with a renewal that its runtime polls no more: the connection then lives as long as that future.
    async fn state(&self, by: Instant, rows: &Rows, kind: StatementKind) -> Result<MutexGuard<'_, State>> {
        timeout_at(by, self.state.lock()).await.map_err(|_| rows.server.no_answer(kind))
    }
}

impl State {
    /// Waits for the answer to the question that is out. If none is out, the state answers, and the server is not asked.
    async fn answer(&mut self, rows: &Rows, deadline: Instant) -> Result<KeepAlive> {
        let Self::Asked(keep_alive) = self else {
            return Ok(match self {
                Self::Quiet(_) => KeepAlive::Holds,
                Self::Demoted => KeepAlive::Demoted,
                _ => KeepAlive::Dead,
            });
        };
        let answered = timeout_at(deadline, keep_alive.as_mut()).await;
        let (connection, said) = answered.map_err(|_| rows.server.no_answer(StatementKind::Write))?;
        let (state, keep_alive) = match said {
            Ok(answer) if answer.is_one() => (Self::Quiet(connection), KeepAlive::Holds),
            // Closed, as those are that have led to the same server: with it the transaction ends.
            Ok(_) => {
                connection.found_dead();
                (Self::Demoted, KeepAlive::Demoted)
            }
            // The row may still be locked: see `Failed`.
            Err(_) => (Self::Failed { _connection: connection }, KeepAlive::Dead),
        };
        *self = state;
        Ok(keep_alive)
    }
}

impl fmt::Debug for TransactionHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransactionHold")
            .field("name", &self.name)
            .field("token", &self.token)
            .finish_non_exhaustive()
    }
}
