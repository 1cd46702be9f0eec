use super::rows::{Locked, Rows};
use futures_util::FutureExt;
use leasehold_core::{Claim, LockName};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use tokio::sync::{Mutex, OwnedSemaphorePermit};

/// A wait for a row in the server, which grants it in the moment in which it is free.
///
/// Not a task: it goes on when somebody waits for it. What the server has said meanwhile is heard then; and if nobody
/// ever does, the withdrawal of the claim closes its connection.
pub(super) struct Waiting {
    name: LockName,
    state: Mutex<State>,
    /// One of the places for waiting; given back with this value.
    _place: OwnedSemaphorePermit,
}

enum State {
    Waiting(Pin<Box<dyn Future<Output = Option<Locked>> + Send>>),
    Over(Option<Locked>),
}

/// What was heard of a wait.
pub(super) enum Heard {
    /// It goes on.
    Nothing,
    /// The row is locked.
    Locked(Locked),
    /// It ended without.
    InVain,
}

impl Waiting {
    pub(super) fn begin(rows: Arc<Rows>, claim: Claim, place: OwnedSemaphorePermit) -> Self {
        let name = claim.name().clone();
        // An error is heard by the next attempt, which meets it again and has somebody to tell.
        let wait = Box::pin(async move { rows.lock_in_time(&claim).await.ok().flatten() });
        Self { name, state: Mutex::new(State::Waiting(wait)), _place: place }
    }

    pub(super) fn name(&self) -> &LockName {
        &self.name
    }

    /// Returns when there is something to hear. Safe to drop: the wait itself goes on.
    pub(super) async fn until_heard(&self) {
        let mut state = self.state.lock().await;
        if let State::Waiting(wait) = &mut *state {
            let locked = wait.await;
            *state = State::Over(locked);
        }
    }

    /// What there is to hear now.
    pub(super) async fn heard(&self) -> Heard {
        // Polled once: what the server said while nobody listened lies in the connection.
        let _ = self.until_heard().now_or_never();
        match &mut *self.state.lock().await {
            State::Waiting(_) => Heard::Nothing,
            State::Over(locked) => locked.take().map_or(Heard::InVain, Heard::Locked),
        }
    }

    /// Ends it. A row that was locked meanwhile is let go.
    pub(super) async fn leave(&self, rows: &Rows) {
        let over = State::Over(None);
        if let State::Over(Some(locked)) = std::mem::replace(&mut *self.state.lock().await, over) {
            rows.roll_back(locked.connection).await;
        }
    }
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting").field("name", &self.name).finish_non_exhaustive()
    }
}
