use crate::format::Tone;
use serde::Serialize;

/// A part of the report, with one subject.
#[derive(Debug, Serialize)]
pub(crate) struct Section {
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    /// How to read it.
    pub(crate) lead: String,
    #[serde(skip)]
    pub(crate) charts: Vec<Chart>,
    /// The figures of the charts, and others.
    pub(crate) table: Table,
}

/// Rows of figures.
#[derive(Debug, Serialize)]
pub(crate) struct Table {
    pub(crate) id: String,
    pub(crate) caption: String,
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Vec<Datum>>,
}

impl Table {
    pub(crate) fn new(id: &str, caption: &str, columns: Vec<Column>, rows: Vec<Vec<Datum>>) -> Self {
        Self { id: id.to_owned(), caption: caption.to_owned(), columns, rows }
    }
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Column {
    pub(crate) title: String,
    /// Figures stand to the right.
    pub(crate) figures: bool,
    /// Left out where there is little room.
    pub(crate) is_detail: bool,
}

impl Column {
    pub(crate) fn words(title: impl Into<String>) -> Self {
        Self { title: title.into(), figures: false, is_detail: false }
    }

    /// Columns of words, and columns of figures behind them.
    pub(crate) fn all(words: &[&str], figures: &[&str]) -> Vec<Self> {
        let words = words.iter().map(|title| Self::words(*title));
        words.chain(figures.iter().map(|title| Self::figures(*title))).collect()
    }

    pub(crate) fn figures(title: impl Into<String>) -> Self {
        Self { title: title.into(), figures: true, is_detail: false }
    }

    #[must_use]
    pub(crate) fn detail(mut self) -> Self {
        self.is_detail = true;
        self
    }
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
    /// The anchor of its evidence.
    pub(crate) link: Option<String>,
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
    pub(crate) fn with_tone(mut self, tone: Tone, mark: Option<&'static str>) -> Self {
        self.tone = tone;
        self.mark = mark;
        self
    }
}

/// A picture of figures that also stand in a table of the same section: for each store, from the median to the tail, on one
/// logarithmic scale of microseconds.
#[derive(Debug)]
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) rows: Vec<Span>,
}

#[derive(Debug)]
pub(crate) struct Span {
    pub(crate) label: String,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
}
