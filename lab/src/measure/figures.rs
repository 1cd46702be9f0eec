//! Figures of several passes, latencies, and what the turns of one name tell.

use crate::load::{LoadKind, Turn, Window};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// One figure in several passes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Passes {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Passes {
    /// `None` if there was no pass.
    pub(crate) fn some(values: &[f64]) -> Option<Self> {
        (!values.is_empty()).then(|| Self::of(values.to_vec()))
    }

    pub(crate) fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |index: usize| values.get(index).copied().unwrap_or_default();
        let last = values.len().saturating_sub(1);
        Self { median: f64::midpoint(at(last / 2), at(values.len() / 2)), min: at(0), max: at(last) }
    }

    /// How far the passes lie apart, as a part of the median: beyond all measure if that is nothing, and some pass is not.
    pub(crate) fn spread(self) -> f64 {
        if self.max > self.min { (self.max - self.min) / self.median } else { 0.0 }
    }

    /// True if some pass of one lies between passes of the other: a difference cannot be told then.
    pub(crate) fn overlaps(self, other: Self) -> bool {
        self.min <= other.max && other.min <= self.max
    }
}

/// How long something took, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Latency {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) max: f64,
    /// How many were measured.
    pub(crate) count: u64,
}

impl Latency {
    /// Of nanoseconds; `None` if nothing was recorded.
    pub(super) fn of(histogram: &Histogram<u64>) -> Option<Self> {
        let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
        (!histogram.is_empty()).then(|| Self {
            p50: at(0.5),
            p99: at(0.99),
            p999: at(0.999),
            max: histogram.max() as f64 / 1e3,
            count: histogram.len(),
        })
    }
}

/// An empty histogram of nanoseconds, exact to three figures. It grows with what it is given, so that nothing is out of range.
pub(super) fn histogram() -> Histogram<u64> {
    let made = Histogram::new(3);
    made.unwrap_or_else(|_| unreachable!("three figures are within its range of 0 to 5"))
}

/// What a lock must never do, counted over all turns of one name, those of the warm-up too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Evidence {
    /// Holds that began beside one that excludes them. Zero, or the lock is none.
    pub(super) overlaps: u64,
    /// Tokens that were not larger than the one before. Zero, or a resource cannot rely on them.
    pub(super) stale_tokens: u64,
}

impl Evidence {
    /// Of turns in the order in which they were acquired.
    pub(super) fn of(kind: LoadKind, turns: &[Turn]) -> Self {
        let mut seen = Self::default();
        if kind == LoadKind::Read {
            return seen;
        }
        let room = if let LoadKind::Permits(permits) = kind { permits as usize } else { 1 };
        // The holders at the moment: until when each holds, and whether it reads.
        let mut holders: Vec<(u64, bool)> = Vec::new();
        let mut last_tokens = HashMap::new();
        for turn in turns {
            let reads = kind == LoadKind::Mixed && turn.task != 0;
            holders.retain(|(ends, _)| *ends > turn.acquired);
            let excluded = holders.iter().filter(|(_, other_reads)| !(reads && *other_reads)).count();
            seen.overlaps += u64::from(excluded >= room);
            holders.push((turn.ends, reads));
            if !reads && let Some(last) = last_tokens.insert(turn.slot, turn.token) {
                seen.stale_tokens += u64::from(turn.token <= last);
            }
        }
        seen
    }
}

/// From the beginning of a release until the next one's acquisition has returned.
pub(super) fn hand_overs(turns: &[Turn], window: Window, seen: &mut Histogram<u64>) {
    for pair in turns.windows(2) {
        let [one, next] = pair else { continue };
        if next.task != one.task && window.covers(one.acquired) && window.covers(next.acquired) {
            let _ = seen.record(next.acquired.saturating_sub(one.ends));
        }
    }
}

/// The time since the last hold, if nothing within the window took longer: else a store that stands still would not be seen.
pub(super) fn stall(last: Option<&Turn>, window: Window, seen: &mut Histogram<u64>) {
    let free_since = last.map_or(window.from, |turn| turn.ends.max(window.from));
    let at_the_end = window.until.saturating_sub(free_since);
    if at_the_end > seen.max() {
        let _ = seen.record(at_the_end);
    }
}

