//! For a terminal: what decides first, in columns that fit. A pipe is as wide as a narrow terminal, and has no colours.

mod matrix;
mod wrap;

use crate::compare::model::Report;
use crate::compare::view::{Column, Datum, Section, Table, Tone, View};
use anstyle::{AnsiColor, Effects, Style};
use comfy_table::{CellAlignment, ContentArrangement};
use leasehold_console::safe;
use std::io::{self, Write};
use wrap::wrapped;

/// How wide a pipe is, and what is least taken for granted.
const NARROW: usize = 80;
/// From here on long words have room beside each other.
const WIDE: usize = 140;

const BOLD: Style = Style::new().effects(Effects::BOLD);

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
    answers(out, view, width)?;
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

fn answers(out: &mut impl Write, view: &View, width: usize) -> io::Result<()> {
    if view.answers.is_empty() {
        return Ok(());
    }
    heading(out, "Which store")?;
    let row = |answer: &crate::compare::rules::Answer| {
        let stores = Datum::words(answer.stores.join(", "));
        vec![Datum::words(answer.want), stores, Datum::words(&answer.why)]
    };
    let columns = ["YOU WANT", "STORE", "WHY"].map(Column::words);
    writeln!(out, "{}", table(&columns, view.answers.iter().map(row), width))
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
        writeln!(out, "{}", of(each, width))?;
    }
    Ok(())
}

/// Without the columns that are details, where there is little room.
fn of(each: &Table, width: usize) -> String {
    let shown: Vec<bool> = each.columns.iter().map(|column| !column.is_detail || width >= WIDE).collect();
    let columns: Vec<Column> = kept(&each.columns, &shown);
    table(&columns, each.rows.iter().map(|row| kept(row, &shown)), width)
}

fn kept<T: Clone>(all: &[T], shown: &[bool]) -> Vec<T> {
    all.iter().zip(shown).filter(|(_, shown)| **shown).map(|(each, _)| each.clone()).collect()
}

/// A table without lines, as wide as the terminal at most.
fn table(columns: &[Column], rows: impl Iterator<Item = Vec<Datum>>, width: usize) -> String {
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

fn heading(out: &mut impl Write, title: &str) -> io::Result<()> {
    writeln!(out, "\n{BOLD}{}{BOLD:#}", title.to_uppercase())
}

fn paragraph(out: &mut impl Write, text: &str, indent: usize, width: usize) -> io::Result<()> {
    for (index, line) in wrapped(&safe(text), width.saturating_sub(indent)).iter().enumerate() {
        writeln!(out, "{:indent$}{line}", "", indent = if index == 0 { 0 } else { indent })?;
    }
    Ok(())
}

fn style(tone: Tone) -> Style {
    match tone {
        Tone::Good => AnsiColor::Green.on_default(),
        Tone::Careful => AnsiColor::Yellow.on_default(),
        Tone::Bad => AnsiColor::Red.on_default().bold(),
        Tone::Muted => Style::new().effects(Effects::DIMMED),
        Tone::Plain => Style::new(),
    }
}
