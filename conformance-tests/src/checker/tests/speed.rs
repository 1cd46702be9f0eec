use super::model;
use super::random::{HistoryConfig, Kind, history};
use crate::checker::check;
use fastrand::Rng;
use std::time::{Duration, Instant};

/// Only this crate need be optimized for it:
/// `cargo test -p leasehold-conformance --lib --config 'profile.test.package.leasehold-conformance.opt-level=3' --
/// --ignored --nocapture a_million`
#[test]
#[ignore = "a measurement, for an optimized build"]
fn million_operations_are_checked_within_a_second() {
    for (names, lost_answers) in [(1, 0), (1, 2), (100, 2)] {
        let kind = Kind::Locks;
        let config =
            HistoryConfig { clients: 8, names, acquisitions: 500_000, lost_answers, accidents: 0, kind };
        let history = history(config, &mut Rng::with_seed(1));
        let calls = |one: &crate::history::Acquisition| {
            1 + one.hold.renewals.len() + usize::from(one.hold.release.is_some())
        };
        let operations: usize = history.acquisitions.iter().map(calls).sum();
        let start = Instant::now();
        let report = check(&history, &model());
        let took = start.elapsed();
        println!("{operations} operations on {names} names, {lost_answers} % unknown: {took:?}, {report}");
        assert!(report.is_accepted(), "{report}");
        assert!(took < Duration::from_secs(1) * u32::try_from(operations).unwrap() / 1_000_000, "{took:?}");
    }
}
