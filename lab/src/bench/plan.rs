//! What is measured, for how long.

use crate::args::{BenchArgs, Part};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// One row of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Row {
    /// Acquire and release, each task on a name of its own, as fast as it goes.
    Pairs { tasks: usize },
    /// The same at half of the rate that the row before has reached.
    HalfLoad { tasks: usize },
    /// One name that goes round: so many wait for it at any time, spread over so many processes.
    HandOver { waiters: usize, processes: usize },
    /// So many names are held and renewed.
    Held { count: usize },
}

impl Row {
    fn part(self) -> Part {
        match self {
            Self::Pairs { .. } | Self::HalfLoad { .. } => Part::Uncontended,
            Self::HandOver { .. } => Part::Handover,
            Self::Held { .. } => Part::Held,
        }
    }
}

/// The row's stable name: what `--baseline` finds it by.
impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pairs { tasks } => write!(f, "pairs@{tasks}"),
            Self::HalfLoad { tasks } => write!(f, "half-load@{tasks}"),
            Self::HandOver { waiters, processes } => write!(f, "hand-over@{waiters}x{processes}p"),
            Self::Held { count } => write!(f, "held@{count}"),
        }
    }
}

/// A row that was not measured, by its name, and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct LeftOut {
    pub(crate) row: String,
    pub(crate) why: String,
}

/// What this run measures.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) rows: Vec<Row>,
    pub(crate) left_out: Vec<Row>,
    pub(crate) why_left_out: &'static str,
    pub(crate) window: Duration,
    pub(crate) warm_up: Duration,
    pub(crate) passes: usize,
    pub(crate) raw: bool,
}

impl Plan {
    pub(super) fn of(args: &BenchArgs) -> Self {
        let (rows, left_out) = all(args.processes).into_iter().partition(|row| wanted(*row, args));
        let millis = if args.quick { 200 } else { 700 };
        let window = args.duration.unwrap_or(Duration::from_millis(millis));
        let why_left_out = "not of this choice of rows; --full alone has all";
        Self { rows, left_out, why_left_out, window, warm_up: window / 4, passes: args.passes, raw: args.raw }
    }

    /// What stores are compared by. The crowd is spread over two processes where the lock excludes between processes.
    pub(crate) fn comparing(quick: bool, window: Option<Duration>, between_processes: bool) -> Self {
        let processes = if between_processes { 2 } else { 1 };
        let turns = |waiters| Row::HandOver { waiters, processes };
        let mut rows: Vec<Row> = [1, 64].map(|tasks| Row::Pairs { tasks }).into();
        rows.extend([1, 8, 64].map(turns));
        let long = vec![turns(512), Row::Held { count: 1_000 }];
        let (more, left_out) = if quick { (Vec::new(), long) } else { (long, Vec::new()) };
        rows.extend(more);
        let (millis, passes) = if quick { (150, 3) } else { (400, 5) };
        let window = window.unwrap_or(Duration::from_millis(millis));
        let why_left_out = "left out by --quick";
        Self { rows, left_out, why_left_out, window, warm_up: window / 4, passes, raw: false }
    }
}

fn wanted(row: Row, args: &BenchArgs) -> bool {
    if !args.only.is_empty() && !args.only.contains(&row.part()) {
        return false;
    }
    if args.full {
        return true;
    }
    match row {
        Row::Held { count } => count <= if args.quick { 1_000 } else { 10_000 },
        Row::HandOver { waiters, .. } => !args.quick || waiters <= 64,
        Row::Pairs { .. } | Row::HalfLoad { .. } => true,
    }
}

fn all(processes: usize) -> Vec<Row> {
    let mut rows: Vec<Row> = [1, 64, 1_000].map(|tasks| Row::Pairs { tasks }).into();
    rows.insert(2, Row::HalfLoad { tasks: 64 });
    rows.extend([1, 8, 64, 512].map(|waiters| Row::HandOver { waiters, processes: 1 }));
    if processes > 1 {
        rows.extend([8, 64, 512].map(|waiters| Row::HandOver { waiters, processes }));
    }
    rows.extend([1_000, 10_000, 100_000].map(|count| Row::Held { count }));
    rows
}
