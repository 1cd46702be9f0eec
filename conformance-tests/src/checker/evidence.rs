//! What a history must have, or it shows nothing.

use super::Checker;
use super::holds::belief;
use super::timeline::Timeline;
use crate::history::{AcquireOutcome, FaultSpan, History};
use leasehold_core::Fault;
use std::collections::HashMap;

impl Checker<'_> {
    /// Counts what there is of one lock.
    pub(super) fn count_evidence(&mut self, timeline: &Timeline<'_>) {
        // It was asked for while one before that conflicts with it was still held.
        let waited = timeline.grants.iter().filter(|grant| {
            grant.after.clone().any(|before| grant.acquisition.asked_at < timeline.grants[before].to)
        });
        self.report.measured.contended += waited.count();
        self.report.measured.grants += timeline.grants.len();
    }

    pub(super) fn check_evidence(&mut self) {
        let (history, least, report) = (self.history, self.model.least, &mut self.report);
        let of = |wanted| history.acquisitions.iter().filter(|one| one.outcome == wanted).count();
        let (measured, void) = (&mut report.measured, &mut report.void);
        measured.acquisitions = history.acquisitions.len();
        measured.unknown = of(AcquireOutcome::Unknown);
        measured.contended += of(AcquireOutcome::Contended);
        if measured.grants < least.grants {
            void.push(format!("{} grants, at least {}", measured.grants, least.grants));
        }
        if measured.contended < least.contended {
            void.push(format!("{} met a holder, at least {}", measured.contended, least.contended));
        }
        if measured.unknown * 100 > measured.acquisitions * least.unknown_percent {
            void.push(format!(
                "{} of {} outcomes are unknown, at most {} %",
                measured.unknown, measured.acquisitions, least.unknown_percent
            ));
        }
        for span in history.faults.iter().filter(|span| span.fault != Fault::None) {
            if !met_a_hold(span, history, &self.kills) {
                void.push(format!("{:?} at {} met no holder", span.fault, span.from));
            }
        }
    }
}

/// True if a client that the fault hits believed to hold a lock during it. A killed client believed so until its death.
pub(crate) fn met_a_hold(span: &FaultSpan, history: &History, kills: &HashMap<u32, u64>) -> bool {
    let hit = history.grants().filter(|grant| span.hits(grant.process));
    hit.map(|grant| belief(grant, kills))
        .any(|(from, to)| from < span.to.unwrap_or(u64::MAX) && span.from <= to && from <= to)
}
