//! Tables without lines, as wide as the terminal at most.

use crate::compare::view::{Column, Datum, Table};
use comfy_table::{CellAlignment, ContentArrangement};
use leasehold_console::safe;

/// From here on long words have room beside each other.
pub(super) const WIDE: usize = 140;

/// Without the columns that are details, where there is little room.
pub(super) fn table_within(each: &Table, width: usize) -> String {
    let shown: Vec<bool> = each.columns.iter().map(|column| !column.is_detail || width >= WIDE).collect();
    let columns: Vec<Column> = kept(&each.columns, &shown);
    table(&columns, each.rows.iter().map(|row| kept(row, &shown)), width)
}

fn kept<T: Clone>(all: &[T], shown: &[bool]) -> Vec<T> {
    all.iter().zip(shown).filter(|(_, shown)| **shown).map(|(each, _)| each.clone()).collect()
}

/// A table without lines, as wide as the terminal at most.
pub(super) fn table(columns: &[Column], rows: impl Iterator<Item = Vec<Datum>>, width: usize) -> String {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_header(columns.iter().map(|column| column.title.to_uppercase()));
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(u16::try_from(width).unwrap_or(u16::MAX));
    table.add_rows(unrepeated(rows).map(|row| row.iter().map(field).collect::<Vec<_>>()));
    for (column, of) in table.column_iter_mut().zip(columns) {
        column.set_padding((0, 2));
        if of.figures {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}

/// A store that has many rows is named in the first one.
fn unrepeated(rows: impl Iterator<Item = Vec<Datum>>) -> impl Iterator<Item = Vec<Datum>> {
    let mut last = String::new();
    rows.map(move |mut row| {
        if let Some(first) = row.first_mut() {
            if first.text == last {
                first.text.clear();
            } else {
                last.clone_from(&first.text);
            }
        }
        row
    })
}

fn field(datum: &Datum) -> String {
    let mark = datum.mark.map(|mark| format!("{mark} ")).unwrap_or_default();
    let note = datum.note.as_ref().map(|note| format!(" ({})", safe(note))).unwrap_or_default();
    format!("{mark}{}{note}", safe(&datum.text))
}
