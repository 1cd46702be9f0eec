//! C1: an acquisition is refused only if another one may have held the lock.

use super::Checker;
use super::model::{Model, RefusedFor};
use super::report::Rule;
use super::timeline::Timeline;
use crate::history::{AcquireOutcome, Acquisition};
use crate::time_scale::nanos;
use leasehold_core::{LockMode, Sharing};

impl Checker<'_> {
    /// A permit is refused for a reason if each slot may have been held.
    pub(super) fn check_refusals(&mut self, timeline: &Timeline<'_>) {
        for mode in [LockMode::Exclusive, LockMode::Shared] {
            let is_refused = |one: &&Acquisition| {
                one.outcome == AcquireOutcome::Contended
                    && one.mode.is_shared() == mode.is_shared()
                    && timeline.lock.slot.is_none_or(|slot| one.permits.is_some_and(|limit| slot < limit))
            };
            let refused: Vec<_> = timeline.lock.all.iter().copied().filter(is_refused).collect();
            if !refused.is_empty() {
                self.check_refusals_in(mode, refused, timeline);
            }
        }
    }

    /// All of `refused` have this mode.
    fn check_refusals_in(&mut self, mode: LockMode, mut refused: Vec<&Acquisition>, timeline: &Timeline<'_>) {
        let all = timeline.lock.all.iter().copied().filter(|one| one.mode.conflicts_with(mode));
        let all: Vec<&Acquisition> = all.collect();
        // In a gap between two holds, the first answer is the one that wants a holder first.
        refused.sort_unstable_by_key(|refused| refused.answered_by());
        let held = possible_holds(timeline, mode);
        // Readers give way to a writer that waits.
        let gives_way = mode.is_shared() && self.model.sharing != Sharing::Unsupported;
        let contenders = Contenders::new(&all, self.model, gives_way);
        let mut unknown_outcomes = UnknownOutcomes::new(&all);
        for refusal in refused {
            let by = refusal.answered_by();
            // The last hold that can have begun by then.
            let index = held.partition_point(|hold| hold.from <= by);
            let last = index.checked_sub(1).map(|last| &held[last]);
            let excused = last.is_some_and(|last| last.latest_end >= refusal.asked_at)
                || contenders.others_in(refusal)
                || unknown_outcomes.fill(last.map_or(0, |last| last.writers), by);
            if !excused {
                let what = "refused, and nobody can have held it".to_owned();
                self.report.broken(Rule::Refusal, &timeline.lock.name, by, &[refusal.id()], what);
            }
        }
    }
}

/// When a grant can have been held.
struct PossibleHold {
    from: u64,
    /// The latest end of it, and of all before it.
    latest_end: u64,
    /// How many grants were exclusive until then.
    writers: usize,
}

/// When each grant that conflicts with this mode can have lasted: to the answer to its release, or to the latest moment of the
/// next grant that conflicts with it, which in turn was made before the one after it and its own end.
fn possible_holds(timeline: &Timeline<'_>, mode: LockMode) -> Vec<PossibleHold> {
    let (mut next, mut next_writer) = (u64::MAX, u64::MAX);
    let ends = timeline.grants.iter().rev().map(|grant| {
        let is_shared = grant.acquisition.mode.is_shared();
        let released = grant.acquisition.hold.released_at().unwrap_or(u64::MAX);
        let end = released.min(if is_shared { next_writer } else { next });
        next = next.min(grant.acquisition.answered_by()).min(end);
        if !is_shared {
            next_writer = next;
        }
        end
    });
    let ends: Vec<u64> = ends.collect();
    let conflicting = timeline.grants.iter().zip(ends.into_iter().rev());
    let conflicting = conflicting.filter(|(grant, _)| grant.acquisition.mode.conflicts_with(mode));
    let mut before = (0, 0);
    let holds = conflicting.map(|(grant, end)| {
        before = (end.max(before.0), before.1 + usize::from(!grant.acquisition.mode.is_shared()));
        PossibleHold { from: grant.from, latest_end: before.0, writers: before.1 }
    });
    holds.collect()
}

/// The times of acquisitions that may keep others out although they are granted nothing, or not yet.
struct Contenders<'a> {
    model: &'a Model,
    gives_way: bool,
    asked: Vec<u64>,
    over: Vec<u64>,
}

impl<'a> Contenders<'a> {
    fn new(all: &[&Acquisition], model: &'a Model, gives_way: bool) -> Self {
        let spans = all.iter().filter_map(|one| under_way(one, model, gives_way));
        let (mut asked, mut over): (Vec<u64>, Vec<u64>) = spans.unzip();
        asked.sort_unstable();
        over.sort_unstable();
        Self { model, gives_way, asked, over }
    }

    /// True if an acquisition other than the refused one was under way meanwhile.
    fn others_in(&self, refusal: &Acquisition) -> bool {
        let begun = self.asked.partition_point(|asked| *asked <= refusal.answered_by());
        let over = self.over.partition_point(|over| *over < refusal.asked_at);
        // A reader is not among those that conflict with it.
        let is_among = !refusal.mode.is_shared() && under_way(refusal, self.model, self.gives_way).is_some();
        begun - over > usize::from(is_among)
    }
}

/// The time in which an acquisition may keep others out: from its request to its answer, and a moment longer if it gives up or
/// fails, because it may undo a grant after its answer. A single attempt that was refused keeps no other out. An acquisition of
/// unknown outcome is left to [`UnknownOutcomes`], except for a writer that readers give way to. A waiter for a permit is granted
/// the first slot, and undoes its attempts on the others.
fn under_way(one: &Acquisition, model: &Model, gives_way: bool) -> Option<(u64, u64)> {
    let asking = (one.asked_at, one.answered_by());
    let undoing = (asking.0, asking.1.saturating_add(nanos(model.overshoot)));
    match (model.refused_for, one.outcome) {
        #[cfg(test)]
        (RefusedFor::Holders, _) => None,
        (_, AcquireOutcome::Granted) if one.permits.is_some() => Some(undoing),
        (RefusedFor::Contenders, _) | (_, AcquireOutcome::Granted) => Some(asking),
        (_, AcquireOutcome::Contended) if one.wait == Some(0) => None,
        (_, AcquireOutcome::Contended | AcquireOutcome::Failed) => Some(undoing),
        (_, AcquireOutcome::Unknown) => (gives_way && one.wait != Some(0)).then_some(undoing),
    }
}

/// Acquisitions of unknown outcome: each may have been granted, once. So each fills one gap between two known holds, and
/// all that were refused in it.
struct UnknownOutcomes {
    asked: Vec<u64>,
    used: usize,
    /// The gap that was filled last, by the number of holds before it.
    gap: Option<usize>,
}

impl UnknownOutcomes {
    fn new(all: &[&Acquisition]) -> Self {
        let unknown = all.iter().filter(|one| one.outcome == AcquireOutcome::Unknown);
        let mut asked: Vec<u64> = unknown.map(|one| one.asked_at).collect();
        asked.sort_unstable();
        Self { asked, used: 0, gap: None }
    }

    /// True if an acquisition that began by then is left for this gap. The earliest one fits the first gap best, because
    /// gaps are filled in the order of time.
    fn fill(&mut self, gap: usize, by: u64) -> bool {
        if self.gap == Some(gap) {
            return true;
        }
        let fits = self.asked.get(self.used).is_some_and(|asked| *asked <= by);
        if fits {
            self.used += 1;
            self.gap = Some(gap);
        }
        fits
    }
}
