//! What is not as promised, and what was not tried, with the reasons.

use super::table::{Column, Datum, Section, Tone};
use crate::format::{fault, outcome};
use crate::report::{Report, StoreReport};
use leasehold_conformance::matrix::{Cell, State};
use leasehold_conformance::{CaseOutcome, CaseResult, skipped_by_reason};

pub(super) fn section(report: &Report) -> Option<Section> {
    let rows: Vec<Vec<Datum>> = report.stores.iter().flat_map(rows).collect();
    let lead = "Faults and cases that did not go as promised, and those that were not tried: why. The cases that were skipped for one \
                reason are one row.";
    let columns = Column::all(&["Store", "What", "Outcome", "Why"], &[]);
    (!rows.is_empty()).then(|| {
        Section::new("evidence", "Evidence", lead, "What is not as promised, or not tried", columns, rows)
    })
}

fn rows(store: &StoreReport) -> Vec<Vec<Datum>> {
    let row = |what: String, (outcome, tone): (&str, Tone), why: String| {
        let mark = (tone == Tone::Bad).then_some("✕");
        vec![
            Datum::words(&store.name),
            Datum::words(what),
            Datum::words(outcome).with_tone(tone, mark),
            Datum::words(why),
        ]
    };
    let cells = store.cells.iter().filter_map(|cell| {
        let (state, why) = of_cell(cell)?;
        Some(row(fault(cell.fault), state, why))
    });
    let cases = store.cases.iter().filter_map(|case| {
        let (outcome, why) = of_case(case)?;
        Some(row(format!("{} {}", case.case, case.property.replace('_', " ")), outcome, why))
    });
    let skipped = skipped_by_reason(&store.cases).into_iter();
    let skipped = skipped.map(|(why, ids)| row(ids.join(" "), ("skipped", Tone::Muted), why.to_owned()));
    cells.chain(cases).chain(skipped).collect()
}

/// `None` if a fault did what is promised, or cannot happen and an earlier version did not write down why.
fn of_cell(cell: &Cell) -> Option<((&'static str, Tone), String)> {
    let made =
        |why: &str| if cell.words.is_empty() { why.to_owned() } else { format!("{why} ({})", cell.words) };
    Some(match &cell.state {
        State::Kept => return None,
        State::NotApplicable { why } if why.is_empty() => return None,
        State::Better => (("better", Tone::Good), made(&format!("promised: {}", outcome(cell.promised)))),
        State::Broken { why } => (("broken", Tone::Bad), made(why)),
        State::Late { why } => (("late", Tone::Careful), made(why)),
        State::Void { why } | State::NotJudged { why } => (("not judged", Tone::Muted), made(why)),
        State::NotRun { why } => (("not run", Tone::Muted), why.clone()),
        State::NotApplicable { why } => (("not applicable", Tone::Muted), why.clone()),
    })
}

fn of_case(case: &CaseResult) -> Option<((&'static str, Tone), String)> {
    match &case.outcome {
        CaseOutcome::Passed => case.at_first.clone().map(|why| (("passed when run again", Tone::Muted), why)),
        CaseOutcome::Skipped { .. } => None,
        CaseOutcome::Failed { why } => Some((("failed", Tone::Bad), why.clone())),
        CaseOutcome::Late { why } => Some((("late", Tone::Careful), why.clone())),
        CaseOutcome::NotJudged { why } => Some((("not judged", Tone::Muted), why.clone())),
    }
}
