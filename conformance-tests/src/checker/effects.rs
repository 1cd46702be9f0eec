//! M3: what has happened to what the lock protects.

use super::report::{Report, Rule, Updates, Violation};
use crate::history::History;
use crate::history::Write;
use std::collections::BTreeMap;

pub(super) fn check(history: &History, report: &mut Report) {
    let mut resources: BTreeMap<(&str, bool), Vec<&Write>> = BTreeMap::new();
    for write in &history.writes {
        resources.entry((&write.what.resource, write.what.fenced)).or_default().push(write);
    }
    for ((resource, fenced), mut writes) in resources {
        let all = writes.len();
        writes.retain(|write| write.what.accepted);
        // The counter's own order: each writes one more than it has read.
        writes.sort_unstable_by_key(|write| (write.what.wrote, write.what.token));
        let lost: Vec<_> =
            writes.windows(2).filter(|pair| pair[0].what.wrote == pair[1].what.wrote).collect();
        let updates = Updates { accepted: writes.len(), refused: all - writes.len(), lost: lost.len() };
        if !fenced {
            report.measured.plain.add(updates);
            continue;
        }
        report.measured.fenced.add(updates);
        for pair in lost {
            let what = || format!("both wrote {}", pair[0].what.wrote);
            report.broken(Rule::Effects, || violation(resource, pair, what()));
        }
        for pair in writes.windows(2).filter(|pair| pair[0].what.token > pair[1].what.token) {
            let (newer, older) = (pair[0].what.token, pair[1].what.token);
            let what = || format!("a write of {older} was accepted after one of {newer}");
            report.broken(Rule::Effects, || violation(resource, pair, what()));
        }
    }
}

impl Updates {
    fn add(&mut self, other: Self) {
        self.accepted += other.accepted;
        self.refused += other.refused;
        self.lost += other.lost;
    }
}

fn violation(resource: &str, pair: &[&Write], what: String) -> Violation {
    Violation {
        rule: Rule::Effects,
        name: resource.to_owned(),
        at: pair.iter().map(|write| write.at).max().unwrap_or_default(),
        operations: pair.iter().map(|write| (write.process, write.op)).collect(),
        what,
    }
}
