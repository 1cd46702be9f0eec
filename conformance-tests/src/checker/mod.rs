//! Whether a history is the history of a lock.
//!
//! A general search for linearizability gives up where it is needed: a thousand operations, some with unknown outcomes
//! and one violation, are too much for it. Fencing tokens make the search unnecessary. They say in which order the store
//! granted; so each grant is placed as early as it can be, and if one does not fit, nothing does. That takes the time of
//! sorting.
//!
//! Two holds of one name conflict unless both are shared: a reader is placed after the last writer, a writer after all. A permit
//! of a semaphore is a hold of its slot, and each slot is an exclusive lock: so, if no slot is beyond the number of permits, there
//! are never more holders than that.
//!
//! A history that shows nothing is void, and not accepted: too few grants, nobody who met a holder, a fault that hit nobody.

mod effects;
mod evidence;
mod holds;
mod locks;
mod model;
mod order;
mod refusals;
mod report;
mod timeline;
mod waiting;

#[cfg(test)]
mod tests;

pub(crate) use evidence::met_a_hold;
pub(crate) use holds::belief;
#[cfg(test)]
pub(crate) use model::RefusedFor;
pub(crate) use model::{Least, Model};
pub(crate) use report::{CheckReport, Measured, Rule};

use crate::history::{Acquisition, FaultSpan, History};
use leasehold_core::{Fault, HoldKind};
use locks::locks;
use std::collections::HashMap;

/// Holds a history against a model, in the time that it takes to sort it.
pub(crate) fn check(history: &History, model: &Model) -> CheckReport {
    let mut checker = Checker::new(history, model);
    for lock in &locks(history) {
        let in_order = checker.check_tokens(lock);
        // A permit is granted in the order of the gate, and waits for all slots.
        let is_slot = lock.slot.is_some();
        if in_order && !is_slot {
            checker.check_turns(lock);
        }
        checker.check_beliefs(lock);
        checker.check_resurrections(lock);
        let timeline = checker.check_exclusion(lock, in_order);
        checker.check_refusals(&timeline);
        if !is_slot {
            checker.check_wake_ups(&timeline);
            checker.check_crashes(&timeline);
        }
        checker.count_evidence(&timeline);
    }
    checker.check_slots();
    checker.check_deadlines();
    checker.check_effects();
    checker.check_evidence();
    checker.report
}

/// A check under way: what is promised, under what the history came about, and what was found so far.
struct Checker<'a> {
    history: &'a History,
    model: &'a Model,
    /// The processes that were killed, and when.
    kills: HashMap<u32, u64>,
    /// All faults but those that delay nothing. While one lasts, a late hand-over is no violation; a late deadline is the client's own,
    /// and only a process or a store that stands still excuses it.
    disturbances: Vec<&'a FaultSpan>,
    /// What ended holds besides their releases and the store's clock.
    ends: Vec<&'a FaultSpan>,
    report: CheckReport,
}

impl<'a> Checker<'a> {
    fn new(history: &'a History, model: &'a Model) -> Self {
        let spans = |wanted: &dyn Fn(Fault) -> bool| {
            history.faults.iter().filter(|span| wanted(span.fault)).collect::<Vec<_>>()
        };
        let disturbances = spans(&|fault| {
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
        Self {
            history,
            model,
            kills: history.kills(),
            disturbances,
            ends,
            report: CheckReport::against(model),
        }
    }

    /// The disturbances that hit the process in this time.
    fn disturbances(&self, process: u32, from: u64, to: u64) -> impl Iterator<Item = Fault> {
        let hit = move |span: &&&FaultSpan| {
            span.hits(process) && span.from <= to && span.to.is_none_or(|end| end >= from)
        };
        self.disturbances.iter().filter(hit).map(|span| span.fault)
    }

    /// True if a disturbance hit the process in this time.
    fn is_disturbed(&self, process: u32, from: u64, to: u64) -> bool {
        self.disturbances(process, from, to).next().is_some()
    }

    /// The first moment at which a hold that the store confirmed at `point` can have ended without a release.
    fn earliest_end(&self, grant: &Acquisition, point: u64, ttl: u64, until: u64) -> u64 {
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
