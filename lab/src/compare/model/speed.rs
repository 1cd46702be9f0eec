use crate::bench::{Costs, HeldFigures, LeftOut, Passes, Row, RowTally};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// How fast a store is, and what that costs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Speed {
    pub(crate) pairs: Vec<PairFigures>,
    pub(crate) hand_over: Vec<HandOverFigures>,
    /// Readers, a writer beside readers, permits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) kinds: Vec<KindFigures>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) waiting: Vec<WaitingFigures>,
    pub(crate) held: Vec<HeldRow>,
    /// What was not measured, and why.
    pub(crate) left_out: Vec<LeftOut>,
}

/// Acquire and release by so many tasks, each on a name of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PairFigures {
    pub(crate) tasks: usize,
    pub(crate) per_second: Passes,
    pub(crate) acquire: Distribution,
    pub(crate) release: Distribution,
    pub(crate) costs: Costs,
}

/// One name that goes round: so many wait for it at any time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HandOverFigures {
    pub(crate) waiters: usize,
    /// Over how many processes they are spread.
    pub(crate) processes: usize,
    /// Turns of a holder.
    pub(crate) per_second: Passes,
    /// From the beginning of a release until the next one's acquisition has returned.
    pub(crate) gap: Distribution,
    /// Jain's index of how often each had it: 1 if all had it equally often.
    pub(crate) fairness: Option<Passes>,
    /// Turns that began before the one before had ended.
    pub(crate) overlaps: u64,
    /// Tokens that were not larger than the one before.
    pub(crate) stale_tokens: u64,
    pub(crate) costs: Costs,
}

/// One name, or one semaphore, that many want in another way than to own it alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KindFigures {
    /// `reads@64`, `mixed@8`, `permits@64/8`.
    pub(crate) row: String,
    /// Reads, or grants of a permit.
    pub(crate) per_second: Passes,
    /// The rate of the writer beside readers.
    pub(crate) writes_per_second: Option<Passes>,
    /// Acquire and release of a read; the wait of the writer beside readers; the wait for a permit.
    pub(crate) latency: Distribution,
    /// Jain's index of how often each task had a permit.
    pub(crate) fairness: Option<Passes>,
    /// Holds that began beside one that excludes them: a read within a write, or one more than there are permits.
    pub(crate) overlaps: u64,
    /// Tokens that were not larger than the one before, of a writer or of a slot.
    pub(crate) stale_tokens: u64,
    pub(crate) costs: Costs,
}

/// Tasks that wait for a name that is held all the time: what one of them costs in a second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WaitingFigures {
    pub(crate) tasks: usize,
    pub(crate) costs: Costs,
}

/// So many names, held and renewed by one process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HeldRow {
    pub(crate) count: usize,
    /// In the client.
    pub(crate) bytes_each: Option<u64>,
    /// The share of one core that the client uses for all of them, at a ttl of 30 s.
    pub(crate) client_cpu: f64,
    pub(crate) lost: usize,
}

/// How long something took, in microseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Distribution {
    /// How many were measured.
    pub(crate) count: u64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) p999_us: f64,
    pub(crate) max_us: f64,
}

impl Speed {
    /// From the rows of a bench. A row in which nothing ended within its windows, or nobody but one ever had the lock,
    /// is left out, and says so.
    pub(crate) fn of(tallies: &[RowTally], left_out: Vec<LeftOut>) -> Self {
        let mut speed = Self { left_out, ..Self::default() };
        for tally in tallies {
            if !speed.add(tally) {
                let why = "nothing ended, or went from one to another, within its windows";
                speed.left_out.push(LeftOut::new(tally.row, why));
            }
        }
        speed
    }

