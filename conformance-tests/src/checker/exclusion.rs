//! M1, O1, O2: what the order of the grants shows, and the slots of semaphores.

use super::report::{Report, Rule, Violation};
use super::timeline::{Clash, Timeline};
use crate::history::History;

pub(super) fn check(timeline: &Timeline<'_>, report: &mut Report) {
    for clash in &timeline.clashes {
        report.broken(rule(clash), || violation(timeline, clash));
    }
}

/// No permit has a slot beyond their number.
pub(super) fn check_slots(history: &History, report: &mut Report) {
    for (grant, hold) in history.granted() {
        let Some(limit) = grant.permits.filter(|limit| hold.slot.is_none_or(|slot| slot >= *limit)) else {
            continue;
        };
        report.broken(Rule::Exclusion, || Violation {
            rule: Rule::Exclusion,
            name: history.names[grant.name as usize].to_string(),
            at: grant.answered_by(),
            operations: vec![(grant.process, grant.op)],
            what: format!("a permit was granted with the slot {:?}, of {limit}", hold.slot),
        });
    }
}

fn rule(clash: &Clash) -> Rule {
    if clash.impostor.is_some() { Rule::OwnerOnly } else { Rule::Exclusion }
}

fn violation(timeline: &Timeline<'_>, clash: &Clash) -> Violation {
    let (before, grant) = (&timeline.grants[clash.before], &timeline.grants[clash.grant]);
    let (first, second) = (before.hold.token, grant.hold.token);
    let process = before.acquisition.process;
    let (operations, what) = match clash.impostor {
        Some(op) => (
            vec![(process, op), (grant.acquisition.process, grant.acquisition.op)],
            format!("confirmed to the holder of {first}, after {second} was granted"),
        ),
        None => (
            vec![(process, before.acquisition.op), (grant.acquisition.process, grant.acquisition.op)],
            format!("{second} was granted while {first} was held: until {} at least", before.to),
        ),
    };
    let at = grant.acquisition.answered_by();
    Violation { rule: rule(clash), name: timeline.name.to_owned(), at, operations, what }
}
