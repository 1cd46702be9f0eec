//! When the command is stopped, and how hard. Pure: no clock, no process, no signal.
//!
//! ```text
//!    lease confirmed ──────────────┬── grace ──┬─ reserve ─┤ lease end
//!                                 TERM        KILL         nothing of the command runs any more
//! ```

use leasehold::client::Moment;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What is done with the command when its lock is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
pub(crate) enum OnLost {
    /// Ask it to end, and kill it after the grace.
    Term,
    /// Kill it at once.
    Kill,
    /// Only say so: it may run beside the next holder's.
    Warn,
}

/// How the command is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Terms {
    pub(crate) on_lost: OnLost,
    /// From TERM to KILL.
    pub(crate) grace: Duration,
    /// From KILL to the end of the lease: a killed process runs no instruction of its own any more, but the one that
    /// kills it may have to wait for a processor.
    pub(crate) reserve: Duration,
    /// True if the lock is free as soon as its holder is dead: it is held by a connection.
    pub(crate) dies_with_holder: bool,
}

impl Terms {
    /// The longest reserve.
    const RESERVE: Duration = Duration::from_secs(1);
    /// The shortest one: a tick or two of a busy machine.
    const RESERVE_AT_LEAST: Duration = Duration::from_millis(10);

    /// The terms for leases of `ttl`. Grace and reserve take a third of it at most: a lease is renewed when a third is
    /// over, so at least a third is left to try again before the command is touched.
    pub(crate) fn new(on_lost: OnLost, grace: Duration, ttl: Duration) -> Self {
        let reserve = (ttl / 12).clamp(Self::RESERVE_AT_LEAST, Self::RESERVE);
        let grace = match on_lost {
            OnLost::Term => grace.min((ttl / 3).saturating_sub(reserve)),
            OnLost::Kill | OnLost::Warn => Duration::ZERO,
        };
        Self { on_lost, grace, reserve, dies_with_holder: false }
    }

    /// For a lock that is held by a connection of its holder, or by a lease that outlives it.
    pub(crate) fn dying_with_holder(mut self, dies: bool) -> Self {
        self.dies_with_holder = dies;
        self
    }

    /// When the command is asked to end, for a lease that ends then.
    pub(crate) fn stop_at(&self, lease_end: Moment) -> Moment {
        before(self.kill_by(lease_end), self.grace)
    }

    /// When the command must be killed at the latest, for a lease that ends then.
    fn kill_by(&self, lease_end: Moment) -> Moment {
        before(lease_end, self.reserve)
    }
}

/// What is to be done with the command now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopStep {
    /// Nothing; look again then.
    Wait(Moment),
    /// Ask it to end. Said once.
    Terminate,
    /// Kill what is left of it, and look again soon.
    Kill,
    /// The lease is over, KILL was sent a second ago or more, and something of it still lives: it cannot be killed from here.
    GiveUp,
}

/// The plan for one command: it runs for as long as the lease is confirmed, and is gone before the lease ends.
#[derive(Debug)]
pub(crate) struct StopPlan {
    terms: Terms,
    lease_end: Moment,
    /// Since when it is being stopped. There is no way back.
    stopping_since: Option<Moment>,
    termed: bool,
    killed_since: Option<Moment>,
}

impl StopPlan {
    pub(crate) fn new(terms: Terms, lease_end: Moment) -> Self {
        Self { terms, lease_end, stopping_since: None, termed: false, killed_since: None }
    }

    /// True if the command may be started now. Also one that is left alone when its lock is lost begins under the lock.
    pub(crate) fn may_begin(&mut self, now: Moment) -> bool {
        matches!(self.step(now), StopStep::Wait(_)) && !self.is_over(now)
    }

    /// When the command must be killed at the latest.
    pub(crate) fn kill_by(&self) -> Moment {
        self.terms.kill_by(self.lease_end)
    }

    /// The lease is confirmed to last until then.
    pub(crate) fn confirmed_until(&mut self, lease_end: Moment) {
        self.lease_end = self.lease_end.max(lease_end);
    }

