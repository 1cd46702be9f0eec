//! C1: whoever is told that somebody else holds the lock is told so for a reason.

use super::model::{Model, RefusedFor, nanos};
use super::report::{Report, Rule, Violation};
use super::timeline::Timeline;
use crate::history::{Acquisition, Outcome};

/// `all` are the acquisitions of the timeline's name.
pub(super) fn check(timeline: &Timeline<'_>, all: &[&Acquisition], model: &Model, report: &mut Report) {
    let mut refused: Vec<&Acquisition> =
        all.iter().copied().filter(|one| matches!(one.outcome, Outcome::Contended)).collect();
    // In a gap between two holds, the first answer is the one that wants a holder first.
    refused.sort_unstable_by_key(|refused| refused.answered_by());
    let held = possible_holds(timeline);
    let contenders = Contenders::new(all, model);
    let mut ghosts = Ghosts::new(all);
    for refusal in refused {
        let by = refusal.answered_by();
        // The last hold that can have begun by then: all before it were over earlier.
        let index = held.partition_point(|(from, _)| *from <= by);
        let excused = index.checked_sub(1).is_some_and(|last| held[last].1 >= refusal.asked_at)
            || contenders.others_in(refusal)
            || ghosts.fill(index, by);
        if !excused {
            report.broken(Rule::Refusal, || Violation {
                rule: Rule::Refusal,
                name: timeline.name.to_owned(),
                at: by,
                operations: vec![(refusal.process, refusal.op)],
                what: "refused, and nobody can have held it".to_owned(),
            });
        }
    }
}

/// When each grant can have lasted: to the answer to its release, or to the latest moment of the next grant, which in turn
/// was over by its own release and by the one after it.
fn possible_holds(timeline: &Timeline<'_>) -> Vec<(u64, u64)> {
    let mut next = u64::MAX;
    let holds = timeline.grants.iter().rev().map(|grant| {
        let released = grant.hold.released().and_then(|release| release.answered_at);
        let end = released.unwrap_or(u64::MAX).min(next);
        next = grant.acquisition.answered_by().min(end);
        (grant.from, end)
    });
    let mut holds: Vec<_> = holds.collect();
    holds.reverse();
    holds
}

/// When those were under way who may keep others out though they are granted nothing, or not yet.
struct Contenders<'a> {
    model: &'a Model,
    asked: Vec<u64>,
    over: Vec<u64>,
}

impl<'a> Contenders<'a> {
    fn new(all: &[&Acquisition], model: &'a Model) -> Self {
        let spans = all.iter().filter_map(|one| under_way(one, model));
        let (mut asked, mut over): (Vec<u64>, Vec<u64>) = spans.unzip();
        asked.sort_unstable();
        over.sort_unstable();
        Self { model, asked, over }
    }

    /// True if somebody but the one who was refused was under way meanwhile.
    fn others_in(&self, refusal: &Acquisition) -> bool {
        let begun = self.asked.partition_point(|asked| *asked <= refusal.answered_by());
        let over = self.over.partition_point(|over| *over < refusal.asked_at);
        begun - over > usize::from(under_way(refusal, self.model).is_some())
    }
}

/// Who may have the lock before it is told so has it while it is under way; and who gives up or fails just then undoes
/// that behind its answer. A single attempt that was refused is nobody's to be refused for; and of those of whom nobody
/// knows, each counts once, as a ghost.
fn under_way(one: &Acquisition, model: &Model) -> Option<(u64, u64)> {
    let asking = (one.asked_at, one.answered_by());
    match (model.refused_for, &one.outcome) {
        (RefusedFor::Holders, _) => None,
        (RefusedFor::Contenders, _) | (_, Outcome::Granted(_)) => Some(asking),
        (_, Outcome::Contended) if one.wait == Some(0) => None,
        (_, Outcome::Contended | Outcome::Failed) => {
            Some((asking.0, asking.1.saturating_add(nanos(model.overshoot))))
        }
        (_, Outcome::Unknown) => None,
    }
}

/// Acquisitions of unknown outcome: each may have been granted, once. So each fills one gap between two known holds, and
/// all that were refused in it.
struct Ghosts {
    asked: Vec<u64>,
    used: usize,
    /// The gap that was filled last, by the number of holds before it.
    gap: Option<usize>,
}

impl Ghosts {
    fn new(all: &[&Acquisition]) -> Self {
        let unknown = all.iter().filter(|one| matches!(one.outcome, Outcome::Unknown));
        let mut asked: Vec<u64> = unknown.map(|one| one.asked_at).collect();
        asked.sort_unstable();
        Self { asked, used: 0, gap: None }
    }

    /// True if one is left for the gap in which something was answered by then. Whoever asked first is the best for the
    /// first gap, because gaps are filled in the order of time.
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
