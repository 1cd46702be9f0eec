//! Fault × store: in words where they fit, and in letters otherwise.

use super::table::table_within;
use super::text::{paragraph, style};
use crate::compare::model::Report;
use crate::compare::view::{Section, glyph};
use crate::format::fault;
use leasehold::semantics::Fault;
use std::io::{self, Write};

/// What a column of words needs.
const WORDS: usize = 15;
const FAULT: usize = 22;

const LEGEND: &str = "H holds: one owner at a time. F fenced only: two are possible, their tokens still grow. \
                      U unavailable until the fault is healed. M may break: two owners, and tokens may repeat. \
                      X BROKEN: less than is promised. V void: the fault touched nothing. – cannot happen there. \
                      A small letter is a promise that was not tried. The columns are the stores by their numbers \
                      above.";

pub(super) fn write(
    out: &mut impl Write,
    report: &Report,
    section: &Section,
    width: usize,
) -> io::Result<()> {
    let declared = report.stores.iter().filter(|store| store.declared.is_some()).count();
    if FAULT + WORDS * declared <= width {
        paragraph(out, &section.lead, 0, width)?;
        return section.tables.iter().try_for_each(|table| writeln!(out, "{}", table_within(table, width)));
    }
    paragraph(out, LEGEND, 0, width)?;
    letters(out, report)
}

/// At most four characters a store: a dozen of them fit into eighty columns.
fn letters(out: &mut impl Write, report: &Report) -> io::Result<()> {
    let stores: Vec<_> =
        report.stores.iter().enumerate().filter(|(_, store)| store.declared.is_some()).collect();
    write!(out, "{:FAULT$}", "")?;
    for (index, _) in &stores {
        write!(out, "{:>3}", index + 1)?;
    }
    writeln!(out)?;
    for each in Fault::ALL {
        let glyphs: Vec<_> = stores.iter().map(|(_, store)| glyph(store, each)).collect();
        if glyphs.iter().all(|glyph| matches!(glyph.letter(), "–" | "?")) {
            continue;
        }
        write!(out, "{:FAULT$}", fault(each))?;
        for glyph in glyphs {
            let style = style(glyph.tone());
            write!(out, "  {style}{}{style:#}", glyph.letter())?;
        }
        writeln!(out)?;
    }
    Ok(())
}
