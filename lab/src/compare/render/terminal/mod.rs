//! For a terminal: what decides first, in columns that fit. A pipe is as wide as a narrow terminal, and has no colours.

mod matrix;
mod table;
mod text;

use crate::compare::rules::Answer;
use crate::compare::view::{Column, Datum, Section, View};
use crate::format::Tone;
use leasehold_console::safe;
use std::io::{self, Write};
use std::path::Path;
use table::{WIDE, table, table_within};
use text::{BOLD, heading, paragraph, style, wrapped};

/// How wide a pipe is, and what is least taken for granted.
const NARROW: usize = 80;

/// All of it; or, if all of it was written into files, the answers and where the files are.
pub(crate) fn print(view: &View, files: Option<&Path>) -> io::Result<()> {
    let width = width();
    let mut out = Vec::new();
    head(&mut out, view, width)?;
    match files {
        Some(files) => {
            writeln!(out, "\nAll of it: {}", safe(&files.join("report.html").display().to_string()))?;
        }
        None => body(&mut out, view, width)?,
    }
    let mut stdout = anstream::stdout();
    stdout.write_all(&out)?;
    stdout.flush()
}

fn width() -> usize {
    let size = rustix::termios::tcgetwinsize(rustix::stdio::stdout()).ok();
    let columns = size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0);
    columns.unwrap_or(NARROW)
}

fn head(out: &mut impl Write, view: &View, width: usize) -> io::Result<()> {
    writeln!(out, "{BOLD}{}{BOLD:#}", view.title)?;
    paragraph(out, &view.facts.join(" · "), 0, width)?;
    for notice in &view.notices {
        let style = style(Tone::Bad);
        write!(out, "{style}")?;
        paragraph(out, &format!("! {notice}"), 2, width)?;
        write!(out, "{style:#}")?;
    }
    answers(out, view, width)
}

fn body(out: &mut impl Write, view: &View, width: usize) -> io::Result<()> {
    cards(out, view, width)?;
    for section in &view.sections {
        heading(out, section.title)?;
        if section.id == "faults" {
            matrix::write(out, section, view.legend, width)?;
        } else {
            tables(out, section, width)?;
        }
    }
    heading(out, "Before you believe a figure")?;
    view.caveats.iter().try_for_each(|caveat| paragraph(out, &format!("* {caveat}"), 2, width))
}

fn answers(out: &mut impl Write, view: &View, width: usize) -> io::Result<()> {
    heading(out, "Which store")?;
    // Each of those behind the best one has a line of its own.
    let rows = view.answers.iter().flat_map(|answer: &Answer| {
        let first =
            [answer.question, answer.store.as_deref().unwrap_or("–"), &answer.figure].map(Datum::words);
        let as_good = (!answer.as_good.is_empty()).then(|| format!("as good: {}", answer.as_good.join(", ")));
        let behind = as_good.into_iter().chain(answer.apart.iter().cloned());
        let behind = behind.map(|words| vec![Datum::default(), Datum::default(), Datum::words(words)]);
        [Vec::from(first)].into_iter().chain(behind).collect::<Vec<_>>()
    });
    let columns = ["QUESTION", "STORE", "FIGURE"].map(Column::words);
    writeln!(out, "{}", table(&columns, rows, width))?;
    paragraph(out, view.legend, 0, width)
}

fn cards(out: &mut impl Write, view: &View, width: usize) -> io::Result<()> {
    heading(out, "The stores")?;
    for (index, card) in view.cards.iter().enumerate() {
        let style = style(card.tone);
        let (number, mark, store) = (index + 1, card.mark, safe(&card.store));
        let first = format!("{number:>2} {style}{mark}{style:#} {BOLD}{store}{BOLD:#}");
        let shown = 5 + store.chars().count();
        let rest = format!("{}: {}", card.words, safe(&card.headline));
        let mut lines = wrapped(&rest, width.saturating_sub(shown + 2)).into_iter();
        writeln!(out, "{first}, {}", lines.next().unwrap_or_default())?;
        for line in lines {
            writeln!(out, "     {line}")?;
        }
        for violation in &card.violations {
            write!(out, "     ")?;
            paragraph(out, &format!("✕ {}", violation.what), 7, width)?;
            if !violation.again.is_empty() {
                writeln!(out, "       again: {}", safe(&violation.again))?;
            }
        }
        for point in &card.points {
            write!(out, "     ")?;
            paragraph(out, &format!("- {point}"), 7, width)?;
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
    writeln!(out, "{}", table_within(&section.table, width))
}
