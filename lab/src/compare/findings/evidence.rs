//! What stands behind every field of the table of faults, and every case that failed or was skipped.

use super::table::{Column, Datum, Table, Tone};
use crate::compare::report::{Report, StoreReport};
use crate::format::{anchor, count, fault, outcome, slug, time};
use leasehold::semantics::Fault;
use leasehold_conformance::matrix::{Cell, State};
use leasehold_conformance::{CaseOutcome, skipped_by_reason};
use serde::Serialize;
use std::collections::BTreeSet;

/// All that was seen of one store.
#[derive(Debug, Serialize)]
pub(super) struct Evidence {
    id: String,
    store: String,
    cells: Vec<CellEvidence>,
    /// Cases that did not pass.
    cases: Option<Table>,
    /// What was not measured of its speed, and why.
    left_out: Vec<String>,
}

/// One field of the table of faults.
#[derive(Debug, Serialize)]
struct CellEvidence {
    id: String,
    fault: String,
    state: &'static str,
    tone: Tone,
    /// What was counted and timed; without what is zero or unknown.
    figures: String,
    /// Why it is broken or better, was not judged or was not run.
    why: String,
}

impl Evidence {
    /// What can be looked up of a store; `None` if there is nothing.
    pub(super) fn of(store: &StoreReport) -> Option<Self> {
        let cells = store.cells.iter().filter(|cell| has_evidence(cell));
        let left_out = store.speed.left_out.iter();
        let evidence = Self {
            id: id_of(store),
            store: store.name.clone(),
            cells: cells.map(|cell| CellEvidence::of(&store.name, cell)).collect(),
            cases: cases(store),
            left_out: left_out.map(|row| format!("{}: {}", row.row, row.why)).collect(),
        };
        let is_empty = evidence.cells.is_empty() && evidence.cases.is_none() && evidence.left_out.is_empty();
        (!is_empty).then_some(evidence)
    }
}

pub(super) fn id_of(store: &StoreReport) -> String {
    format!("evidence-{}", anchor(&store.name))
}

/// The anchor of a field's evidence.
pub(super) fn anchor_of(store: &str, cell: &Cell) -> String {
    format!("cell-{}-{}", anchor(store), slug(cell.fault))
}

/// False for a fault that cannot happen, if that is all that is known of it.
pub(super) fn has_evidence(cell: &Cell) -> bool {
    !matches!(&cell.state, State::NotApplicable { why } if why.is_empty())
}

/// How each fault was made, in the words of the stores in which it was.
pub(super) fn faults(report: &Report) -> Vec<(String, String)> {
    let made = |each: Fault| {
        let cells =
            report.stores.iter().filter_map(|store| store.cell(each)).filter(|cell| has_evidence(cell));
        let words: BTreeSet<&str> = cells.map(|cell| cell.words.as_str()).collect();
        let words: Vec<&str> = words.into_iter().filter(|words| !words.is_empty()).collect();
        (!words.is_empty()).then(|| (fault(each), words.join("; or ")))
    };
    Fault::ALL.into_iter().filter_map(made).collect()
}

impl CellEvidence {
    fn of(store: &str, cell: &Cell) -> Self {
        let (state, tone, why) = match &cell.state {
            State::Kept => ("kept", Tone::Good, String::new()),
            State::Better => {
                ("better than promised", Tone::Good, format!("promised: {}", outcome(cell.promised)))
            }
            State::Broken { why } => ("broken", Tone::Bad, why.clone()),
            State::Void { why } | State::NotJudged { why } => ("not judged", Tone::Muted, why.clone()),
            State::NotRun { why } => ("not run", Tone::Muted, why.clone()),
            State::NotApplicable { why } => ("not applicable", Tone::Muted, why.clone()),
        };
        let figures = if cell.measured.is_some() { figures(cell) } else { String::new() };
        Self { id: anchor_of(store, cell), fault: fault(cell.fault), state, tone, figures, why }
    }
}

fn figures(cell: &Cell) -> String {
    let figures = &cell.figures;
    let counts = [
        ("grants", figures.grants),
        ("two holders in the store", figures.two_holders),
        ("updates lost with tokens checked", figures.fenced_lost),
        ("updates lost without", figures.plain_lost),
        ("tokens repeated", figures.tokens_repeated),
        ("records left behind", figures.residue),
    ];
    let times = [
        ("two believed for", figures.belief_overlap_ms),
        ("nobody got it for", figures.unavailable_ms),
        ("the holder knew after", figures.detected_ms.unwrap_or(0.0)),
        ("next grant after", figures.recovered_ms.unwrap_or(0.0)),
    ];
    let counts = counts.into_iter().filter(|(_, value)| *value > 0);
    let counts = counts.map(|(name, value)| format!("{name}: {}", count(value as f64)));
    let times = times.into_iter().filter(|(_, ms)| *ms > 0.0);
    let times = times.map(|(name, ms)| format!("{name} {}", time(ms * 1e3)));
    counts.chain(times).collect::<Vec<_>>().join(", ")
}

/// The cases that did not pass; those that were skipped for one reason are one row.
fn cases(store: &StoreReport) -> Option<Table> {
    let row = |name: String, outcome: &str, tone, mark, why: &str| {
        vec![Datum::words(name), Datum::words(outcome).with_tone(tone, mark), Datum::words(why)]
    };
    let mut rows = Vec::new();
    for case in &store.cases {
        let name = format!("{} {}", case.case, case.property.replace('_', " "));
        match &case.outcome {
            CaseOutcome::Passed | CaseOutcome::Skipped { .. } => {}
            CaseOutcome::Failed { why } => rows.push(row(name, "failed", Tone::Bad, Some("✕"), why)),
            CaseOutcome::Late { why } => rows.push(row(name, "late", Tone::Careful, None, why)),
            CaseOutcome::NotJudged { why } => rows.push(row(name, "not judged", Tone::Muted, None, why)),
        }
    }
    let skipped = skipped_by_reason(&store.cases).into_iter();
    rows.extend(skipped.map(|(why, ids)| row(ids.join(" "), "skipped", Tone::Muted, None, why)));
    let id = format!("cases-{}", anchor(&store.name));
    let columns = Column::all(&["Case", "Outcome", "Why"], &[]);
    (!rows.is_empty()).then(|| Table { id, caption: "Cases that did not pass", columns, rows })
}
