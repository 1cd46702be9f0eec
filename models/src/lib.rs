//! Protocols of Leasehold as state machines, explored by a model checker: every order of events within stated bounds, not
//! some of them. A crate of its own because it is compiled for speed also where tests are not.
//!
//! * `tests/redlock`: the tokens of Redlock.
//! * `tests/zookeeper`: the queue of ephemeral nodes, and the sessions that it hangs on.
//! * `tests/sql_lease`: the row of a lease, and the database's clock that it hangs on.
//! * `tests/etcd_lease`: a holder's belief over a change of leaders.
//!
//! Each finds what is known to be wrong, by name, before what is built here is explored to the end: a model that cannot
//! fail proves nothing. What each run has explored or refuted stands in `docs/generated/models.md`, and a run that finds another
//! number of states there than it has seen fails.

#![allow(
    clippy::panic,
    clippy::print_stdout,
    reason = "for tests: one that panics fails, and what was explored is for people"
)]

mod machine;
mod table;

pub use machine::{Explored, Machine};
pub use table::names_the_runs_of_this_program;

use rustix::time::{ClockId, clock_gettime};
use stateright::{Checker, HasDiscoveries, Model};

/// Explores all of it, and panics at the first promise that does not hold, or if the documents know of another number of
/// states. The run is called like the test that it is.
pub fn holds<M: Machine>(machine: M) {
    let bounds = machine.bounds();
    let (checker, took) = explore(&bounds, machine, HasDiscoveries::AnyFailures);
    checker.assert_properties();
    table::agrees(&bounds, &grouped(checker.unique_state_count()), &took);
}

/// Explores until `expected` is found not to hold, and prints how. Panics if it holds, or if the documents do not say so.
pub fn fails<M: Machine>(machine: M, expected: &'static str) {
    let bounds = machine.bounds();
    let (checker, _) = explore(&bounds, machine, HasDiscoveries::AnyOf([expected].into()));
    let Some(path) = checker.discovery(expected) else {
        panic!("{expected:?} holds of a protocol that is known to be wrong");
    };
    println!("  not {expected}: {:?}", path.into_actions());
    table::agrees(&bounds, &format!("not {expected}"), "");
}

fn explore<M: Machine>(
    bounds: &str,
    machine: M,
    until: HasDiscoveries,
) -> (impl Checker<Explored<M>>, String) {
    let start = processor_seconds();
    let checker = Explored(machine).checker().threads(threads()).finish_when(until).spawn_bfs().join();
    let (states, depth, took) =
        (checker.unique_state_count(), checker.max_depth(), processor_seconds() - start);
    let took = format!("{took:.1}");
    println!("{bounds}: {states} states, up to {depth} steps, in {took} s of a processor");
    (checker, took)
}

/// As many as tests may run at once: two, unless it is said.
fn threads() -> usize {
    let asked = std::env::var("RUST_TEST_THREADS").ok().and_then(|number| number.parse().ok());
    asked.unwrap_or(2).clamp(1, 2)
}

/// The processor time of this program, with all tests that run beside this one. It is the same on a busy machine as on a quiet one.
fn processor_seconds() -> f64 {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 / 1e9
}

/// `1 234 567`.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    groups.join(" ")
}
