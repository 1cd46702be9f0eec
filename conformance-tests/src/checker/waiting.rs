//! L1, L2, L3: how long anything took.

use super::model::{Model, nanos};
use super::report::{Report, Rule, Violation};
use super::timeline::{Placed, Timeline};
use super::unseen::Unseen;
use crate::history::{Acquisition, History, Span};
use leasehold_core::Fault;
use std::collections::HashMap;
use std::time::Duration;

/// Processes and stores that stood still: what happened meanwhile took as long as it took. And stores that were away, or
/// started again: they hand nothing over meanwhile. But a deadline is the client's own, and is kept without them.
pub(super) struct Pauses<'a> {
    spans: Vec<&'a Span>,
}

/// The pauses that excuse a rule: of clients and stores that stand still, or also of stores that are away.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PauseKind {
    Stalled,
    StalledOrAway,
}

impl<'a> Pauses<'a> {
    pub(super) fn new(history: &'a History) -> Self {
        let still = |span: &&Span| {
            !matches!(
                span.fault,
                Fault::None | Fault::HolderKilled | Fault::RecordDeleted | Fault::ClientClockJumps
            )
        };
        Self { spans: history.faults.iter().filter(still).collect() }
    }

    pub(super) fn hit(&self, kind: PauseKind, process: u32, from: u64, to: u64) -> bool {
        self.spans.iter().any(|span| {
            (kind == PauseKind::StalledOrAway || stands_still(span.fault))
                && span.target.is_none_or(|target| target == process)
                && span.from <= to
                && span.to.is_none_or(|end| end >= from)
        })
    }
}

fn stands_still(fault: Fault) -> bool {
    matches!(
        fault,
        Fault::HolderPaused | Fault::ClientSuspended | Fault::ExecutorStarved | Fault::StorePaused
    )
}

pub(super) fn check(
    timeline: &Timeline<'_>,
    all: &[&Acquisition],
    pauses: &Pauses<'_>,
    kills: &HashMap<u32, u64>,
    model: &Model,
    report: &mut Report,
) {
    wake_ups(timeline, all, pauses, kills, model, report);
    crashes(timeline, pauses, kills, model, report);
}

pub(super) fn check_deadlines(history: &History, pauses: &Pauses<'_>, model: &Model, report: &mut Report) {
    for one in &history.acquisitions {
        // A single attempt ends when the backend's own time-out says so.
        let (Some(wait), Some(answered)) = (one.wait.filter(|wait| *wait > 0), one.answered_at) else {
            continue;
        };
        let late = (answered - one.asked_at).saturating_sub(wait);
        if late > nanos(model.overshoot)
            && !pauses.hit(PauseKind::Stalled, one.process, one.asked_at, answered)
        {
            let what = || format!("it ended {:?} after its deadline", Duration::from_nanos(late));
            let name = &history.names[one.name as usize];
            report.broken(Rule::Deadline, || violation(Rule::Deadline, name, one, answered, what()));
        }
    }
}

/// A lock that was certainly free, and somebody who waited for it all the time until it was granted. Readers alone keep no reader
/// waiting; a writer that waits does.
fn wake_ups(
    timeline: &Timeline<'_>,
    all: &[&Acquisition],
    pauses: &Pauses<'_>,
    kills: &HashMap<u32, u64>,
    model: &Model,
    report: &mut Report,
) {
    let unseen = [false, true].map(|is_reader| Unseen::new(all, kills, pauses, model, is_reader));
    for placed in timeline.grants.iter().skip(1) {
        let grant = placed.acquisition;
        let before = timeline.grants[placed.after.clone()].iter();
        let freed = before.map(|before| before.hold.released()?.answered_at).collect::<Option<Vec<_>>>();
        // Readers before whom no writer was found it free.
        let Some(freed) = freed.map(|freed| freed.into_iter().max().unwrap_or_default()) else { continue };
        let (from, to) = (freed.max(grant.asked_at), grant.answered_by());
        let bound = nanos(model.wake_up);
        if to.saturating_sub(from) <= bound || pauses.hit(PauseKind::StalledOrAway, grant.process, from, to) {
            continue;
        }
        let idle = unseen[usize::from(grant.mode.is_shared())].longest_without(from, to);
        if idle > bound {
            let what = || format!("free for {:?} while it waited", Duration::from_nanos(idle));
            report.broken(Rule::WakeUp, || violation(Rule::WakeUp, timeline.name, grant, to, what()));
        }
    }
}

/// From a holder's death to the next grant, to somebody who waited for it.
fn crashes(
    timeline: &Timeline<'_>,
    pauses: &Pauses<'_>,
    kills: &HashMap<u32, u64>,
    model: &Model,
    report: &mut Report,
) {
    for placed in &timeline.grants {
        let (before, next) = (&timeline.grants[placed.after.clone()], placed.acquisition);
        let killed_at =
            |dead: &Placed<'_>| kills.get(&dead.acquisition.process).copied().filter(|at| dead.held_at(*at));
        if !before.iter().any(|dead| killed_at(dead).is_some()) {
            continue;
        }
        // Other readers end as they please.
        let released = |one: &Placed<'_>| one.hold.released()?.answered_at;
        let ends = before.iter().map(|one| killed_at(one).or_else(|| released(one)));
        let Some(killed) = ends.collect::<Option<Vec<_>>>().and_then(|ends| ends.into_iter().max()) else {
            continue;
        };
        let to = next.answered_by();
        let took = Duration::from_nanos(to.saturating_sub(killed.max(next.asked_at)));
        let (longest, count) = report.measured.detection.unwrap_or_default();
        report.measured.detection = Some((longest.max(took), count + 1));
        if model.crash.is_some_and(|bound| took > bound)
            && !pauses.hit(PauseKind::StalledOrAway, next.process, killed, to)
        {
            let what = || format!("granted {took:?} after the holder was killed");
            report.broken(Rule::Crash, || violation(Rule::Crash, timeline.name, next, to, what()));
        }
    }
}

impl Placed<'_> {
    /// True if its holder had not given it back by then, nor seen its end.
    fn held_at(&self, moment: u64) -> bool {
        let ended = self.hold.release.as_ref().map(|release| release.asked_at);
        let ends = ended.into_iter().chain(self.hold.seen_ended);
        self.acquisition.answered_by() <= moment && ends.into_iter().all(|end| end > moment)
    }
}

fn violation(rule: Rule, name: &str, one: &Acquisition, at: u64, what: String) -> Violation {
    Violation { rule, name: name.to_owned(), at, operations: vec![(one.process, one.op)], what }
}
