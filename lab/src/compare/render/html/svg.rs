//! Charts as inline SVG. Colours are the page's, by class; the titles say the same.

use super::scale::Scale;
use crate::compare::view::{Chart, Span};
use crate::format::time;
use std::fmt::Write;

/// The chart, as a figure with its title.
pub(super) fn draw(chart: &Chart) -> String {
    let mut out = String::new();
    // To write into a string cannot fail.
    let _ = spans(&mut out, &chart.title, &chart.rows);
    out
}

fn spans(out: &mut String, title: &str, rows: &[Span]) -> std::fmt::Result {
    let scale = Scale::over(rows.iter().flat_map(|row| [row.p50, row.p999]));
    let one = rows.iter().all(|row| row.p50.to_bits() == row.p999.to_bits());
    let key = if one { "" } else { "● median, bar to p99, tick at p99.9" };
    writeln!(
        out,
        "<figure class=\"spans\"><figcaption>{} <small>{key}</small></figcaption>",
        escaped(title)
    )?;
    for row in rows {
        let [p50, p99, p999] = [row.p50, row.p99, row.p999].map(|us| scale.place(us) * 100.0);
        let words = if one {
            format!("{}: {}", row.label, time(row.p50))
        } else {
            let [p50, p99, p999] = [row.p50, row.p99, row.p999].map(time);
            format!("{}: median {p50}, p99 {p99}, p99.9 {p999}", row.label)
        };
        writeln!(out, "<div class=\"span\"><span class=\"name\">{}</span>", escaped(&row.label))?;
        writeln!(out, "<svg role=\"img\" aria-label=\"{0}\"><title>{0}</title>", escaped(&words))?;
        grid(out, scale)?;
        if !one {
            writeln!(out, "<line class=\"bar\" x1=\"{p50:.2}%\" x2=\"{p99:.2}%\" y1=\"11\" y2=\"11\"/>")?;
            writeln!(out, "<line class=\"tail\" x1=\"{p99:.2}%\" x2=\"{p999:.2}%\" y1=\"11\" y2=\"11\"/>")?;
            writeln!(out, "<line class=\"tick\" x1=\"{p999:.2}%\" x2=\"{p999:.2}%\" y1=\"6\" y2=\"16\"/>")?;
        }
        writeln!(out, "<circle class=\"dot\" cx=\"{p50:.2}%\" cy=\"11\" r=\"5\"/></svg>")?;
        writeln!(out, "<span class=\"value\">{}</span></div>", time(row.p50))?;
    }
    axis_row(out, scale)?;
    writeln!(out, "</figure>")
}

/// The lines behind a row.
fn grid(out: &mut String, scale: Scale) -> std::fmt::Result {
    for (place, _) in scale.ticks() {
        let x = place * 100.0;
        writeln!(out, "<line class=\"grid\" x1=\"{x:.2}%\" x2=\"{x:.2}%\" y1=\"0\" y2=\"22\"/>")?;
    }
    Ok(())
}

fn axis_row(out: &mut String, scale: Scale) -> std::fmt::Result {
    writeln!(out, "<div class=\"span axis\" aria-hidden=\"true\"><span class=\"name\"></span><svg>")?;
    for (place, text) in scale.ticks() {
        let anchor = anchor(place);
        writeln!(out, "<text x=\"{:.2}%\" y=\"14\" text-anchor=\"{anchor}\">{text}</text>", place * 100.0)?;
    }
    writeln!(out, "</svg><span class=\"value\"></span></div>")
}

/// So that no text sticks out at the ends.
fn anchor(place: f64) -> &'static str {
    match place {
        ..0.04 => "start",
        0.96.. => "end",
        _ => "middle",
    }
}

/// Text that is text, in an element or an attribute.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
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
    fn label_of_any_text_is_escaped() {
        let row = Span { label: "<script>\"&".to_owned(), p50: 1.0, p99: 2.0, p999: 3.0 };
        let drawn = draw(&Chart { title: "<b>".to_owned(), rows: vec![row] });
        assert!(drawn.contains("&lt;script&gt;&quot;&amp;") && !drawn.contains("<script"), "{drawn}");
    }
}
