use super::rows::{Locked, Rows};
use leasehold_core::{Claim, LockName};
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use tokio::sync::OwnedSemaphorePermit;

/// A wait for a row in the server, which grants it in the moment in which it is free.
///
/// Not a task: it goes on when somebody waits for it. What the server has said meanwhile is heard then; and if nobody
/// ever does, the withdrawal of the claim closes its connection.
pub(super) struct Waiting {
    name: LockName,
    /// Never locked across an await: whoever waits may keep the future and not poll it.
    state: Mutex<State>,
    listeners: Arc<Listeners>,
    /// One of the places for waiting; given back with this value.
    _place: OwnedSemaphorePermit,
}

enum State {
    Waiting(Pin<Box<dyn Future<Output = Option<Locked>> + Send>>),
    Over(Option<Locked>),
}

/// Who waits for it: several tasks may, of whom one is about to go away.
#[derive(Default)]
struct Listeners(Mutex<Vec<Waker>>);

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
        Self { name, state: Mutex::new(State::Waiting(wait)), listeners: Arc::default(), _place: place }
    }

    pub(super) fn name(&self) -> &LockName {
        &self.name
    }

    /// Returns when there is something to hear. Safe to drop: the wait itself goes on.
    pub(super) async fn until_heard(&self) {
        poll_fn(|context| {
            self.listeners.add(context.waker());
            self.go_on()
        })
        .await;
    }

    /// What there is to hear now.
    pub(super) fn heard(&self) -> Heard {
        // Polled once: what the server said while nobody listened lies in the connection.
        if self.go_on().is_pending() {
            return Heard::Nothing;
        }
        match &mut *self.state() {
            State::Over(locked) => locked.take().map_or(Heard::InVain, Heard::Locked),
            State::Waiting(_) => Heard::Nothing,
        }
    }

    /// Ends it. A row that was locked meanwhile is let go.
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

    /// Goes on with it. Whoever polls, those who wait are woken, when nobody has the state.
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

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting").field("name", &self.name).finish_non_exhaustive()
    }
}
