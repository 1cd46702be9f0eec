//! Cases of some subjects, run as a whole.

use super::host_capacity::in_parallel;
use super::judge::judge;
use super::result::CaseResult;
use crate::case::{Case, Harm};
use crate::cases::all;
use crate::locked;
use crate::run_config::{Names, RunConfig};
use crate::subject::Subject;
use leasehold_core::LockName;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Every case against some subjects, for a program that wants results and not lines.
///
/// ```no_run
/// # fn subjects() -> Vec<std::sync::Arc<dyn leasehold_conformance::Subject>> { Vec::new() }
/// use leasehold_conformance::{CaseEvent, Run, Tally};
///
/// let run = Run::new(subjects()).with_filter("fencing");
/// let results = run.execute(&|event: CaseEvent<'_>| {
///     if let CaseEvent::Finished(result) = event {
///         println!("{} took {} ms", result.name(), result.took_ms);
///     }
/// });
/// println!("{}", Tally::count(&results));
/// ```
///
/// Worker processes of the cases are this program, executed again: its `main` begins with
/// [`serve_as_worker`](crate::serve_as_worker).
#[derive(Debug)]
pub struct Run {
    subjects: Vec<Arc<dyn Subject>>,
    filters: Vec<String>,
    threads: usize,
    harmless: bool,
    config: RunConfig,
}

