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
    pub(crate) tables: Vec<Table>,
}

/// Rows of figures.
#[derive(Debug, Serialize)]
pub(crate) struct Table {
    pub(crate) id: String,
    pub(crate) caption: String,
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

impl Column {
    pub(crate) fn words(title: impl Into<String>) -> Self {
        Self { title: title.into(), figures: false, is_detail: false }
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

/// A picture of figures that also stand in a table of the same section.
#[derive(Debug)]
pub(crate) enum Chart {
    /// For each store, from the median to the tail, on one logarithmic scale of microseconds.
    Spans { title: String, rows: Vec<Span> },
    /// For each store a panel, with the other stores in the background.
    Panels { title: String, x: Axis, y: Axis, panels: Vec<Panel> },
}

#[derive(Debug)]
pub(crate) struct Span {
    pub(crate) label: String,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
}

#[derive(Debug)]
pub(crate) struct Panel {
    pub(crate) label: String,
    /// The first one is also drawn in the background of the other panels.
    pub(crate) curves: Vec<Curve>,
}

#[derive(Debug)]
pub(crate) struct Curve {
    pub(crate) label: String,
    pub(crate) points: Vec<(f64, f64)>,
}

/// What an axis shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Axis {
    /// Microseconds, logarithmic.
    Time,
    /// A part of all, from 0 to 1.
    Share,
    /// A number of waiters, logarithmic.
    Waiters,
    /// So many a second, logarithmic.
    Rate,
}
