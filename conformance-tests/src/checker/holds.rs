//! M1, M2, O1, O2, O3: holds beside each other, and what is confirmed to those that are over.

use super::locks::{Largest, Lock};
use super::model::{Model, latest_end};
use super::report::{CheckReport, Rule};
use super::timeline::Timeline;
use crate::history::{Acquisition, Answer, History};
use leasehold_core::HoldKind;
use std::collections::HashMap;
use std::time::Duration;

/// From the answer to the end of belief: what its holder did or saw, its death, or the last limit that was seen of it.
/// A guard that is held now was held all the time before, because a hold that ended never comes back.
pub(crate) fn belief(grant: &Acquisition, kills: &HashMap<u32, u64>) -> (u64, u64) {
    let hold = &grant.hold;
    let released = hold.release.as_ref().map(|release| release.asked_at);
    let ends = [released, hold.seen_ended, kills.get(&grant.process).copied()];
    (grant.answered_by(), ends.into_iter().flatten().fold(hold.seen_until, u64::min))
}

/// M2: no two holders believe at once.
pub(super) fn check_beliefs(lock: &Lock<'_>, kills: &HashMap<u32, u64>, report: &mut CheckReport) {
    let mut believers: Vec<_> = lock.grants.iter().map(|grant| (belief(grant, kills), *grant)).collect();
    believers.sort_unstable_by_key(|((from, _), _)| *from);
    let mut longest = Largest::<u64, &Acquisition>::NONE;
    for ((from, to), grant) in believers {
        if let Some((until, other)) = longest.against(grant.mode)
            && from < until.min(to)
        {
            let overlap = Duration::from_nanos(until.min(to) - from);
            report.measured.belief_overlap = report.measured.belief_overlap.max(overlap);
            report.broken(Rule::Belief, &lock.name, from, &[other.id(), grant.id()], || {
                let (one, other) = (other.hold.token, grant.hold.token);
                format!("the holders of {one} and {other} both believed for {overlap:?}")
            });
        }
        longest.add(grant.mode, to, grant);
    }
}

/// O3: a fixed lease is over one ttl after the last answer that confirmed it. Nothing may be confirmed after that, whether or
/// not somebody else has taken it. Where a keeper renews, nobody here knows when it was last confirmed.
pub(super) fn check_resurrections(lock: &Lock<'_>, model: &Model, report: &mut CheckReport) {
    if model.hold != HoldKind::Lease {
        return;
    }
    for grant in lock.grants.iter().filter(|grant| !grant.renewed) {
        let (mut ttl, mut confirmed) = (grant.ttl, grant.answered_by());
        for call in grant.hold.renewals.iter().chain(&grant.hold.release) {
            if call.answer == Answer::Ok && call.asked_at > latest_end(confirmed, ttl) {
                let operations = [grant.id(), (grant.process, call.op)];
                report.broken(Rule::Resurrection, &lock.name, call.asked_at, &operations, || {
                    format!("confirmed to the holder of {}, whose lease was over", grant.hold.token)
                });
            }
            match call.answer {
                Answer::Ok => {
                    confirmed = call.answered_at.unwrap_or(u64::MAX);
                    ttl = ttl.max(call.ttl);
                }
                // It may have been applied, at any time.
                Answer::Unknown => confirmed = u64::MAX,
                Answer::Failed => {}
            }
        }
    }
}

/// M1, O1, O2: what the order of the grants shows.
pub(super) fn check_clashes(timeline: &Timeline<'_>, report: &mut CheckReport) {
    for clash in &timeline.clashes {
        let (before, grant) = (&timeline.grants[clash.before], &timeline.grants[clash.grant]);
        let (before_id, id) = (before.acquisition.id(), grant.acquisition.id());
        let (first, second) = (before.acquisition.hold.token, grant.acquisition.hold.token);
        let (rule, op, what) = match clash.impostor {
            Some(op) => {
                let what = format!("confirmed to the holder of {first}, after {second} was granted");
                (Rule::OwnerOnly, op, what)
            }
            None => {
                let until = before.to;
                let what = format!("{second} was granted while {first} was held: until {until} at least");
                (Rule::Exclusion, before_id.1, what)
            }
        };
        let at = grant.acquisition.answered_by();
        report.broken(rule, timeline.name, at, &[(before_id.0, op), id], || what);
    }
}

/// M1: no permit has a slot beyond their number.
pub(super) fn check_slots(history: &History, report: &mut CheckReport) {
    for grant in history.grants() {
        let (slot, limit) = (grant.hold.slot, grant.permits);
        if limit.is_some_and(|limit| slot.is_none_or(|slot| slot >= limit)) {
            report.broken(Rule::Exclusion, &grant.name, grant.answered_by(), &[grant.id()], || {
                format!("a permit was granted with the slot {slot:?}, of {limit:?}")
            });
        }
    }
}
