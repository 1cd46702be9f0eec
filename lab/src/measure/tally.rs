//! What the passes of one row have shown.

use super::figures::{Evidence, Latency, Passes, fairness, hand_overs, histogram, stall};
use super::plan::Row;
use super::row_result::{HeldFigures, RowResult};
use crate::load::{Turn, Window};
use crate::server::ServerCounters;
use hdrhistogram::Histogram;

/// One row, pass after pass.
#[derive(Clone, Debug)]
pub(super) struct RowTally {
    pub(super) row: Row,
    /// Pairs, turns, reads or grants a second, of each pass.
    rates: Vec<f64>,
    /// The rate of the writer beside readers.
    write_rates: Vec<f64>,
    /// Pairs or hand-overs, the waits of a writer or for a permit, over all passes together, in nanoseconds.
    latencies: Histogram<u64>,
    /// What the costs are divided by: holds, or the seconds of all waiters.
    units: f64,
    cpu: f64,
    counted: Option<ServerCounters>,
    fairness: Vec<f64>,
    evidence: Evidence,
    pub(super) held: Option<HeldFigures>,
    /// Why the rest of it was not measured.
    pub(super) ended: Option<String>,
}

/// One window of a row.
#[derive(Debug)]
pub(super) struct Pass {
    pub(super) window: Window,
    /// In the order in which they were acquired.
    pub(super) turns: Vec<Turn>,
    /// Seconds on a processor of the clients.
    pub(super) cpu: f64,
    pub(super) counted: Option<ServerCounters>,
    /// Why some tasks have failed.
    pub(super) failed: Option<String>,
}

impl RowTally {
    pub(super) fn new(row: Row) -> Self {
        Self {
            row,
            rates: Vec::new(),
            write_rates: Vec::new(),
            latencies: histogram(),
            units: 0.0,
            cpu: 0.0,
            counted: None,
            fairness: Vec::new(),
            evidence: Evidence::default(),
            held: None,
            ended: None,
        }
    }

