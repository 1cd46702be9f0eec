//! The checker, put to the test itself: histories by hand whose verdict is known, histories at random with one thing
//! changed in them, and a general search that shares nothing with it but the question.

mod differential;
mod general;
mod mutations;
mod mutations_of_kinds;
mod oracles;
mod random;
mod script;
mod speed;

use super::{CheckReport, Least, Model, RefusedFor, Rule};
use leasehold_core::{HoldKind, Sharing};
use std::collections::BTreeSet;
use std::time::Duration;

/// A lease; everything must happen within 50 ms, and nothing is too little to be evidence.
fn model() -> Model {
    let little = Duration::from_millis(50);
    Model {
        hold: HoldKind::Lease,
        wake_up: little,
        overshoot: little,
        crash: Some(TTL + little),
        order: None,
        sharing: Sharing::Unsupported,
        refused_for: RefusedFor::Holders,
        least: Least { grants: 0, contended: 0, unknown_percent: 100 },
        fenced_only: Vec::new(),
    }
}

/// The length of all leases here. The store ends them between 988 and 1012 ms after they were confirmed.
const TTL: Duration = Duration::from_secs(1);

fn rules(report: &CheckReport) -> BTreeSet<Rule> {
    report.violations.iter().map(|violation| violation.rule).collect()
}
