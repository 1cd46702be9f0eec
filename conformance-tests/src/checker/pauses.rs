use crate::history::{FaultSpan, History};
use leasehold_core::Fault;

/// Processes and stores that stood still: what happened meanwhile took as long as it took. And stores that were away, or
/// started again: they hand nothing over meanwhile. But a deadline is the client's own, and is kept without them.
pub(super) struct Pauses<'a> {
    spans: Vec<&'a FaultSpan>,
}

/// The pauses that excuse a rule: of clients and stores that stand still, or also of stores that are away.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PauseKind {
    Stalled,
    StalledOrAway,
}

impl<'a> Pauses<'a> {
    pub(super) fn new(history: &'a History) -> Self {
        let still = |span: &&FaultSpan| {
            !matches!(
                span.fault,
                Fault::None | Fault::HolderKilled | Fault::RecordDeleted | Fault::ClientClockJumps
            )
        };
        Self { spans: history.faults.iter().filter(still).collect() }
    }

    pub(super) fn hit(&self, kind: PauseKind, process: u32, from: u64, to: u64) -> bool {
        self.spans.iter().any(|span| {
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
