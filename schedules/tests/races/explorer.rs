//! Runs a race under many schedules.

use shuttle::scheduler::{PctScheduler, RandomScheduler, ReplayScheduler, Scheduler};
use shuttle::{Config, FailurePersistence, Runner};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::str::FromStr;
use std::time::Instant;

/// The number of schedules that each of the two strategies tries, and the seed of their choices. The seed is the same in
/// every run, so that only a change of the code changes a result.
const SCHEDULES: usize = 4_000;
const SEED: u64 = 1;

/// The number of priority changes in a schedule of [`Strategy::Pct`]. Few bugs need more.
const PRIORITY_CHANGES: usize = 3;

/// Runs a race under many schedules. It fails if the race panics or deadlocks in one of them.
pub(crate) fn race<F: Future<Output = ()> + 'static>(name: &str, race: fn() -> F) {
    if let Ok(schedule) = std::env::var("LEASEHOLD_SCHEDULE") {
        return run(ReplayScheduler::new_from_encoded(&schedule), race);
    }
    let schedules = number("LEASEHOLD_SCHEDULES", SCHEDULES);
    let start = Instant::now();
    for strategy in Strategy::BOTH {
        strategy.run(schedules, race);
    }
    println!("{name}: {} schedules in {:.1?}", 2 * schedules, start.elapsed());
}

/// Runs a race that has a known defect, and fails unless each strategy finds it with one of these messages: a strategy that
/// misses a known defect proves nothing about the others.
pub(crate) fn race_fails<F: Future<Output = ()> + 'static>(messages: &[&str], race: fn() -> F) {
    for strategy in Strategy::BOTH {
        let Err(panic) = catch_unwind(AssertUnwindSafe(|| strategy.run(SCHEDULES, race))) else {
            panic!("{strategy:?} found nothing, expected {messages:?}");
        };
        let found = panic.downcast_ref::<String>().map(String::as_str);
        let found = found.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or_default();
        let is_expected = messages.iter().any(|message| found.contains(message));
        assert!(is_expected, "{strategy:?} found {found:?}, expected {messages:?}");
    }
}

/// How the next task is chosen.
#[derive(Clone, Copy, Debug)]
enum Strategy {
    /// At random.
    Random,
    /// By random priorities that change a few times. Finds a bug that needs one certain task to be late (Burckhardt et al., *A
    /// Randomized Scheduler with Probabilistic Guarantees of Finding Bugs*, ASPLOS 2010).
    Pct,
}

impl Strategy {
    const BOTH: [Self; 2] = [Self::Random, Self::Pct];

    fn run<F: Future<Output = ()> + 'static>(self, schedules: usize, race: fn() -> F) {
        let seed = number("LEASEHOLD_SEED", SEED);
        match self {
            Self::Random => run(RandomScheduler::new_from_seed(seed, schedules), race),
            Self::Pct => run(PctScheduler::new_from_seed(seed, PRIORITY_CHANGES, schedules), race),
        }
    }
}

fn run<F: Future<Output = ()> + 'static>(scheduler: impl Scheduler + 'static, race: fn() -> F) {
    let mut config = Config::new();
    // Enough for the deepest future of the core without optimisation.
    config.stack_size = 0x4_0000;
    config.failure_persistence = FailurePersistence::Print;
    // Shuttle warns that it treats every memory order as `SeqCst`; `main.rs` says so.
    config.silence_warnings = true;
    Runner::new(scheduler, config).run(move || shuttle::future::block_on(race()));
}

fn number<N: FromStr>(variable: &str, default: N) -> N {
    match std::env::var(variable) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{variable}={text:?} is no number")),
        Err(_) => default,
    }
}
