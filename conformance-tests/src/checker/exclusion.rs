//! M1, O1, O2: what the order of the grants shows, and the slots of semaphores.

use super::report::{CheckReport, Rule};
use super::timeline::Timeline;
use crate::history::History;

pub(super) fn check(timeline: &Timeline<'_>, report: &mut CheckReport) {
    for clash in &timeline.clashes {
        let (before, grant) = (&timeline.grants[clash.before], &timeline.grants[clash.grant]);
        let (first, second) = (before.hold.token, grant.hold.token);
        let (process, op) = before.acquisition.id();
        let (rule, op) = match clash.impostor {
            Some(op) => (Rule::OwnerOnly, op),
            None => (Rule::Exclusion, op),
        };
        let (at, operations) = (grant.acquisition.answered_by(), [(process, op), grant.acquisition.id()]);
        report.broken(rule, timeline.name, at, &operations, || match clash.impostor {
            Some(_) => format!("confirmed to the holder of {first}, after {second} was granted"),
            None => format!("{second} was granted while {first} was held: until {} at least", before.to),
        });
    }
}

/// No permit has a slot beyond their number.
pub(super) fn check_slots(history: &History, report: &mut CheckReport) {
    for (grant, hold) in history.granted() {
        let Some(limit) = grant.permits.filter(|limit| hold.slot.is_none_or(|slot| slot >= *limit)) else {
            continue;
        };
        let name = &history.names[grant.name as usize];
        report.broken(Rule::Exclusion, name, grant.answered_by(), &[grant.id()], || {
            format!("a permit was granted with the slot {:?}, of {limit}", hold.slot)
        });
    }
}
