use super::model::Model;
use crate::history::{FaultSpan, History};
use leasehold_core::Fault;
use std::collections::HashMap;

/// Under what a history came about: what is promised, which processes were killed, and what stood still.
pub(super) struct Circumstances<'a> {
    pub(super) model: &'a Model,
    /// The processes that were killed, and when.
    pub(super) kills: HashMap<u32, u64>,
    /// Processes and stores that stood still: what happened meanwhile took as long as it took. And stores that were away, or
    /// started again: they hand nothing over meanwhile. But a deadline is the client's own, and is kept without them.
    pauses: Vec<&'a FaultSpan>,
}

/// The pauses that excuse a rule: of clients and stores that stand still, or also of stores that are away.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PauseKind {
    Stalled,
    StalledOrAway,
}

impl<'a> Circumstances<'a> {
    pub(super) fn new(history: &'a History, model: &'a Model) -> Self {
        let still = |span: &&FaultSpan| {
            !matches!(
                span.fault,
                Fault::None | Fault::HolderKilled | Fault::RecordDeleted | Fault::ClientClockJumps
            )
        };
        Self { model, kills: history.kills(), pauses: history.faults.iter().filter(still).collect() }
    }

    /// True if such a pause hit the process in this time.
    pub(super) fn paused(&self, kind: PauseKind, process: u32, from: u64, to: u64) -> bool {
        self.pauses.iter().any(|span| {
            (kind == PauseKind::StalledOrAway || stands_still(span.fault))
                && span.target.is_none_or(|target| target == process)
                && span.from <= to
                && span.to.is_none_or(|end| end >= from)
        })
    }
}

fn stands_still(fault: Fault) -> bool {
    matches!(
        fault,
        Fault::HolderPaused | Fault::ClientSuspended | Fault::ExecutorStarved | Fault::StorePaused
    )
}
