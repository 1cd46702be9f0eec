//! The parts of a report: sections, their tables and their charts.

use crate::format::time;
use serde::Serialize;

/// How something is to be taken. Never the only carrier of it: text and mark say it too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Tone {
    #[default]
    Plain,
    Good,
    Careful,
    Bad,
    Muted,
}

/// A part of the report, with one subject.
#[derive(Debug, Serialize)]
pub(crate) struct Section {
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    /// How to read it.
    pub(crate) lead: String,
    pub(crate) charts: Vec<Chart>,
    /// The figures of the charts, and others.
    pub(crate) table: Table,
}

/// Rows of figures.
#[derive(Debug, Serialize)]
pub(crate) struct Table {
    pub(crate) id: String,
    pub(crate) caption: &'static str,
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Vec<Datum>>,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Column {
    pub(crate) title: String,
    /// Figures stand to the right.
    pub(crate) figures: bool,
    /// Left out where there is little room.
    pub(crate) is_detail: bool,
}

/// One cell of a table.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Datum {
    pub(crate) text: String,
    /// The exact figure behind the text.
    pub(crate) value: Option<f64>,
    /// A shape that says the same as the tone, for those who see no colours.
    pub(crate) mark: Option<&'static str>,
    pub(crate) tone: Tone,
    /// A second line, smaller.
    pub(crate) note: Option<String>,
}

/// A picture of figures: for each store, from the median to the tail, on one logarithmic scale.
#[derive(Debug, Serialize)]
pub(crate) struct Chart {
    title: String,
    /// True if each store has one figure, and no tail.
    is_single: bool,
    rows: Vec<Span>,
    /// The places of lines in percent of the width, and what stands beside them.
    ticks: Vec<(f64, String)>,
}

#[derive(Debug, Serialize)]
struct Span {
    label: String,
    /// The figures in words.
    words: String,
    value: String,
    /// The places of the median, p99 and p99.9, in percent of the width.
    places: [f64; 3],
}

impl Section {
    pub(crate) fn new(
        id: &'static str,
        title: &'static str,
        lead: impl Into<String>,
        caption: &'static str,
        columns: Vec<Column>,
        rows: Vec<Vec<Datum>>,
    ) -> Self {
        let table = Table { id: format!("{id}-table"), caption, columns, rows };
        Self { id, title, lead: lead.into(), charts: Vec::new(), table }
    }
}

impl Column {
    pub(crate) fn words(title: impl Into<String>) -> Self {
        Self { title: title.into(), figures: false, is_detail: false }
    }

    pub(crate) fn figures(title: &str) -> Self {
        Self { title: title.to_owned(), figures: true, is_detail: false }
    }

    pub(crate) fn detail(title: &str) -> Self {
        Self { title: title.to_owned(), figures: true, is_detail: true }
    }

    /// Columns of words, and columns of figures behind them.
    pub(crate) fn all(words: &[&str], figures: &[&str]) -> Vec<Self> {
        let words = words.iter().map(|title| Self::words(*title));
        words.chain(figures.iter().map(|title| Self::figures(title))).collect()
    }
}

impl Datum {
    pub(crate) fn words(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// A figure, and how it is written.
    pub(crate) fn figure(value: f64, text: String) -> Self {
        Self { text, value: Some(value), ..Self::default() }
    }

    /// A figure that is not known, or has no meaning there.
    pub(crate) fn none() -> Self {
        Self { text: "–".to_owned(), tone: Tone::Muted, ..Self::default() }
    }

    /// A figure, if it is known.
    pub(crate) fn maybe(value: Option<f64>, write: impl Fn(f64) -> String) -> Self {
        value.map_or_else(Self::none, |value| Self::figure(value, write(value)))
    }

    #[must_use]
    pub(crate) fn with_tone(self, tone: Tone, mark: Option<&'static str>) -> Self {
        Self { tone, mark, ..self }
    }
}

impl Chart {
    /// Of stores and their median, p99 and p99.9 in microseconds, the fastest first; `None` of no store.
    pub(crate) fn of_times(title: String, mut stores: Vec<(String, [f64; 3])>) -> Option<Self> {
        stores.sort_by(|(_, one), (_, other)| one[0].total_cmp(&other[0]));
        let times =
            || stores.iter().flat_map(|(_, times)| *times).filter(|time| *time > 0.0 && time.is_finite());
        let (low, high) = (times().reduce(f64::min)?, times().reduce(f64::max)?);
        // The axis begins and ends with a power of ten.
        let from = low.log10().floor();
        let to = high.log10().ceil().max(from + 1.0);
        let place = |time: f64| {
            let share = (time.max(f64::MIN_POSITIVE).log10() - from) / (to - from);
            (share.clamp(0.0, 1.0) * 1e4).round() / 100.0
        };
        let is_single = stores.iter().all(|(_, [median, _, tail])| median.to_bits() == tail.to_bits());
        let rows = stores.iter().map(|(label, times)| {
            let [median, p99, tail] = times.map(time);
            let words = match is_single {
                true => format!("{label}: {median}"),
                false => format!("{label}: median {median}, p99 {p99}, p99.9 {tail}"),
            };
            Span { label: label.clone(), words, value: median, places: times.map(place) }
        });
        // Every power of ten, or every second one if there are many.
        let step = if to - from > 4.0 { 2 } else { 1 };
        let powers = (from as i32..=to as i32).step_by(step).map(|power| 10_f64.powi(power));
        let ticks = powers.map(|value| (place(value), time(value))).collect();
        Some(Self { title, is_single, rows: rows.collect(), ticks })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(times: &[[f64; 3]]) -> Option<Chart> {
        Chart::of_times(String::new(), times.iter().map(|times| ("store".to_owned(), *times)).collect())
    }

    #[test]
    fn logarithmic_chart_has_its_figures_in_equal_steps() {
        let drawn = chart(&[[9_000.0; 3], [100.0, 1_000.0, 20.0]]).unwrap();
        assert_eq!(drawn.rows[0].places, [33.33, 66.67, 10.03], "the fastest is first");
        let ticks: Vec<&str> = drawn.ticks.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(ticks, ["10 µs", "100 µs", "1 ms", "10 ms"]);
    }

    #[test]
    fn chart_of_a_single_time_has_a_width_and_one_of_none_is_no_chart() {
        let drawn = chart(&[[100.0; 3]]).unwrap();
        assert!(drawn.is_single && drawn.ticks.len() == 2);
        assert_eq!(drawn.rows[0].places, [0.0; 3]);
        assert!(chart(&[]).is_none());
    }
}
