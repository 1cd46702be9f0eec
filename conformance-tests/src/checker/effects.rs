//! M3: what has happened to what the lock protects.

use super::Checker;
use super::locks::Largest;
use super::report::Rule;
use crate::history::Write;
use std::collections::BTreeMap;

impl Checker<'_> {
    pub(super) fn check_effects(&mut self) {
        let mut resources: BTreeMap<(&str, bool), Vec<&Write>> = BTreeMap::new();
        for write in &self.history.writes {
            resources.entry((&write.what.resource, write.what.fenced)).or_default().push(write);
        }
        for ((resource, fenced), mut writes) in resources {
            let is_update = |write: &&Write| !write.what.mode.is_shared();
            let all = writes.iter().copied().filter(is_update).count();
            writes.retain(|write| write.what.wrote.is_some());
            // The counter's own order: each writes one more than it has read, and readers see the last number that was written.
            let order = |write: &&Write| (write.what.wrote, write.what.mode.is_shared(), write.what.token);
            writes.sort_unstable_by_key(order);
            let updates: Vec<&Write> = writes.iter().copied().filter(is_update).collect();
            let lost = updates.windows(2).filter(|pair| pair[0].what.wrote == pair[1].what.wrote);
            let lost: Vec<_> = lost.collect();
            let measured = &mut self.report.measured;
            let sum = if fenced { &mut measured.fenced } else { &mut measured.plain };
            sum.accepted += updates.len();
            sum.refused += all - updates.len();
            sum.lost += lost.len();
            if !fenced {
                continue;
            }
            for pair in lost {
                let number = pair[0].what.wrote.unwrap_or_default();
                self.two_operations(resource, pair[0], pair[1], format!("both wrote {number}"));
            }
            // The two marks: a writer is refused after any newer holder, a reader after a newer writer.
            let mut marks = Largest::NONE;
            for write in writes {
                let (mode, older) = (write.what.mode, write.what.token);
                if let Some((newer, other)) = marks.against(mode).filter(|(newer, _)| *newer > older) {
                    let what = format!("an operation of {older} was accepted after one of {newer}");
                    self.two_operations(resource, other, write, what);
                }
                marks.add(mode, older, write);
            }
        }
    }

    fn two_operations(&mut self, resource: &str, one: &Write, other: &Write, what: String) {
        let operations = [(one.process, one.op), (other.process, other.op)];
        self.report.broken(Rule::Effects, resource, one.at.max(other.at), &operations, what);
    }
}
