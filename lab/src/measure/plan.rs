//! What is measured, for how long.

use crate::args::{BenchArgs, Part};
use crate::load::{Load, LoadKind, Window};
use leasehold::semantics::{Reach, Semantics};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// From when a job is sent until its warm-up: a worker reads it, and a thousand tasks are started.
pub(super) const HEAD_START: Duration = Duration::from_millis(50);
/// How long tasks that want one name have to end after the window.
const GRACE: Duration = Duration::from_millis(50);
/// How long names are held at least.
const MIN_HOLD: Duration = Duration::from_secs(4);
/// How long readers and a writer hold the lock that they share.
const SHARED_HOLD: Duration = Duration::from_millis(2);
/// For the estimate: how many locks a store acquires, and releases, in a second.
const USUAL_RATE: f64 = 10_000.0;
/// For the estimate: what a window has beside it, to tell jobs and to read what came of them.
const BESIDE_WINDOW: Duration = Duration::from_millis(20);

/// One row of the result. In JSON it is its stable name, by which a baseline finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub(crate) enum Row {
    /// Acquire and release, each task on a name of its own, as fast as it goes: `pairs@64`.
    Pairs { tasks: usize },
    /// One name that goes round: so many wait for it at any time, spread over so many processes: `hand-over@8x2p`.
    HandOver { waiters: usize, processes: usize },
    /// One name that all share: `reads@64`.
    Reads { tasks: usize },
    /// One name that so many readers share, and that one writer wants again and again: `mixed@8`.
    Mixed { readers: usize },
    /// One semaphore: `permits@64/8`.
    Permits { tasks: usize, permits: u32 },
    /// One name that is held all the time, and for which so many wait: `waiting@100`.
    IdleWaiters { waiters: usize },
    /// So many names are held and renewed: `held@1000`.
    Held { count: usize },
}

impl Row {
    fn part(self) -> Part {
        match self {
            Self::Pairs { .. } => Part::Uncontended,
            Self::HandOver { .. } => Part::Handover,
            Self::Reads { .. } | Self::Mixed { .. } | Self::Permits { .. } => Part::Kinds,
            Self::IdleWaiters { .. } => Part::Waiting,
            Self::Held { .. } => Part::Held,
        }
    }

    /// What its tasks take.
    pub(super) fn kind(self) -> LoadKind {
        match self {
            Self::Reads { .. } => LoadKind::Read,
            Self::Mixed { .. } => LoadKind::Mixed,
            Self::Permits { permits, .. } => LoadKind::Permits(permits),
            Self::Pairs { .. } | Self::HandOver { .. } | Self::IdleWaiters { .. } | Self::Held { .. } => {
                LoadKind::Exclusive
            }
        }
    }

    /// How many tasks it has, in all processes: a holder beside those that wait, a writer beside those that read.
    pub(super) fn tasks(self) -> usize {
        match self {
            Self::Pairs { tasks } | Self::Reads { tasks } | Self::Permits { tasks, .. } => tasks,
            Self::HandOver { waiters: others, .. }
            | Self::Mixed { readers: others }
            | Self::IdleWaiters { waiters: others } => others + 1,
            Self::Held { count } => count,
        }
    }

    pub(super) fn processes(self) -> usize {
        if let Self::HandOver { processes, .. } = self { processes } else { 1 }
    }

    /// Why a store with these semantics cannot have such a row.
    pub(super) fn refusal(self, semantics: &Semantics) -> Option<String> {
        match semantics.reach {
            Reach::Process if self.processes() > 1 => Some("this store is of one process".to_owned()),
            _ => self.kind().refusal(semantics),
        }
    }

    /// The load of one of its processes. The tasks of all are numbered through.
    pub(super) fn load(self, process: usize, names: Vec<String>, window: Window) -> Load {
        let first = |process: usize| self.tasks() * process / self.processes();
        Load {
            kind: self.kind(),
            names,
            tasks: first(process + 1) - first(process),
            first: first(process) as u64,
            hold: match self {
                Self::Mixed { .. } => SHARED_HOLD,
                Self::IdleWaiters { .. } => Duration::from_secs(3600),
                _ => Duration::ZERO,
            },
            holds_in_warm_up: matches!(self, Self::HandOver { .. } | Self::Permits { .. }),
            drops: false,
            ramp: Duration::ZERO,
            grace: (!matches!(self, Self::Pairs { .. })).then_some(GRACE),
            window,
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pairs { tasks } => write!(f, "pairs@{tasks}"),
            Self::HandOver { waiters, processes } => write!(f, "hand-over@{waiters}x{processes}p"),
            Self::Reads { tasks } => write!(f, "reads@{tasks}"),
            Self::Mixed { readers } => write!(f, "mixed@{readers}"),
            Self::Permits { tasks, permits } => write!(f, "permits@{tasks}/{permits}"),
            Self::IdleWaiters { waiters } => write!(f, "waiting@{waiters}"),
            Self::Held { count } => write!(f, "held@{count}"),
        }
    }
}

