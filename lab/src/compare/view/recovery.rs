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
    let charts = if crashes.is_empty() {
        Vec::new()
    } else {
        vec![Chart::Spans {
            title: "Until the next grant, after the holder was killed".to_owned(),
            rows: crashes,
        }]
    };
    Some(Section {
        id: "recovery",
        title: "Recovery",
        lead: "From the fault until its holder knew, until somebody got the lock again, and the longest time for which \
               nobody could. The leases of these runs are short: a crashed holder keeps others out for the rest of its \
               own lease or session."
            .to_owned(),
        charts,
        tables: vec![Table {
            id: "recovery-table".to_owned(),
            caption: "Times of recovery".to_owned(),
            columns: vec![
                Column::words("Store"),
                Column::words("Fault"),
                Column::figures("Holder knew after"),
                Column::figures("Next grant after"),
                Column::figures("Unavailable"),
            ],
            rows,
        }],
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
