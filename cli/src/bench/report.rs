//! The result: what is written with `--json`, compared with `--baseline`, and shown in the table.

use super::job::Held;
use super::stats::{Latency, Passes};
use serde::{Deserialize, Serialize};

/// Goes up when a reader of the JSON has to change.
pub(super) const SCHEMA: u32 = 1;
/// Passes that lie further apart than this part of their median tell nothing smaller than that.
pub(super) const NOISE_LIMIT: f64 = 0.25;

/// One run.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Report {
    pub(super) schema: u32,
    pub(super) leasehold: String,
    pub(super) started_at: String,
    pub(super) machine: Machine,
    /// What the random names begin with; every run has its own.
    pub(super) seed: String,
    pub(super) passes: usize,
    pub(super) window_ms: u64,
    pub(super) warm_up_ms: u64,
    /// True if a signal ended it early.
    pub(super) interrupted: bool,
    pub(super) stores: Vec<StoreReport>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Machine {
    pub(super) system: String,
    pub(super) cores: usize,
    /// Of the last minute, before the run and after it.
    pub(super) load_before: Option<f64>,
    pub(super) load_after: Option<f64>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StoreReport {
    /// Without a password.
    pub(super) url: String,
    pub(super) backend: String,
    pub(super) server: Option<String>,
    pub(super) rows: Vec<RowReport>,
    /// The names of the rows that were not measured, and why.
    pub(super) left_out: Vec<LeftOut>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct LeftOut {
    pub(super) row: String,
    pub(super) why: String,
}

/// One row. What does not apply to it, or is not known, is `null`.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct RowReport {
    pub(super) row: String,
    /// Pairs of acquire and release, or turns of a holder.
    pub(super) per_second: Option<Passes>,
    /// Of a pair, or of a hand-over; of all passes together.
    pub(super) latency_us: Option<Latency>,
    /// The raw measure beside it, and how much of its rate is reached, pass by pass.
    pub(super) raw_per_second: Option<Passes>,
    pub(super) of_raw: Option<Passes>,
    /// Of the server, for one pair or turn, as it counts them for all its clients.
    pub(super) server_commands: Option<f64>,
    pub(super) server_bytes: Option<f64>,
    /// Time on a processor of the client, for one pair or turn.
    pub(super) client_cpu_us: Option<f64>,
    pub(super) fairness: Option<Passes>,
    pub(super) overlaps: Option<u64>,
    pub(super) stale_tokens: Option<u64>,
    pub(super) held: Option<HeldReport>,
    /// True if the passes, or the raw ones, lie too far apart to tell small differences.
    pub(super) noisy: bool,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct HeldReport {
    pub(super) ttl_ms: u64,
    pub(super) acquired_in_s: f64,
    pub(super) released_in_s: f64,
    pub(super) lost: usize,
    pub(super) bytes_each: Option<u64>,
    /// Of one core, at this ttl.
    pub(super) client_cpu: f64,
    /// The same for a ttl of 30 s, where renewals are so much rarer.
    pub(super) client_cpu_at_30s: f64,
}

impl HeldReport {
    pub(super) fn of(held: &Held, ttl_ms: u64, seconds: f64) -> Self {
        let client_cpu = held.cpu / seconds;
        Self {
            ttl_ms,
            acquired_in_s: held.acquiring,
            released_in_s: held.releasing,
            lost: held.lost,
            bytes_each: held.bytes_each,
            client_cpu,
            client_cpu_at_30s: client_cpu * ttl_ms as f64 / 30_000.0,
        }
    }
}

impl RowReport {
    /// True if something was seen that a lock must never do.
    pub(super) fn is_broken(&self) -> bool {
        self.overlaps.unwrap_or(0) > 0
            || self.stale_tokens.unwrap_or(0) > 0
            || self.held.as_ref().is_some_and(|held| held.lost > 0)
    }
}

impl Report {
    /// The same row of the same kind of store.
    pub(super) fn find(&self, backend: &str, row: &str) -> Option<&RowReport> {
        let stores = self.stores.iter().filter(|store| store.backend == backend);
        stores.flat_map(|store| &store.rows).find(|found| found.row == row)
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = &RowReport> {
        self.stores.iter().flat_map(|store| &store.rows)
    }
}
