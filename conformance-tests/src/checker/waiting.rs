//! L1, L2, L3: how long anything took.

use super::report::Rule;
use super::timeline::{Placed, Timeline};
use super::{Checker, stands_still};
use crate::history::{AcquireOutcome, Acquisition};
use crate::time_scale::nanos;
use std::time::Duration;

impl Checker<'_> {
    /// L2.
    pub(super) fn check_deadlines(&mut self) {
        for one in &self.history.acquisitions {
            // A single attempt ends when the backend's own time-out says so.
            let (Some(wait), Some(answered)) = (one.wait.filter(|wait| *wait > 0), one.answered_at) else {
                continue;
            };
            let late = (answered - one.asked_at).saturating_sub(wait);
            if late > nanos(self.model.overshoot)
                && !self.disturbances(one.process, one.asked_at, answered).any(stands_still)
            {
                let what = format!("it ended {:?} after its deadline", Duration::from_nanos(late));
                self.report.broken(Rule::Deadline, &one.name, answered, &[one.id()], what);
            }
        }
    }

    /// L3: a lock that was certainly free, and somebody who waited for it all the time until it was granted. Readers alone keep no
    /// reader waiting; a writer that waits does.
    pub(super) fn check_wake_ups(&mut self, timeline: &Timeline<'_>) {
        let unseen = [false, true].map(|is_reader| self.unseen(&timeline.lock.all, is_reader));
        let bound = nanos(self.model.wake_up);
        for placed in timeline.grants.iter().skip(1) {
            let grant = placed.acquisition;
            let before = timeline.grants[placed.after.clone()].iter();
            let freed: Option<Vec<u64>> = before.map(|one| one.acquisition.hold.released_at()).collect();
            // Readers before whom no writer was found it free.
            let Some(freed) = freed.map(|freed| freed.into_iter().max().unwrap_or_default()) else {
                continue;
            };
            let (from, to) = (freed.max(grant.asked_at), grant.answered_by());
            if to.saturating_sub(from) <= bound || self.is_disturbed(grant.process, from, to) {
                continue;
            }
            let idle = longest_without(&unseen[usize::from(grant.mode.is_shared())], from, to);
            if idle > bound {
                let what = format!("free for {:?} while it waited", Duration::from_nanos(idle));
                self.report.broken(Rule::WakeUp, &timeline.lock.name, to, &[grant.id()], what);
            }
        }
    }

    /// L1: from a holder's death to the next grant, to somebody who waited for it.
    pub(super) fn check_crashes(&mut self, timeline: &Timeline<'_>) {
        for placed in &timeline.grants {
            let (before, next) = (&timeline.grants[placed.after.clone()], placed.acquisition);
            let killed_at = |dead: &Placed<'_>| {
                self.kills.get(&dead.acquisition.process).copied().filter(|at| dead.held_at(*at))
            };
            if !before.iter().any(|dead| killed_at(dead).is_some()) {
                continue;
            }
            // Other readers end as they please.
            let ends = before.iter().map(|one| killed_at(one).or_else(|| one.acquisition.hold.released_at()));
            let Some(freed) = ends.collect::<Option<Vec<_>>>().and_then(|ends| ends.into_iter().max()) else {
                continue;
            };
            let to = next.answered_by();
            let took = Duration::from_nanos(to.saturating_sub(freed.max(next.asked_at)));
            if self.model.crash.is_some_and(|bound| took > bound)
                && !self.is_disturbed(next.process, freed, to)
            {
                let what = format!("granted {took:?} after the holder was killed");
                self.report.broken(Rule::Crash, &timeline.lock.name, to, &[next.id()], what);
            }
        }
    }

    /// When somebody may have had the lock, or the first place in its queue, without anybody's learning of it: spans apart from
    /// each other, and in order.
    fn unseen(&self, all: &[&Acquisition], is_reader: bool) -> Vec<(u64, u64)> {
        let spans = all.iter().filter_map(|one| {
            let span = self.unseen_of(one);
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
        spans
    }

    fn unseen_of(&self, one: &Acquisition) -> Option<(u64, u64)> {
        let killed = self.kills.get(&one.process).copied();
        let (left, takes_leave) = match one.outcome {
            AcquireOutcome::Unknown => (one.answered_at.or(killed).unwrap_or(u64::MAX), one.was_dropped),
            // It stood in line, and is taken out of it after it has given up.
            AcquireOutcome::Contended if one.wait != Some(0) => (one.answered_by(), true),
            _ => return None,
        };
        let leftovers = left.saturating_add(self.model.crash.map_or(u64::MAX, nanos));
        let wake_up = nanos(self.model.wake_up);
        let gone = left.saturating_add(wake_up);
        // A client that gives up without a fault returns a grant that it may have, and would have been told of an earlier grant.
        if takes_leave
            && killed.is_none_or(|at| at > gone)
            && !self.is_disturbed(one.process, one.asked_at, leftovers)
        {
            return Some((one.asked_at.max(left.saturating_sub(wake_up)), gone));
        }
        Some((one.asked_at, leftovers))
    }
}

/// The longest part of this time that is in none of the spans.
fn longest_without(spans: &[(u64, u64)], from: u64, to: u64) -> u64 {
    let (mut free, mut longest) = (from, 0);
    let first = spans.partition_point(|(_, end)| *end < from);
    for (begin, end) in spans[first..].iter().take_while(|(begin, _)| *begin <= to) {
        longest = longest.max(begin.saturating_sub(free));
        free = free.max(*end);
    }
    longest.max(to.saturating_sub(free))
}

impl Placed<'_> {
    /// True if its holder had not given it back by then, nor seen its end.
    fn held_at(&self, moment: u64) -> bool {
        let hold = &self.acquisition.hold;
        let mut ends = hold.release.iter().map(|release| release.asked_at).chain(hold.seen_ended);
        self.acquisition.answered_by() <= moment && ends.all(|end| end > moment)
    }
}
