//! M3: what has happened to what the lock protects.

use super::locks::Largest;
use super::report::{CheckReport, Rule};
use crate::history::{History, Write};
use std::collections::BTreeMap;

pub(super) fn check(history: &History, report: &mut CheckReport) {
    let mut resources: BTreeMap<(&str, bool), Vec<&Write>> = BTreeMap::new();
    for write in &history.writes {
        resources.entry((&write.what.resource, write.what.fenced)).or_default().push(write);
    }
    for ((resource, fenced), mut writes) in resources {
        let is_update = |write: &&Write| !write.what.mode.is_shared();
        let all = writes.iter().copied().filter(is_update).count();
        writes.retain(|write| write.what.wrote.is_some());
        // The counter's own order: each writes one more than it has read, and readers see the last number that was written.
        writes
            .sort_unstable_by_key(|write| (write.what.wrote, write.what.mode.is_shared(), write.what.token));
        let updates: Vec<&Write> = writes.iter().copied().filter(is_update).collect();
        let lost: Vec<_> =
            updates.windows(2).filter(|pair| pair[0].what.wrote == pair[1].what.wrote).collect();
        let sum = if fenced { &mut report.measured.fenced } else { &mut report.measured.plain };
        sum.accepted += updates.len();
        sum.refused += all - updates.len();
        sum.lost += lost.len();
        if !fenced {
            continue;
        }
        for pair in lost {
            broken(report, resource, pair[0], pair[1], || format!("both wrote {:?}", pair[0].what.wrote));
        }
        // The two marks: a writer is refused after any newer holder, a reader after a newer writer.
        let mut marks = Largest::NONE;
        for write in writes {
            let (mode, older) = (write.what.mode, write.what.token);
            if let Some((newer, other)) = marks.against(mode).filter(|(newer, _)| *newer > older) {
                broken(report, resource, other, write, || {
                    format!("an operation of {older} was accepted after one of {newer}")
                });
            }
            marks.add(mode, older, write);
        }
    }
}

fn broken(
    report: &mut CheckReport,
    resource: &str,
    one: &Write,
    other: &Write,
    what: impl FnOnce() -> String,
) {
    let operations = [(one.process, one.op), (other.process, other.op)];
    report.broken(Rule::Effects, resource, one.at.max(other.at), &operations, what);
}
