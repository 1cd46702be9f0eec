//! What becomes of the one owner under a fault, in words that explain themselves.

use super::Basis;
use crate::compare::model::StoreReport;
use crate::format::time;
use leasehold::semantics::{Fault, Outcome};
use leasehold_conformance::matrix::Cell;

/// A store under a fault: as it was seen, or, if no fault was made in it, as it is promised.
pub(crate) struct UnderFault<'a> {
    pub(crate) outcome: Outcome,
    cell: Option<&'a Cell>,
}

impl<'a> UnderFault<'a> {
    /// `None` if nothing is known of it.
    pub(crate) fn of(store: &'a StoreReport, fault: Fault) -> Option<Self> {
        let cell = store.cell(fault).filter(|cell| cell.measured.is_some());
        let measured = cell.and_then(|cell| cell.measured);
        let promised = || store.declared.as_ref()?.under(fault);
        Some(Self { outcome: measured.or_else(promised)?, cell })
    }

    pub(crate) fn basis(&self) -> Basis {
        if self.cell.is_some() { Basis::Measured } else { Basis::Promised }
    }

    pub(crate) fn recovered_ms(&self) -> Option<f64> {
        self.cell?.figures.recovered_ms
    }

    pub(crate) fn words(&self) -> String {
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
            Outcome::Holds => match self.recovered_ms() {
                Some(next) => format!("one owner, next holder after {}", ms(next)),
                None => "one owner".to_owned(),
            },
        }
    }
}
