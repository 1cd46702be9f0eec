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

mod circumstances;
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
pub(crate) use report::{CheckReport, Rule};

use crate::history::History;
use circumstances::Circumstances;
use locks::locks;
use timeline::Timeline;

/// Holds a history against a model, in the time that it takes to sort it.
pub(crate) fn check(history: &History, model: &Model) -> CheckReport {
    let mut report = CheckReport::against(model);
    let circumstances = Circumstances::new(history, model);
    for lock in &locks(history) {
        let in_order = order::check_tokens(lock, &mut report);
        // A permit is granted in the order of the gate, and waits for all slots.
        let is_slot = lock.slot.is_some();
        if in_order && !is_slot {
            order::check_turns(lock, model, &mut report);
        }
        holds::check_beliefs(lock, &circumstances.kills, &mut report);
        holds::check_resurrections(lock, model, &mut report);
        let timeline = Timeline::new(lock, &circumstances, in_order);
        holds::check_clashes(&timeline, &mut report);
        refusals::check(&timeline, &lock.all, model, &mut report);
        if !is_slot {
            waiting::check(&timeline, &lock.all, &circumstances, &mut report);
        }
        evidence::count(&timeline, &mut report);
    }
    holds::check_slots(history, &mut report);
    waiting::check_deadlines(history, &circumstances, &mut report);
    effects::check(history, &mut report);
    evidence::check(history, &circumstances, &mut report);
    report
}
