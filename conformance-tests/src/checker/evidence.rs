//! What a history must have, or it shows nothing.

use super::circumstances::Circumstances;
use super::holds::belief;
use super::report::CheckReport;
use super::timeline::Timeline;
use crate::history::{AcquireOutcome, FaultSpan, History};
use leasehold_core::Fault;
use std::collections::HashMap;

/// Counts what there is of one name.
pub(super) fn count(timeline: &Timeline<'_>, report: &mut CheckReport) {
    // It was asked for while one before that conflicts with it was still held.
    let waited = timeline.grants.iter().filter(|grant| {
        grant.after.clone().any(|before| grant.acquisition.asked_at < timeline.grants[before].to)
    });
    report.measured.contended += waited.count();
    report.measured.grants += timeline.grants.len();
}

pub(super) fn check(history: &History, circumstances: &Circumstances<'_>, report: &mut CheckReport) {
    let of = |wanted| history.acquisitions.iter().filter(|one| one.outcome == wanted).count();
    let (least, measured) = (circumstances.model.least, &mut report.measured);
    measured.acquisitions = history.acquisitions.len();
    measured.unknown = of(AcquireOutcome::Unknown);
    measured.contended += of(AcquireOutcome::Contended);
    if measured.grants < least.grants {
        report.void.push(format!("{} grants, at least {}", measured.grants, least.grants));
    }
    if measured.contended < least.contended {
        report.void.push(format!("{} met a holder, at least {}", measured.contended, least.contended));
    }
    if measured.unknown * 100 > measured.acquisitions * least.unknown_percent {
        report.void.push(format!(
            "{} of {} outcomes are unknown, at most {} %",
            measured.unknown, measured.acquisitions, least.unknown_percent
        ));
    }
    for span in history.faults.iter().filter(|span| span.fault != Fault::None) {
        if !met_a_hold(span, history, &circumstances.kills) {
            report.void.push(format!("{:?} at {} met no holder", span.fault, span.from));
        }
    }
}

/// True if a client that the fault hits believed to hold a lock during it. A killed client believed so until its death.
pub(crate) fn met_a_hold(span: &FaultSpan, history: &History, kills: &HashMap<u32, u64>) -> bool {
    let hit = history.grants().filter(|grant| span.hits(grant.process));
    hit.map(|grant| belief(grant, kills))
        .any(|(from, to)| from < span.to.unwrap_or(u64::MAX) && span.from <= to && from <= to)
}
