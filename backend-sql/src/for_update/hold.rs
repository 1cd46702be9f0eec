use super::rows::Rows;
use super::semantics::ASK_EVERY;
use crate::server::{Connection, Doing};
use leasehold_core::{Claim, FencingToken, LockName, Result};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::PoisonError;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};

/// Says something, and no more than that, so that the server does not take the transaction for idle.
const BEAT: &str = "SELECT 1";

/// A lock in hand: an open transaction that has a row locked.
pub(super) struct Hold {
    name: LockName,
    token: FencingToken,
    ttl: Duration,
    state: Mutex<State>,
    /// When the beat was sent that was heard last.
    heard_of: std::sync::Mutex<Option<Instant>>,
}

enum State {
    Quiet(Connection),
    /// A beat that has not been answered. It is kept, not dropped: to drop it would be to close the connection, and with
    /// it to give the lock away.
    Beating(Pin<Box<dyn Future<Output = (Connection, sqlx::Result<()>)> + Send>>),
    Dead,
}

/// What a beat has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beat {
    /// The transaction is open.
    Alive,
    /// The connection has ended, and with it the hold.
    Dead,
}

impl Hold {
    pub(super) fn new(claim: &Claim, token: FencingToken, connection: Connection) -> Self {
        Self {
            name: claim.name().clone(),
            token,
            ttl: claim.ttl(),
            state: Mutex::new(State::Quiet(connection)),
            heard_of: std::sync::Mutex::default(),
        }
    }

    pub(super) fn name(&self) -> &LockName {
        &self.name
    }

    pub(super) fn token(&self) -> FencingToken {
        self.token
    }

    /// True if it was alive so short a time ago that whoever waits for it would not have asked again by now. It may have
    /// ended since: a server ends a connection when it is told to.
    pub(super) fn is_fresh(&self) -> bool {
        self.was_alive_within(ASK_EVERY)
    }

    /// True if it was alive so short a time ago that the server has not ended it of its own accord.
    pub(super) fn may_live(&self) -> bool {
        self.was_alive_within(self.ttl)
    }

    fn was_alive_within(&self, time: Duration) -> bool {
        let heard_of = *self.heard_of.lock().unwrap_or_else(PoisonError::into_inner);
        heard_of.is_some_and(|heard_of| heard_of.elapsed() < time)
    }

    /// Says something on the connection, and hears whether it is alive. An error says that nothing was heard in time.
    pub(super) async fn beat(&self, rows: &Rows) -> Result<Beat> {
        let deadline = Instant::now() + rows.server().target().timeout;
        let mut state = self.state.lock().await;
        // What was said before must be answered first; it says nothing about now.
        if matches!(*state, State::Beating(_)) && state.answer(deadline).await.is_err() {
            return Err(rows.server().no_answer(Doing::Keeping));
        }
        if let State::Quiet(connection) = std::mem::replace(&mut *state, State::Dead) {
            *state = State::Beating(Box::pin(say(connection, BEAT)));
        }
        let sent_at = Instant::now();
        match state.answer(deadline).await {
            Ok(beat) => {
                let heard_of = Some(sent_at).filter(|_| beat == Beat::Alive);
                *self.heard_of.lock().unwrap_or_else(PoisonError::into_inner) = heard_of;
                Ok(beat)
            }
            Err(_) => Err(rows.server().no_answer(Doing::Keeping)),
        }
    }

    /// Ends the transaction. An error says that the connection did not answer; it is closed then, and the server ends the
    /// transaction when it notices.
    pub(super) async fn end(&self, rows: &Rows) -> Result<()> {
        let deadline = Instant::now() + rows.server().target().timeout;
        let mut state = self.state.lock().await;
        if matches!(*state, State::Beating(_)) && state.answer(deadline).await.is_err() {
            *state = State::Dead;
        }
        if let State::Quiet(connection) = std::mem::replace(&mut *state, State::Dead)
            && rows.roll_back(connection).await
        {
            return Ok(());
        }
        Err(rows.server().no_answer(Doing::Ending))
    }
}

impl State {
    /// Waits for the answer to what was said.
    async fn answer(&mut self, deadline: Instant) -> Result<Beat, tokio::time::error::Elapsed> {
        let Self::Beating(beat) = self else {
            return Ok(if matches!(self, Self::Dead) { Beat::Dead } else { Beat::Alive });
        };
        let (connection, said) = timeout_at(deadline, beat.as_mut()).await?;
        let (state, beat) = match said {
            Ok(()) => (Self::Quiet(connection), Beat::Alive),
            // Whatever the error is: with no transaction that may go on, nothing is held.
            Err(_) => (Self::Dead, Beat::Dead),
        };
        *self = state;
        Ok(beat)
    }
}

async fn say(mut connection: Connection, text: &str) -> (Connection, sqlx::Result<()>) {
    let said = connection.link().tell(text).await;
    (connection, said)
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold").field("name", &self.name).field("token", &self.token).finish_non_exhaustive()
    }
}
