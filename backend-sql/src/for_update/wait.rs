use super::rows::{LockedRow, Rows};
use leasehold_core::{Claim, LockName};
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use tokio::sync::OwnedSemaphorePermit;

/// A wait for a row in the server, which locks it in the moment in which it is free.
///
/// It is no task: it goes on when a caller polls it, and an answer of the server stays in the connection until then. If no caller
/// polls it, the release of the claim closes the connection.
pub(super) struct RowWait {
    name: LockName,
    /// Never locked across an await: a caller may keep its future and not poll it.
    state: Mutex<State>,
    listeners: Arc<Listeners>,
    /// Given back with this value.
    _permit: OwnedSemaphorePermit,
}

enum State {
    Waiting(Pin<Box<dyn Future<Output = Option<LockedRow>> + Send>>),
    Over(Option<LockedRow>),
}

/// The tasks that wait for it: there may be several, of which one is about to end.
#[derive(Default)]
struct Listeners(Mutex<Vec<Waker>>);

/// The progress of a wait.
pub(super) enum Progress {
    /// It goes on.
    Pending,
    /// The row is locked.
    Locked(LockedRow),
    /// It has ended, and the row is not locked.
    Ended,
}

impl RowWait {
    pub(super) fn begin(rows: Arc<Rows>, claim: Claim, permit: OwnedSemaphorePermit) -> Self {
        let name = claim.name().clone();
        // The next attempt meets the same error, and returns it.
        let wait = Box::pin(async move { rows.lock_in_time(&claim).await.ok().flatten() });
        Self { name, state: Mutex::new(State::Waiting(wait)), listeners: Arc::default(), _permit: permit }
    }

    pub(super) fn name(&self) -> &LockName {
        &self.name
    }

    /// Returns when the wait has ended. Safe to drop: the wait itself goes on.
    pub(super) async fn ended(&self) {
        poll_fn(|context| {
            self.listeners.add(context.waker());
            self.go_on()
        })
        .await;
    }

    /// Polls it once: an answer of the server may lie in the connection.
    pub(super) fn progress(&self) -> Progress {
        if self.go_on().is_pending() {
            return Progress::Pending;
        }
        match &mut *self.state() {
            State::Over(locked) => locked.take().map_or(Progress::Ended, Progress::Locked),
            State::Waiting(_) => Progress::Pending,
        }
    }

    /// Ends it. A row that was locked meanwhile is unlocked.
    pub(super) async fn leave(&self, rows: &Rows) {
        let before = std::mem::replace(&mut *self.state(), State::Over(None));
        match before {
            State::Waiting(_) => Arc::clone(&self.listeners).wake(),
            State::Over(Some(locked)) => {
                rows.roll_back(locked.connection).await;
            }
            State::Over(None) => {}
        }
    }

    /// Polls the wait, and at its end wakes all callers, after the lock of the state was released.
    fn go_on(&self) -> Poll<()> {
        let wait = {
            let mut state = self.state();
            let State::Waiting(wait) = &mut *state else {
                return Poll::Ready(());
            };
            let waker = Waker::from(Arc::clone(&self.listeners));
            let Poll::Ready(locked) = wait.as_mut().poll(&mut Context::from_waker(&waker)) else {
                return Poll::Pending;
            };
            std::mem::replace(&mut *state, State::Over(locked))
        };
        drop(wait);
        Arc::clone(&self.listeners).wake();
        Poll::Ready(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listeners {
    fn add(&self, waker: &Waker) {
        let mut all = self.all();
        if !all.iter().any(|it| it.will_wake(waker)) {
            all.push(waker.clone());
        }
    }

    fn all(&self) -> MutexGuard<'_, Vec<Waker>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Listeners {
    fn wake(self: Arc<Self>) {
        let all = std::mem::take(&mut *self.all());
        all.into_iter().for_each(Waker::wake);
    }
}

impl fmt::Debug for RowWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowWait").field("name", &self.name).finish_non_exhaustive()
    }
}
