use super::model::Model;
use crate::history::{Acquisition, FaultSpan, History};
use leasehold_core::{Fault, HoldKind};
use std::collections::HashMap;

/// Under what a history came about: what is promised, which processes were killed, what stood still, and what ended holds.
pub(super) struct Circumstances<'a> {
    pub(super) model: &'a Model,
    /// The processes that were killed, and when.
    pub(super) kills: HashMap<u32, u64>,
    /// Processes and stores that stood still: what happened meanwhile took as long as it took. And stores that were away, or
    /// started again: they hand nothing over meanwhile. But a deadline is the client's own, and is kept without them.
    pauses: Vec<&'a FaultSpan>,
    /// What ended holds besides their releases and the store's clock.
    ends: Vec<&'a FaultSpan>,
}

/// The pauses that excuse a rule: of clients and stores that stand still, or also of stores that are away.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PauseKind {
    Stalled,
    StalledOrAway,
}

impl<'a> Circumstances<'a> {
    pub(super) fn new(history: &'a History, model: &'a Model) -> Self {
        let spans = |wanted: &dyn Fn(Fault) -> bool| {
            history.faults.iter().filter(|span| wanted(span.fault)).collect::<Vec<_>>()
        };
        let pauses = spans(&|fault| {
            !matches!(
                fault,
                Fault::None | Fault::HolderKilled | Fault::RecordDeleted | Fault::ClientClockJumps
            )
        });
        let is_connection = model.hold == HoldKind::Connection;
        let ends = spans(&|fault| match fault {
            Fault::RecordDeleted => true,
            Fault::ConnectionKilled | Fault::HolderKilled => is_connection,
            _ => false,
        });
        Self { model, kills: history.kills(), pauses, ends }
    }

    /// True if such a pause hit the process in this time.
    pub(super) fn paused(&self, kind: PauseKind, process: u32, from: u64, to: u64) -> bool {
        self.pauses.iter().any(|span| {
            (kind == PauseKind::StalledOrAway || stands_still(span.fault))
                && span.hits(process)
                && span.from <= to
                && span.to.is_none_or(|end| end >= from)
        })
    }

    /// The first moment at which a hold that the store confirmed at `point` can have ended without a release.
    pub(super) fn earliest_end(&self, grant: &Acquisition, point: u64, ttl: u64, until: u64) -> u64 {
        let by_time = self.model.earliest_end(point, ttl, until);
        let hits = |span: &&&FaultSpan| span.to.is_none_or(|to| to >= point) && span.hits(grant.process);
        self.ends.iter().filter(hits).fold(by_time, |end, span| end.min(span.from.max(point)))
    }
}

fn stands_still(fault: Fault) -> bool {
    matches!(
        fault,
        Fault::HolderPaused | Fault::ClientSuspended | Fault::ExecutorStarved | Fault::StorePaused
    )
}
