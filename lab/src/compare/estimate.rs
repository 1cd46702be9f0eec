//! How long a comparison takes, before it begins: by what its parts took on two quiet processors.

use super::candidate::Candidate;
use crate::args::{CompareArgs, ComparePart};
use crate::background::CELLS_AT_ONCE;
use crate::measure::Plan;
use leasehold::semantics::Fault;
use leasehold_conformance::{Case, HostShare};
use leasehold_console::brief;
use std::time::Duration;

/// A case, with as many beside it as a run has threads.
const CASE_OF_PRIVATE_STORES: Duration = Duration::from_millis(105);
const CASE_OF_A_USERS_STORE: Duration = Duration::from_millis(330);
/// A fault, most of which waits.
const CELL: Duration = Duration::from_secs(5);

/// `about 9m: the suite 6m, faults 2m, speed 1m`.
pub(super) fn estimate(args: &CompareArgs, candidates: &[Candidate]) -> String {
    let there = || candidates.iter().filter(|candidate| candidate.is_there());
    let count =
        |private: bool| there().filter(|candidate| candidate.user_store.is_none() == private).count() as u32;
    let is_run = |case: &Case| !args.quick || case.share == HostShare::Usual;
    let cases = leasehold_conformance::all().filter(is_run).count() as u32;
    let plan = Plan::comparing(args.quick, args.bench_time, true);
    let faults = if args.preset.is_some() { count(true) * Fault::ALL.len() as u32 } else { 0 };
    let parts = [
        (
            ComparePart::Suite,
            "the suite",
            (CASE_OF_PRIVATE_STORES * count(true) + CASE_OF_A_USERS_STORE * count(false)) * cases,
        ),
        (ComparePart::Faults, "faults", CELL * faults / CELLS_AT_ONCE as u32),
        (ComparePart::Bench, "speed", plan.estimate(&plan.rows) * (count(true) + count(false))),
    ];
    let wanted = |part| args.only.is_empty() || args.only.contains(&part);
    let parts: Vec<_> =
        parts.into_iter().filter(|(part, _, time)| wanted(*part) && !time.is_zero()).collect();
    let all: Duration = parts.iter().map(|(.., time)| *time).sum();
    let parts: Vec<String> = parts.iter().map(|(_, name, time)| format!("{name} {}", brief(*time))).collect();
    format!("about {}: {}", brief(all), parts.join(", "))
}
