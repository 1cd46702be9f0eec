//! How often one process has a lock in a row, while others may want it.
//!
//! Those who wait in one process hand on among themselves, which is the cheapest way for a lock to go. So that they keep
//! nobody out, a run of such turns ends after a while, and the process stands back, so that others look before it.

use super::room::WIDEST;
use leasehold_core::OwnerId;
use std::time::Duration;
use tokio::time::Instant;

/// How long a run is where nobody else is known to want the lock: some hundred turns of one that is held for no time, and one
/// turn of a lock that is held for longer than this.
pub(super) const RUN: Duration = Duration::from_millis(100);

/// Likewise where there are rivals.
pub(super) const RUN_BESIDE_RIVALS: Duration = Duration::from_millis(50);

/// How far a process stands back after its run if it knows of no rival: long enough that one is noticed after some runs.
const IN_CASE: Duration = Duration::from_millis(4);

/// For how long a rival is kept in mind: about as long as rivals stay the same.
pub(super) const FORGET_AFTER: Duration = Duration::from_secs(5);

/// What this process, and others, had of one lock lately.
#[derive(Debug, Default)]
pub(super) struct Runs {
    own: Option<Own>,
    /// Who of another process had the lock, as far as is known, and when that was seen.
    rival: Option<(OwnerId, Instant)>,
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
        let run = self.own.take().filter(|own| own.is_over && now < own.run_began + RUN);
        let run_began = run.map_or(now, |own| own.run_began);
        self.own = Some(Own { owner, since: now, run_began, again: run.is_some(), is_over: false });
        self.forget_rival(owner);
    }

    /// What was given up, and whether the run goes on.
    pub(super) fn given_up(&mut self, owner: OwnerId, now: Instant) -> (Own, bool) {
        self.forget_rival(owner);
        let own = Own { is_over: true, ..self.of(owner, now) };
        let goes_on = self.in_run(&own, now);
        self.own = Some(own).filter(|_| goes_on);
        (own, goes_on)
    }

    /// Whatever this owner had, it has it no more.
    pub(super) fn is_over(&mut self, owner: OwnerId) {
        if let Some(own) = self.own.as_mut().filter(|own| own.owner == owner) {
            own.is_over = true;
        }
    }

    /// True if what this owner has may be handed on.
    pub(super) fn goes_on(&self, owner: OwnerId, now: Instant) -> bool {
        self.in_run(&self.of(owner, now), now)
    }

    /// How far to stand back after this. Of two who had one turn each, none has to.
    pub(super) fn stand_back(&self, last: &Own, spread: Duration, now: Instant) -> Duration {
        match (last.again, self.has_rival(now)) {
            (false, _) => jittered(spread),
            (true, false) => jittered(IN_CASE),
            (true, true) => WIDEST / 2 + jittered(WIDEST / 2),
        }
    }

    /// Has, or had last of all who are known of this process.
    pub(super) fn is_own(&self, owner: Option<OwnerId>) -> bool {
        self.own.is_some_and(|own| Some(own.owner) == owner)
    }

    pub(super) fn has_it(&self) -> bool {
        self.own.is_some_and(|own| !own.is_over)
    }

    pub(super) fn note_rival(&mut self, owner: OwnerId, now: Instant) {
        self.rival = Some((owner, now));
    }

    /// Who was granted it before anybody waited here was not noticed, and had no run.
    fn of(&self, owner: OwnerId, now: Instant) -> Own {
        let unnoticed = Own { owner, since: now, run_began: now, again: false, is_over: true };
        self.own.filter(|own| own.owner == owner).unwrap_or(unnoticed)
    }

    fn in_run(&self, own: &Own, now: Instant) -> bool {
        now < own.run_began + if self.has_rival(now) { RUN_BESIDE_RIVALS } else { RUN }
    }

    fn has_rival(&self, now: Instant) -> bool {
        self.rival.is_some_and(|(_, seen)| now < seen + FORGET_AFTER)
    }

    /// One of this process, as it turns out.
    fn forget_rival(&mut self, owner: OwnerId) {
        self.rival = self.rival.filter(|(rival, _)| *rival != owner);
    }
}

pub(super) fn jittered(spread: Duration) -> Duration {
    spread.mul_f64(fastrand::f64())
}
