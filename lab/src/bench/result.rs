//! The result of a bench: what is written with `--json`, and shown in the table.

use super::figures::{Latency, Passes};
use super::measure::StoreFigures;
use super::plan::{LeftOut, Row};
use super::tally::{HeldFigures, RowTally};
use leasehold::DistributedLock;
use leasehold_console::OpenStore;
use serde::Serialize;

/// Goes up when a reader of the JSON has to change.
pub(super) const SCHEMA: u32 = 1;
/// Passes that lie further apart than this part of their median tell nothing smaller than that.
const NOISE_LIMIT: f64 = 0.25;

/// One run.
#[derive(Debug, Serialize)]
pub(super) struct BenchResult {
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
    pub(super) server: Option<String>,
    pub(super) rows: Vec<RowResult>,
    /// The names of the rows that were not measured, and why.
    pub(super) left_out: Vec<LeftOut>,
}

/// One row. What does not apply to it, or is not known, is `null`.
#[derive(Debug, Default, Serialize)]
pub(super) struct RowResult {
    pub(super) row: String,
    /// Pairs of acquire and release, turns of a holder, reads, or grants of a permit.
    pub(super) per_second: Option<Passes>,
    /// The rate of the writer beside readers.
    pub(super) writes_per_second: Option<Passes>,
    /// The latency of a pair or of a hand-over, the wait of a writer or for a permit, over all passes together.
    pub(super) latency_us: Option<Latency>,
    /// The raw measure beside it, and how much of its rate is reached, pass by pass.
    pub(super) raw_per_second: Option<Passes>,
    pub(super) of_raw: Option<Passes>,
    /// What the server counts for one hold, or for one waiter in a second, over all its clients.
    pub(super) server_commands: Option<f64>,
    pub(super) server_bytes: Option<f64>,
    /// Time on a processor of the client, for the same.
    pub(super) client_cpu_us: Option<f64>,
    pub(super) fairness: Option<Passes>,
    pub(super) overlaps: Option<u64>,
    pub(super) stale_tokens: Option<u64>,
    pub(super) held: Option<HeldFigures>,
    /// Why passes were made again: what had failed in them.
    pub(super) repeated: Vec<String>,
    /// True if the passes, or the raw ones, lie too far apart to tell small differences.
    pub(super) noisy: bool,
}

impl StoreResult {
    pub(super) fn of(store: &OpenStore, measured: &StoreFigures) -> Self {
        Self {
            url: store.config.url().to_string(),
            backend: store.locks.semantics().backend.to_string(),
            server: measured.server.clone(),
            rows: measured.tallies.iter().map(RowResult::of).collect(),
            left_out: measured.left_out.clone(),
        }
    }
}

impl RowResult {
    fn of(tally: &RowTally) -> Self {
        let contended = matches!(
            tally.row,
            Row::HandOver { .. } | Row::Reads { .. } | Row::Mixed { .. } | Row::Permits { .. }
        );
        let costs = tally.costs();
        let mut result = Self {
            row: tally.row.to_string(),
            server_commands: costs.server_commands,
            server_bytes: costs.server_bytes,
            client_cpu_us: costs.client_cpu_us,
            per_second: tally.per_second(),
            writes_per_second: Passes::some(&tally.write_rates),
            latency_us: Latency::of(&tally.latencies),
            raw_per_second: Passes::some(&tally.raw_rates),
            of_raw: ratios(&tally.rates, &tally.raw_rates),
            fairness: Passes::some(&tally.fairness),
            overlaps: contended.then_some(tally.overlaps),
            stale_tokens: contended.then_some(tally.stale_tokens),
            held: tally.held,
            repeated: tally.repeated.clone(),
            noisy: false,
        };
        result.noisy = result.is_noisy();
        result
    }

    /// How far the passes lie apart: those of the row, or of what it is measured against.
    pub(super) fn spread(&self) -> f64 {
        let spread = |passes: Option<Passes>| passes.map_or(0.0, Passes::spread);
        spread(self.per_second).max(spread(self.raw_per_second))
    }

    fn is_noisy(&self) -> bool {
        self.spread() > NOISE_LIMIT
    }

    /// True if something was seen that a lock must never do.
    pub(super) fn is_broken(&self) -> bool {
        self.overlaps.unwrap_or(0) > 0
            || self.stale_tokens.unwrap_or(0) > 0
            || self.held.as_ref().is_some_and(|held| held.lost > 0)
    }
}

/// Pass by pass. A window in which nothing was ended by the other measure has no ratio.
fn ratios(rates: &[f64], of: &[f64]) -> Option<Passes> {
    let both = rates.iter().zip(of).filter(|(_, of)| **of > 0.0);
    Passes::some(&both.map(|(rate, of)| rate / of).collect::<Vec<f64>>())
}

impl BenchResult {
    pub(super) fn rows(&self) -> impl Iterator<Item = &RowResult> {
        self.stores.iter().flat_map(|store| &store.rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_far_apart_are_noisy() {
        let row = |passes: [f64; 2], raw: [f64; 2]| RowResult {
            per_second: Some(Passes::of(passes.to_vec())),
            raw_per_second: Some(Passes::of(raw.to_vec())),
            ..RowResult::default()
        };
        assert!(!row([100.0, 110.0], [100.0, 110.0]).is_noisy());
        assert!(row([100.0, 150.0], [100.0, 110.0]).is_noisy());
        assert!(row([100.0, 110.0], [50.0, 110.0]).is_noisy());
    }
}
