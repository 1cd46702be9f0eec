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
//! Every [`Rule`] is checked and reported for itself, because a lock that forgets its tokens is not one that has two
//! owners; and a history that shows nothing is [`Void`](Validity::Void), not accepted: too few grants, nobody who met a
//! holder, a fault that hit nobody.
//!
//! ```
//! # use leasehold_conformance::checker::{Model, Validity, check};
//! # use leasehold_conformance::history::{History, Recorder, RecordedLock, read};
//! # use leasehold_core::{AcquireOptions, DistributedLock, LockClient, LockName, memory::MemoryBackend};
//! # use std::{sync::Arc, time::Duration};
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let directory = tempfile::tempdir()?;
//! let client: Arc<dyn DistributedLock> = Arc::new(LockClient::new(Arc::new(MemoryBackend::new())));
//! let lock = RecordedLock::new(client.clone(), Recorder::create(directory.path())?);
//! let name = LockName::new("job")?;
//! for _ in 0..20 {
//!     let guard = lock.acquire(&name, &AcquireOptions::new()).await?;
//!     guard.observe()?;
//!     guard.release().await?;
//! }
//! let history = History::from_events(read(directory.path())?)?;
//! let model = Model::from_semantics(client.semantics(), AcquireOptions::DEFAULT_TTL, Duration::from_secs(1));
//! let report = check(&history, &model);
//! assert_eq!(report.validity(), Validity::Void, "nobody has contended: {report}");
//! assert_eq!(check(&history, &model.with_least(20, 0, 0)).validity(), Validity::Accepted);
//! # Ok(()) }
//! ```

mod belief;
mod circumstances;
mod effects;
mod evidence;
mod exclusion;
mod locks;
mod model;
mod order;
mod refusals;
mod report;
mod resurrection;
mod timeline;
mod unseen;
mod waiting;

#[cfg(test)]
mod tests;

pub(crate) use belief::belief;
pub(crate) use evidence::met_a_hold;
pub use model::{Least, Model, RefusedFor};
pub use report::{CheckReport, Measured, Rule, Updates, Validity, Violation};

use crate::history::History;
use circumstances::Circumstances;
use locks::locks;
use timeline::{Ends, Timeline};

/// Holds a history against a model, in the time that it takes to sort it.
pub fn check(history: &History, model: &Model) -> CheckReport {
    let mut report = CheckReport::against(model);
    let (ends, circumstances) = (Ends::new(model, history), Circumstances::new(history, model));
    for lock in &locks(history) {
        let in_order = order::check_tokens(lock, &mut report);
        // A permit is granted in the order of the gate, and waits for all slots.
        let is_slot = lock.slot.is_some();
        if in_order && !is_slot {
            order::check_turns(lock, model, &mut report);
        }
        belief::check(lock, &circumstances.kills, &mut report);
        resurrection::check(lock, model, &mut report);
        let timeline = Timeline::new(lock, &ends, in_order);
        exclusion::check(&timeline, &mut report);
        refusals::check(&timeline, &lock.all, model, &mut report);
        if !is_slot {
            waiting::check(&timeline, &lock.all, &circumstances, &mut report);
        }
        evidence::count(&timeline, &mut report);
    }
    exclusion::check_slots(history, &mut report);
    waiting::check_deadlines(history, &circumstances, &mut report);
    effects::check(history, &mut report);
    evidence::check(history, &circumstances, &mut report);
    report
}
