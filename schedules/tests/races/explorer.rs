//! Runs a race under many schedules.

use shuttle::scheduler::{PctScheduler, RandomScheduler, ReplayScheduler, Scheduler};
use shuttle::{Config, FailurePersistence, Runner};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::str::FromStr;
use std::time::Instant;

/// How many schedules each of two schedulers tries, and the choices that they begin with. The same in every run: who changes
/// the core, and nobody else, makes a race fail.
const SCHEDULES: usize = 4_000;
const SEED: u64 = 1;

/// The running task changes so often at points that matter; more are rarely needed for a bug.
const CHANGES: usize = 3;

/// Runs a race under many schedules. One in which nobody can go on fails, like one that panics.
pub(crate) fn race<F: Future<Output = ()> + 'static>(name: &str, race: fn() -> F) {
    if let Ok(schedule) = std::env::var("LEASEHOLD_SCHEDULE") {
        return run(ReplayScheduler::new_from_encoded(&schedule), race);
    }
    let schedules = number("LEASEHOLD_SCHEDULES", SCHEDULES);
    let start = Instant::now();
    for scheduler in Schedulers::BOTH {
        scheduler.run(schedules, race);
    }
    println!("{name}: {} schedules in {:.1?}", 2 * schedules, start.elapsed());
}

/// Runs a race of something that is known to be wrong, until each scheduler has found it: one that cannot shows nothing by
/// what it does not find.
pub(crate) fn finds<F: Future<Output = ()> + 'static>(symptoms: &[&str], race: fn() -> F) {
    for scheduler in Schedulers::BOTH {
        let Err(found) = catch_unwind(AssertUnwindSafe(|| scheduler.run(SCHEDULES, race))) else {
            panic!("{scheduler:?} found nothing, instead of {symptoms:?}");
        };
        let said = found.downcast_ref::<String>().map(String::as_str);
        let said = said.or_else(|| found.downcast_ref::<&str>().copied()).unwrap_or_default();
        let expected = symptoms.iter().any(|symptom| said.contains(symptom));
        assert!(expected, "{scheduler:?} found {said:?} instead of {symptoms:?}");
    }
}

/// By chance; and by chance with few changes of the running task, which finds what needs a certain one to be late
/// (Burckhardt et al., *A Randomized Scheduler with Probabilistic Guarantees of Finding Bugs*, ASPLOS 2010).
#[derive(Clone, Copy, Debug)]
enum Schedulers {
    Random,
    FewChanges,
}

impl Schedulers {
    const BOTH: [Self; 2] = [Self::Random, Self::FewChanges];

    fn run<F: Future<Output = ()> + 'static>(self, schedules: usize, race: fn() -> F) {
        let seed = number("LEASEHOLD_SEED", SEED);
        match self {
            Self::Random => run(RandomScheduler::new_from_seed(seed, schedules), race),
            Self::FewChanges => run(PctScheduler::new_from_seed(seed, CHANGES, schedules), race),
        }
    }
}

fn run<F: Future<Output = ()> + 'static>(scheduler: impl Scheduler + 'static, race: fn() -> F) {
    let mut config = Config::new();
    // Enough for the deepest future of the core without optimisation.
    config.stack_size = 0x4_0000;
    config.failure_persistence = FailurePersistence::Print;
    // It warns that it takes every order of memory for `SeqCst`; `main.rs` says so.
    config.silence_warnings = true;
    Runner::new(scheduler, config).run(move || shuttle::future::block_on(race()));
}

fn number<N: FromStr>(variable: &str, otherwise: N) -> N {
    match std::env::var(variable) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{variable}={text:?} is no number")),
        Err(_) => otherwise,
    }
}
