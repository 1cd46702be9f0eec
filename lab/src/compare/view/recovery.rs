//! How long a fault keeps others out.

use super::{Chart, Column, Datum, Section, Span, Table};
use crate::compare::model::{Report, StoreReport};
use crate::format::{fault, time};
use leasehold::semantics::Fault;
use leasehold_conformance::matrix::Cell;

pub(super) fn section(report: &Report) -> Option<Section> {
    let rows: Vec<Vec<Datum>> = report.stores.iter().flat_map(rows_of).collect();
    if rows.is_empty() {
        return None;
    }
    let crashes = report.stores.iter().filter_map(|store| {
        let cell = store.cell(Fault::HolderKilled)?;
        let us = cell.figures.recovered_ms? * 1e3;
        Some(Span { label: store.name.clone(), p50: us, p99: us, p999: us })
    });
    let mut crashes: Vec<Span> = crashes.collect();
    crashes.sort_by(|one, other| one.p50.total_cmp(&other.p50));
    let title = "Until the next grant, after the holder was killed".to_owned();
    let chart = (!crashes.is_empty()).then_some(Chart { title, rows: crashes });
    let figures = ["Holder knew after", "Next grant after", "Unavailable"];
    let columns = Column::all(&["Store", "Fault"], &figures);
    Some(Section {
        id: "recovery",
        title: "Recovery",
        lead: "From the fault until its holder knew, until somebody got the lock again, and the longest time for which \
               nobody could. The leases of these runs are short: a crashed holder keeps others out for the rest of its \
               own lease or session."
            .to_owned(),
        charts: chart.into_iter().collect(),
        table: Table::new("recovery-table", "Times of recovery", columns, rows),
    })
}

/// Of every fault under which something of the kind was seen.
fn rows_of(store: &StoreReport) -> Vec<Vec<Datum>> {
    let timed = |cell: &&Cell| {
        let figures = &cell.figures;
        cell.measured.is_some()
            && (figures.detected_ms.is_some()
                || figures.recovered_ms.is_some()
                || figures.unavailable_ms > 0.0)
    };
    let row = |cell: &Cell| {
        let ms = |value: Option<f64>| Datum::maybe(value, |ms| time(ms * 1e3));
        let figures = &cell.figures;
        vec![
            Datum::words(&store.name),
            Datum::words(fault(cell.fault)),
            ms(figures.detected_ms),
            ms(figures.recovered_ms),
            ms(Some(figures.unavailable_ms).filter(|ms| *ms > 0.0)),
        ]
    };
    store.cells.iter().filter(timed).map(row).collect()
}
