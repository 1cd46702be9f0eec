//! Whether the server has connections left for others.
//!
//! One rule: a connection that is not in use is kept open only while the server has another one to spare. So however many
//! processes wait, one connection at least is always free for a moment, and a holder whose connection was cut gets it and renews.

use super::{Dialect, Link};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// Short-lived clients never ask.
const FIRST_CHECK_AFTER: Duration = Duration::from_secs(1);
const CHECK_EVERY: Duration = Duration::from_secs(30);
/// The shortest time from a refusal to the next check. Clients that were refused together come back spread over as much again.
const CHECK_AGAIN_AFTER: Duration = Duration::from_secs(5);

/// What one client knows of the connections that its server has left.
#[derive(Debug)]
pub(crate) struct Headroom(Mutex<State>);

#[derive(Debug)]
struct State {
    is_short: bool,
    check_at: Instant,
}

impl Headroom {
    /// True if the server had no connection to spare when that was last found out: nothing idle is kept then.
    pub(crate) fn is_short(&self) -> bool {
        self.state().is_short
    }

    /// No connection was to be had: the server refused it, or did not answer in time.
    pub(crate) fn refused(&self) {
        let next = CHECK_AGAIN_AFTER.mul_f64(1.0 + fastrand::f64());
        *self.state() = State { is_short: true, check_at: Instant::now() + next };
    }

    /// A connection broke. All clients may be connecting anew, so what was known is out of date.
    pub(crate) fn broke(&self) {
        let mut state = self.state();
        if !state.is_short {
            state.check_at = Instant::now();
        }
    }

    /// True for one caller, who is to check it now.
    pub(crate) fn is_check_due(&self) -> bool {
        let (mut state, now) = (self.state(), Instant::now());
        let is_due = state.check_at <= now;
        if is_due {
            state.check_at = now + CHECK_EVERY;
        }
        is_due
    }

    /// Finds it out: a connection to spare, if there is one. It is closed at once, and the connection that is to be kept is open
    /// before: nothing is waited for while this one is in hand.
    pub(crate) async fn spare(
        &self,
        dialect: &dyn Dialect,
        connect_timeout: Duration,
    ) -> Option<Box<dyn Link>> {
        let Ok(Ok(spare)) = timeout(connect_timeout, dialect.connect_beside()).await else {
            self.refused();
            return None;
        };
        *self.state() = State { is_short: false, check_at: Instant::now() + CHECK_EVERY };
        Some(spare)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Headroom {
    fn default() -> Self {
        Self(Mutex::new(State { is_short: false, check_at: Instant::now() + FIRST_CHECK_AFTER }))
    }
}
