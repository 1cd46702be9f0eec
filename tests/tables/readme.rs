//! The table of stores in the README: what the code declares, and beside each promise whether it was seen.

use crate::run::{cell, cells};
use crate::stores::{COLUMNS, semantics};
use crate::{agrees, words};
use leasehold::semantics::{CrashBound, Fairness, Fault, Outcome, Reach, Semantics, TokenClass, WakeUp};
use leasehold_conformance::matrix::{Cell, State};

const BEGIN: &str = "<!-- stores: begin. Rendered from the code and docs/matrix.json by tests/tables -->\n";
const END: &str = "<!-- stores: end -->";

#[tokio::test]
async fn the_table_of_stores_is_what_the_code_declares_and_the_run_has_shown() {
    agrees("README.md", BEGIN, END, &table().await);
}

async fn table() -> String {
    let (cells, mut stores) = (cells(), Vec::new());
    for (title, subjects) in COLUMNS {
        stores.push((title, subjects, semantics(subjects[0]).await));
    }
    let row = |head: &str, cell: &dyn Fn(&Semantics) -> String| {
        let cells: Vec<String> = stores.iter().map(|(.., semantics)| cell(semantics)).collect();
        format!("| {head} | {} |\n", cells.join(" | "))
    };
    let titles: Vec<&str> = stores.iter().map(|(title, ..)| *title).collect();
    let mut table = format!("| | {} |\n|---|{}\n", titles.join(" | "), "---|".repeat(titles.len()));
    table += &row("excludes", &|s| match s.reach {
        Reach::Process => "tasks of one process".to_owned(),
        Reach::Host => "processes of one host".to_owned(),
        _ => "processes on any host".to_owned(),
    });
    table += &row("lets a waiter know by", &|s| match s.wake_up {
        WakeUp::Push { fallback } => format!("push, or asking within {fallback:?}"),
        WakeUp::Look { at_most, fallback } => {
            format!("a look of its process within {at_most:?}, or asking within {fallback:?}")
        }
        polling => format!("asking within {:?}", polling.bound()),
    });
    table += &row("serves waiters", &|s| match s.fairness {
        Fairness::Fifo => "in their order".to_owned(),
        _ => "in no order".to_owned(),
    });
    table += &row("frees a crashed holder's lock", &|s| match s.crash_bound {
        CrashBound::Ttl => "after its lease".to_owned(),
        other => format!("after its {}", words(other)),
    });
    table += &row("keeps tokens growing", &|s| match s.token {
        TokenClass::Process => "while the process lives".to_owned(),
        TokenClass::Stored => "while the data lives".to_owned(),
        _ => "also over lost data".to_owned(),
    });
    for fault in Fault::ALL.into_iter().filter(|fault| *fault != Fault::None) {
        if stores.iter().any(|(.., s)| s.promises.under(fault) != Outcome::NotApplicable) {
            let seen = |(_, subjects, _): &(_, &[&str], _)| of_all(&cells, subjects, fault);
            let row: Vec<String> = stores.iter().map(seen).collect();
            table += &format!("| {}: | {} |\n", words(fault), row.join(" | "));
        }
    }
    table
}

/// The promise, and how it was seen: by the weakest sight that these subjects gave of it.
fn of_all(cells: &[Cell], subjects: &[&str], fault: Fault) -> String {
    let all: Vec<&Cell> = subjects.iter().map(|subject| cell(cells, subject, fault)).collect();
    let promised = words(all[0].promised);
    let any = |wanted: fn(&State) -> bool| all.iter().any(|cell| wanted(&cell.state));
    if any(|state| matches!(state, State::NotApplicable { .. } | State::NotRun { .. })) {
        return promised;
    }
    match any(|state| matches!(state, State::Better)) {
        true => format!("{promised} +"),
        false => format!("{promised} ✓"),
    }
}
