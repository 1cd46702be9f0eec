//! For a terminal: what decides first, in columns that fit. A pipe is as wide as a narrow terminal, and has no colours.

mod matrix;
mod table;
mod text;

use crate::compare::model::Report;
use crate::compare::view::{Column, Datum, Section, View};
use crate::format::Tone;
use leasehold_console::safe;
use std::io::{self, Write};
use table::{WIDE, table, table_within};
use text::{BOLD, heading, paragraph, style, wrapped};

/// How wide a pipe is, and what is least taken for granted.
const NARROW: usize = 80;

pub(crate) fn print(report: &Report, view: &View) -> io::Result<()> {
    let width = width();
    let mut out = Vec::new();
    write(&mut out, report, view, width)?;
    let mut stdout = anstream::stdout();
    stdout.write_all(&out)?;
    stdout.flush()
}

fn width() -> usize {
    let size = rustix::termios::tcgetwinsize(rustix::stdio::stdout()).ok();
    let columns = size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0);
    columns.unwrap_or(NARROW)
}

fn write(out: &mut impl Write, report: &Report, view: &View, width: usize) -> io::Result<()> {
    writeln!(out, "{BOLD}{}{BOLD:#}", view.title)?;
    paragraph(out, &view.facts.join(" · "), 0, width)?;
    for notice in &view.notices {
        let style = style(Tone::Bad);
        write!(out, "{style}")?;
        paragraph(out, &format!("! {notice}"), 2, width)?;
        write!(out, "{style:#}")?;
    }
    recommendations(out, view, width)?;
    cards(out, view, width)?;
    for section in &view.sections {
        heading(out, section.title)?;
        if section.id == "faults" {
            matrix::write(out, report, section, width)?;
        } else {
            tables(out, section, width)?;
        }
    }
    heading(out, "Before you believe a figure")?;
    view.caveats.iter().try_for_each(|caveat| paragraph(out, &format!("* {caveat}"), 2, width))
}

fn recommendations(out: &mut impl Write, view: &View, width: usize) -> io::Result<()> {
    if view.recommendations.is_empty() {
        return Ok(());
    }
    heading(out, "Which store")?;
    let row = |recommendation: &crate::compare::rules::Recommendation| {
        let stores = Datum::words(recommendation.stores.join(", "));
        vec![Datum::words(recommendation.want), stores, Datum::words(&recommendation.why)]
    };
    let columns = ["YOU WANT", "STORE", "WHY"].map(Column::words);
    writeln!(out, "{}", table(&columns, view.recommendations.iter().map(row), width))
}

fn cards(out: &mut impl Write, view: &View, width: usize) -> io::Result<()> {
    heading(out, "The stores")?;
    for (index, card) in view.cards.iter().enumerate() {
        let style = style(card.tone());
        let (number, mark, store) = (index + 1, card.standing.mark(), safe(&card.store));
        let first = format!("{number:>2} {style}{mark}{style:#} {BOLD}{store}{BOLD:#}");
        let shown = 5 + store.chars().count();
        let rest = format!("{}: {}", card.standing.words(), safe(&card.headline));
        let mut lines = wrapped(&rest, width.saturating_sub(shown + 2)).into_iter();
        writeln!(out, "{first}, {}", lines.next().unwrap_or_default())?;
        for line in lines {
            writeln!(out, "     {line}")?;
        }
        for point in &card.points {
            write!(out, "     ")?;
            let text = format!("- {}", safe(point));
            for (index, line) in wrapped(&text, width.saturating_sub(7)).iter().enumerate() {
                writeln!(out, "{}{line}", if index == 0 { "" } else { "       " })?;
            }
        }
    }
    Ok(())
}

fn tables(out: &mut impl Write, section: &Section, width: usize) -> io::Result<()> {
    // Its columns are words: what they say stands in the cards, too.
    if section.id == "declared" && width < WIDE {
        return writeln!(out, "In each store's lines above; every column in the other formats.");
    }
    if section.id == "changes" {
        paragraph(out, &section.lead, 0, width)?;
    }
    for each in &section.tables {
        writeln!(out, "{}", table_within(each, width))?;
    }
    Ok(())
}