/// What happens in a run. Told from the threads that run the cases, many at once.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_enums, reason = "complete: a case begins and ends")]
pub enum CaseEvent<'a> {
    /// A case has begun, on this subject. A case whose first attempt is interrupted never ends.
    Started(&'a str, Case),
    /// A case has ended.
    Finished(&'a CaseResult),
}

impl Run {
    /// On how many threads cases run if nothing is said. 20 cases run at once; the other threads wait for a share of the machine, for
    /// a first attempt or, when the others are over, a second one.
    pub const THREADS: usize = 512;

    /// All cases against these subjects, with a seed of its own or the one in `LEASEHOLD_SEED`.
    pub fn new(subjects: Vec<Arc<dyn Subject>>) -> Self {
        let config = RunConfig::from_environment();
        Self { subjects, filters: Vec::new(), threads: Self::THREADS, harmless: false, config }
    }

    /// Only cases whose line, `redis::A02_held_lock_…`, has this in it. With several: any of them.
    #[must_use]
    pub fn with_filter(mut self, text: impl Into<String>) -> Self {
        self.filters.push(text.into());
        self
    }

    /// On how many threads cases run, one at least. No more than 20 cases run at once; cases that need more of the machine have
    /// [more](crate::HostShare) of it to themselves.
    #[must_use]
    pub fn with_threads(mut self, threads: usize) -> Self {
        self.threads = threads.max(1);
        self
    }

    /// Makes the random choices of the cases from this.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.config.seed = seed;
        self
    }

    /// For a store that others use: names of locks begin with this, and cases that do such a store [`Harm`] are skipped.
    /// What was used is to be asked for [afterwards](Self::names).
    #[must_use]
    pub fn harmless_below(mut self, root: impl Into<String>) -> Self {
        self.harmless = true;
        self.config.root = root.into();
        self.config.names = Some(Names::default());
        self
    }

    /// What the random choices are made from.
    pub fn seed(&self) -> u64 {
        self.config.seed
    }

    /// Cancelled, from any thread, it ends the run early.
    pub fn interrupt(&self) -> CancellationToken {
        self.config.interrupt.clone()
    }

    /// The names that its cases have used so far, if it is a [harmless](Self::harmless_below) one.
    pub fn names(&self) -> Vec<LockName> {
        let Some(names) = &self.config.names else { return Vec::new() };
        locked(names).iter().cloned().collect()
    }

    /// What it would run, in an order of its own.
    pub fn plan(&self) -> Vec<(Arc<dyn Subject>, Case)> {
        let of_subject = |subject| all().map(move |case| (Arc::clone(subject), case));
        let wanted = |(subject, case): &(Arc<dyn Subject>, Case)| {
            let line = format!("{}::{}", subject.name(), case.name());
            self.filters.is_empty() || self.filters.iter().any(|filter| line.contains(filter))
        };
        self.subjects.iter().flat_map(of_subject).filter(wanted).collect()
    }

    /// Runs it, on threads of its own, and returns when all is over. The results are in the order in which they came. The observer
    /// should return at once: a case waits for it.
    ///
    /// Blocks this thread: call it from one that no runtime needs.
    pub fn execute(&self, observer: &(dyn Fn(CaseEvent<'_>) + Sync)) -> Vec<CaseResult> {
        let mut plan = self.plan();
        mix(&mut plan);
        in_parallel(self.threads, plan, |(subject, case)| self.one(&subject, case, observer))
    }

    /// Runs one case of the plan. `None` if it was interrupted.
    pub(super) fn one(
        &self,
        subject: &Arc<dyn Subject>,
        case: Case,
        observer: &(dyn Fn(CaseEvent<'_>) + Sync),
    ) -> Option<CaseResult> {
        let begun = || observer(CaseEvent::Started(subject.name(), case));
        let result = match case.harm {
            harm if self.harmless && harm != Harm::None => CaseResult::spared(subject.name(), case),
            _ => judge(subject, case, &self.config, begun)?,
        };
        observer(CaseEvent::Finished(&result));
        Some(result)
    }
}

/// In the same order each time. Neither all cases of one store at once, which would want as many servers of it, nor one case
/// of all stores, which load the machine alike. Cases that need more of it wait until there is room for them: one after the
/// other at the end, they wait for that once.
pub(super) fn mix<S>(pairs: &mut [(S, Case)]) {
    fastrand::Rng::with_seed(1).shuffle(pairs);
    pairs.sort_by_key(|(_, case)| case.share);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::HostShare;
    use crate::runner::result::Tally;
    use crate::stop::Stop;
    use crate::subject::Store;
    use async_trait::async_trait;
    use leasehold_core::memory::MemoryBackend;
    use leasehold_core::{DistributedLock, LockClient, Result};
    use std::sync::Mutex;

    /// Locks in memory, of one client: enough for cases of one process.
    #[derive(Debug)]
    struct Small(Arc<LockClient>);

    #[derive(Debug)]
    struct Here;

    impl Store for Here {
        fn address(&self) -> String {
            String::new()
        }
    }

    #[async_trait]
    impl Subject for Small {
        fn name(&self) -> &str {
            "small"
        }

        async fn start(&self) -> std::result::Result<Box<dyn Store>, Stop> {
            Ok(Box::new(Here))
        }

        async fn connect(&self, _: &str) -> Result<Arc<dyn DistributedLock>> {
            Ok(self.0.clone())
        }
    }

    fn run() -> Run {
        Run::new(vec![Arc::new(Small(Arc::new(LockClient::new(Arc::new(MemoryBackend::new())))))])
    }

    #[test]
    fn results_are_values_and_events_come_in_order() {
        let events = Mutex::new(Vec::new());
        let run = run().with_filter("A01").with_filter("A08").with_threads(1);
        let results = run.execute(&|event: CaseEvent<'_>| {
            events.lock().unwrap().push(match event {
                CaseEvent::Started(subject, case) => format!("{subject}::{} begins", case.id),
                CaseEvent::Finished(result) => format!("{}::{} ends", result.subject, result.case),
            });
        });
        let expected = ["small::A01 begins", "small::A01 ends", "small::A08 begins", "small::A08 ends"];
        assert_eq!(*events.lock().unwrap(), expected);
        assert_eq!(Tally::count(&results).to_string(), "1 passed, 0 failed, 1 skipped");
    }

    #[test]
    fn shared_store_gets_names_below_a_root_and_no_harm() {
        let run = run().with_filter("A01").with_filter("D16").with_filter("P12").harmless_below("suite/");
        let results = run.execute(&|_: CaseEvent<'_>| {});
        assert_eq!(Tally::count(&results).to_string(), "1 passed, 0 failed, 2 skipped");
        let names = run.names();
        assert!(
            !names.is_empty() && names.iter().all(|name| name.as_str().starts_with("suite/A01-")),
            "{names:?}"
        );
    }

    #[test]
    fn interrupted_run_ends_without_the_rest() {
        let run = run().with_threads(2);
        let interrupt = run.interrupt();
        let results = run.execute(&|_: CaseEvent<'_>| interrupt.cancel());
        assert!(results.len() <= 2, "{results:?}");
    }

    #[test]
    fn cases_that_need_the_machine_are_last_in_the_plan() {
        let mut plan = run().plan();
        mix(&mut plan);
        assert!(plan.iter().any(|(_, case)| case.share == HostShare::Whole));
        assert!(plan.is_sorted_by_key(|(_, case)| case.share));
    }
}
