//! Whether a history is the history of a lock.
//!
//! A general search for linearizability gives up where it is needed: a thousand operations, some with unknown outcomes
//! and one violation, are too much for it. Fencing tokens make the search unnecessary. They say in which order the store
//! granted; so each grant is placed as early as it can be, and if one does not fit, nothing does. That takes the time of
//! sorting.
//!
//! Every [`Rule`] is checked and reported for itself, because a lock that forgets its tokens is not one that has two
//! owners; and a history that shows nothing is [`Void`](Verdict::Void), not accepted: too few grants, nobody who met a
//! holder, a fault that hit nobody.
//!
//! ```
//! # use leasehold_conformance::checker::{Model, Verdict, check};
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
//! let model = Model::of(client.semantics(), AcquireOptions::DEFAULT_TTL, Duration::from_secs(1));
//! let report = check(&history, &model);
//! assert_eq!(report.verdict(), Verdict::Void, "nobody has contended: {report}");
//! assert_eq!(check(&history, &model.with_least(20, 0, 0)).verdict(), Verdict::Accepted);
//! # Ok(()) }
//! ```

mod belief;
mod effects;
mod evidence;
mod exclusion;
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
pub use report::{Measured, Report, Rule, Updates, Verdict, Violation};

use crate::history::{Acquisition, History};
use model::nanos;
use timeline::{Ends, Timeline};
use waiting::Pauses;

/// Holds a history against a model, in the time that it takes to sort it.
pub fn check(history: &History, model: &Model) -> Report {
    let mut report = Report::against(model);
    let kills = history.kills();
    let (ends, pauses) = (Ends::new(model, history), Pauses::new(history));
    for (name, all) in by_name(history) {
        let grants: Vec<_> = all.iter().filter_map(|one| Some((*one, one.hold()?))).collect();
        let in_order = order::check_tokens(name, &grants, &mut report);
        if let Some(settled) = model.order.filter(|_| in_order) {
            order::check_fifo(name, &grants, nanos(settled), &mut report);
        }
        belief::check(name, &grants, &kills, &mut report);
        resurrection::check(name, &grants, model, &mut report);
        let timeline = Timeline::new(name, grants, &ends, in_order);
        exclusion::check(&timeline, &mut report);
        refusals::check(&timeline, &all, model, &mut report);
        waiting::check(&timeline, &all, &pauses, &kills, model, &mut report);
        evidence::count(&timeline, &mut report);
    }
    effects::check(history, &mut report);
    evidence::check(history, &kills, model, &mut report);
    report
}

fn by_name(history: &History) -> impl Iterator<Item = (&str, Vec<&Acquisition>)> {
    let mut groups: Vec<Vec<&Acquisition>> = history.names.iter().map(|_| Vec::new()).collect();
    for acquisition in &history.acquisitions {
        groups[acquisition.name as usize].push(acquisition);
    }
    history.names.iter().map(|name| &**name).zip(groups)
}
