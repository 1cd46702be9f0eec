//! M2: who believed when.

use super::locks::{Largest, Lock};
use super::report::{CheckReport, Rule};
use crate::history::{Acquisition, HoldRecord};
use std::collections::HashMap;
use std::time::Duration;

/// From the answer to the end of belief: what its holder did or saw, its death, or the last limit that was seen of it.
/// A guard that is held now was held all the time before, because a hold that ended never comes back.
pub(crate) fn belief(grant: &Acquisition, hold: &HoldRecord, kills: &HashMap<u32, u64>) -> (u64, u64) {
    let ends = [
        hold.release.as_ref().map(|release| release.asked_at),
        hold.seen_ended,
        kills.get(&grant.process).copied(),
    ];
    let end = ends.into_iter().flatten().fold(hold.seen_until, u64::min);
    (grant.answered_by(), end)
}

pub(super) fn check(lock: &Lock<'_>, kills: &HashMap<u32, u64>, report: &mut CheckReport) {
    let mut believers: Vec<_> =
        lock.grants.iter().map(|(grant, hold)| (belief(grant, hold, kills), *grant, *hold)).collect();
    believers.sort_unstable_by_key(|((from, _), ..)| *from);
    let mut longest: Largest<u64, (&Acquisition, &HoldRecord)> = Largest::NONE;
    for ((from, to), grant, hold) in believers {
        if let Some((until, (other, others))) = longest.against(grant.mode)
            && from < until.min(to)
        {
            let overlap = Duration::from_nanos(until.min(to) - from);
            report.measured.belief_overlap = report.measured.belief_overlap.max(overlap);
            report.broken(Rule::Belief, &lock.name, from, &[other.id(), grant.id()], || {
                format!("the holders of {} and {} both believed for {overlap:?}", others.token, hold.token)
            });
        }
        longest.add(grant.mode, to, (grant, hold));
    }
}
