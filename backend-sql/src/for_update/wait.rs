use super::rows::{Locked, Rows};
use leasehold_core::{Claim, LockName};
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use tokio::sync::OwnedSemaphorePermit;

/// A wait for a row in the server, which grants it in the moment in which it is free.
///
/// Not a task: it goes on when somebody waits for it. What the server has said meanwhile is heard then; and if nobody
/// ever does, the withdrawal of the claim closes its connection.
pub(super) struct Waiting {
    name: LockName,
    /// Never locked across an await: who waits may keep his future and not poll it.
    state: Mutex<State>,
    /// One of the places for waiting; given back with this value.
    _place: OwnedSemaphorePermit,
}

enum State {
    Waiting {
        wait: Pin<Box<dyn Future<Output = Option<Locked>> + Send>>,
        /// Of who waits for it, if anybody does.
        waker: Option<Waker>,
    },
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
        Self { name, state: Mutex::new(State::Waiting { wait, waker: None }), _place: place }
    }

    pub(super) fn name(&self) -> &LockName {
        &self.name
    }

    /// Returns when there is something to hear. Safe to drop: the wait itself goes on.
    pub(super) async fn until_heard(&self) {
        poll_fn(|context| {
            let mut state = self.state();
            if let State::Waiting { waker, .. } = &mut *state {
                *waker = Some(context.waker().clone());
            }
            state.poll()
        })
        .await;
    }

    /// What there is to hear now.
    pub(super) fn heard(&self) -> Heard {
        let mut state = self.state();
        // Polled once: what the server said while nobody listened lies in the connection.
        match (state.poll(), &mut *state) {
            (Poll::Ready(()), State::Over(locked)) => locked.take().map_or(Heard::InVain, Heard::Locked),
            _ => Heard::Nothing,
        }
    }

    /// Ends it. A row that was locked meanwhile is let go.
    pub(super) async fn leave(&self, rows: &Rows) {
        let before = std::mem::replace(&mut *self.state(), State::Over(None));
        match before {
            State::Waiting { waker, .. } => waker.into_iter().for_each(Waker::wake),
            State::Over(Some(locked)) => {
                rows.roll_back(locked.connection).await;
            }
            State::Over(None) => {}
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Goes on with it. Whoever polls, it is the one who waits that is woken.
    fn poll(&mut self) -> Poll<()> {
        if let Self::Waiting { wait, waker } = self {
            let waker = waker.as_ref().unwrap_or(Waker::noop());
            let Poll::Ready(locked) = wait.as_mut().poll(&mut Context::from_waker(waker)) else {
                return Poll::Pending;
            };
            *self = Self::Over(locked);
        }
        Poll::Ready(())
    }
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting").field("name", &self.name).finish_non_exhaustive()
    }
}
