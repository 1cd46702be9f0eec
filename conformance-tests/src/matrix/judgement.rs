//! From what was seen to what it is worth.

use super::cell::{Cell, Figures, State};
use super::cell_run::Observation;
use super::figures::BelievedGrant;
use crate::faults::{Lasting, SideEffect};
use crate::history::{AcquireOutcome, Acquisition};
use crate::time_scale::{nanos, scaled};
use leasehold_core::{Fault, Outcome};
use std::time::Duration;

impl Observation {
    /// Fills in what was seen; how it agrees with the promise.
    pub(super) fn judge(&self, cell: &mut Cell) -> State {
        let figures = self.figures();
        let measured = self.outcome(&figures);
        let state = self.state(cell.promised, measured, &figures);
        (cell.words, cell.measured, cell.figures) = (self.fault.words().to_owned(), Some(measured), figures);
        state
    }

    /// What was seen, by the rule that stands at the head of this module.
    fn outcome(&self, figures: &Figures) -> Outcome {
        if figures.tokens_repeated > 0 || figures.fenced_lost > 0 {
            return Outcome::MayBreak;
        }
        if figures.two_holders > 0 || figures.belief_overlap_ms > 0.0 {
            return Outcome::FencedOnly;
        }
        match self.fault.lasts {
            Lasting::State(_) if self.had_no_grant() => Outcome::Unavailable,
            _ => Outcome::Holds,
        }
    }

    fn state(&self, promised: Outcome, measured: Outcome, figures: &Figures) -> State {
        // Two owners count, whatever the fault has met.
        if has_more_owners(promised, measured) {
            return State::Broken { why: self.why(measured) };
        }
        if let Some(why) = self.void(promised, figures) {
            return State::Void { why };
        }
        if !self.recovered {
            return State::Late { why: "nobody got the lock again when the fault was over".to_owned() };
        }
        if self.residue > 0 {
            let why = format!("{} records are left, beyond those of a plain use", self.residue);
            return State::Broken { why };
        }
        match rank(measured).cmp(&rank(promised)) {
            std::cmp::Ordering::Less => State::Broken { why: self.why(measured) },
            std::cmp::Ordering::Equal => State::Kept,
            std::cmp::Ordering::Greater => State::Better,
        }
    }

    /// True if one of the two locks was not held when the fault was healed, and had not been granted under the fault.
    fn had_no_grant(&self) -> bool {
        let none = |grants: &[BelievedGrant<'_>]| {
            let under = |grant: &&BelievedGrant<'_>| {
                grant.acquisition.asked_at >= self.struck && grant.from <= self.healing
            };
            let held = grants.iter().any(|grant| grant.from <= self.healing && self.healing <= grant.until);
            !held && grants.iter().find(under).is_none()
        };
        none(&self.wanted()) || none(&self.passed())
    }

    /// What is missing for the fault to have shown anything.
    fn void(&self, promised: Outcome, figures: &Figures) -> Option<String> {
        if self.met().is_none() && !self.refused_from_the_start() {
            return Some("nobody held the lock when the fault was made".to_owned());
        }
        if self.report.measured.contended == 0 {
            return Some("nobody wanted the lock while it was held".to_owned());
        }
        self.without_effect(promised, figures)
    }

    /// The holder asked under the fault, and was not told that another has it: that it cannot have it here, or nothing at first.
    fn refused_from_the_start(&self) -> bool {
        let of_holder = |one: &&Acquisition| one.process == self.holder && one.asked_at <= self.healing;
        let asked = self.history.acquisitions.iter().find(of_holder);
        self.fault.is_from_the_start() && asked.is_some_and(|one| one.outcome != AcquireOutcome::Contended)
    }

    /// A fault that changed nothing was not made, whatever its hook says.
    fn without_effect(&self, promised: Outcome, figures: &Figures) -> Option<String> {
        let told = self.met().is_some_and(|met| met.acquisition.hold.seen_ended.is_some());
        let alive = |from: u64, to: u64| self.writes_of_holder(from, to) > 0;
        let grace = nanos(scaled(GRACE));
        // Until well before its end: when exactly that comes, the machine decides.
        let spell = (self.struck + grace, self.healing.min(self.struck + nanos(self.fault.ttl)));
        // Where the promise is to hold, the server that takes over may have refused every grant.
        let survives = promised == Outcome::Holds || figures.lost_something();
        let replaced = self.fault.side_effect() == SideEffect::Primary;
        let is_within =
            |grant: &BelievedGrant<'_>| spell.0 < grant.acquisition.asked_at && grant.from < spell.1;
        let why = match self.fault.fault {
            _ if self.ended == Some(0) => "the store ended no connection",
            _ if replaced && !survives => "the server that took over knows of the hold, or none took over",
            Fault::HolderKilled if alive(self.injected + grace, u64::MAX) => {
                "the holder works on after its death"
            }
            Fault::HolderPaused | Fault::ClientSuspended | Fault::ExecutorStarved
                if alive(spell.0, spell.1) =>
            {
                "the holder works on while it stands still"
            }
            Fault::StorePaused if self.passed().iter().any(is_within) => {
                "the store grants while it stands still"
            }
            Fault::HolderPartitioned | Fault::RecordDeleted | Fault::DataLost | Fault::MemoryFull
                if !told =>
            {
                "the holder never lost what was taken from it"
            }
            _ => return None,
        };
        Some(why.to_owned())
    }

    fn writes_of_holder(&self, from: u64, to: u64) -> usize {
        let token = self.met().map(|met| met.acquisition.hold.token);
        let writes = self.history.writes.iter().filter(|write| from < write.at && write.at < to);
        writes.filter(|write| write.process == self.holder && Some(write.what.token) == token).count()
    }

    /// The first thing that a promise of more would not allow.
    fn why(&self, measured: Outcome) -> String {
        let first = self.report.violations.first().map(ToString::to_string);
        let first = first.unwrap_or_else(|| format!("{measured:?} was measured"));
        format!("{measured:?}: {first}")
    }
}

