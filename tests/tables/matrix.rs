//! The tables of docs/generated/matrix.md: every cell of the matrix, and what two holders cost.

use crate::run::{cell, cells};
use crate::stores::{SHARED, SUBJECTS};
use crate::{agrees, words};
use leasehold::semantics::{Fault, Outcome};
use leasehold_conformance::matrix::{Cell, State};

const BEGIN: &str =
    "<!-- matrix: begin. Rendered from conformance-tests/fixtures/matrix.json by tests/tables -->\n";
const END: &str = "<!-- matrix: end -->";

#[test]
fn tables_of_the_matrix_are_the_committed_run() {
    let cells = cells();
    let exclusive = table(&cells, &SUBJECTS.map(|(name, _)| name), false);
    let [readers, two_holders] = [table(&cells, &SHARED, true), overlaps(&cells)];
    let tables = format!("{exclusive}\nUnder a reader:\n\n{readers}\n{two_holders}");
    agrees("docs/generated/matrix.md", BEGIN, END, &tables);
}

/// Two letters: what is promised, what was seen.
fn table(cells: &[Cell], names: &[&str], reader: bool) -> String {
    let mut table = format!("| | {} |\n|---|{}\n", names.join(" | "), "---|".repeat(names.len()));
    for fault in Fault::ALL {
        let row: Vec<String> = names.iter().map(|name| letters(cell(cells, (name, reader), fault))).collect();
        table += &format!("| {} | {} |\n", words(fault), row.join(" | "));
    }
    table
}

fn letters(cell: &Cell) -> String {
    let letter = |outcome: Outcome| match outcome {
        Outcome::Holds => "H",
        Outcome::FencedOnly => "F",
        Outcome::Unavailable => "U",
        Outcome::MayBreak => "B",
        Outcome::NotApplicable => "–",
    };
    match (&cell.state, cell.measured) {
        (State::NotApplicable { .. }, _) => "–".to_owned(),
        (State::NotRun { .. }, _) | (_, None) => format!("{} ·", letter(cell.promised)),
        (_, Some(seen)) => format!("{} {}", letter(cell.promised), letter(seen)),
    }
}

/// The cells in which two held at once: for how long, and what that cost.
fn overlaps(cells: &[Cell]) -> String {
    let mut table =
        "| store | fault | both believed, ms | updates lost without tokens | with tokens |\n".to_owned();
    table += "|---|---|---|---|---|\n";
    for cell in cells.iter().filter(|cell| cell.figures.two_holders > 0) {
        let (figures, fault) = (&cell.figures, words(cell.fault));
        let (overlap, plain, fenced) = (figures.belief_overlap_ms, figures.plain_lost, figures.fenced_lost);
        let under = if cell.reader { " under a reader" } else { "" };
        table += &format!("| {}{under} | {fault} | {overlap:.0} | {plain} | {fenced} |\n", cell.subject);
    }
    table
}
