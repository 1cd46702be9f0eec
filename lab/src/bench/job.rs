//! What the bench and its workers say to each other: one line of JSON each way, over standard input and output.
//!
//! Moments are nanoseconds of `CLOCK_MONOTONIC`, which all processes of a host share: so who held when can be put in one
//! order across processes.

use hdrhistogram::Histogram;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A moment in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct MonotonicTime(pub(super) u64);

impl MonotonicTime {
    pub(super) fn now() -> Self {
        let time = clock_gettime(ClockId::Monotonic);
        Self(time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs())
    }

    pub(super) fn plus(self, time: Duration) -> Self {
        Self(self.0 + nanos(time))
    }

    pub(super) fn nanos_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// As [`wait`](Self::wait), for a thread that has no other work.
    pub(super) fn sleep(self) {
        std::thread::sleep(Duration::from_nanos(self.nanos_since(Self::now())));
    }

    pub(super) async fn wait(self) {
        let left = self.nanos_since(Self::now());
        tokio::time::sleep(Duration::from_nanos(left)).await;
    }
}

pub(super) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// What is measured begins at `from`, and what ran before it is warm-up.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Window {
    pub(super) from: MonotonicTime,
    pub(super) until: MonotonicTime,
}

impl Window {
    pub(super) fn seconds(self) -> f64 {
        Duration::from_nanos(self.until.nanos_since(self.from)).as_secs_f64()
    }

    /// How much of it is left at a moment, as a part of the whole; a tenth at least.
    pub(super) fn share_after(self, moment: MonotonicTime) -> f64 {
        let left = self.until.nanos_since(moment.max(self.from)) as f64;
        (left / self.until.nanos_since(self.from) as f64).max(0.1)
    }

    pub(super) fn covers(self, moment: MonotonicTime) -> bool {
        self.from <= moment && moment <= self.until
    }
}

/// By what a lock is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum LockMethod {
    /// By Leasehold, as an application does.
    Leasehold,
    /// By the least that could be right.
    Raw,
    /// By the same without a token.
    Tokenless,
}

/// One thing to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "job", rename_all = "snake_case")]
pub(super) enum Job {
    /// Takes a lock and gives it back: connects, and makes what the store needs. `for_all` rows, or for one of them.
    Open { name: String, for_all: bool },
    /// Each task takes a name of its own and gives it back, over and over; `pairs_a_second`, all tasks together, or as
    /// fast as it goes.
    Pairs { way: LockMethod, tasks: usize, names: String, pairs_a_second: Option<f64>, window: Window },
    /// All want one name. They are numbered from `first`.
    HandOver { name: String, contenders: usize, first: usize, window: Window },
    /// One name is given back by hand while somebody waits to be told, over and over.
    Notices { name: String, window: Window },
    /// Holds so many names.
    Hold { names: String, count: usize, ttl_millis: u64, millis: u64 },
}

impl Job {
    /// True unless nothing can be measured without it.
    pub(super) fn is_of_row(&self) -> bool {
        !matches!(self, Self::Open { for_all: true, .. })
    }
}

/// What came of it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "done", rename_all = "snake_case")]
pub(super) enum JobResult {
    /// The store has no room for it.
    Failed {
        why: String,
    },
    Opened,
    Pairs(PairsResult),
    HandOver {
        turns: Vec<Turn>,
        cpu: f64,
    },
    /// How long it took until the waiter was told.
    Notices {
        times: HistogramCounts,
    },
    Held(HoldResult),
}

/// Pairs of one window.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct PairsResult {
    /// How many have ended within it.
    pub(super) ended: u64,
    /// Of pairs that began within it, whenever they ended. At a fixed rate a pair that is late, or never begins, counts from its
    /// scheduled start.
    pub(super) latencies: HistogramCounts,
    /// Its two halves, by Leasehold only.
    pub(super) acquires: HistogramCounts,
    pub(super) releases: HistogramCounts,
    /// Seconds on a processor.
    pub(super) cpu: f64,
}

/// One time that somebody held the lock.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Turn {
    pub(super) who: usize,
    pub(super) acquired: MonotonicTime,
    /// The release begins.
    pub(super) ends: MonotonicTime,
    pub(super) token: u64,
}

/// What holding many names has cost.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct HoldResult {
    /// Seconds.
    pub(super) acquiring: f64,
    pub(super) releasing: f64,
    /// Names that were no longer held at the end, or not surely.
    pub(super) lost: usize,
    /// Seconds on a processor while they were held.
    pub(super) cpu: f64,
    /// `None` where the system does not tell.
    pub(super) bytes_each: Option<u64>,
}

/// A histogram on its way from one process to another: values in nanoseconds, and how often.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct HistogramCounts(Vec<(u64, u64)>);

impl HistogramCounts {
    pub(super) fn of(histogram: &Histogram<u64>) -> Self {
        let values = histogram.iter_recorded();
        Self(values.map(|value| (value.value_iterated_to(), value.count_at_value())).collect())
    }

    pub(super) fn add_to(&self, histogram: &mut Histogram<u64>) {
        for (value, count) in &self.0 {
            // It grows with what it is given; there is nothing that could be out of range.
            let _ = histogram.record_n(*value, *count);
        }
    }
}

/// An empty histogram of nanoseconds, exact to three figures.
pub(super) fn histogram() -> Histogram<u64> {
    let made = Histogram::new(3);
    made.unwrap_or_else(|_| unreachable!("three figures are within its range of 0 to 5"))
}
