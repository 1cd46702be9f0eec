//! What each backend declares of itself.

use super::{Column, Datum, Section, Table};
use crate::compare::model::{Declared, Report};
use crate::format::{hold, reach, token};
use leasehold::semantics::{ExpiryClock, Fairness, LossSignal};

pub(super) fn section(report: &Report) -> Option<Section> {
    let stores = report.stores.iter();
    let rows: Vec<Vec<Datum>> =
        stores.filter_map(|store| Some(row(&store.name, store.declared.as_ref()?))).collect();
    (!rows.is_empty()).then(|| Section {
        id: "declared",
        title: "Declared",
        lead: "The suite holds every word of it against what it sees.".to_owned(),
        charts: Vec::new(),
        tables: vec![Table {
            id: "declared-table".to_owned(),
            caption: "Declared semantics".to_owned(),
            columns: [
                "Store",
                "Excludes",
                "A hold is",
                "Ended by the clock of",
                "Waiters",
                "Wake-up",
                "Loss",
                "Tokens",
            ]
            .map(Column::words)
            .into(),
            rows,
        }],
    })
}

fn row(name: &str, declared: &Declared) -> Vec<Datum> {
    let clock = match declared.expiry_clock {
        ExpiryClock::Host => "the host",
        _ => "the store",
    };
    let order = match declared.fairness {
        Fairness::Fifo => "first come, first served",
        _ => "in no order",
    };
    let asks = format!("asks within {} ms", declared.asks_within_ms);
    let wake = if declared.push { format!("is told, or {asks}") } else { asks };
    let loss = match declared.loss_signal {
        LossSignal::Push => "is told",
        _ => "from the next renewal",
    };
    [
        name,
        reach(declared.reach),
        hold(declared.hold, declared.crash_bound),
        clock,
        order,
        &wake,
        loss,
        token(declared.token),
    ]
    .map(Datum::words)
    .into()
}
