//! M1, O1, O2: what the order of the grants shows.

use super::report::{Report, Rule, Violation};
use super::timeline::{Clash, Timeline};

pub(super) fn check(timeline: &Timeline<'_>, report: &mut Report) {
    for clash in &timeline.clashes {
        report.broken(rule(clash), || violation(timeline, clash));
    }
}

fn rule(clash: &Clash) -> Rule {
    if clash.impostor.is_some() { Rule::OwnerOnly } else { Rule::Exclusion }
}

fn violation(timeline: &Timeline<'_>, clash: &Clash) -> Violation {
    let (before, grant) = (&timeline.grants[clash.grant - 1], &timeline.grants[clash.grant]);
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
