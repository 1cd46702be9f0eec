//! Whether the server has connections left for others.
//!
//! One rule: a connection that is not in use is kept open only while the server has another one to spare, except one of a client that
//! holds leases. So however many processes wait, a connection becomes free again and again, and a holder whose connection was cut gets
//! it and renews.

use crate::lock_mutex;
use std::sync::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// Short-lived clients never ask.
const FIRST_CHECK_AFTER: Duration = Duration::from_secs(5);
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
    /// Until then a lease of this client may last.
    holds_until: Instant,
}

impl Headroom {
    /// True if the server had no connection to spare when that was last found out: nothing idle is kept then.
    pub(crate) fn is_short(&self) -> bool {
        lock_mutex(&self.0).is_short
    }

    /// A lease of this client was granted or renewed: for so long it keeps one connection for the renewal, however short they are.
    pub(crate) fn holds_for(&self, ttl: Duration) {
        let mut state = lock_mutex(&self.0);
        state.holds_until = state.holds_until.max(Instant::now() + ttl);
    }

    pub(crate) fn is_holding(&self) -> bool {
        Instant::now() < lock_mutex(&self.0).holds_until
    }

    /// No connection was to be had: the server refused it, or did not answer in time.
    pub(crate) fn refused(&self) {
        let next = CHECK_AGAIN_AFTER.mul_f64(1.0 + fastrand::f64());
        let mut state = lock_mutex(&self.0);
        (state.is_short, state.check_at) = (true, Instant::now() + next);
    }

    /// A connection broke. All clients may be connecting anew, so what was known is out of date.
    pub(crate) fn broke(&self) {
        let mut state = lock_mutex(&self.0);
        if !state.is_short {
            state.check_at = Instant::now();
        }
    }

    /// True for one caller, who is to check it now.
    pub(crate) fn is_check_due(&self) -> bool {
        let (mut state, now) = (lock_mutex(&self.0), Instant::now());
        let is_due = state.check_at <= now;
        if is_due {
            state.check_at = now + CHECK_EVERY;
        }
        is_due
    }

    /// The server had a connection to spare.
    pub(crate) fn found_spare(&self) {
        let mut state = lock_mutex(&self.0);
        (state.is_short, state.check_at) = (false, Instant::now() + CHECK_EVERY);
    }
}

impl Default for Headroom {
    fn default() -> Self {
        let now = Instant::now();
        Self(Mutex::new(State { is_short: false, check_at: now + FIRST_CHECK_AFTER, holds_until: now }))
    }
}
