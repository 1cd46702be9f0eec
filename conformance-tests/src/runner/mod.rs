//! Runs cases against subjects.
//!
//! | looking for | it is in |
//! |---|---|
//! | one named line each, in the form of `cargo test` | `libtest.rs` |
//! | results as values, for a program | [`Run`], here |
//! | one case, watched | `one.rs` |
//! | how many at once | `host_capacity.rs` |
//! | what came of it | `result.rs` |

mod host_capacity;
mod libtest;
mod one;
mod result;
mod run_config;

pub use libtest::run;
pub use one::{run_case, run_case_here};
pub use result::{CaseOutcome, CaseResult, Tally};
pub use run_config::Interrupt;

pub(crate) use host_capacity::HostCapacity;
pub(crate) use one::{in_runtime, in_time};
pub(crate) use run_config::RunConfig;

use crate::case::{Case, Harm};
use crate::cases::all;
use crate::subject::Subject;
use leasehold_core::LockName;
use one::in_turn;
use run_config::Names;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

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
/// println!("{}", Tally::of(&results));
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
    /// A case has begun, on this subject. An interrupted case never ends.
    Started(&'a str, Case),
    /// A case has ended.
    Finished(&'a CaseResult),
}

/// Receives the events of a run. Any function of a [`CaseEvent`] is an observer.
pub trait RunObserver: Sync {
    /// Takes the next event. It should return at once: a case waits for it.
    fn observe(&self, event: CaseEvent<'_>);
}

impl<F: Fn(CaseEvent<'_>) + Sync> RunObserver for F {
    fn observe(&self, event: CaseEvent<'_>) {
        self(event);
    }
}

impl Run {
    /// How many cases run at once if nothing is said. They mostly wait.
    pub const THREADS: usize = 16;

    /// All cases against these subjects, with a seed of its own or the one in `LEASEHOLD_SEED`.
    pub fn new(subjects: Vec<Arc<dyn Subject>>) -> Self {
        let config = RunConfig::of_environment();
        Self { subjects, filters: Vec::new(), threads: Self::THREADS, harmless: false, config }
    }

    /// Only cases whose line, `redis::A02_held_lock_…`, has this in it. With several: any of them.
    #[must_use]
    pub fn with_filter(mut self, text: impl Into<String>) -> Self {
        self.filters.push(text.into());
        self
    }

    /// How many cases run at once, one at least. Cases that need more of the machine have [more](crate::HostShare) of it to
    /// themselves.
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

    /// Ends the run early, from any thread.
    pub fn interrupt(&self) -> Interrupt {
        self.config.interrupt.clone()
    }

    /// The names that its cases have used so far, if it is a [harmless](Self::harmless_below) one.
    pub fn names(&self) -> Vec<LockName> {
        let lock =
            |names: &Names| names.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect();
        self.config.names.as_ref().map_or_else(Vec::new, lock)
    }

    /// The name of a subject, by its number in the [plan](Self::plan).
    ///
    /// # Panics
    ///
    /// If there is none of this number.
    pub fn subject(&self, number: usize) -> &str {
        self.subjects[number].name()
    }

    /// What it would run, in an order of its own: the number of the subject among those that were given, and the case.
    pub fn plan(&self) -> Vec<(usize, Case)> {
        let of = |(index, subject): (usize, &Arc<dyn Subject>)| {
            let name = subject.name().to_owned();
            let wanted = move |case: &Case| self.wants(&format!("{name}::{}", case.name()));
            all().filter(wanted).map(move |case| (index, case))
        };
        self.subjects.iter().enumerate().flat_map(of).collect()
    }

    /// Runs it, on threads of its own, and returns when all is over. The results are in the order in which they came.
    ///
    /// Blocks this thread: call it from one that no runtime needs.
    pub fn execute(&self, observer: &dyn RunObserver) -> Vec<CaseResult> {
        let mut plan = self.plan();
        mix(&mut plan);
        let (left, results) = (Mutex::new(VecDeque::from(plan)), Mutex::new(Vec::new()));
        let next = || left.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        std::thread::scope(|scope| {
            for _ in 0..self.threads {
                scope.spawn(|| {
                    while let Some((subject, case)) = next() {
                        let Some(result) = self.one(subject, case, observer) else { break };
                        results.lock().unwrap_or_else(PoisonError::into_inner).push(result);
                    }
                });
            }
        });
        results.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn one(&self, subject: usize, case: Case, observer: &dyn RunObserver) -> Option<CaseResult> {
        let subject = &self.subjects[subject];
        let begun = || observer.observe(CaseEvent::Started(subject.name(), case));
        let result = match case.harm {
            harm if self.harmless && harm != Harm::None => CaseResult::spared(subject.name(), case),
            _ => in_turn(subject, case, &self.config, begun)?,
        };
        observer.observe(CaseEvent::Finished(&result));
        Some(result)
    }

    fn wants(&self, name: &str) -> bool {
        self.filters.is_empty() || self.filters.iter().any(|filter| name.contains(filter.as_str()))
    }
}

/// In the same order each time. Neither all cases of one store at once, which would want as many servers of it, nor one case
/// of all stores, which load the machine alike. Cases that need more of it wait until there is room for them: one after the
/// other at the end, they wait for that once.
fn mix<S>(pairs: &mut [(S, Case)]) {
    fastrand::Rng::with_seed(1).shuffle(pairs);
    pairs.sort_by_key(|(_, case)| case.share);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::HostShare;
    use crate::subject::{Cannot, Store};
    use async_trait::async_trait;
    use leasehold_core::memory::MemoryBackend;
    use leasehold_core::{DistributedLock, LockClient, Result};

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

        async fn start(&self) -> std::result::Result<Box<dyn Store>, Cannot> {
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
        assert_eq!(Tally::of(&results).to_string(), "1 passed, 0 failed, 1 skipped");
    }

    #[test]
    fn in_a_store_that_others_use_names_have_a_root_and_harm_is_spared() {
        let run = run().with_filter("A01").with_filter("D16").with_filter("P12").harmless_below("suite/");
        let results = run.execute(&|_: CaseEvent<'_>| {});
        assert_eq!(Tally::of(&results).to_string(), "1 passed, 0 failed, 2 skipped");
        let names = run.names();
        assert!(
            !names.is_empty() && names.iter().all(|name| name.as_str().starts_with("suite/A01-")),
            "{names:?}"
        );
    }

    #[test]
    fn an_interrupted_run_ends_without_the_rest() {
        let run = run().with_threads(2);
        let interrupt = run.interrupt();
        let results = run.execute(&|_: CaseEvent<'_>| interrupt.interrupt());
        assert!(results.len() <= 2, "{results:?}");
    }

    #[test]
    fn those_that_need_the_machine_wait_for_the_others_once() {
        let mut plan = run().plan();
        mix(&mut plan);
        assert!(plan.iter().any(|(_, case)| case.share == HostShare::Whole));
        assert!(plan.is_sorted_by_key(|(_, case)| case.share));
    }
}
