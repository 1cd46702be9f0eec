use super::{Column, Datum, Section, Table};
use crate::compare::model::{Report, StoreReport};
use crate::format::{Tone, anchor};

pub(super) fn section(report: &Report) -> Option<Section> {
    let ran: Vec<&StoreReport> = report.stores.iter().filter(|store| !store.cases.is_empty()).collect();
    (!ran.is_empty()).then(|| Section {
        id: "suite",
        title: "Suite",
        lead: "A case is one property of a lock, put to a real store. One that has no meaning for a store is skipped, \
               and its evidence says why."
            .to_owned(),
        charts: Vec::new(),
        tables: vec![Table {
            id: "suite-table".to_owned(),
            caption: "Cases".to_owned(),
            columns: vec![
                Column::words("Store"),
                Column::figures("Passed"),
                Column::figures("Failed"),
                Column::figures("Skipped"),
            ],
            rows: ran.into_iter().map(row).collect(),
        }],
    })
}

fn row(store: &StoreReport) -> Vec<Datum> {
    let counts = store.counts();
    let figure = |value: usize| Datum::figure(value as f64, value.to_string());
    let failed = match counts.failed {
        0 => figure(0),
        failed => figure(failed).with_tone(Tone::Bad, Some("✕")),
    };
    let evidence = counts.failed + counts.skipped > 0;
    let link = evidence.then(|| format!("evidence-{}", anchor(&store.name)));
    let name = Datum { link, ..Datum::words(&store.name) };
    vec![name, figure(counts.passed), failed, figure(counts.skipped)]
}
