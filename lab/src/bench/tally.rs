//! What the passes of one row have shown.

use super::figures::{Evidence, Passes, fairness, hand_overs, histogram, stall};
use super::plan::Row;
use crate::load::{LoadKind, Turn, Window};
use crate::yardstick::ServerCounters;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// One row, pass after pass. Latencies are in nanoseconds, of all passes together.
#[derive(Clone, Debug)]
pub(crate) struct RowTally {
    pub(crate) row: Row,
    /// Pairs, turns, reads or grants a second, of each pass.
    pub(crate) rates: Vec<f64>,
    /// The rate of the writer beside readers.
    pub(crate) write_rates: Vec<f64>,
    pub(crate) raw_rates: Vec<f64>,
    /// The latencies of pairs or of hand-overs, the waits of a writer or for a permit.
    pub(crate) latencies: Histogram<u64>,
    /// The two halves of a pair.
    pub(crate) acquires: Histogram<u64>,
    pub(crate) releases: Histogram<u64>,
    /// What the costs are divided by: holds, or the seconds of all waiters.
    units: f64,
    cpu: f64,
    counted: Option<ServerCounters>,
    pub(crate) fairness: Vec<f64>,
    pub(crate) overlaps: u64,
    pub(crate) stale_tokens: u64,
    /// Why passes were made again.
    pub(crate) repeated: Vec<String>,
    pub(crate) held: Option<HeldFigures>,
}

/// One window of a row.
#[derive(Debug)]
pub(super) struct Pass {
    pub(super) kind: LoadKind,
    pub(super) window: Window,
    /// In the order in which they were acquired.
    pub(super) turns: Vec<Turn>,
    /// Seconds on a processor of the clients.
    pub(super) cpu: f64,
    pub(super) counted: Option<ServerCounters>,
}

/// What one hold costs, or one waiter in a second. What is not known is `None`.
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
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
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

impl RowTally {
    pub(super) fn new(row: Row) -> Self {
        Self {
            row,
            rates: Vec::new(),
            write_rates: Vec::new(),
            raw_rates: Vec::new(),
            latencies: histogram(),
            acquires: histogram(),
            releases: histogram(),
            units: 0.0,
            cpu: 0.0,
            counted: None,
            fairness: Vec::new(),
            overlaps: 0,
            stale_tokens: 0,
            repeated: Vec::new(),
            held: None,
        }
    }

    pub(super) fn add(&mut self, pass: &Pass) {
        let Pass { kind, window, turns, .. } = pass;
        let rate = |count: usize| count as f64 / window.seconds();
        let acquired = || turns.iter().filter(|turn| window.covers(turn.acquired));
        let released = turns.iter().filter(|turn| window.covers(turn.released)).count();
        if *kind == LoadKind::ByHand {
            return self.raw_rates.push(rate(released));
        }
        let mut units = acquired().count() as f64;
        match self.row {
            Row::Pairs { .. } | Row::Reads { .. } => {
                units = released as f64;
                self.rates.push(rate(released));
                // By its beginning: a pair that outlasts its window is one that a user would have waited for.
                for turn in turns.iter().filter(|turn| window.covers(turn.asked)) {
                    let _ = self.latencies.record(turn.released - turn.asked);
                    let _ = self.acquires.record(turn.acquired - turn.asked);
                    let _ = self.releases.record(turn.released - turn.acquired);
                }
            }
            Row::HandOver { .. } => {
                self.rates.push(rate(acquired().count()));
                let mut seen = histogram();
                hand_overs(turns, *window, &mut seen);
                stall(turns.last(), *window, &mut seen);
                let _ = self.latencies.add(seen);
                self.fairness.push(fairness(acquired(), self.row.tasks()));
            }
            Row::Mixed { .. } => {
                let is_write = |turn: &&Turn| turn.task == 0;
                let writes = acquired().filter(is_write).count();
                self.write_rates.push(rate(writes));
                self.rates.push(rate(acquired().count() - writes));
                self.add_waits(acquired().filter(is_write), turns.iter().rfind(is_write), *window);
            }
            Row::Permits { .. } => {
                self.rates.push(rate(acquired().count()));
                self.add_waits(acquired(), turns.last(), *window);
                self.fairness.push(fairness(acquired(), self.row.tasks()));
            }
            Row::Waiting { tasks } => units = tasks as f64 * window.seconds(),
            Row::Held { .. } => {}
        }
        self.units += units;
        self.cpu += pass.cpu;
        if let Some(counted) = pass.counted {
            let all = self.counted.get_or_insert_default();
            all.commands += counted.commands;
            all.bytes += counted.bytes;
        }
        self.add_evidence(pass);
    }

