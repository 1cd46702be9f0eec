//! What each backend declares of itself.

use super::{Column, Datum, Section, Table};
use crate::compare::model::{Declared, Report};
use leasehold::semantics::{CrashBound, ExpiryClock, Fairness, HoldKind, LossSignal, Reach, TokenClass};

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
    [name, reach(declared.reach), hold(declared), clock, order, &wake, loss, token(declared.token)]
        .map(Datum::words)
        .into()
}

/// Between whom it excludes.
pub(crate) fn reach(reach: Reach) -> &'static str {
    match reach {
        Reach::Process => "tasks of one process",
        Reach::Host => "processes of one host",
        _ => "processes on any host",
    }
}

/// What a hold is, and how long a crashed holder keeps others out.
pub(crate) fn hold(declared: &Declared) -> &'static str {
    match (declared.hold, declared.crash_bound) {
        (HoldKind::Session, _) => "a session",
        (HoldKind::Connection, _) | (_, CrashBound::Connection) => "a connection",
        _ => "a lease",
    }
}

/// What the order of tokens survives.
pub(crate) fn token(token: TokenClass) -> &'static str {
    match token {
        TokenClass::Process => "grow while the process lives",
        TokenClass::Stored => "grow while the data lives",
        _ => "grow also over lost data",
    }
}
