//! What stands behind every field of the matrix, and every case that failed or was skipped.

use super::{Column, Datum, Table};
use crate::compare::model::StoreReport;
use crate::format::{Tone, anchor, cell_id, count, fault, outcome, time};
use leasehold_conformance::CaseOutcome;
use leasehold_conformance::matrix::{Cell, State};
use serde::Serialize;
use std::collections::BTreeMap;

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

/// One field of the matrix.
#[derive(Debug, Serialize)]
pub(crate) struct CellEvidence {
    pub(crate) id: String,
    pub(crate) fault: String,
    pub(crate) state: &'static str,
    pub(crate) tone: Tone,
    pub(crate) promised: &'static str,
    pub(crate) measured: &'static str,
    /// How it was made, and what came of it.
    pub(crate) words: String,
    /// Why it is broken, void or was not run.
    pub(crate) why: Option<String>,
    /// Each with its name; without those that are zero or unknown.
    pub(crate) figures: Vec<(&'static str, Datum)>,
    pub(crate) seed: String,
}

/// What can be looked up of a store; `None` if there is nothing.
pub(super) fn evidence(store: &StoreReport) -> Option<Evidence> {
    let evidence = Evidence {
        id: format!("evidence-{}", anchor(&store.name)),
        store: store.name.clone(),
        cells: store.cells.iter().map(|cell| cell_evidence(&store.name, cell)).collect(),
        cases: cases(store),
        left_out: store.speed.left_out.iter().map(|row| format!("{}: {}", row.row, row.why)).collect(),
    };
    let empty = evidence.cells.is_empty() && evidence.cases.is_none() && evidence.left_out.is_empty();
    (!empty).then_some(evidence)
}

fn cell_evidence(store: &str, cell: &Cell) -> CellEvidence {
    let (state, tone, why) = match &cell.state {
        State::Kept => ("kept", Tone::Good, None),
        State::Better => ("better than promised", Tone::Good, None),
        State::Broken { why } => ("broken", Tone::Bad, Some(why.clone())),
        State::Void { why } => ("not judged", Tone::Muted, Some(why.clone())),
        State::NotJudged { why } => ("not judged", Tone::Muted, Some(why.clone())),
        State::NotRun { why } => ("not run", Tone::Muted, Some(why.clone())),
        State::NotApplicable { why } => {
            ("not applicable", Tone::Muted, Some(why.clone()).filter(|why| !why.is_empty()))
        }
    };
    CellEvidence {
        id: cell_id(store, cell.fault),
        fault: fault(cell.fault),
        state,
        tone,
        promised: outcome(cell.promised),
        measured: cell.measured.map_or("nothing", outcome),
        words: cell.words.clone(),
        why,
        figures: cell.measured.map_or_else(Vec::new, |_| figures(cell)),
        seed: format!("{:#x}", cell.seed),
    }
}

fn figures(cell: &Cell) -> Vec<(&'static str, Datum)> {
    let figures = &cell.figures;
    let whole = |value: u64| Datum::figure(value as f64, count(value as f64));
    let ms = |value: f64| Datum::figure(value, time(value * 1e3));
    let maybe_ms = |value: Option<f64>| value.map_or_else(Datum::none, ms);
    let all = [
        ("trials", whole(figures.trials)),
        ("grants", whole(figures.grants)),
        ("two holders in the store", whole(figures.two_holders)),
        ("longest overlap of belief", ms(figures.belief_overlap_ms)),
        ("updates lost with tokens checked", whole(figures.fenced_lost)),
        ("updates lost without", whole(figures.plain_lost)),
        ("tokens repeated", whole(figures.tokens_repeated)),
        ("unavailable", ms(figures.unavailable_ms)),
        ("holder knew after", maybe_ms(figures.detected_ms)),
        ("next grant after", maybe_ms(figures.recovered_ms)),
        ("records left behind", whole(figures.residue)),
    ];
    // A zero is the rule.
    all.into_iter().filter(|(_, figure)| figure.value.is_some_and(|value| value != 0.0)).collect()
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