/// What a process may still do that was stopped a moment ago.
const GRACE: Duration = Duration::from_millis(300);

/// True if there were two owners, or worse, where that is not promised.
pub(super) fn has_more_owners(promised: Outcome, measured: Outcome) -> bool {
    rank(measured) < rank(promised).min(rank(Outcome::Unavailable))
}

/// From the worst to the best.
fn rank(outcome: Outcome) -> u8 {
    match outcome {
        Outcome::MayBreak => 0,
        Outcome::FencedOnly => 1,
        Outcome::Unavailable => 2,
        Outcome::Holds | Outcome::NotApplicable => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checker::CheckReport;
    use crate::faults::{FaultSpec, Means, Time};
    use crate::history::{History, HoldRecord};
    use Outcome::{FencedOnly, Holds, MayBreak, NotApplicable, Unavailable};
    use leasehold_core::{HoldKind, LockName};

    #[test]
    fn two_owners_count_where_the_promise_excludes_them_and_no_grant_does_not() {
        let seen =
            |promised| [MayBreak, FencedOnly, Unavailable, Holds].map(|seen| has_more_owners(promised, seen));
        assert_eq!(seen(Holds), [true, true, false, false]);
        assert_eq!(seen(NotApplicable), seen(Holds));
        assert_eq!(seen(Unavailable), seen(Holds));
        assert_eq!(seen(FencedOnly), [true, false, false, false]);
        assert_eq!(seen(MayBreak), [false; 4]);
    }

    /// A run in which the holder met the fault, and another client the holder.
    fn observation() -> Observation {
        let (name, asked_at, answered_at) = ("x".to_owned(), 1, Some(2));
        let hold = HoldRecord { token: 1, until: 100, seen_until: 100, ..HoldRecord::default() };
        let outcome = AcquireOutcome::Granted;
        let grant =
            Acquisition { name, process: 1, asked_at, answered_at, outcome, hold, ..Acquisition::default() };
        let mut report = CheckReport::default();
        report.measured.contended = 1;
        let (fault, ttl) = (Fault::StorePaused, Duration::from_secs(1));
        Observation {
            fault: FaultSpec { fault, means: Means::Nothing, lasts: Lasting::Moment, ttl },
            ended: None,
            hold: HoldKind::Lease,
            name: LockName::new("x").unwrap(),
            history: History { acquisitions: vec![grant], ..History::default() },
            report,
            holder: 1,
            injected: 10,
            struck: 11,
            healing: 20,
            recovered: true,
            residue: 0,
        }
    }

    fn state_of(promised: Outcome, measured: Outcome, change: impl Fn(&mut Observation)) -> State {
        let mut seen = observation();
        change(&mut seen);
        seen.state(promised, measured, &Figures::default())
    }

    #[test]
    fn outcome_beside_its_promise_is_kept_better_or_broken() {
        let of = |promised, measured| state_of(promised, measured, |_| ());
        assert_eq!([of(Holds, Holds), of(FencedOnly, FencedOnly)], [State::Kept, State::Kept]);
        assert_eq!([of(FencedOnly, Holds), of(Unavailable, Holds)], [State::Better, State::Better]);
        for measured in [Unavailable, FencedOnly, MayBreak] {
            assert!(matches!(of(Holds, measured), State::Broken { .. }), "{measured:?}");
        }
    }

    #[test]
    fn two_owners_come_before_void_and_void_before_late() {
        let voids: [fn(&mut Observation); 3] = [
            |seen| seen.report.measured.contended = 0,
            |seen| seen.history.acquisitions.clear(),
            |seen| seen.ended = Some(0),
        ];
        for void in voids {
            let late_too = |seen: &mut Observation| {
                void(seen);
                seen.recovered = false;
            };
            assert!(matches!(state_of(Holds, Holds, late_too), State::Void { .. }));
            assert!(matches!(state_of(Holds, FencedOnly, late_too), State::Broken { .. }));
        }
        let late = |seen: &mut Observation| (seen.recovered, seen.residue) = (false, 1);
        assert!(matches!(state_of(Holds, Holds, late), State::Late { .. }));
        assert!(matches!(state_of(Holds, Holds, |seen| seen.residue = 1), State::Broken { .. }));
    }

    #[test]
    fn worst_of_the_figures_is_the_outcome() {
        let mut seen = observation();
        let mut of = |change: fn(&mut Figures), lasts| {
            let mut figures = Figures::default();
            change(&mut figures);
            seen.fault.lasts = lasts;
            seen.outcome(&figures)
        };
        let state = || Lasting::State(Time::exactly(Duration::ZERO));
        assert_eq!(of(|figures| (figures.tokens_repeated, figures.two_holders) = (1, 1), state()), MayBreak);
        assert_eq!(of(|figures| figures.fenced_lost = 1, state()), MayBreak);
        assert_eq!(of(|figures| figures.two_holders = 1, state()), FencedOnly);
        assert_eq!(of(|figures| figures.belief_overlap_ms = 0.5, state()), FencedOnly);
        assert_eq!(of(|_| (), state()), Unavailable, "the lock that nobody else wants was not granted");
        assert_eq!(of(|_| (), Lasting::Moment), Holds);
    }
}
