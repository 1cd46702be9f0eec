use leasehold_core::{CrashBound, Fairness, Fault, HoldKind, Outcome, Semantics, Sharing};
use std::time::Duration;

/// What a history is held against.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    /// What a hold is, to the store: what may end it but a release.
    pub(crate) hold: HoldKind,
    /// How long a lock may stay free while somebody waits for it.
    pub(crate) wake_up: Duration,
    /// By how much an acquisition may be longer than its wait.
    pub(crate) overshoot: Duration,
    /// How long a killed holder may keep others out, until the next grant is answered. `None`: longer than a history.
    pub(crate) crash: Option<Duration>,
    /// Where waiters are served in order: how much earlier one must have come to be certainly before another. `None`:
    /// served in no order.
    pub(crate) order: Option<Duration>,
    /// How readers and writers take turns: whether a writer that waits keeps readers out.
    pub(crate) sharing: Sharing,
    /// Because of whom an attempt may be refused.
    pub(crate) refused_for: RefusedFor,
    /// What a history must have, or it shows nothing.
    pub(crate) least: Least,
    /// When two owners are possible, and only the promises of tokens are held against it: F1, F2, M3. From and to, in the
    /// time of the history.
    pub(crate) fenced_only: Vec<(u64, u64)>,
}

/// The acquisitions that may cause another one to be refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefusedFor {
    /// A holder, from its grant on. No store is as strict: for the tests of the checker.
    #[cfg(test)]
    Holders,
    /// Also a waiter or a failed attempt: it may have held the lock for a moment, and have released it unseen.
    Waiters,
    /// Also any attempt: places in a queue, and votes that are split among several servers, keep others out for a
    /// moment as a holder does.
    Contenders,
}

/// What a history must have, or it shows nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Least {
    pub(crate) grants: usize,
    /// Attempts that met a holder.
    pub(crate) contended: usize,
    /// At most so many acquisitions in a hundred may have an unknown outcome.
    pub(crate) unknown_percent: usize,
}

impl Least {
    pub(crate) const USUAL: Self = Self { grants: 10, contended: 3, unknown_percent: 50 };
}

impl Model {
    /// The model of a lock with these semantics, on a machine that may add `slack` to anything.
    pub(crate) fn from_semantics(semantics: &Semantics, ttl: Duration, slack: Duration) -> Self {
        let wake_up = semantics.wake_up.bound() + slack;
        let crash = match semantics.crash_bound {
            CrashBound::Connection => Some(wake_up),
            CrashBound::Ttl => Some(ttl + wake_up),
            // The session's time is the store's affair, and not declared.
            _ => None,
        };
        let has_queue = semantics.fairness != Fairness::Unordered;
        // Of several servers, each may have another owner for a moment.
        let has_votes = semantics.promises.under(Fault::MinorityDown) != Outcome::NotApplicable;
        Self {
            hold: semantics.hold,
            wake_up,
            overshoot: slack,
            crash,
            order: (semantics.fairness == Fairness::Fifo).then_some(slack),
            sharing: semantics.sharing,
            refused_for: if has_queue || has_votes { RefusedFor::Contenders } else { RefusedFor::Waiters },
            least: Least::USUAL,
            fenced_only: Vec::new(),
        }
    }

    /// The first moment at which the store can have ended a hold that it confirmed at `point`, by itself. Never later than
    /// its holder believes: where that is too long, it is the belief that is wrong, and another rule's matter.
    pub(super) fn earliest_end(&self, point: u64, ttl: u64, until: u64) -> u64 {
        let believed = until.max(point);
        let shortest = (ttl / 1000 * (1000 - DRIFT_PER_MILLE)).saturating_sub(MARGIN);
        match self.hold {
            HoldKind::Lease => believed.min(point.saturating_add(shortest)),
            _ => believed,
        }
    }
}

/// The first moment at which the store has certainly ended a lease that it confirmed by `point`.
pub(super) fn latest_end(point: u64, ttl: u64) -> u64 {
    point.saturating_add(ttl + ttl / 1000 * DRIFT_PER_MILLE).saturating_add(MARGIN)
}

/// By how many thousandths the clocks of store and holder may differ in rate.
const DRIFT_PER_MILLE: u64 = 10;

/// The 2 ms by which a holder's lease is shorter, beside 1 %.
const MARGIN: u64 = 2_000_000;
