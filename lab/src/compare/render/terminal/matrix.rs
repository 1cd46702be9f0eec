//! Fault × store: in words where they fit, and by marks alone otherwise.

use super::table::table_within;
use super::text::{paragraph, style};
use crate::compare::view::{Datum, Section};
use leasehold_console::safe;
use std::io::{self, Write};

/// What a column of words needs: four of them fit into 80 columns.
const WORDS: usize = 14;
const FAULT: usize = 22;

pub(super) fn write(out: &mut impl Write, section: &Section, legend: &str, width: usize) -> io::Result<()> {
    paragraph(out, &format!("{} {legend}", section.lead), 0, width)?;
    writeln!(out)?;
    let columns = &section.table.columns;
    if FAULT + WORDS * (columns.len() - 1) <= width {
        return writeln!(out, "{}", table_within(&section.table, width));
    }
    let names = columns.iter().skip(1).enumerate();
    let names: Vec<String> =
        names.map(|(index, column)| format!("{} {}", index + 1, safe(&column.title))).collect();
    paragraph(out, &names.join(", "), 0, width)?;
    write!(out, "\n{:FAULT$}", "")?;
    for number in 1..columns.len() {
        write!(out, "{number:>2} ")?;
    }
    writeln!(out)?;
    section.table.rows.iter().try_for_each(|row| marks(out, row))
}

/// Three characters a store: a dozen of them fit into 80 columns.
fn marks(out: &mut impl Write, row: &[Datum]) -> io::Result<()> {
    let Some((fault, fields)) = row.split_first() else { return Ok(()) };
    write!(out, "{:FAULT$}", fault.text)?;
    for field in fields {
        let (style, mark) = (style(field.tone), field.mark.unwrap_or(&field.text));
        let sign = field.text.chars().last().filter(|last| "†‡".contains(*last)).unwrap_or(' ');
        write!(out, " {style}{mark}{style:#}{sign}")?;
    }
    writeln!(out)
}
