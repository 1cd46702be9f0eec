//! L1, L2, L3: how long anything took.

use super::circumstances::{Circumstances, PauseKind};
use super::model::nanos;
use super::report::{CheckReport, Rule};
use super::timeline::{Placed, Timeline};
use super::unseen::Unseen;
use crate::history::{Acquisition, History};
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
            let name = &history.names[one.name as usize];
            report.broken(Rule::Deadline, name, answered, &[one.id()], || {
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
        let freed = before.map(|before| before.hold.released()?.answered_at).collect::<Option<Vec<_>>>();
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
        let released = |one: &Placed<'_>| one.hold.released()?.answered_at;
        let ends = before.iter().map(|one| killed_at(one).or_else(|| released(one)));
        let Some(killed) = ends.collect::<Option<Vec<_>>>().and_then(|ends| ends.into_iter().max()) else {
            continue;
        };
        let to = next.answered_by();
        let took = Duration::from_nanos(to.saturating_sub(killed.max(next.asked_at)));
        let (longest, count) = report.measured.detection.unwrap_or_default();
        report.measured.detection = Some((longest.max(took), count + 1));
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
        let ended = self.hold.release.as_ref().map(|release| release.asked_at);
        let ends = ended.into_iter().chain(self.hold.seen_ended);
        self.acquisition.answered_by() <= moment && ends.into_iter().all(|end| end > moment)
    }
}
