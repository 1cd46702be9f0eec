//! The committed run of the matrix.

use crate::stores::{SHARED, SUBJECTS, semantics};
use leasehold::semantics::Fault;
use leasehold_conformance::matrix::{Cell, State};

const RUN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/conformance-tests/fixtures/matrix.json");

/// A subject, and whether the holder is a reader.
pub(crate) type Column<'a> = (&'a str, bool);

/// The columns of both tables.
fn columns() -> impl Iterator<Item = Column<'static>> {
    let exclusive = SUBJECTS.iter().map(|(name, _)| (*name, false));
    exclusive.chain(SHARED.iter().map(|name| (*name, true)))
}

/// The file of a new run, from `scripts/matrix`: cells as lines of JSON, in the order in which they ended.
const NEW_RUN: &str = "LEASEHOLD_MATRIX_RUN";

pub(crate) fn cells() -> Vec<Cell> {
    serde_json::from_str(&std::fs::read_to_string(RUN).unwrap()).unwrap()
}

/// The cell of a subject under a fault.
pub(crate) fn cell<'a>(cells: &'a [Cell], (subject, reader): Column<'_>, fault: Fault) -> &'a Cell {
    let found =
        cells.iter().find(|cell| cell.subject == subject && cell.fault == fault && cell.reader == reader);
    found.unwrap_or_else(|| panic!("the run has no cell {subject} × {fault:?}: scripts/matrix"))
}

#[tokio::test]
async fn run_has_every_cell_once_and_agrees_with_semantics() {
    if let Some(new) = std::env::var_os(NEW_RUN) {
        write(&std::fs::read_to_string(new).unwrap());
    }
    let cells = cells();
    assert_eq!(cells.len(), columns().count() * Fault::ALL.len(), "scripts/matrix");
    for (subject, reader) in columns() {
        let declared = semantics(subject).await;
        for fault in Fault::ALL {
            let promised = cell(&cells, (subject, reader), fault).promised;
            assert_eq!(promised, declared.promises.under(fault), "{subject} × {fault:?}: scripts/matrix");
        }
    }
}

#[test]
fn committed_run_broke_no_promise_and_has_no_void_cell() {
    for cell in cells() {
        let bad = matches!(cell.state, State::Broken { .. } | State::Void { .. });
        assert!(!bad, "{} × {:?}: {:?}", cell.subject, cell.fault, cell.state);
    }
}

/// In the order of the table, a later cell in the place of an earlier one.
fn write(lines: &str) {
    let mut new: Vec<Cell> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    new.reverse();
    let place = |cell: &Cell| {
        let column = columns().position(|column| column == (&*cell.subject, cell.reader));
        (column, cell.fault as usize)
    };
    new.retain(|cell| place(cell).0.is_some());
    new.sort_by_key(place);
    new.dedup_by_key(|cell| place(cell));
    for figures in new.iter_mut().map(|cell| &mut cell.figures) {
        figures.belief_overlap_ms = figures.belief_overlap_ms.ceil();
        figures.unavailable_ms = figures.unavailable_ms.ceil();
        figures.detected_ms = figures.detected_ms.map(f64::ceil);
        figures.recovered_ms = figures.recovered_ms.map(f64::ceil);
    }
    std::fs::write(RUN, serde_json::to_string_pretty(&new).unwrap() + "\n").unwrap();
}
