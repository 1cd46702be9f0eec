//! Model checking of Leasehold's lock protocols: each one is a state machine, and every order of its events within stated bounds is
//! explored. The models are a crate of their own because Cargo sets the optimization level per crate, and the tests of the others
//! are not optimized.
//!
//! * `tests/redlock`: the fencing tokens of Redlock.
//! * `tests/zookeeper`: the queue of ephemeral nodes, and the sessions that keep them.
//! * `tests/sql_lease`: the row of a lease, and the clock of the database.
//! * `tests/etcd_lease`: leases and keys while the leader changes.
//!
//! Each model has two kinds of tests. [`refute`] expects a counterexample for a variant with a known fault, which shows that the model
//! can express it. [`verify`] explores the implemented protocol completely. `docs/generated/models.md` records the result of every
//! test, and a test fails if its result differs from its row there.

#![allow(
    clippy::panic,
    clippy::print_stdout,
    reason = "test support: a panic fails the test, and results are printed for the reader"
)]

mod protocol;
mod table;

pub use protocol::{Protocol, ProtocolModel};
pub use table::check_run_list;

use rustix::time::{ClockId, clock_gettime};
use stateright::{Checker, HasDiscoveries, Model};

/// Explores all states within the bounds. Panics if a property fails, or if the number of states differs from the row of this test in
/// the table.
pub fn verify<P: Protocol>(protocol: P) {
    let bounds = protocol.bounds();
    let (checker, seconds) = explore(&bounds, protocol, HasDiscoveries::AnyFailures);
    checker.assert_properties();
    table::check_run(&bounds, &group_digits(checker.unique_state_count()), &seconds);
}

/// Explores until a counterexample to `property` is found, and prints it. Panics if there is none, or if the row of this test in the
/// table differs.
pub fn refute<P: Protocol>(protocol: P, property: &'static str) {
    let bounds = protocol.bounds();
    let (checker, _) = explore(&bounds, protocol, HasDiscoveries::AnyOf([property].into()));
    let Some(path) = checker.discovery(property) else {
        panic!("no counterexample to {property:?} in a protocol that has a known fault");
    };
    println!("  not {property}: {:?}", path.into_actions());
    table::check_run(&bounds, &format!("not {property}"), "");
}

/// The checker after the exploration, and the CPU seconds that it took.
fn explore<P: Protocol>(
    bounds: &str,
    protocol: P,
    until: HasDiscoveries,
) -> (impl Checker<ProtocolModel<P>>, String) {
    let start = cpu_seconds();
    let checker =
        ProtocolModel(protocol).checker().threads(thread_count()).finish_when(until).spawn_bfs().join();
    let (states, depth) = (checker.unique_state_count(), checker.max_depth());
    let seconds = format!("{:.1}", cpu_seconds() - start);
    println!("{bounds}: {states} states, depth {depth}, {seconds} s of CPU time");
    (checker, seconds)
}

/// Two, or one if `RUST_TEST_THREADS` is 1.
fn thread_count() -> usize {
    let test_threads = std::env::var("RUST_TEST_THREADS").ok().and_then(|number| number.parse().ok());
    test_threads.unwrap_or(2).clamp(1, 2)
}

/// CPU time of this process, including tests that run at the same time. Unlike wall time it does not depend on the load of the host.
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// `1 234 567`.
fn group_digits(number: usize) -> String {
    let digits = number.to_string();
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    groups.join(" ")
}
