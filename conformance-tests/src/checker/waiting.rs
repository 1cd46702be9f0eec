//! L1, L2, L3: how long anything took.

use super::circumstances::{Circumstances, PauseKind};
use super::model::nanos;
use super::report::{CheckReport, Rule};
use super::timeline::{Placed, Timeline};
use crate::history::{AcquireOutcome, Acquisition, History};
use std::time::Duration;

pub(super) fn check(
    timeline: &Timeline<'_>,
    all: &[&Acquisition],
    circumstances: &Circumstances<'_>,
    report: &mut CheckReport,
) {
    wake_ups(timeline, all, circumstances, report);
    crashes(timeline, circumstances, report);
}

pub(super) fn check_deadlines(
    history: &History,
    circumstances: &Circumstances<'_>,
    report: &mut CheckReport,
) {
    for one in &history.acquisitions {
        // A single attempt ends when the backend's own time-out says so.
        let (Some(wait), Some(answered)) = (one.wait.filter(|wait| *wait > 0), one.answered_at) else {
            continue;
        };
        let late = (answered - one.asked_at).saturating_sub(wait);
        if late > nanos(circumstances.model.overshoot)
            && !circumstances.paused(PauseKind::Stalled, one.process, one.asked_at, answered)
        {
            report.broken(Rule::Deadline, &one.name, answered, &[one.id()], || {
                format!("it ended {:?} after its deadline", Duration::from_nanos(late))
            });
        }
    }
}

/// A lock that was certainly free, and somebody who waited for it all the time until it was granted. Readers alone keep no reader
/// waiting; a writer that waits does.
fn wake_ups(
    timeline: &Timeline<'_>,
    all: &[&Acquisition],
    circumstances: &Circumstances<'_>,
    report: &mut CheckReport,
) {
    let unseen = [false, true].map(|is_reader| Unseen::new(all, circumstances, is_reader));
    for placed in timeline.grants.iter().skip(1) {
        let grant = placed.acquisition;
        let before = timeline.grants[placed.after.clone()].iter();
        let freed = before.map(|before| before.acquisition.hold.released_at()).collect::<Option<Vec<_>>>();
        // Readers before whom no writer was found it free.
        let Some(freed) = freed.map(|freed| freed.into_iter().max().unwrap_or_default()) else { continue };
        let (from, to) = (freed.max(grant.asked_at), grant.answered_by());
        let bound = nanos(circumstances.model.wake_up);
        if to.saturating_sub(from) <= bound
            || circumstances.paused(PauseKind::StalledOrAway, grant.process, from, to)
        {
            continue;
        }
        let idle = unseen[usize::from(grant.mode.is_shared())].longest_without(from, to);
        if idle > bound {
            report.broken(Rule::WakeUp, timeline.name, to, &[grant.id()], || {
                format!("free for {:?} while it waited", Duration::from_nanos(idle))
            });
        }
    }
}

/// From a holder's death to the next grant, to somebody who waited for it.
fn crashes(timeline: &Timeline<'_>, circumstances: &Circumstances<'_>, report: &mut CheckReport) {
    for placed in &timeline.grants {
        let (before, next) = (&timeline.grants[placed.after.clone()], placed.acquisition);
        let killed_at = |dead: &Placed<'_>| {
            circumstances.kills.get(&dead.acquisition.process).copied().filter(|at| dead.held_at(*at))
        };
        if !before.iter().any(|dead| killed_at(dead).is_some()) {
            continue;
        }
        // Other readers end as they please.
        let ends = before.iter().map(|one| killed_at(one).or_else(|| one.acquisition.hold.released_at()));
        let Some(killed) = ends.collect::<Option<Vec<_>>>().and_then(|ends| ends.into_iter().max()) else {
            continue;
        };
        let to = next.answered_by();
        let took = Duration::from_nanos(to.saturating_sub(killed.max(next.asked_at)));
        if circumstances.model.crash.is_some_and(|bound| took > bound)
            && !circumstances.paused(PauseKind::StalledOrAway, next.process, killed, to)
        {
            report.broken(Rule::Crash, timeline.name, to, &[next.id()], || {
                format!("granted {took:?} after the holder was killed")
            });
        }
    }
}

impl Placed<'_> {
    /// True if its holder had not given it back by then, nor seen its end.
    fn held_at(&self, moment: u64) -> bool {
        let hold = &self.acquisition.hold;
        let mut ends = hold.release.iter().map(|release| release.asked_at).chain(hold.seen_ended);
        self.acquisition.answered_by() <= moment && ends.all(|end| end > moment)
    }
}

/// When somebody may have had the lock, or the first place in its queue, without anybody's learning of it.
struct Unseen {
    /// Apart from each other, and in order.
    spans: Vec<(u64, u64)>,
}

impl Unseen {
    fn new(all: &[&Acquisition], circumstances: &Circumstances<'_>, is_reader: bool) -> Self {
        let spans = all.iter().filter_map(|one| {
            let span = span(one, circumstances);
            // A reader gives way to a writer all the time that it waits.
            let is_in_front = is_reader && !one.mode.is_shared() && one.wait != Some(0);
            is_in_front.then(|| (one.asked_at, span.map_or(one.answered_by(), |(_, end)| end))).or(span)
        });
        let mut spans: Vec<(u64, u64)> = spans.collect();
        spans.sort_unstable();
        spans.dedup_by(|next, before| {
            let touch = next.0 <= before.1;
            if touch {
                before.1 = before.1.max(next.1);
            }
            touch
        });
        Self { spans }
    }

    /// The longest part of this time in which nobody was there.
    fn longest_without(&self, from: u64, to: u64) -> u64 {
        let (mut free, mut longest) = (from, 0);
        let first = self.spans.partition_point(|(_, end)| *end < from);
        for (begin, end) in self.spans[first..].iter().take_while(|(begin, _)| *begin <= to) {
            longest = longest.max(begin.saturating_sub(free));
            free = free.max(*end);
        }
        longest.max(to.saturating_sub(free))
    }
}

fn span(one: &Acquisition, circumstances: &Circumstances<'_>) -> Option<(u64, u64)> {
    let Circumstances { model, kills, .. } = circumstances;
    let (left, takes_leave) = match one.outcome {
        AcquireOutcome::Unknown => {
            let left = one.answered_at.or(kills.get(&one.process).copied()).unwrap_or(u64::MAX);
            (left, one.was_dropped)
        }
        // It stood in line, and is taken out of it after it has given up.
        AcquireOutcome::Contended if one.wait != Some(0) => (one.answered_by(), true),
        _ => return None,
    };
    let leftovers = left.saturating_add(model.crash.map_or(u64::MAX, nanos));
    let moment = nanos(model.wake_up);
    let gone = left.saturating_add(moment);
    let killed = kills.get(&one.process).is_some_and(|at| *at <= gone);
    // A client that gives up without a fault returns a grant that it may have, and would have been told of an earlier grant.
    if takes_leave
        && !killed
        && !circumstances.paused(PauseKind::StalledOrAway, one.process, one.asked_at, leftovers)
    {
        return Some((one.asked_at.max(left.saturating_sub(moment)), gone));
    }
    Some((one.asked_at, leftovers))
}