    /// How long those waited that were served within the window; and the wait that its end has cut off, if it was longer.
    fn add_waits<'a>(&mut self, turns: impl Iterator<Item = &'a Turn>, last: Option<&Turn>, window: Window) {
        let mut seen = histogram();
        for turn in turns {
            let _ = seen.record(turn.acquired - turn.asked);
        }
        stall(last, window, &mut seen);
        let _ = self.latencies.add(seen);
    }

    /// What a lock must never do. Pairs have names of their own.
    pub(super) fn add_evidence(&mut self, pass: &Pass) {
        if !matches!(self.row, Row::Pairs { .. }) {
            let seen = Evidence::of(pass.kind, &pass.turns);
            self.overlaps += seen.overlaps;
            self.stale_tokens += seen.stale_tokens;
        }
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
        let each = |total: f64| (self.units > 0.0).then(|| total / self.units);
        let counted = |of: fn(ServerCounters) -> u64| each(of(self.counted?) as f64);
        Costs {
            server_commands: counted(|counted| counted.commands),
            // A store that does not count its bytes says none.
            server_bytes: counted(|counted| counted.bytes).filter(|bytes| *bytes > 0.0),
            client_cpu_us: each(self.cpu * 1e6),
        }
    }

    /// `None` of a row that has no rate.
    pub(crate) fn per_second(&self) -> Option<Passes> {
        Passes::some(&self.rates)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{Load, now, run};
    use leasehold::backend::MemoryBackend;
    use leasehold::client::LockClient;
    use leasehold::{DistributedLock, DistributedLockExt};
    use std::sync::Arc;
    use std::time::Duration;

    fn memory() -> Arc<dyn DistributedLock> {
        Arc::new(LockClient::new(Arc::new(MemoryBackend::new())))
    }

    fn window(warm_up: u64, millis: u64) -> Window {
        let from = now() + warm_up * 1_000_000;
        Window { from, until: from + millis * 1_000_000 }
    }

    fn pass(row: Row, turns: Vec<Turn>, window: Window) -> RowTally {
        let mut tally = RowTally::new(row);
        tally.add(&Pass { kind: row.kind(), window, turns, cpu: 0.0, counted: None });
        tally
    }

    #[tokio::test]
    async fn stall_beyond_the_window_is_among_the_latencies() {
        let (locks, row, window) = (memory(), Row::Pairs { tasks: 1 }, window(0, 30));
        let held = locks.acquire("x").await.unwrap();
        let load = row.load(0, row.kind(), vec!["x".to_owned()], window);
        let (load, _) = tokio::join!(run(load, &locks), async {
            tokio::time::sleep(Duration::from_millis(60)).await;
            held.release().await.unwrap();
        });
        let tally = pass(row, load.unwrap().turns, window);
        assert_eq!(tally.rates, [0.0], "none has ended within it");
        assert!(tally.latencies.max() >= 30_000_000 && tally.latencies.len() == 1);
    }

    #[tokio::test]
    async fn overlapping_holders_of_two_stores_are_counted() {
        let row = Row::HandOver { waiters: 1, processes: 2 };
        let rotation = async |one: Arc<dyn DistributedLock>, other: Arc<dyn DistributedLock>| {
            let window = window(50, 50);
            let load = |process| -> Load { row.load(process, row.kind(), vec!["x".to_owned()], window) };
            // Both hold in the warm-up: the second task is not one in eight.
            let second = Load { first: 8, ..load(1) };
            let (one, other) = tokio::join!(run(load(0), &one), run(second, &other));
            let mut turns = [one.unwrap().turns, other.unwrap().turns].concat();
            turns.sort_by_key(|turn| turn.acquired);
            pass(row, turns, window)
        };
        assert!(rotation(memory(), memory()).await.overlaps > 0, "two stores exclude nobody from each other");
        let locks = memory();
        let one = rotation(Arc::clone(&locks), locks).await;
        assert!(!one.is_broken() && one.rates[0] > 0.0, "{one:?}");
    }

    #[tokio::test]
    async fn every_kind_of_load_is_served_by_memory_without_evidence() {
        let locks = memory();
        let rows =
            [Row::Reads { tasks: 4 }, Row::Mixed { readers: 4 }, Row::Permits { tasks: 4, permits: 2 }];
        for row in rows {
            let window = window(5, 40);
            let outcome = run(row.load(0, row.kind(), vec!["x".to_owned()], window), &locks).await.unwrap();
            assert_eq!(outcome.errors, 0, "{row}: {outcome:?}");
            let mut turns = outcome.turns;
            turns.sort_by_key(|turn| turn.acquired);
            let tally = pass(row, turns, window);
            assert!(!tally.is_broken() && tally.rates[0] > 0.0, "{row}: {tally:?}");
            assert_eq!(tally.write_rates.is_empty(), row.kind() != LoadKind::Mixed);
        }
    }
}
