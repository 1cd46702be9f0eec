//! The result of a bench: what is written with `--json`, and shown in the table. A comparison has rows of this form too.

use super::figures::{Latency, Passes};
use super::plan::{LeftOut, Row};
use crate::load::usage::{cores, load_average, system};
use leasehold_console::timestamp;
use serde::{Deserialize, Serialize};
use std::time::SystemTime;

/// Goes up when a reader of the JSON has to change.
const SCHEMA: u32 = 2;
/// Passes that lie further apart than this part of their median tell nothing smaller than that.
const NOISE_LIMIT: f64 = 0.25;

/// One run.
#[derive(Debug, Serialize)]
pub(super) struct BenchResult {
    schema: u32,
    pub(super) leasehold: String,
    started_at: String,
    pub(super) machine: Machine,
    /// What the random names begin with; every run has its own.
    pub(super) seed: String,
    pub(super) passes: usize,
    pub(super) window_ms: u64,
    pub(super) warm_up_ms: u64,
    /// True if a signal ended it early.
    pub(super) interrupted: bool,
    pub(super) stores: Vec<StoreResult>,
}

#[derive(Debug, Serialize)]
pub(super) struct Machine {
    pub(super) system: String,
    pub(super) cores: usize,
    /// The load average of the last minute, before the run and after it.
    pub(super) load_before: Option<f64>,
    pub(super) load_after: Option<f64>,
}

#[derive(Debug, Serialize)]
pub(super) struct StoreResult {
    /// Without a password.
    pub(super) url: String,
    pub(super) backend: String,
    #[serde(flatten)]
    pub(super) figures: StoreFigures,
}

/// One store, measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoreFigures {
    /// What the server calls itself, if there is one and it tells.
    pub(crate) server: Option<String>,
    pub(crate) rows: Vec<RowResult>,
    /// What was not measured, and why.
    pub(crate) left_out: Vec<LeftOut>,
}

/// One row. What does not apply to it, or is not known, is `null`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RowResult {
    pub(crate) row: Row,
    /// Pairs of acquire and release, turns of a holder, reads, or grants of a permit.
    pub(crate) per_second: Option<Passes>,
    /// The rate of the writer beside readers.
    pub(crate) writes_per_second: Option<Passes>,
    /// The latency of a pair or of a hand-over, the wait of a writer or for a permit, over all passes together.
    pub(crate) latency_us: Option<Latency>,
    /// The raw measure beside it, and how much of its rate is reached, pass by pass.
    pub(crate) raw_per_second: Option<Passes>,
    pub(crate) of_raw: Option<Passes>,
    /// What the server counts for one hold, or for one waiter in a second, over all its clients.
    pub(crate) server_commands: Option<f64>,
    pub(crate) server_bytes: Option<f64>,
    /// Time on a processor of the client, for the same.
    pub(crate) client_cpu_us: Option<f64>,
    /// Jain's index of how often each task had the lock or a permit: 1 if all had it equally often.
    pub(crate) fairness: Option<Passes>,
    /// Holds that began beside one that excludes them. Zero, or the lock is none.
    pub(crate) overlaps: u64,
    /// Tokens that were not larger than the one before, of an owner or of a slot.
    pub(crate) stale_tokens: u64,
    pub(crate) held: Option<HeldFigures>,
    /// Why passes were made again: what had failed in them.
    pub(crate) repeated: Vec<String>,
    /// True if the passes, or the raw ones, lie too far apart to tell small differences.
    pub(crate) noisy: bool,
}

/// What holding many names has cost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HeldFigures {
    pub(crate) acquired_in_s: f64,
    pub(crate) released_in_s: f64,
    pub(crate) lost: usize,
    pub(crate) bytes_each: Option<u64>,
    /// The share of one core that renewals use, at a ttl of 30 s.
    pub(crate) client_cpu_at_30s: f64,
}

impl BenchResult {
    pub(super) fn begin(seed: String, passes: usize, window_ms: u64, warm_up_ms: u64) -> Self {
        Self {
            schema: SCHEMA,
            leasehold: env!("CARGO_PKG_VERSION").to_owned(),
            started_at: timestamp(SystemTime::now()),
            machine: Machine {
                system: system(),
                cores: cores(),
                load_before: load_average(),
                load_after: None,
            },
            seed,
            passes,
            window_ms,
            warm_up_ms,
            interrupted: false,
            stores: Vec::new(),
        }
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = &RowResult> {
        self.stores.iter().flat_map(|store| &store.figures.rows)
    }
}

impl RowResult {
    /// What was seen that a lock must never do.
    pub(crate) fn violations(&self) -> impl Iterator<Item = String> {
        let seen =
            [(self.overlaps, "times too many held at once"), (self.stale_tokens, "tokens did not grow")];
        seen.into_iter().filter(|(count, _)| *count > 0).map(|(count, words)| format!("{count} {words}"))
    }

    /// How many held locks were lost: renewals came too late.
    pub(crate) fn lost(&self) -> usize {
        self.held.map_or(0, |held| held.lost)
    }

    /// How far the passes lie apart: those of the row, or of what it is measured against.
    pub(super) fn spread(&self) -> f64 {
        let spread = |passes: Option<Passes>| passes.map_or(0.0, Passes::spread);
        spread(self.per_second).max(spread(self.raw_per_second))
    }

    pub(super) fn is_noisy(&self) -> bool {
        self.spread() > NOISE_LIMIT
    }
}
