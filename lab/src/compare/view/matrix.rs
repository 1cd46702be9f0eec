//! Fault × store: what was seen, or what is promised where nothing was.

use super::evidence::has_evidence;
use super::{Chart, Column, Datum, Section, Span, Table};
use crate::compare::model::{Report, StoreReport};
use crate::compare::rules::{Basis, UnderFault};
use crate::format::{Tone, cell_id, fault, outcome};
use leasehold::semantics::{Fault, Outcome};
use leasehold_conformance::matrix::State;

pub(crate) const LEGEND: &str = "● one owner at a time, and a holder that can no longer be sure knows it. ◐ two owners are \
                                 possible, and their tokens still grow. ○ nobody gets the lock until the fault is \
                                 healed. ▲ two owners, and tokens may repeat. ✕ less than is promised. □ not judged. – \
                                 cannot happen there.";

/// One row for each fault of which anything is known that can happen.
pub(super) fn section(report: &Report) -> Option<Section> {
    let stores: Vec<&StoreReport> = report.stores.iter().filter(|store| store.declared.is_some()).collect();
    let names = stores.iter().map(|store| Column::words(store.name.as_str()));
    let columns = [Column::words("Fault")].into_iter().chain(names).collect();
    let row = |each: Fault| {
        let fields: Vec<Datum> = stores.iter().map(|store| field(store, each)).collect();
        let happens = fields.iter().any(|field| field.mark.is_some());
        happens.then(|| [Datum::words(fault(each))].into_iter().chain(fields).collect())
    };
    let rows: Vec<Vec<Datum>> = Fault::ALL.into_iter().filter_map(row).collect();
    (!rows.is_empty()).then(|| Section {
        id: "faults",
        title: "Under faults",
        lead: LEGEND.to_owned(),
        charts: crashes(report).into_iter().collect(),
        table: Table::new("faults-table", "What each store does under each fault", columns, rows),
    })
}

/// How long a killed holder keeps others out.
fn crashes(report: &Report) -> Option<Chart> {
    let seen = report.stores.iter().filter_map(|store| {
        let us = store.cell(Fault::HolderKilled)?.figures.recovered_ms? * 1e3;
        Some(Span { label: store.name.clone(), p50: us, p99: us, p999: us })
    });
    let mut rows: Vec<Span> = seen.collect();
    rows.sort_by(|one, other| one.p50.total_cmp(&other.p50));
    let title = "Until the next grant, after the holder was killed; the leases of these runs are short";
    (!rows.is_empty()).then(|| Chart { title: title.to_owned(), rows })
}

fn field(store: &StoreReport, fault: Fault) -> Datum {
    let (cell, known) = (store.cell(fault), UnderFault::of(store, fault));
    let link = cell.filter(|cell| has_evidence(cell)).map(|cell| cell_id(&store.name, cell.fault));
    let note = cell.map(|cell| format!("promised: {}", outcome(cell.promised)));
    match (cell.map(|cell| &cell.state), known) {
        // One server alone, of a backend that promises something of several.
        (Some(State::NotApplicable { .. }), _)
        | (_, Some(UnderFault { outcome: Outcome::NotApplicable, .. })) => Datum { link, ..Datum::none() },
        (Some(State::Broken { .. }), known) => {
            let words = known.map(|known| known.words()).unwrap_or_default();
            Datum { link, note, ..Datum::words(format!("broken: {words}")) }.with_tone(Tone::Bad, Some("✕"))
        }
        (Some(State::Void { .. } | State::NotJudged { .. }), _) => {
            Datum { link, ..Datum::words("not judged") }.with_tone(Tone::Muted, Some("□"))
        }
        (state, Some(known)) => {
            let (mark, tone) = match known.outcome {
                Outcome::Holds => ("●", Tone::Good),
                Outcome::FencedOnly => ("◐", Tone::Careful),
                Outcome::Unavailable => ("○", Tone::Careful),
                Outcome::MayBreak | Outcome::NotApplicable => ("▲", Tone::Bad),
            };
            let tone = if known.basis() == Basis::Measured { tone } else { Tone::Muted };
            let note = note.filter(|_| matches!(state, Some(State::Better)));
            let words = format!("{}{}", known.words(), known.basis().sign());
            // Its mark says so.
            let words = words.trim_start_matches("one owner, ");
            Datum { link, note, ..Datum::words(words) }.with_tone(tone, Some(mark))
        }
        (_, None) => Datum { link, ..Datum::words("not known") },
    }
}
