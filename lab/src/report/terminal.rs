//! For a terminal: what decides first, in columns that fit. A pipe is as wide as a narrow terminal, and has no colours.

use super::findings::{Card, Column, Datum, Findings, Section, Table, Tone};
use anstyle::{AnsiColor, Effects, Style};
use comfy_table::{CellAlignment, ContentArrangement};
use leasehold_console::safe;
use std::io::{self, Write};
use std::path::Path;

/// How wide a pipe is, and what is least taken for granted.
const NARROW: usize = 80;
/// From here on the columns of details have room too.
const WIDE: usize = 140;
/// Below, figures of a row have lines of their own.
const ROOM_FOR_COLUMNS: usize = 60;
/// In the table of faults: what the first column needs, and one of words. Four of these fit into 80 columns.
const FAULT: usize = 22;
const WORDS: usize = 14;
/// In that table: what a column of marks alone needs.
const MARK: usize = 3;
const BOLD: Style = Style::new().effects(Effects::BOLD);

/// All of it; or, if all of it was written into files, the answers and where the files are.
pub(crate) fn print(findings: &Findings, files: Option<&Path>) -> io::Result<()> {
    let width = width();
    let mut out = Vec::new();
    head(&mut out, findings, width)?;
    match files {
        Some(files) => {
            writeln!(out, "\nAll of it: {}", safe(&files.join("report.html").display().to_string()))?;
        }
        None => body(&mut out, findings, width)?,
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

fn head(out: &mut impl Write, findings: &Findings, width: usize) -> io::Result<()> {
    writeln!(out, "{BOLD}{}{BOLD:#}", findings.title)?;
    paragraph(out, &findings.facts.join(" · "), 0, width)?;
    for notice in &findings.notices {
        let style = style(Tone::Bad);
        write!(out, "{style}")?;
        paragraph(out, &format!("! {notice}"), 2, width)?;
        write!(out, "{style:#}")?;
    }
    let Some(answers) = &findings.answers else { return Ok(()) };
    heading(out, "Which store")?;
    // Each of those behind the best one has a line of its own.
    let rows = answers.iter().flat_map(|answer| {
        let first =
            [answer.question, answer.store.as_deref().unwrap_or("–"), &answer.figure].map(Datum::words);
        let as_good = (!answer.as_good.is_empty()).then(|| format!("as good: {}", answer.as_good.join(", ")));
        let behind = as_good.into_iter().chain(answer.apart.iter().cloned());
        let behind = behind.map(|words| vec![Datum::default(), Datum::default(), Datum::words(words)]);
        [Vec::from(first)].into_iter().chain(behind).collect::<Vec<_>>()
    });
    let columns = ["QUESTION", "STORE", "FIGURE"].map(Column::words);
    writeln!(out, "{}", columns_of_text(&columns, rows, width))?;
    paragraph(out, findings.legend, 0, width)
}

fn body(out: &mut impl Write, findings: &Findings, width: usize) -> io::Result<()> {
    heading(out, "The stores")?;
    for (index, each) in findings.cards.iter().enumerate() {
        card(out, index + 1, each, width)?;
    }
    // The evidence is long: the cards have what is broken, and the other forms the rest.
    for section in findings.sections.iter().filter(|section| section.id != "evidence") {
        heading(out, section.title)?;
        match section.id {
            "faults" => faults(out, section, findings.legend, width)?,
            "changes" => {
                paragraph(out, &section.lead, 0, width)?;
                table(out, &section.table, width)?;
            }
            _ => table(out, &section.table, width)?,
        }
    }
    if findings.caveats.is_empty() {
        return Ok(());
    }
    heading(out, "Before you believe a figure")?;
    findings.caveats.iter().try_for_each(|caveat| paragraph(out, &format!("* {caveat}"), 2, width))
}

fn card(out: &mut impl Write, number: usize, card: &Card, width: usize) -> io::Result<()> {
    let style = style(card.tone);
    let (mark, store) = (card.mark, safe(&card.store));
    let first = format!("{number:>2} {style}{mark}{style:#} {BOLD}{store}{BOLD:#}");
    let rest = format!("{}: {}", card.words, safe(&card.headline));
    let mut lines = wrapped(&rest, width.saturating_sub(7 + store.chars().count())).into_iter();
    writeln!(out, "{first}, {}", lines.next().unwrap_or_default())?;
    lines.try_for_each(|line| writeln!(out, "     {line}"))?;
    if !card.server.is_empty() {
        write!(out, "     ")?;
        paragraph(out, &card.server, 5, width)?;
    }
    for (what, again) in &card.violations {
        write!(out, "     ")?;
        paragraph(out, &format!("✕ {what}"), 7, width)?;
        if !again.is_empty() {
            writeln!(out, "       again: {}", safe(again))?;
        }
    }
    for point in &card.points {
        write!(out, "     ")?;
        paragraph(out, &format!("- {point}"), 7, width)?;
    }
    Ok(())
}

/// In words where they fit, and by marks alone otherwise: of as many stores side by side as there is room for.
fn faults(out: &mut impl Write, section: &Section, legend: &str, width: usize) -> io::Result<()> {
    paragraph(out, &format!("{} {legend}", section.lead), 0, width)?;
    writeln!(out)?;
    let Table { columns, rows, .. } = &section.table;
    let stores = columns.len() - 1;
    if FAULT + WORDS * stores <= width {
        return table(out, &section.table, width);
    }
    let side_by_side = (width.saturating_sub(FAULT) / MARK).max(1);
    for first in (1..=stores).step_by(side_by_side) {
        let shown = first..=stores.min(first + side_by_side - 1);
        let names: Vec<String> =
            shown.clone().map(|store| format!("{store} {}", safe(&columns[store].title))).collect();
        paragraph(out, &names.join(", "), 0, width)?;
        write!(out, "\n{:FAULT$}", "")?;
        shown.clone().try_for_each(|store| write!(out, "{store:>2} "))?;
        writeln!(out)?;
        for row in rows {
            write!(out, "{:FAULT$}", row[0].text)?;
            row[shown.clone()].iter().try_for_each(|field| mark(out, field))?;
            writeln!(out)?;
        }
    }
    Ok(())
}

fn mark(out: &mut impl Write, field: &Datum) -> io::Result<()> {
    let (style, mark) = (style(field.tone), field.mark.unwrap_or(&field.text));
    let sign = field.text.chars().last().filter(|last| "†‡".contains(*last)).unwrap_or(' ');
    write!(out, " {style}{mark}{style:#}{sign}")
}

/// Without the columns that are details, where there is little room.
fn table(out: &mut impl Write, each: &Table, width: usize) -> io::Result<()> {
    let shown: Vec<bool> = each.columns.iter().map(|column| !column.is_detail || width >= WIDE).collect();
    let (columns, rows) = (kept(&each.columns, &shown), each.rows.iter().map(|row| kept(row, &shown)));
    if width >= ROOM_FOR_COLUMNS {
        return writeln!(out, "{}", columns_of_text(&columns, rows, width));
    }
    for row in rows {
        paragraph(out, &field(&row[0]), 0, width)?;
        for (column, datum) in columns.iter().zip(&row).skip(1).filter(|(_, datum)| datum.text != "–") {
            write!(out, "  ")?;
            paragraph(out, &format!("{}: {}", column.title, field(datum)), 4, width)?;
        }
    }
    Ok(())
}

fn kept<T: Clone>(all: &[T], shown: &[bool]) -> Vec<T> {
    all.iter().zip(shown).filter(|(_, shown)| **shown).map(|(each, _)| each.clone()).collect()
}

/// A table without lines, as wide as the terminal at most. A store that has many rows is named in the first one.
fn columns_of_text(columns: &[Column], rows: impl Iterator<Item = Vec<Datum>>, width: usize) -> String {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_header(columns.iter().map(|column| column.title.to_uppercase()));
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(u16::try_from(width).unwrap_or(u16::MAX));
    let mut last = String::new();
    for row in rows {
        let mut fields: Vec<String> = row.iter().map(field).collect();
        if let Some(first) = fields.first_mut() {
            if *first == last {
                first.clear();
            } else {
                last.clone_from(first);
            }
        }
        table.add_row(fields);
    }
    for (column, of) in table.column_iter_mut().zip(columns) {
        column.set_padding((0, 2));
        if of.figures {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
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

/// The text in lines of so many characters at most, broken between words. A word that is longer has a line of its own.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("µµµ µµµ", 7), ["µµµ µµµ"]);
        assert_eq!(wrapped("a longerword b", 4), ["a", "longerword", "b"]);
        assert_eq!(wrapped("", 4), [""]);
    }
}
