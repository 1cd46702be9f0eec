//! How long a comparison takes, before it begins. To correct it, measure the parts again and write the times into the tables.

use super::candidate::Candidate;
use crate::args::{CompareArgs, ComparePart};
use crate::background::CELLS_AT_ONCE;
use crate::measure::Plan;
use leasehold::semantics::Fault;
use leasehold_conformance::{Case, HostShare};
use leasehold_console::brief;
use std::time::Duration;

/// A case of private stores, 20 of them at once: 6,095 cases took 447 s on 2026-11-29, on two cores.
const CASE: Duration = Duration::from_millis(73);
/// A fault, which mostly waits: 372 of them, 12 at once, took 249 s in the same run.
const CELL: Duration = Duration::from_secs(8);
/// All cases, in one store of the user's, in seconds: `conformance URL` on 2026-11-30, four cases at once (one on SQLite), load 6.
const SUITE_OF_A_USERS_STORE: [(&str, u64); 2] = [("zookeeper", 84), ("sqlite", 167)];
/// The same for any other backend: Redis took 43 s, PostgreSQL 45 s, and MariaDB 44 s.
const SUITE_OF_ANOTHER: u64 = 44;

/// `about 9m on two idle processors, once the stores are there: the suite 6m, faults 2m, speed 1m`.
pub(super) fn estimate(args: &CompareArgs, candidates: &[Candidate]) -> String {
    let there: Vec<&Candidate> = candidates.iter().filter(|candidate| candidate.is_there()).collect();
    let private = there.iter().filter(|candidate| candidate.user_store.is_none()).count() as u32;
    let is_run = |case: &Case| !args.quick || case.share == HostShare::Usual;
    let cases = leasehold_conformance::all().filter(is_run).count() as u32;
    let share = f64::from(cases) / leasehold_conformance::all().count() as f64;
    let of_users = there.iter().filter(|candidate| candidate.user_store.is_some()).map(|candidate| {
        let declared = candidate.report.declared.as_ref();
        let known = SUITE_OF_A_USERS_STORE.iter();
        let known = known.copied().find(|(backend, _)| declared.is_some_and(|of| of.backend == *backend));
        Duration::from_secs(known.map_or(SUITE_OF_ANOTHER, |(_, seconds)| seconds)).mul_f64(share)
    });
    let plan = Plan::comparing(args.quick, args.bench_time, true);
    let faults = if args.preset.is_some() { private * Fault::ALL.len() as u32 } else { 0 };
    let parts = [
        (ComparePart::Suite, "the suite", CASE * private * cases + of_users.sum::<Duration>()),
        (ComparePart::Faults, "faults", CELL * faults / CELLS_AT_ONCE as u32),
        (ComparePart::Bench, "speed", plan.estimate(&plan.rows) * there.len() as u32),
    ];
    let wanted = |part| args.only.is_empty() || args.only.contains(&part);
    let parts: Vec<_> =
        parts.into_iter().filter(|(part, _, time)| wanted(*part) && !time.is_zero()).collect();
    let all: Duration = parts.iter().map(|(.., time)| *time).sum();
    let named = parts.iter().map(|(_, name, time)| format!("{name} {}", brief(*time)));
    let parts = named.collect::<Vec<_>>().join(", ");
    format!("about {} on two idle processors, once the stores are there: {parts}", brief(all))
}
