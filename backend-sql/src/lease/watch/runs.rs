//! How often one process has a lock in a row, while others may want it.
//!
//! Those who wait in one process hand on among themselves, which is the cheapest way for a lock to go. So that they keep
//! nobody out, a run of such turns ends after a while, and the process stands back, so that others look before it.

use super::rivals::WIDEST;
use super::room::GRACE;
use leasehold_core::OwnerId;
use std::time::Duration;
use tokio::time::Instant;

/// How long a run is: some hundred turns of a lock that is held for no time, and one turn of a lock that is held for longer
/// than this.
pub(super) const RUN: Duration = Duration::from_millis(100);

/// What this process had of one lock lately.
#[derive(Debug, Default)]
pub(super) struct Runs {
    own: Option<Own>,
}

/// A grant to somebody of this process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Own {
    owner: OwnerId,
    pub(super) since: Instant,
    /// When this process was granted it after others could have been.
    run_began: Instant,
    /// True if this process had it before, in the same run.
    again: bool,
    is_over: bool,
}

impl Runs {
    pub(super) fn taken(&mut self, owner: OwnerId, now: Instant) {
        // It may have been handed on in the last moment of a run: then the run is over with this turn, and not begun anew.
        let run = self.own.take().filter(|own| own.is_over && now < own.run_began + RUN + GRACE);
        let run_began = run.map_or(now, |own| own.run_began);
        self.own = Some(Own { owner, since: now, run_began, again: run.is_some(), is_over: false });
    }

    /// What was given up, and whether the run goes on: also for the turn of whoever it was given up for in silence. The run
    /// may have ended while the release was under way.
    pub(super) fn given_up(&mut self, owner: OwnerId, now: Instant, in_silence: bool) -> (Own, bool) {
        let own = Own { is_over: true, ..self.of(owner, now) };
        let goes_on = in_silence || own.is_in_run(now);
        self.own = Some(own).filter(|_| goes_on);
        (own, goes_on)
    }

    /// Whatever this owner had, it has it no more.
    pub(super) fn end(&mut self, owner: OwnerId) {
        if let Some(own) = self.own.as_mut().filter(|own| own.owner == owner) {
            own.is_over = true;
        }
    }

    /// This owner has perhaps given it up, and will be asked again.
    pub(super) fn end_perhaps(&mut self, owner: OwnerId, now: Instant) {
        if !self.has_it() || self.is_own(Some(owner)) {
            self.own = Some(Own { is_over: true, ..self.of(owner, now) });
        }
    }

    /// True if this owner has given it up, or perhaps.
    pub(super) fn is_over(&self, owner: OwnerId) -> bool {
        self.own.is_some_and(|own| own.owner == owner && own.is_over)
    }

    /// True if what this owner has may be handed on. Not what it has perhaps given up before.
    pub(super) fn goes_on(&self, owner: OwnerId, now: Instant) -> bool {
        !self.is_over(owner) && self.of(owner, now).is_in_run(now)
    }

    /// Has, or had last of all who are known of this process.
    pub(super) fn is_own(&self, owner: Option<OwnerId>) -> bool {
        self.own.is_some_and(|own| Some(own.owner) == owner)
    }

    pub(super) fn has_it(&self) -> bool {
        self.own.is_some_and(|own| !own.is_over)
    }

    /// Who was granted it before anybody waited here was not noticed, and had no run.
    fn of(&self, owner: OwnerId, now: Instant) -> Own {
        let unnoticed = Own { owner, since: now, run_began: now, again: false, is_over: false };
        self.own.filter(|own| own.owner == owner).unwrap_or(unnoticed)
    }
}

impl Own {
    fn is_in_run(&self, now: Instant) -> bool {
        now < self.run_began + RUN
    }

    /// How far to stand back after this: after a run, so far that others look first. After one turn nobody has to.
    pub(super) fn stand_back(&self) -> Duration {
        if self.again { WIDEST / 2 + jittered(WIDEST / 2) } else { Duration::ZERO }
    }
}

pub(super) fn jittered(spread: Duration) -> Duration {
    spread.mul_f64(fastrand::f64())
}
