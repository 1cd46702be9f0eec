//! O3: what is over stays over.

use super::locks::Lock;
use super::model::Model;
use super::report::{CheckReport, Rule};
use crate::history::Answer;
use leasehold_core::HoldKind;

/// A fixed lease is over one ttl after the last answer that confirmed it. Nothing may be confirmed after that, whether or
/// not somebody else has taken it. Where a keeper renews, nobody here knows when it was last confirmed.
pub(super) fn check(lock: &Lock<'_>, model: &Model, report: &mut CheckReport) {
    if model.hold != HoldKind::Lease {
        return;
    }
    for (grant, hold) in lock.grants.iter().filter(|(grant, _)| !grant.renewed) {
        let (mut ttl, mut confirmed) = (grant.ttl, grant.answered_by());
        let renewals = hold.renewals.iter().map(|renewal| (&renewal.call, renewal.ttl));
        for (call, longer) in renewals.chain(hold.release.as_ref().map(|release| (release, 0))) {
            if call.answer == Answer::Ok && call.asked_at > model.latest_end(confirmed, ttl) {
                let operations = [grant.id(), (grant.process, call.op)];
                report.broken(Rule::Resurrection, &lock.name, call.asked_at, &operations, || {
                    format!("confirmed to the holder of {}, whose lease was over", hold.token)
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
