//! O3: what is over stays over.

use super::locks::Lock;
use super::model::Model;
use super::report::{Report, Rule, Violation};
use crate::history::Answer;
use leasehold_core::HoldKind;

/// A fixed lease is over one ttl after the last answer that confirmed it. Nothing may be confirmed after that, whether or
/// not somebody else has taken it. Where a keeper renews, nobody here knows when it was last confirmed.
pub(super) fn check(lock: &Lock<'_>, model: &Model, report: &mut Report) {
    if model.hold != HoldKind::Lease {
        return;
    }
    for (grant, hold) in lock.grants.iter().filter(|(grant, _)| !grant.renewed) {
        let (mut ttl, mut confirmed) = (grant.ttl, grant.answered_by());
        let renewals = hold.renewals.iter().map(|renewal| (&renewal.call, renewal.ttl));
        for (call, longer) in renewals.chain(hold.release.as_ref().map(|release| (release, 0))) {
            if call.answer == Answer::Ok && call.asked_at > model.latest_end(confirmed, ttl) {
                report.broken(Rule::Resurrection, || Violation {
                    rule: Rule::Resurrection,
                    name: lock.name.to_string(),
                    at: call.asked_at,
                    operations: vec![(grant.process, grant.op), (grant.process, call.op)],
                    what: format!("confirmed to the holder of {}, whose lease was over", hold.token),
                });
            }
            match call.answer {
                Answer::Ok => {
                    confirmed = call.answered_at.unwrap_or(u64::MAX);
                    ttl = ttl.max(longer);
                }
                // It may have been applied, at any time.
                Answer::Unknown => confirmed = u64::MAX,
                Answer::Failed => {}
            }
        }
    }
}
