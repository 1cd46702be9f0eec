//! Fault × store: what was seen, or what is promised where nothing was.

use super::{Column, Datum, Section, Table};
use crate::compare::model::{Report, StoreReport};
use crate::format::{Tone, cell_id, fault, outcome, time};
use leasehold::semantics::{Fault, Outcome};
use leasehold_conformance::matrix::{Cell, State};

/// How one field of the matrix is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Glyph {
    /// It was seen.
    Measured(Outcome),
    /// It is promised, and nothing was seen.
    Promised(Outcome),
    /// Less was seen than is promised.
    Broken(Option<Outcome>),
    /// The fault touched nothing.
    Void,
    /// Nothing is known.
    Unknown,
}

/// What is known of a store under a fault.
pub(crate) fn glyph(store: &StoreReport, fault: Fault) -> Glyph {
    let promised = store.declared.as_ref().and_then(|declared| declared.under(fault));
    match store.cell(fault) {
        Some(Cell { state: State::Broken { .. }, measured, .. }) => Glyph::Broken(*measured),
        Some(Cell { state: State::Void { .. }, .. }) => Glyph::Void,
        Some(Cell { measured: Some(measured), .. }) => Glyph::Measured(*measured),
        // One server alone, of a backend that promises something of several.
        Some(Cell { state: State::NotApplicable { .. }, .. }) => Glyph::Promised(Outcome::NotApplicable),
        _ => promised.map_or(Glyph::Unknown, Glyph::Promised),
    }
}

impl Glyph {
    /// The one letter of narrow terminals: capital if it was seen, small if it is promised.
    pub(crate) fn letter(self) -> &'static str {
        match self {
            Self::Measured(Outcome::Holds) => "H",
            Self::Measured(Outcome::FencedOnly) => "F",
            Self::Measured(Outcome::Unavailable) => "U",
            Self::Measured(Outcome::MayBreak) => "M",
            Self::Promised(Outcome::Holds) => "h",
            Self::Promised(Outcome::FencedOnly) => "f",
            Self::Promised(Outcome::Unavailable) => "u",
            Self::Promised(Outcome::MayBreak) => "m",
            Self::Measured(Outcome::NotApplicable) | Self::Promised(Outcome::NotApplicable) => "–",
            Self::Broken(_) => "X",
            Self::Void => "V",
            Self::Unknown => "?",
        }
    }

    pub(crate) fn tone(self) -> Tone {
        match self {
            Self::Measured(Outcome::Holds) => Tone::Good,
            Self::Measured(Outcome::FencedOnly | Outcome::Unavailable) => Tone::Careful,
            Self::Measured(Outcome::MayBreak) | Self::Broken(_) | Self::Void => Tone::Bad,
            _ => Tone::Muted,
        }
    }

    fn mark(self) -> Option<&'static str> {
        match self {
            Self::Broken(_) => Some("✕"),
            Self::Void => Some("□"),
            Self::Unknown => None,
            Self::Measured(outcome) | Self::Promised(outcome) => match outcome {
                Outcome::Holds => Some("●"),
                Outcome::FencedOnly => Some("◐"),
                Outcome::Unavailable => Some("○"),
                Outcome::MayBreak => Some("▲"),
                Outcome::NotApplicable => None,
            },
        }
    }

    fn words(self) -> String {
        match self {
            Self::Measured(seen) | Self::Promised(seen) => outcome(seen).to_owned(),
            Self::Broken(Some(seen)) => format!("broken: {}", outcome(seen)),
            Self::Broken(None) => "broken".to_owned(),
            Self::Void => "void".to_owned(),
            Self::Unknown => "not known".to_owned(),
        }
    }
}

/// The faults of which anything is known that can happen.
pub(crate) fn faults(report: &Report) -> Vec<Fault> {
    let matters = |fault: &Fault| {
        report.stores.iter().any(|store| {
            let seen = glyph(store, *fault);
            !matches!(seen, Glyph::Unknown | Glyph::Promised(Outcome::NotApplicable))
        })
    };
    Fault::ALL.into_iter().filter(matters).collect()
}

pub(super) fn section(report: &Report) -> Option<Section> {
    let faults = faults(report);
    if faults.is_empty() {
        return None;
    }
    let stores: Vec<&StoreReport> = report.stores.iter().filter(|store| store.declared.is_some()).collect();
    let columns = stores.iter().map(|store| Column::words(&store.name));
    let rows = faults.iter().map(|each| {
        let fields = stores.iter().map(|store| field(store, *each));
        [Datum::words(fault(*each))].into_iter().chain(fields).collect()
    });
    Some(Section {
        id: "faults",
        title: "Under faults",
        lead: lead(report),
        charts: Vec::new(),
        tables: vec![Table {
            id: "faults-table".to_owned(),
            caption: "What each store does under each fault".to_owned(),
            columns: [Column::words("Fault")].into_iter().chain(columns).collect(),
            rows: rows.collect(),
        }],
    })
}

fn lead(report: &Report) -> String {
    let measured = report.stores.iter().flat_map(|store| &store.cells);
    let measured = measured.filter(|cell| cell.measured.is_some()).count();
    let legend = "● holds: one owner at a time, and a holder that can no longer be sure knows it. ◐ fenced only: two \
                  owners are possible, and their tokens still grow. ○ unavailable: nobody gets the lock until the fault \
                  is healed. ▲ may break: two owners, and tokens may repeat. – cannot happen there.";
    match measured {
        0 => format!("{legend} No fault was made in this run: these are the promises."),
        count => {
            format!("{legend} {count} fields were seen; one in small print is a promise that was not tried.")
        }
    }
}

fn field(store: &StoreReport, fault: Fault) -> Datum {
    let seen = glyph(store, fault);
    let cell = store.cell(fault);
    let note = match (seen, cell) {
        (Glyph::Promised(Outcome::NotApplicable), _) => None,
        (Glyph::Promised(_), _) => Some("promised".to_owned()),
        (Glyph::Broken(_), Some(cell)) => Some(format!("promised: {}", outcome(cell.promised))),
        (_, Some(Cell { state: State::Better, promised, .. })) => {
            Some(format!("promised: {}", outcome(*promised)))
        }
        (_, Some(cell)) => figures(cell),
        _ => None,
    };
    Datum {
        text: seen.words(),
        mark: seen.mark(),
        tone: seen.tone(),
        note,
        link: cell.map(|cell| cell_id(&store.name, cell.fault)),
        value: None,
    }
}

/// What a field is about, where there is a figure to it.
fn figures(cell: &Cell) -> Option<String> {
    cell.measured?;
    let figures = &cell.figures;
    let ms = |ms: f64| time(ms * 1e3);
    if figures.belief_overlap_ms > 0.0 {
        return Some(format!("two for {}", ms(figures.belief_overlap_ms)));
    }
    if cell.measured == Some(Outcome::Unavailable) && figures.unavailable_ms > 0.0 {
        return Some(ms(figures.unavailable_ms));
    }
    figures.recovered_ms.map(|time| format!("next after {}", ms(time)))
}