    /// The command is to be stopped, from now on.
    pub(crate) fn stop(&mut self, now: Moment) {
        if self.terms.on_lost != OnLost::Warn {
            self.stopping_since.get_or_insert(now);
        }
    }

    /// The lease is not renewed any more. Where the lock ends with its holder, there is no time for a grace.
    pub(crate) fn holder_is_gone(&mut self, now: Moment) {
        if self.terms.dies_with_holder {
            self.terms.grace = Duration::ZERO;
        }
        self.stop(now);
    }

    /// Since when the command is being stopped.
    pub(crate) fn stopping_since(&self) -> Option<Moment> {
        self.stopping_since
    }

    /// True if the lease has ended, as far as it was confirmed.
    pub(crate) fn is_over(&self, now: Moment) -> bool {
        now > self.lease_end
    }

    /// True once it was killed.
    pub(crate) fn killed(&self) -> bool {
        self.killed_since.is_some()
    }

    /// What to do now. Asked again after each step.
    pub(crate) fn step(&mut self, now: Moment) -> StopStep {
        if self.terms.on_lost == OnLost::Warn {
            return StopStep::Wait(Moment::NEVER);
        }
        let begin = self.terms.stop_at(self.lease_end);
        if now >= begin {
            self.stop(now);
        }
        let Some(since) = self.stopping_since else {
            return StopStep::Wait(begin);
        };
        let kill_at = since.plus(self.terms.grace).min(self.terms.kill_by(self.lease_end));
        if now < kill_at {
            return if std::mem::replace(&mut self.termed, true) {
                StopStep::Wait(kill_at)
            } else {
                StopStep::Terminate
            };
        }
        let killed_since = *self.killed_since.get_or_insert(now);
        if now >= self.lease_end.max(killed_since.plus(Terms::RESERVE)) {
            StopStep::GiveUp
        } else {
            StopStep::Kill
        }
    }
}

