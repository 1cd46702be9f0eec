//! What stands behind every field of the matrix, and every case that failed or was skipped.

use super::{Column, Datum, Table};
use crate::compare::model::{Report, StoreReport};
use crate::format::{Tone, anchor, cell_id, count, fault, outcome, time};
use leasehold::semantics::Fault;
use leasehold_conformance::CaseOutcome;
use leasehold_conformance::matrix::{Cell, State};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// All that was seen of one store.
#[derive(Debug, Serialize)]
pub(crate) struct Evidence {
    pub(crate) id: String,
    pub(crate) store: String,
    pub(crate) cells: Vec<CellEvidence>,
    /// Cases that did not pass.
    pub(crate) cases: Option<Table>,
    /// What was not measured of its speed, and why.
    pub(crate) left_out: Vec<String>,
}

/// One field of the table of faults.
#[derive(Debug, Serialize)]
pub(crate) struct CellEvidence {
    pub(crate) id: String,
    pub(crate) fault: String,
    pub(crate) state: &'static str,
    pub(crate) tone: Tone,
    /// How the fault was made.
    pub(crate) words: String,
    /// What was counted and timed; without what is zero or unknown.
    pub(crate) figures: String,
    /// Why it is broken or better, was not judged or was not run.
    pub(crate) why: Option<String>,
}

/// What can be looked up of a store; `None` if there is nothing.
pub(super) fn evidence(store: &StoreReport) -> Option<Evidence> {
    let evidence = Evidence {
        id: format!("evidence-{}", anchor(&store.name)),
        store: store.name.clone(),
        cells: store
            .cells
            .iter()
            .filter(|cell| has_evidence(cell))
            .map(|cell| cell_evidence(&store.name, cell))
            .collect(),
        cases: cases(store),
        left_out: store.speed.left_out.iter().map(|row| format!("{}: {}", row.row, row.why)).collect(),
    };
    let empty = evidence.cells.is_empty() && evidence.cases.is_none() && evidence.left_out.is_empty();
    (!empty).then_some(evidence)
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

/// False for a fault that cannot happen, if that is all that is known of it.
pub(super) fn has_evidence(cell: &Cell) -> bool {
    !matches!(&cell.state, State::NotApplicable { why } if why.is_empty())
}

fn cell_evidence(store: &str, cell: &Cell) -> CellEvidence {
    let promised = || Some(format!("promised: {}", outcome(cell.promised)));
    let (state, tone, why) = match &cell.state {
        State::Kept => ("kept", Tone::Good, None),
        State::Better => ("better than promised", Tone::Good, promised()),
        State::Broken { why } => ("broken", Tone::Bad, Some(why.clone())),
        State::Void { why } | State::NotJudged { why } => ("not judged", Tone::Muted, Some(why.clone())),
        State::NotRun { why } => ("not run", Tone::Muted, Some(why.clone())),
        State::NotApplicable { why } => ("not applicable", Tone::Muted, Some(why.clone())),
    };
    CellEvidence {
        id: cell_id(store, cell.fault),
        fault: fault(cell.fault),
        state,
        tone,
        words: cell.words.clone(),
        figures: if cell.measured.is_some() { figures(cell) } else { String::new() },
        why,
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
    let (mut rows, mut skipped) = (Vec::new(), BTreeMap::<&str, Vec<&str>>::new());
    for case in &store.cases {
        let (word, tone, why) = match &case.outcome {
            CaseOutcome::Passed => continue,
            CaseOutcome::Skipped { why } => {
                skipped.entry(why).or_default().push(&case.id);
                continue;
            }
            CaseOutcome::Failed { why } => ("failed", Tone::Bad, why),
            CaseOutcome::Late { why } => ("late", Tone::Careful, why),
            CaseOutcome::NotJudged { why } => ("not judged", Tone::Muted, why),
        };
        let name = format!("{} {}", case.id, case.property.replace('_', " "));
        let mark = (tone == Tone::Bad).then_some("✕");
        let word = Datum::words(word).with_tone(tone, mark);
        rows.push(vec![Datum::words(name), word, Datum::words(why.clone())]);
    }
    let skipped = skipped.into_iter().map(|(why, ids)| {
        vec![
            Datum::words(ids.join(" ")),
            Datum::words("skipped").with_tone(Tone::Muted, None),
            Datum::words(why),
        ]
    });
    rows.extend(skipped);
    let (id, columns) = (format!("cases-{}", anchor(&store.name)), ["Case", "Outcome", "Why"]);
    (!rows.is_empty()).then(|| Table::new(&id, "Cases that did not pass", Column::all(&columns, &[]), rows))
}