impl TryFrom<String> for Row {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let numbers = |sizes: &str| {
            let sizes = sizes.trim_end_matches('p').split(['x', '/']);
            sizes.map(|size| size.parse().ok()).collect::<Option<Vec<usize>>>()
        };
        let parts = name.split_once('@').and_then(|(kind, sizes)| Some((kind, numbers(sizes)?)));
        let row = match parts.as_ref().map(|(kind, numbers)| (*kind, numbers.as_slice())) {
            Some(("pairs", &[tasks])) => Some(Self::Pairs { tasks }),
            Some(("hand-over", &[waiters, processes])) => Some(Self::HandOver { waiters, processes }),
            Some(("reads", &[tasks])) => Some(Self::Reads { tasks }),
            Some(("mixed", &[readers])) => Some(Self::Mixed { readers }),
            Some(("permits", &[tasks, permits])) => {
                u32::try_from(permits).ok().map(|permits| Self::Permits { tasks, permits })
            }
            Some(("waiting", &[waiters])) => Some(Self::IdleWaiters { waiters }),
            Some(("held", &[count])) => Some(Self::Held { count }),
            _ => None,
        };
        row.ok_or_else(|| format!("unknown row {name:?}"))
    }
}

impl From<Row> for String {
    fn from(row: Row) -> Self {
        row.to_string()
    }
}

/// Readers, a writer beside readers, and permits.
const KINDS: [Row; 3] =
    [Row::Reads { tasks: 64 }, Row::Mixed { readers: 8 }, Row::Permits { tasks: 64, permits: 8 }];
const IDLE_WAITERS: Row = Row::IdleWaiters { waiters: 100 };

/// A row that was not measured, by its name, and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct LeftOut {
    pub(crate) row: String,
    pub(crate) why: String,
}

impl LeftOut {
    /// In place of a row: all that was not measured before an error.
    pub(crate) const THE_REST: &str = "speed";

    pub(crate) fn new(row: impl fmt::Display, why: &str) -> Self {
        Self { row: row.to_string(), why: why.to_owned() }
    }
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
}

impl Plan {
    pub(crate) fn of(args: &BenchArgs) -> Self {
        let (rows, left_out) = all(args.processes).into_iter().partition(|row| wanted(*row, args));
        let millis = if args.quick { 200 } else { 700 };
        let window = args.duration.unwrap_or(Duration::from_millis(millis));
        let why_left_out = "not of this choice of rows; --full alone has all";
        Self { rows, left_out, why_left_out, window, warm_up: window / 4, passes: args.passes }
    }

    /// What stores are compared by. The crowd is spread over two processes where the lock excludes between processes.
    pub(crate) fn comparing(quick: bool, window: Option<Duration>, between_processes: bool) -> Self {
        let processes = if between_processes { 2 } else { 1 };
        let turns = |waiters| Row::HandOver { waiters, processes };
        let mut rows: Vec<Row> = [1, 64].map(|tasks| Row::Pairs { tasks }).into();
        rows.extend([1, 8, 64].map(turns));
        rows.extend(KINDS);
        rows.push(IDLE_WAITERS);
        let long = vec![turns(512), Row::Held { count: 1_000 }];
        let (more, left_out) = if quick { (Vec::new(), long) } else { (long, Vec::new()) };
        rows.extend(more);
        let (millis, passes) = if quick { (150, 3) } else { (400, 5) };
        let window = window.unwrap_or(Duration::from_millis(millis));
        let why_left_out = "left out by --quick";
        Self { rows, left_out, why_left_out, window, warm_up: window / 4, passes }
    }

    /// How long names are held: so that each is renewed twice meanwhile.
    pub(super) fn hold(&self) -> Duration {
        self.all_passes(self.window).clamp(MIN_HOLD, MIN_HOLD * 5)
    }

    /// How long a store takes for these rows.
    pub(crate) fn estimate(&self, rows: &[Row]) -> Duration {
        let each = |row: &Row| match row {
            Row::Held { count } => self.hold() + Duration::from_secs_f64(2.0 * *count as f64 / USUAL_RATE),
            Row::Pairs { .. } => self.all_passes(self.around_window()),
            _ => self.all_passes(self.around_window() + GRACE),
        };
        rows.iter().map(each).sum()
    }

    fn around_window(&self) -> Duration {
        HEAD_START + self.warm_up + self.window + BESIDE_WINDOW
    }

    fn all_passes(&self, one: Duration) -> Duration {
        one * u32::try_from(self.passes).unwrap_or(u32::MAX)
    }
}

fn wanted(row: Row, args: &BenchArgs) -> bool {
    if !args.only.is_empty() && !args.only.contains(&row.part()) {
        return false;
    }
    args.full
        || match row {
            Row::Held { count } => count <= if args.quick { 1_000 } else { 10_000 },
            Row::HandOver { waiters, .. } => !args.quick || waiters <= 64,
            _ => true,
        }
}

fn all(processes: usize) -> Vec<Row> {
    let mut rows: Vec<Row> = [1, 64, 1_000].map(|tasks| Row::Pairs { tasks }).into();
    rows.extend([1, 8, 64, 512].map(|waiters| Row::HandOver { waiters, processes: 1 }));
    if processes > 1 {
        rows.extend([64, 512].map(|waiters| Row::HandOver { waiters, processes }));
    }
    rows.extend(KINDS);
    rows.push(IDLE_WAITERS);
    rows.extend([1_000, 10_000, 100_000].map(|count| Row::Held { count }));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_is_read_by_its_name_and_another_name_is_refused() {
        for row in all(4) {
            assert_eq!(Row::try_from(row.to_string()), Ok(row));
        }
        for name in ["pairs", "pairs@", "pairs@1/2", "queues@3", "held@-1"] {
            assert_eq!(Row::try_from(name.to_owned()), Err(format!("unknown row {name:?}")));
        }
    }
}
