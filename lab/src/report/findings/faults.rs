//! Fault × store: what was seen, or what is promised where nothing was, in words that explain themselves.

use super::Basis;
use super::table::{Chart, Column, Datum, Section, Tone};
use crate::format::{fault, outcome, time};
use crate::report::{Report, StoreReport};
use leasehold::semantics::{Fault, Outcome};
use leasehold_conformance::matrix::{Cell, State};

const LEGEND: &str = "● one owner at a time, and a holder that can no longer be sure knows it. ◐ two owners are possible, \
                      and their tokens still grow. ○ nobody gets the lock until the fault is healed. ▲ two owners, and \
                      tokens may repeat. ✕ less than is promised. △ late. □ not judged. – cannot happen there.";

/// A store under a fault: as it was seen, or as it is promised if nothing was seen that can be judged.
pub(super) struct UnderFault<'a> {
    pub(super) outcome: Outcome,
    cell: Option<&'a Cell>,
}

/// One row for each fault that can happen to some store.
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
    let caption = "What each store does under each fault";
    let mut section = Section::new("faults", "Under faults", LEGEND, caption, columns, rows);
    section.charts = crashes(report).into_iter().collect();
    (!section.table.rows.is_empty()).then_some(section)
}

/// How long a killed holder keeps others out.
fn crashes(report: &Report) -> Option<Chart> {
    let seen = report.stores.iter().filter_map(|store| {
        let us = store.judged_cell(Fault::HolderKilled)?.figures.recovered_ms? * 1e3;
        Some((store.name.clone(), [us; 3]))
    });
    let title = "Until the next grant, after the holder was killed; the leases of these runs are short";
    Chart::of_times(title.to_owned(), seen.collect())
}

fn field(store: &StoreReport, fault: Fault) -> Datum {
    let (cell, known) = (store.cell(fault), UnderFault::of(store, fault));
    let note = cell.map(|cell| format!("promised: {}", outcome(cell.promised)));
    match (cell.map(|cell| &cell.state), known) {
        (_, Some(UnderFault { outcome: Outcome::NotApplicable, .. })) => Datum::none(),
        (Some(State::Broken { .. }), known) => {
            let seen = known.filter(|known| known.outcome != Outcome::Holds);
            let words = seen.map_or_else(|| "see its card".to_owned(), |known| known.words());
            Datum { note, ..Datum::words(format!("broken: {words}")) }.with_tone(Tone::Bad, Some("✕"))
        }
        (Some(State::Late { .. }), _) => Datum::words("late").with_tone(Tone::Careful, Some("△")),
        (Some(State::Void { .. } | State::NotJudged { .. }), _) => {
            Datum::words("not judged").with_tone(Tone::Muted, Some("□"))
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
            Datum { note, ..Datum::words(words) }.with_tone(tone, Some(mark))
        }
        (_, None) => Datum::words("not known"),
    }
}

/// From the best outcome to the worst; `None` of a fault that cannot happen.
pub(super) fn class_of(outcome: Outcome) -> Option<usize> {
    use Outcome::{FencedOnly, Holds, MayBreak, Unavailable};
    [Holds, Unavailable, FencedOnly, MayBreak].iter().position(|each| *each == outcome)
}

impl<'a> UnderFault<'a> {
    /// `None` if nothing is known of it, or a bound was missed under it.
    pub(super) fn of(store: &'a StoreReport, fault: Fault) -> Option<Self> {
        // One server alone, of a backend that promises something of several.
        if store.cell(fault).is_some_and(|cell| matches!(cell.state, State::NotApplicable { .. })) {
            return Some(Self { outcome: Outcome::NotApplicable, cell: None });
        }
        // Its promise was not kept in time.
        if store.was_late_under(fault) {
            return None;
        }
        let cell = store.judged_cell(fault).filter(|cell| cell.measured.is_some());
        let promised = || store.declared.as_ref()?.under(fault);
        Some(Self { outcome: cell.and_then(|cell| cell.measured).or_else(promised)?, cell })
    }

    /// The worse of what was seen and what is promised: one run that shows more may have been lucky.
    pub(super) fn expected(store: &'a StoreReport, fault: Fault) -> Option<Outcome> {
        let promised = store.declared.as_ref().and_then(|declared| declared.under(fault));
        match Self::of(store, fault).map(|seen| seen.outcome) {
            Some(Outcome::NotApplicable) => Some(Outcome::NotApplicable),
            seen => seen.into_iter().chain(promised).max_by_key(|outcome| class_of(*outcome)),
        }
    }

    pub(super) fn basis(&self) -> Basis {
        if self.cell.is_some() { Basis::Measured } else { Basis::Promised }
    }

    pub(super) fn words(&self) -> String {
        let figures = self.cell.map(|cell| &cell.figures);
        let overlap = figures.map_or(0.0, |figures| figures.belief_overlap_ms);
        let away = figures.map_or(0.0, |figures| figures.unavailable_ms);
        let ms = |ms: f64| time(ms * 1e3);
        match self.outcome {
            Outcome::NotApplicable => "–".to_owned(),
            Outcome::MayBreak if overlap > 0.0 => format!("two held for {}, tokens may repeat", ms(overlap)),
            Outcome::MayBreak => "two owners, tokens may repeat".to_owned(),
            Outcome::FencedOnly if overlap > 0.0 => format!("two held for {}, tokens grew", ms(overlap)),
            Outcome::FencedOnly => "two owners, tokens grow".to_owned(),
            Outcome::Unavailable if away > 0.0 => format!("nobody for {}", ms(away)),
            Outcome::Unavailable => "nobody until it is healed".to_owned(),
            Outcome::Holds => match figures.and_then(|figures| figures.recovered_ms) {
                Some(next) => format!("one owner, next holder after {}", ms(next)),
                None => "one owner".to_owned(),
            },
        }
    }
}