/// Jain's index of the numbers of turns: 1 if all tasks had the same, 1/n if one had all.
pub(super) fn fairness<'a>(turns: impl IntoIterator<Item = &'a Turn>, tasks: usize) -> f64 {
    let mut each = vec![0_u32; tasks];
    for turn in turns {
        if let Some(count) = usize::try_from(turn.task).ok().and_then(|task| each.get_mut(task)) {
            *count += 1;
        }
    }
    let sum: f64 = each.iter().copied().map(f64::from).sum();
    let squares: f64 = each.iter().map(|count| f64::from(*count).powi(2)).sum();
    if squares > 0.0 { sum * sum / (tasks as f64 * squares) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Window = Window { from: 10, until: 30 };

    fn turn(task: u64, acquired: u64, ends: u64, token: u64) -> Turn {
        Turn { task, asked: acquired, acquired, ends, released: ends, token, slot: 0 }
    }

    fn evidence(kind: LoadKind, turns: &[Turn]) -> (u64, u64) {
        let Evidence { overlaps, stale_tokens } = Evidence::of(kind, turns);
        (overlaps, stale_tokens)
    }

    #[test]
    fn overlapping_owners_are_counted_also_behind_a_long_hold() {
        let owners = |turns: &[Turn]| evidence(LoadKind::Exclusive, turns);
        assert_eq!(owners(&[turn(0, 10, 20, 1), turn(1, 15, 30, 2)]), (1, 0));
        assert_eq!(owners(&[turn(0, 10, 20, 1), turn(1, 20, 30, 2)]), (0, 0));
        assert_eq!(owners(&[turn(0, 10, 30, 1), turn(1, 12, 13, 2), turn(2, 20, 21, 3)]), (2, 0));
    }

    #[test]
    fn repeated_token_is_counted_as_stale() {
        let turns = [turn(0, 10, 20, 7), turn(1, 21, 29, 7), turn(0, 30, 31, 3)];
        assert_eq!(evidence(LoadKind::Exclusive, &turns), (0, 2));
    }

    #[test]
    fn reads_overlap_a_write_and_not_each_other() {
        let mixed = |turns: &[Turn]| evidence(LoadKind::Mixed, turns);
        assert_eq!(mixed(&[turn(1, 10, 20, 5), turn(2, 11, 19, 5), turn(0, 20, 22, 6)]), (0, 0));
        assert_eq!(mixed(&[turn(1, 10, 20, 5), turn(0, 19, 22, 6)]), (1, 0), "a read reaches into a write");
        assert_eq!(mixed(&[turn(0, 10, 20, 5), turn(1, 19, 22, 6), turn(2, 19, 22, 7)]), (2, 0));
        assert_eq!(mixed(&[turn(0, 10, 20, 5), turn(1, 20, 22, 3), turn(0, 22, 23, 5)]), (0, 1));
        assert_eq!(evidence(LoadKind::Read, &[turn(0, 10, 20, 5), turn(1, 10, 20, 5)]), (0, 0));
    }

    #[test]
    fn holders_beyond_the_permits_are_counted_and_tokens_by_slot() {
        let permit = |task, acquired, ends, token, slot| Turn { slot, ..turn(task, acquired, ends, token) };
        let two = [permit(0, 10, 20, 7, 0), permit(1, 10, 20, 3, 1)];
        assert_eq!(evidence(LoadKind::Permits(2), &two), (0, 0));
        let three = [two[0], two[1], permit(2, 15, 20, 8, 0)];
        assert_eq!(evidence(LoadKind::Permits(2), &three), (1, 0));
        assert_eq!(evidence(LoadKind::Permits(2), &[two[0], permit(2, 21, 22, 6, 0)]), (0, 1));
    }

    fn recorded(turns: &[Turn]) -> (u64, u64) {
        let mut seen = histogram();
        hand_overs(turns, WINDOW, &mut seen);
        stall(turns.last(), WINDOW, &mut seen);
        (seen.len(), seen.max())
    }

    #[test]
    fn longest_free_time_at_the_end_of_the_window_counts_as_hand_over() {
        assert_eq!(recorded(&[turn(0, 10, 11, 1), turn(1, 13, 14, 2)]), (2, 16));
        assert_eq!(recorded(&[turn(0, 10, 11, 1), turn(1, 28, 29, 2)]), (1, 17));
        assert_eq!(recorded(&[]), (1, 20));
    }

    #[test]
    fn hand_over_is_from_one_to_another_within_the_window() {
        assert_eq!(recorded(&[turn(0, 10, 20, 1), turn(0, 21, 30, 2)]).0, 0, "the same task again");
        assert_eq!(recorded(&[turn(0, 1, 5, 1), turn(1, 11, 30, 2)]).0, 0, "from the warm-up");
    }

    #[test]
    fn fairness_is_one_for_equal_shares_and_one_nth_for_a_single_winner() {
        let equal = [turn(0, 1, 2, 1), turn(1, 3, 4, 2)];
        assert!((fairness(&equal, 2) - 1.0).abs() < 1e-9);
        assert!((fairness(&equal[..1], 4) - 0.25).abs() < 1e-9);
        assert!(fairness(&[], 4).abs() < 1e-9);
    }

    #[test]
    fn passes_have_a_median_and_a_spread() {
        let passes = Passes::of(vec![10.0, 30.0, 20.0]);
        assert_eq!((passes.min, passes.median, passes.max), (10.0, 20.0, 30.0));
        assert!((passes.spread() - 1.0).abs() < 1e-9);
        assert!(passes.overlaps(Passes::of(vec![30.0])) && !passes.overlaps(Passes::of(vec![31.0])));
        let two = Passes::of(vec![10.0, 20.0]);
        assert_eq!((two.min, two.median, two.max), (10.0, 15.0, 20.0));
        assert!(Passes::of(vec![0.0, 0.0, 9.0]).spread().is_infinite(), "most windows had nothing in them");
        assert!(Passes::of(vec![0.0, 0.0]).spread().abs() < 1e-9 && Passes::of(vec![]).spread().abs() < 1e-9);
    }
}
