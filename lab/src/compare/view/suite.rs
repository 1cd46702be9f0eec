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
        table: Table::new(
            "suite-table",
            "Cases",
            Column::all(&["Store"], &["Passed", "Failed", "Late", "Not judged", "Skipped"]),
            ran.into_iter().map(row).collect(),
        ),
    })
}

fn row(store: &StoreReport) -> Vec<Datum> {
    let counts = store.counts();
    let figure = |value: usize| Datum::figure(value as f64, value.to_string());
    let bad = |count: usize| match count {
        0 => figure(0),
        count => figure(count).with_tone(Tone::Bad, Some("✕")),
    };
    let evidence = store.cases.len() > counts.passed;
    let link = evidence.then(|| format!("evidence-{}", anchor(&store.name)));
    let name = Datum { link, ..Datum::words(&store.name) };
    vec![
        name,
        figure(counts.passed),
        bad(counts.failed),
        bad(counts.late),
        figure(counts.not_judged),
        figure(counts.skipped),
    ]
}
