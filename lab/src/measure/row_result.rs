//! The form of what was measured, in reports.

use super::figures::{Latency, Passes};
use super::plan::{LeftOut, Row};
use serde::{Deserialize, Serialize};

/// Passes that lie further apart than this part of their median tell nothing smaller than that.
const NOISE_LIMIT: f64 = 0.25;

/// One store, measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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
}

/// What holding many names has cost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HeldFigures {
    /// Renewals came too late.
    pub(crate) lost: usize,
    pub(crate) bytes_each: Option<u64>,
    /// The share of one core that renewals use, at a ttl of 30 s.
    pub(crate) client_cpu_at_30s: f64,
}

impl RowResult {
    /// What was seen that a lock must never do.
    pub(crate) fn violations(&self) -> impl Iterator<Item = String> {
        let seen =
            [(self.overlaps, "times too many held at once"), (self.stale_tokens, "tokens did not grow")];
        let seen = seen.into_iter().filter(|(count, _)| *count > 0);
        seen.map(|(count, words)| format!("{}: {count} {words}", self.row))
    }

    /// True if the passes lie too far apart to tell small differences.
    pub(crate) fn is_noisy(&self) -> bool {
        self.per_second.is_some_and(|passes| passes.spread() > NOISE_LIMIT)
    }
}
