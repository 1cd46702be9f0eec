//! What the passes of one row have shown.

use super::job::{HoldResult, LockMethod, PairsResult, Window, histogram};
use super::plan::Row;
use super::stats::{Passes, Rotation};
use crate::yardstick::ServerCounters;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// One row, pass after pass. Latencies are in nanoseconds, of all passes together.
#[derive(Clone, Debug)]
pub(crate) struct RowTally {
    pub(crate) row: Row,
    /// Pairs or turns a second, of each pass.
    pub(crate) rates: Vec<f64>,
    pub(crate) raw_rates: Vec<f64>,
    pub(crate) tokenless_rates: Vec<f64>,
    /// The latencies of pairs or of hand-overs.
    pub(crate) latencies: Histogram<u64>,
    /// Beside a hand-over: a release by hand until another was told of it.
    pub(crate) notices: Histogram<u64>,
    /// The two halves of a pair.
    pub(crate) acquires: Histogram<u64>,
    pub(crate) releases: Histogram<u64>,
    /// Pairs or turns, of all passes.
    turns: u64,
    cpu: f64,
    counted: Option<ServerCounters>,
    pub(crate) fairness: Vec<f64>,
    pub(crate) overlaps: u64,
    pub(crate) stale_tokens: u64,
    /// Why passes were made again.
    pub(crate) repeated: Vec<String>,
    pub(crate) held: Option<HeldFigures>,
}

/// What one pair or turn costs. What is not known is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Costs {
    /// What the server counts, over all its clients.
    pub(crate) server_commands: Option<f64>,
    pub(crate) server_bytes: Option<f64>,
    /// Microseconds on a processor of the client.
    pub(crate) client_cpu_us: Option<f64>,
}

/// What holding many names has cost.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct HeldFigures {
    pub(crate) ttl_ms: u64,
    pub(crate) acquired_in_s: f64,
    pub(crate) released_in_s: f64,
    pub(crate) lost: usize,
    pub(crate) bytes_each: Option<u64>,
    /// The share of one core, at this ttl.
    pub(crate) client_cpu: f64,
    /// The same for a ttl of 30 s, where renewals are so much rarer.
    pub(crate) client_cpu_at_30s: f64,
}

impl HeldFigures {
    pub(super) fn of(held: &HoldResult, ttl_ms: u64, seconds: f64) -> Self {
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

impl RowTally {
    pub(super) fn new(row: Row) -> Self {
        Self {
            row,
            rates: Vec::new(),
            raw_rates: Vec::new(),
            tokenless_rates: Vec::new(),
            latencies: histogram(),
            notices: histogram(),
            acquires: histogram(),
            releases: histogram(),
            turns: 0,
            cpu: 0.0,
            counted: None,
            fairness: Vec::new(),
            overlaps: 0,
            stale_tokens: 0,
            repeated: Vec::new(),
            held: None,
        }
    }

    pub(super) fn add_pairs(
        &mut self,
        way: LockMethod,
        pairs: &PairsResult,
        counted: Option<ServerCounters>,
        window: Window,
    ) {
        let rate = pairs.ended as f64 / window.seconds();
        match way {
            LockMethod::Leasehold => self.rates.push(rate),
            LockMethod::Raw => return self.raw_rates.push(rate),
            LockMethod::Tokenless => return self.tokenless_rates.push(rate),
        }
        self.turns += pairs.ended;
        self.cpu += pairs.cpu;
        self.count(counted);
        pairs.latencies.add_to(&mut self.latencies);
        pairs.acquires.add_to(&mut self.acquires);
        pairs.releases.add_to(&mut self.releases);
    }

    pub(super) fn add_rotation(
        &mut self,
        round: &Rotation,
        cpu: f64,
        counted: Option<ServerCounters>,
        window: Window,
    ) {
        self.turns += round.turns;
        self.rates.push(round.turns as f64 / window.seconds());
        self.cpu += cpu;
        self.count(counted);
        let _ = self.latencies.add(&round.hand_overs);
        self.fairness.push(round.fairness);
        self.add_evidence(round);
    }

    /// What a lock must never do.
    pub(super) fn add_evidence(&mut self, round: &Rotation) {
        self.overlaps += round.overlaps;
        self.stale_tokens += round.stale_tokens;
    }

    pub(super) fn is_broken(&self) -> bool {
        self.overlaps > 0 || self.stale_tokens > 0
    }

    /// As it was before a pass that has failed half-way, but for what was seen in it, and why it has failed.
    pub(super) fn take_pass_back(&mut self, before: Self, why: String) {
        let failed = std::mem::replace(self, before);
        (self.overlaps, self.stale_tokens) = (failed.overlaps, failed.stale_tokens);
        self.repeated.push(why);
    }

    pub(crate) fn costs(&self) -> Costs {
        let each = |total: f64| (self.turns > 0).then(|| total / self.turns as f64);
        Costs {
            server_commands: self.counted.and_then(|counted| each(counted.commands as f64)),
            // A store that does not count its bytes says none.
            server_bytes: self
                .counted
                .and_then(|counted| each(counted.bytes as f64))
                .filter(|bytes| *bytes > 0.0),
            client_cpu_us: each(self.cpu * 1e6).filter(|_| self.held.is_none()),
        }
    }

    /// `None` of a row that has no rate.
    pub(crate) fn per_second(&self) -> Option<Passes> {
        Passes::some(&self.rates)
    }

    fn count(&mut self, counted: Option<ServerCounters>) {
        let Some(counted) = counted else { return };
        let all = self.counted.get_or_insert_default();
        all.commands += counted.commands;
        all.bytes += counted.bytes;
    }
}
