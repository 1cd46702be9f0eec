//! Value mutations: the memory backend with one wrong value at a time, under the cases that a store in memory can show, in
//! virtual time. This program writes `docs/generated/value-mutations.md` with `LEASEHOLD_WRITE_DOCS=1`, and otherwise compares it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that unwraps fails, which is what it is for")]

mod answers;
mod mutant;
mod mutation;
mod mutations;
mod table;
mod values;

use leasehold_conformance::{Case, Harm, Stop, all, run_case_here};
use mutant::Mutant;
use mutation::Mutation;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use values::{COARSE_AND_EARLY, COARSE_AND_LATE, HINTING, OF_HINTS, QUEUED, SOUND, TELLING, Values};

const FAMILIES: &str = "ABCDEFGHKST";

/// Families in one word, or several cases.
fn is_of(case: &Case, families: &str) -> bool {
    match families.contains(' ') {
        true => families.split(' ').any(|id| id == case.id),
        false => case.id.starts_with(|family| families.contains(family)),
    }
}

/// The cases of the families that need nothing but a lock, without those that block a thread, count turns in a time, are a load,
/// or record a history, which is on the clock of the host.
fn cases() -> Vec<Case> {
    const LEFT_OUT: [&str; 8] = ["E12", "G06", "G07", "H11", "S01", "S02", "S03", "T21"];
    let in_virtual_time =
        |case: &Case| is_of(case, FAMILIES) && !LEFT_OUT.contains(&case.id) && case.harm == Harm::None;
    all().filter(in_virtual_time).collect()
}

/// One case on the memory backend with these values, on a clock that jumps to the next event.
fn run(values: Values, case: Case) -> Result<(), Stop> {
    /// In virtual time: longer than any case takes.
    const HANGS: Duration = Duration::from_secs(180);
    fastrand::seed(17);
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let subject = Mutant::subject(values);
        let ended = tokio::time::timeout(HANGS, run_case_here(&subject, case)).await;
        ended.unwrap_or_else(|_| Err(Stop::Failed("it hangs".to_owned())))
    })
}

/// Which cases notice each mutation, in the order of the cases.
fn noticed(mutations: &[Mutation], cases: &[Case]) -> Vec<Vec<&'static str>> {
    let (next, results) = (AtomicUsize::new(0), Mutex::new(vec![Vec::new(); mutations.len()]));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while let Some((at, mutation)) = {
                    let at = next.fetch_add(1, Ordering::SeqCst);
                    mutations.get(at).map(|mutation| (at, mutation))
                } {
                    let fails = |case: &&Case| {
                        run(mutation.values, **case).is_err_and(|stop| stop.failure().is_some())
                    };
                    let looks = |case: &&Case| is_of(case, mutation.families);
                    let by = cases.iter().filter(looks).filter(fails).map(|case| case.id).collect();
                    results.lock().unwrap()[at] = by;
                }
            });
        }
    });
    results.into_inner().unwrap()
}

#[test]
fn unchanged_stores_pass_all_cases() {
    for (values, families, least) in [
        (SOUND, FAMILIES, 75),
        (COARSE_AND_EARLY, FAMILIES, 75),
        (COARSE_AND_LATE, FAMILIES, 75),
        (TELLING, "DE", 20),
        (QUEUED, "ACGH", 14),
        (HINTING, OF_HINTS, 3),
    ] {
        let mut passed = 0;
        for case in cases().into_iter().filter(|case| is_of(case, families)) {
            match run(values, case) {
                Ok(()) => passed += 1,
                Err(Stop::Skipped(_)) => {}
                Err(stop) => panic!("{}: {stop:?}", case.name()),
            }
        }
        assert!(passed >= least, "{passed} cases of {families}");
    }
}

#[test]
fn table_of_mutations_is_up_to_date() {
    // A case may panic over a mutant, and that is not to be read.
    std::panic::set_hook(Box::new(|_| {}));
    let (mutations, cases) = (mutations::all(), cases());
    let noticed = noticed(&mutations, &cases);
    let _ = std::panic::take_hook();
    table::check(&mutations, &noticed).unwrap();
}