    pub(super) fn add(&mut self, pass: &Pass) {
        let Pass { window, turns, .. } = pass;
        let rate = |count: usize| count as f64 / window.seconds();
        let acquired = || turns.iter().filter(|turn| window.covers(turn.acquired));
        let released = turns.iter().filter(|turn| window.covers(turn.released)).count();
        let mut units = acquired().count() as f64;
        match self.row {
            Row::Pairs { .. } | Row::Reads { .. } => {
                units = released as f64;
                self.rates.push(rate(released));
                // By its beginning: a pair that outlasts its window is one that a user would have waited for.
                for turn in turns.iter().filter(|turn| window.covers(turn.asked)) {
                    let _ = self.latencies.record(turn.released - turn.asked);
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
            Row::IdleWaiters { waiters } => units = waiters as f64 * window.seconds(),
            Row::Held { .. } => {}
        }
        self.units += units;
        self.cpu += pass.cpu;
        if let Some(counted) = pass.counted {
            let all = self.counted.get_or_insert_default();
            all.commands += counted.commands;
            all.bytes += counted.bytes;
        }
        self.add_evidence(turns);
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
    pub(super) fn add_evidence(&mut self, turns: &[Turn]) {
        if !matches!(self.row, Row::Pairs { .. }) {
            let seen = Evidence::of(self.row.kind(), turns);
            self.evidence.overlaps += seen.overlaps;
            self.evidence.stale_tokens += seen.stale_tokens;
        }
    }

    /// True if a pass of it was measured, or something was seen that a lock must never do.
    pub(super) fn is_worth_showing(&self) -> bool {
        let is_measured = self.units > 0.0 || !self.rates.is_empty() || self.held.is_some();
        is_measured || self.evidence != Evidence::default()
    }

    pub(super) fn result(self) -> RowResult {
        let each = |total: f64| (self.units > 0.0).then(|| total / self.units);
        let counted = |of: fn(ServerCounters) -> u64| each(of(self.counted?) as f64);
        RowResult {
            row: self.row,
            per_second: Passes::some(&self.rates),
            writes_per_second: Passes::some(&self.write_rates),
            latency_us: Latency::of(&self.latencies),
            server_commands: counted(|counted| counted.commands),
            // A store that does not count its bytes says none.
            server_bytes: counted(|counted| counted.bytes).filter(|bytes| *bytes > 0.0),
            client_cpu_us: each(self.cpu * 1e6),
            fairness: Passes::some(&self.fairness),
            overlaps: self.evidence.overlaps,
            stale_tokens: self.evidence.stale_tokens,
            held: self.held,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{Load, LoadKind, now, run};
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

    fn pass(row: Row, turns: Vec<Turn>, window: Window) -> RowResult {
        let mut tally = RowTally::new(row);
        tally.add(&Pass { window, turns, cpu: 0.0, counted: None, failed: None });
        tally.result()
    }

    fn rate(result: &RowResult) -> f64 {
        result.per_second.unwrap().median
    }

    #[test]
    fn row_that_ended_after_a_pass_keeps_it() {
        let mut tally = RowTally::new(Row::Pairs { tasks: 1 });
        tally.ended = Some("out of memory".to_owned());
        assert!(!tally.is_worth_showing());
        tally.rates.push(7.0);
        assert!(tally.is_worth_showing());
    }

    #[tokio::test]
    async fn stall_beyond_the_window_is_among_the_latencies() {
        let (locks, row, window) = (memory(), Row::Pairs { tasks: 1 }, window(0, 30));
        let held = locks.acquire("x").await.unwrap();
        let load = row.load(0, vec!["x".to_owned()], window);
        let (load, _) = tokio::join!(run(load, &locks), async {
            tokio::time::sleep(Duration::from_millis(60)).await;
            held.release().await.unwrap();
        });
        let result = pass(row, load.unwrap().turns, window);
        assert_eq!(rate(&result), 0.0, "none has ended within it");
        let latency = result.latency_us.unwrap();
        assert!(latency.max >= 30_000.0 && latency.count == 1);
    }

    #[tokio::test]
    async fn overlapping_holders_of_two_stores_are_counted() {
        let row = Row::HandOver { waiters: 1, processes: 2 };
        let rotation = async |one: Arc<dyn DistributedLock>, other: Arc<dyn DistributedLock>| {
            let window = window(50, 50);
            let load = |process| -> Load { row.load(process, vec!["x".to_owned()], window) };
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
        assert!(one.violations().next().is_none() && rate(&one) > 0.0, "{one:?}");
    }

    #[tokio::test]
    async fn every_kind_of_load_is_served_by_memory_without_evidence() {
        let locks = memory();
        let rows =
            [Row::Reads { tasks: 4 }, Row::Mixed { readers: 4 }, Row::Permits { tasks: 4, permits: 2 }];
        for row in rows {
            let window = window(5, 40);
            let outcome = run(row.load(0, vec!["x".to_owned()], window), &locks).await.unwrap();
            assert_eq!(outcome.errors, 0, "{row}: {outcome:?}");
            let mut turns = outcome.turns;
            turns.sort_by_key(|turn| turn.acquired);
            let result = pass(row, turns, window);
            assert!(result.violations().next().is_none() && rate(&result) > 0.0, "{row}: {result:?}");
            assert_eq!(result.writes_per_second.is_some(), row.kind() == LoadKind::Mixed);
        }
    }

    #[test]
    fn passes_far_apart_are_noisy() {
        let row = |rates: [f64; 2]| {
            let mut tally = RowTally::new(Row::Pairs { tasks: 1 });
            tally.rates = rates.into();
            tally.result()
        };
        assert!(!row([100.0, 110.0]).is_noisy() && row([100.0, 150.0]).is_noisy());
    }
}
