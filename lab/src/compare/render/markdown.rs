//! Markdown, for a pull request or a wiki: no chart, and of the evidence what did not go as declared.

use crate::compare::view::{Datum, Evidence, Table, View};
use crate::format::Tone;
use std::fmt::Write;

pub(crate) fn render(view: &View) -> String {
    let mut out = String::new();
    // To write into a string cannot fail.
    let _ = write(&mut out, view);
    out
}

fn write(out: &mut String, view: &View) -> std::fmt::Result {
    writeln!(out, "# {}\n", inline(&view.title))?;
    writeln!(out, "{}\n", inline(&view.facts.join(" · ")))?;
    for notice in &view.notices {
        writeln!(out, "> **{}**\n", inline(notice))?;
    }
    writeln!(out, "## Which store\n")?;
    writeln!(out, "| Question | Store | Figure | As good | Apart |\n|---|---|---|---|---|")?;
    for answer in &view.answers {
        let store =
            answer.store.as_deref().map_or_else(|| "–".to_owned(), |store| format!("**{}**", inline(store)));
        let [as_good, apart] = [answer.as_good.join(", "), answer.apart.join("; ")].map(|text| inline(&text));
        let (question, figure) = (inline(answer.question), inline(&answer.figure));
        writeln!(out, "| {question} | {store} | {figure} | {as_good} | {apart} |")?;
    }
    writeln!(out, "\n{}", view.legend)?;
    writeln!(out, "\n## The stores\n")?;
    for card in &view.cards {
        writeln!(
            out,
            "* {} **{}**, {}: {}",
            card.mark,
            inline(&card.store),
            card.words,
            inline(&card.headline)
        )?;
        for violation in &card.violations {
            writeln!(out, "  * ✕ {}", inline(&violation.what))?;
            if !violation.again.is_empty() {
                writeln!(out, "    again: `{}`", violation.again)?;
            }
        }
        for point in &card.points {
            writeln!(out, "  * {}", inline(point))?;
        }
    }
    for section in &view.sections {
        writeln!(out, "\n## {}\n\n{}", section.title, inline(&section.lead))?;
        write_table(out, &section.table)?;
    }
    write_evidence(out, &view.evidence)?;
    writeln!(out, "\n## Before you believe a figure\n")?;
    for caveat in &view.caveats {
        writeln!(out, "* {}", inline(caveat))?;
    }
    Ok(())
}

fn write_table(out: &mut String, table: &Table) -> std::fmt::Result {
    let titles: Vec<String> = table.columns.iter().map(|column| inline(&column.title)).collect();
    let sides: Vec<&str> =
        table.columns.iter().map(|column| if column.figures { "--:" } else { "---" }).collect();
    writeln!(out, "\n| {} |\n|{}|", titles.join(" | "), sides.join("|"))?;
    for row in &table.rows {
        let fields: Vec<String> = row.iter().map(field).collect();
        writeln!(out, "| {} |", fields.join(" | "))?;
    }
    Ok(())
}

fn field(datum: &Datum) -> String {
    let mark = datum.mark.map(|mark| format!("{mark} ")).unwrap_or_default();
    let note = datum.note.as_ref().map(|note| format!(" ({})", inline(note))).unwrap_or_default();
    let text = inline(&datum.text);
    let text = if datum.tone == Tone::Bad { format!("**{text}**") } else { text };
    format!("{mark}{text}{note}")
}

fn write_evidence(out: &mut String, evidence: &[Evidence]) -> std::fmt::Result {
    let mut lines = Vec::new();
    for store in evidence {
        for cell in store.cells.iter().filter(|cell| cell.tone == Tone::Bad) {
            let why = cell.why.as_deref().unwrap_or_default();
            lines.push(format!("{}, {}: {}: {why} ({})", store.store, cell.fault, cell.state, cell.words));
        }
        let failed = store.cases.iter().flat_map(|table| &table.rows);
        for row in failed.filter(|row| row.iter().any(|datum| datum.tone == Tone::Bad)) {
            let texts: Vec<&str> = row.iter().map(|datum| datum.text.as_str()).collect();
            lines.push(format!("{}, {}", store.store, texts.join(": ")));
        }
    }
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n## What did not go as declared\n")?;
    lines.iter().try_for_each(|line| writeln!(out, "* {}", inline(line)))
}

/// Text that is text, whatever stands in it: a server's own words may be anything.
fn inline(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '|' | '*' | '_' | '`' | '[' | ']' | '\\' | '#' => out.extend(['\\', c]),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inline_text_is_escaped() {
        assert_eq!(inline("a|b\n<script>*x*"), "a\\|b &lt;script&gt;\\*x\\*");
    }
}