fn before(moment: Moment, by: Duration) -> Moment {
    if moment == Moment::NEVER {
        return moment;
    }
    Moment::since_origin(moment.since(Moment::ORIGIN).saturating_sub(by))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Moment {
        Moment::since_origin(Duration::from_millis(millis))
    }

    fn terms(on_lost: OnLost) -> Terms {
        Terms {
            on_lost,
            grace: Duration::from_secs(5),
            reserve: Duration::from_secs(1),
            dies_with_holder: false,
        }
    }

    /// A lease that ends at 30 s.
    fn plan(on_lost: OnLost) -> StopPlan {
        StopPlan::new(terms(on_lost), at(30_000))
    }

    #[test]
    fn grace_and_reserve_take_a_third_of_the_lease_at_most() {
        let terms =
            |grace, ttl| Terms::new(OnLost::Term, Duration::from_secs(grace), Duration::from_millis(ttl));
        let seconds = Duration::from_secs_f64;
        assert_eq!((terms(5, 30_000).grace, terms(5, 30_000).reserve), (seconds(5.0), seconds(1.0)));
        assert_eq!(terms(60, 30_000).grace, seconds(9.0));
        assert_eq!(terms(0, 30_000).grace, Duration::ZERO);
        for ttl in [50, 51, 100, 1_000, 30_000, 86_400_000] {
            let terms = terms(1_000_000, ttl);
            assert!(terms.grace + terms.reserve <= Duration::from_millis(ttl) / 3, "{ttl}: {terms:?}");
        }
    }

    #[test]
    fn unconfirmed_lease_stops_the_command_by_term_then_kill_before_its_end() {
        let mut plan = plan(OnLost::Term);
        assert_eq!(plan.step(at(0)), StopStep::Wait(at(24_000)));
        assert_eq!(plan.step(at(23_999)), StopStep::Wait(at(24_000)));
        assert_eq!(plan.step(at(24_000)), StopStep::Terminate);
        assert_eq!(plan.step(at(24_000)), StopStep::Wait(at(29_000)));
        assert_eq!(plan.step(at(29_000)), StopStep::Kill);
        assert_eq!(plan.step(at(29_001)), StopStep::Kill);
    }

    #[test]
    fn confirmation_moves_the_stop_later_and_never_earlier() {
        let mut plan = plan(OnLost::Term);
        plan.confirmed_until(at(40_000));
        plan.confirmed_until(at(35_000));
        assert_eq!(plan.step(at(24_000)), StopStep::Wait(at(34_000)));
    }

    #[test]
    fn stop_under_way_goes_on_after_a_late_confirmation() {
        let mut plan = plan(OnLost::Term);
        assert_eq!(plan.step(at(24_000)), StopStep::Terminate);
        plan.confirmed_until(at(40_000));
        assert_eq!(plan.step(at(24_001)), StopStep::Wait(at(29_000)));
        assert_eq!(plan.step(at(29_000)), StopStep::Kill);
    }

    #[test]
    fn ordered_stop_gives_the_whole_grace_within_the_lease() {
        let mut plan = plan(OnLost::Term);
        plan.stop(at(10_000));
        plan.stop(at(11_000));
        assert_eq!(plan.step(at(10_000)), StopStep::Terminate);
        assert_eq!(plan.step(at(10_001)), StopStep::Wait(at(15_000)));
        assert_eq!(plan.step(at(15_000)), StopStep::Kill);
        assert_eq!(plan.stopping_since(), Some(at(10_000)));
    }

    #[test]
    fn ordered_stop_is_shortened_to_the_lease() {
        let mut plan = plan(OnLost::Term);
        plan.stop(at(27_000));
        assert_eq!(plan.step(at(27_000)), StopStep::Terminate);
        assert_eq!(plan.step(at(27_000)), StopStep::Wait(at(29_000)));
    }

    #[test]
    fn watchdog_suspended_past_the_stop_kills_at_once() {
        let mut plan = plan(OnLost::Term);
        assert_eq!(plan.step(at(31_000)), StopStep::Kill);
        assert!(plan.killed());
    }

    #[test]
    fn on_lost_kill_kills_without_term() {
        let terms = Terms::new(OnLost::Kill, Duration::from_secs(5), Duration::from_secs(30));
        let mut plan = StopPlan::new(terms, at(30_000));
        assert_eq!(plan.step(at(0)), StopStep::Wait(at(29_000)));
        plan.stop(at(10));
        assert_eq!(plan.step(at(10)), StopStep::Kill);
    }

    #[test]
    fn on_lost_warn_never_stops_the_command() {
        let mut plan = plan(OnLost::Warn);
        plan.stop(at(10));
        assert_eq!(plan.step(at(99_000)), StopStep::Wait(Moment::NEVER));
        assert_eq!(plan.stopping_since(), None);
    }

    #[test]
    fn command_is_not_started_without_time_to_stop_it() {
        for (on_lost, last) in [(OnLost::Term, 23_999), (OnLost::Warn, 30_000)] {
            assert!(plan(on_lost).may_begin(at(last)));
            assert!(!plan(on_lost).may_begin(at(last + 1)));
        }
    }

    #[test]
    fn command_that_cannot_be_killed_is_given_up_after_the_lease() {
        let mut plan = plan(OnLost::Term);
        assert_eq!(plan.step(at(29_000)), StopStep::Kill);
        assert_eq!(plan.step(at(29_999)), StopStep::Kill);
        assert_eq!(plan.step(at(30_000)), StopStep::GiveUp);
    }

    #[test]
    fn late_kill_has_a_reserve_before_it_is_given_up() {
        let mut plan = plan(OnLost::Term);
        plan.stop(at(40_000));
        assert_eq!(plan.step(at(40_000)), StopStep::Kill);
        assert_eq!(plan.step(at(40_999)), StopStep::Kill);
        assert_eq!(plan.step(at(41_000)), StopStep::GiveUp);
    }
}
