//! M1, M2, O3: slots, beliefs, and what is confirmed to holds that are over.

use super::Checker;
use super::locks::{Largest, Lock};
use super::model::latest_end;
use super::report::Rule;
use crate::history::{Acquisition, Answer};
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

impl Checker<'_> {
    /// M2: no two holders believe at once.
    pub(super) fn check_beliefs(&mut self, lock: &Lock<'_>) {
        let mut believers: Vec<_> =
            lock.grants.iter().map(|grant| (belief(grant, &self.kills), *grant)).collect();
        believers.sort_unstable_by_key(|((from, _), _)| *from);
        let mut longest = Largest::<u64, &Acquisition>::NONE;
        for ((from, to), grant) in believers {
            if let Some((until, other)) = longest.against(grant.mode)
                && from < until.min(to)
            {
                let overlap = Duration::from_nanos(until.min(to) - from);
                self.report.measured.belief_overlap = self.report.measured.belief_overlap.max(overlap);
                let (first, second) = (other.hold.token, grant.hold.token);
                let what = format!("the holders of {first} and {second} both believed for {overlap:?}");
                self.report.broken(Rule::Belief, &lock.name, from, &[other.id(), grant.id()], what);
            }
            longest.add(grant.mode, to, grant);
        }
    }

    /// O3: a fixed lease is over one ttl after the last answer that confirmed it. Nothing may be confirmed after that, whether or
    /// not somebody else has taken it. Where a keeper renews, nobody here knows when it was last confirmed.
    pub(super) fn check_resurrections(&mut self, lock: &Lock<'_>) {
        if self.model.hold != HoldKind::Lease {
            return;
        }
        for grant in lock.grants.iter().filter(|grant| !grant.renewed) {
            let (mut ttl, mut confirmed) = (grant.ttl, grant.answered_by());
            for call in grant.hold.renewals.iter().chain(&grant.hold.release) {
                if call.answer == Answer::Ok && call.asked_at > latest_end(confirmed, ttl) {
                    let operations = [grant.id(), (grant.process, call.op)];
                    let token = grant.hold.token;
                    let what = format!("confirmed to the holder of {token}, whose lease was over");
                    self.report.broken(Rule::Resurrection, &lock.name, call.asked_at, &operations, what);
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

    /// M1: no permit has a slot beyond their number.
    pub(super) fn check_slots(&mut self) {
        for grant in self.history.grants() {
            let (slot, limit) = (grant.hold.slot, grant.permits);
            if limit.is_some_and(|limit| slot.is_none_or(|slot| slot >= limit)) {
                let what = format!("a permit was granted with the slot {slot:?}, of {limit:?}");
                self.report.broken(Rule::Exclusion, &grant.name, grant.answered_by(), &[grant.id()], what);
            }
        }
    }
}