    fn add(&mut self, tally: &RowTally) -> bool {
        match tally.row {
            Row::Pairs { tasks } => PairFigures::of(tasks, tally).map(|pairs| self.pairs.push(pairs)),
            Row::HandOver { waiters, processes } => {
                HandOverFigures::of(waiters, processes, tally).map(|row| self.hand_over.push(row))
            }
            Row::Held { count } => tally.held.as_ref().map(|held| self.held.push(HeldRow::of(count, held))),
            row @ (Row::Reads { .. } | Row::Mixed { .. } | Row::Permits { .. }) => {
                KindFigures::of(row, tally).map(|kind| self.kinds.push(kind))
            }
            Row::Waiting { tasks } => {
                self.waiting.push(WaitingFigures { tasks, costs: tally.costs() });
                Some(())
            }
        }
        .is_some()
    }

    /// What was seen that a lock must never do.
    pub(crate) fn violations(&self) -> Vec<String> {
        let turns = self
            .hand_over
            .iter()
            .map(|row| (format!("hand-over with {} waiting", row.waiters), row.overlaps, row.stale_tokens));
        let kinds = self.kinds.iter().map(|row| (row.row.clone(), row.overlaps, row.stale_tokens));
        let words = |(row, overlaps, stale_tokens): (String, u64, u64)| {
            let seen = [(overlaps, "times too many held at once"), (stale_tokens, "tokens did not grow")];
            let seen = seen.into_iter().filter(|(count, _)| *count > 0);
            seen.map(move |(count, words)| format!("{row}: {count} {words}")).collect::<Vec<_>>()
        };
        turns.chain(kinds).flat_map(words).collect()
    }

    /// Locks that were lost while they were held: renewals came too late.
    pub(crate) fn lost(&self) -> usize {
        self.held.iter().map(|row| row.lost).sum()
    }

    pub(crate) fn hand_over_at(&self, waiters: usize) -> Option<&HandOverFigures> {
        self.hand_over.iter().find(|row| row.waiters == waiters)
    }

    /// The row of a kind: `reads`, `mixed` or `permits`.
    pub(crate) fn kind(&self, kind: &str) -> Option<&KindFigures> {
        self.kinds.iter().find(|row| row.row.split('@').next() == Some(kind))
    }

    pub(crate) fn pairs_at(&self, tasks: usize) -> Option<&PairFigures> {
        self.pairs.iter().find(|row| row.tasks == tasks)
    }
}

impl PairFigures {
    fn of(tasks: usize, tally: &RowTally) -> Option<Self> {
        Some(Self {
            tasks,
            per_second: tally.per_second()?,
            acquire: Distribution::of(&tally.acquires)?,
            release: Distribution::of(&tally.releases)?,
            costs: tally.costs(),
        })
    }
}

impl HandOverFigures {
    fn of(waiters: usize, processes: usize, tally: &RowTally) -> Option<Self> {
        Some(Self {
            waiters,
            processes,
            per_second: tally.per_second()?,
            gap: Distribution::of(&tally.latencies)?,
            fairness: Passes::some(&tally.fairness),
            overlaps: tally.overlaps,
            stale_tokens: tally.stale_tokens,
            costs: tally.costs(),
        })
    }
}

impl KindFigures {
    fn of(row: Row, tally: &RowTally) -> Option<Self> {
        Some(Self {
            row: row.to_string(),
            per_second: tally.per_second()?,
            writes_per_second: Passes::some(&tally.write_rates),
            latency: Distribution::of(&tally.latencies)?,
            fairness: Passes::some(&tally.fairness),
            overlaps: tally.overlaps,
            stale_tokens: tally.stale_tokens,
            costs: tally.costs(),
        })
    }
}

impl HeldRow {
    fn of(count: usize, held: &HeldFigures) -> Self {
        Self { count, bytes_each: held.bytes_each, client_cpu: held.client_cpu_at_30s, lost: held.lost }
    }
}

impl Distribution {
    /// `None` if nothing was recorded.
    fn of(nanos: &Histogram<u64>) -> Option<Self> {
        let at = |share| nanos.value_at_quantile(share) as f64 / 1e3;
        let max_us = nanos.max() as f64 / 1e3;
        (!nanos.is_empty()).then(|| Self {
            count: nanos.len(),
            p50_us: at(0.5),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us,
        })
    }
}
