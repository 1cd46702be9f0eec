//! Charts as inline SVG. Colours are the page's, by class; what a line is, its dashes and its title say too.

use super::scale::Scale;
use crate::compare::view::{Axis, Chart, Panel, Span};
use crate::format::time;
use std::fmt::Write;

/// A panel, in units of its own: it is as wide as its place in the page.
const WIDTH: f64 = 240.0;
const HEIGHT: f64 = 132.0;
const LEFT: f64 = 34.0;
const RIGHT: f64 = 10.0;
const TOP: f64 = 6.0;
const BOTTOM: f64 = 20.0;

/// The chart, as a figure with its title.
pub(super) fn draw(section: &str, number: usize, chart: &Chart) -> String {
    let mut out = String::new();
    // To write into a string cannot fail.
    let _ = match chart {
        Chart::Spans { title, rows } => spans(&mut out, title, rows),
        Chart::Panels { title, x, y, panels: all } => {
            panels(&mut out, &format!("{section}-{number}"), title, (*x, *y), all)
        }
    };
    out
}

fn spans(out: &mut String, title: &str, rows: &[Span]) -> std::fmt::Result {
    let scale = Scale::over(Axis::Time, rows.iter().flat_map(|row| [row.p50, row.p999]));
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

fn panels(
    out: &mut String,
    id: &str,
    title: &str,
    (x, y): (Axis, Axis),
    panels: &[Panel],
) -> std::fmt::Result {
    let points = || panels.iter().flat_map(|panel| &panel.curves).flat_map(|curve| &curve.points);
    let x = Scale::over(x, points().map(|point| point.0));
    let y = Scale::over(y, points().map(|point| point.1));
    writeln!(out, "<figure class=\"panels\"><figcaption>{}</figcaption>", escaped(title))?;
    // Drawn once, and shown behind every panel.
    writeln!(out, "<svg class=\"defs\" aria-hidden=\"true\"><defs><g id=\"behind-{id}\">")?;
    for curve in panels.iter().filter_map(|panel| panel.curves.first()) {
        writeln!(out, "<polyline class=\"other\" points=\"{}\"/>", places(&curve.points, x, y))?;
    }
    writeln!(out, "</g></defs></svg>")?;
    legend(out, panels)?;
    writeln!(out, "<div class=\"grid-of-panels\">")?;
    for each in panels {
        panel(out, id, each, x, y)?;
    }
    writeln!(out, "</div></figure>")
}

/// What the dashes mean, of all curves that there are.
fn legend(out: &mut String, panels: &[Panel]) -> std::fmt::Result {
    let Some(longest) = panels.iter().max_by_key(|panel| panel.curves.len()) else { return Ok(()) };
    writeln!(out, "<p class=\"legend\">")?;
    for (number, curve) in longest.curves.iter().enumerate() {
        writeln!(
            out,
            "<span><svg class=\"key\" aria-hidden=\"true\"><line class=\"curve c{number}\" x1=\"0\" x2=\"32\" \
             y1=\"6\" y2=\"6\"/></svg> {}</span>",
            escaped(&curve.label)
        )?;
    }
    if panels.len() > 1 {
        let first = longest.curves.first().map_or("", |curve| curve.label.as_str());
        writeln!(
            out,
            "<span><svg class=\"key\" aria-hidden=\"true\"><line class=\"other\" x1=\"0\" x2=\"32\" y1=\"6\" \
             y2=\"6\"/></svg> {} of the other stores</span>",
            escaped(first)
        )?;
    }
    writeln!(out, "</p>")
}

fn panel(out: &mut String, id: &str, panel: &Panel, x: Scale, y: Scale) -> std::fmt::Result {
    let label = escaped(&panel.label);
    writeln!(out, "<div class=\"panel\"><h4>{label}</h4>")?;
    writeln!(out, "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{label}\">")?;
    axes(out, x, y)?;
    writeln!(out, "<use href=\"#behind-{id}\"/>")?;
    for (number, curve) in panel.curves.iter().enumerate() {
        writeln!(
            out,
            "<polyline class=\"curve c{number}\" points=\"{}\"><title>{label}: {}</title></polyline>",
            places(&curve.points, x, y),
            escaped(&curve.label)
        )?;
    }
    writeln!(out, "</svg></div>")
}

fn axes(out: &mut String, x: Scale, y: Scale) -> std::fmt::Result {
    let bottom = HEIGHT - BOTTOM;
    for (place, text) in x.ticks() {
        let at = LEFT + place * (WIDTH - LEFT - RIGHT);
        writeln!(out, "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{bottom}\"/>")?;
        let (anchor, below) = (anchor(place), HEIGHT - 6.0);
        writeln!(out, "<text x=\"{at:.1}\" y=\"{below}\" text-anchor=\"{anchor}\">{text}</text>")?;
    }
    for (place, text) in y.ticks() {
        let at = bottom - place * (bottom - TOP);
        let right = WIDTH - RIGHT;
        writeln!(out, "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>")?;
        let (before, baseline) = (LEFT - 4.0, at + 3.0);
        writeln!(out, "<text x=\"{before}\" y=\"{baseline:.1}\" text-anchor=\"end\">{text}</text>")?;
    }
    Ok(())
}

/// So that no text sticks out at the ends.
fn anchor(place: f64) -> &'static str {
    match place {
        ..0.04 => "start",
        0.96.. => "end",
        _ => "middle",
    }
}

fn places(points: &[(f64, f64)], x: Scale, y: Scale) -> String {
    let bottom = HEIGHT - BOTTOM;
    let places = points.iter().map(|(right, up)| {
        let at = LEFT + x.place(*right) * (WIDTH - LEFT - RIGHT);
        format!("{at:.1},{:.1}", bottom - y.place(*up) * (bottom - TOP))
    });
    places.collect::<Vec<_>>().join(" ")
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
        let drawn = draw("x", 0, &Chart::Spans { title: "<b>".to_owned(), rows: vec![row] });
        assert!(drawn.contains("&lt;script&gt;&quot;&amp;") && !drawn.contains("<script"), "{drawn}");
    }
}
