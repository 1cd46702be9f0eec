//! Figures of several passes, and of the order in which a lock went round.

use super::job::{Turn, Window, histogram};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

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

    /// True of a single pass, or of several that are the same to the last figure.
    pub(crate) fn is_alone(self) -> bool {
        self.max <= self.min
    }

    /// True if some pass of one lies between passes of the other: a difference cannot be told then.
    pub(crate) fn overlaps(self, other: Self) -> bool {
        self.min <= other.max && other.min <= self.max
    }
}

/// Latencies, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Latency {
    pub(super) p50: f64,
    pub(super) p90: f64,
    pub(super) p99: f64,
    pub(super) max: f64,
    pub(super) count: u64,
}

impl Latency {
    /// `None` if nothing was recorded.
    pub(super) fn of(histogram: &Histogram<u64>) -> Option<Self> {
        let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
        (!histogram.is_empty()).then(|| Self {
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            max: histogram.max() as f64 / 1e3,
            count: histogram.len(),
        })
    }
}

/// How a lock went round in one window.
#[derive(Debug)]
pub(super) struct Rotation {
    /// How often somebody had it within the window.
    pub(super) turns: u64,
    /// From the beginning of a release until the next one's acquisition has returned. If nobody had it in the end for longer
    /// than ever before, that too: else a store that stands still would not be seen.
    pub(super) hand_overs: Histogram<u64>,
    /// Turns that began before the one before had ended, those of the warm-up too. Zero, or the lock is none.
    pub(super) overlaps: u64,
    /// Tokens that were not larger than the one before. Zero, or a resource cannot rely on them.
    pub(super) stale_tokens: u64,
    /// Jain's index of the numbers of turns: 1 if all had the same, 1/n if one had all.
    pub(super) fairness: f64,
}

impl Rotation {
    pub(super) fn of(mut turns: Vec<Turn>, contenders: usize, window: Window) -> Self {
        turns.sort_by_key(|turn| turn.acquired);
        let counted = |turn: &&Turn| window.covers(turn.acquired);
        let mut round = Self {
            turns: turns.iter().filter(counted).count() as u64,
            hand_overs: histogram(),
            overlaps: 0,
            stale_tokens: 0,
            fairness: fairness(turns.iter().filter(counted), contenders),
        };
        for pair in turns.windows(2) {
            let [one, next] = pair else { continue };
            round.overlaps += u64::from(next.acquired < one.ends);
            round.stale_tokens += u64::from(next.token <= one.token);
            if next.who != one.who && window.covers(one.acquired) && window.covers(next.acquired) {
                // It grows with what it is given: `saturating_record` would cut off instead.
                let _ = round.hand_overs.record(next.acquired.nanos_since(one.ends));
            }
        }
        let free_since = turns.last().map_or(window.from, |turn| turn.ends.max(window.from));
        let at_the_end = window.until.nanos_since(free_since);
        if at_the_end > round.hand_overs.max() {
            let _ = round.hand_overs.record(at_the_end);
        }
        round
    }
}

fn fairness<'a>(turns: impl IntoIterator<Item = &'a Turn>, contenders: usize) -> f64 {
    let mut each = vec![0_u32; contenders];
    for turn in turns {
        if let Some(count) = each.get_mut(turn.who) {
            *count += 1;
        }
    }
    let sum: f64 = each.iter().copied().map(f64::from).sum();
    let squares: f64 = each.iter().map(|count| f64::from(*count).powi(2)).sum();
    if squares > 0.0 { sum * sum / (contenders as f64 * squares) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::super::job::MonotonicTime;
    use super::*;

    fn turn(who: usize, acquired: u64, ends: u64, token: u64) -> Turn {
        Turn { who, acquired: MonotonicTime(acquired), ends: MonotonicTime(ends), token }
    }

    /// Of two who want it from 10 to 30.
    fn round(turns: Vec<Turn>) -> Rotation {
        Rotation::of(turns, 2, Window { from: MonotonicTime(10), until: MonotonicTime(30) })
    }

    #[test]
    fn overlapping_holders_are_counted_in_any_order_of_reports() {
        let overlapping = round(vec![turn(1, 15, 30, 2), turn(0, 10, 20, 1)]);
        assert_eq!((overlapping.overlaps, overlapping.stale_tokens), (1, 0));
        let round = round(vec![turn(1, 21, 30, 2), turn(0, 10, 20, 1)]);
        assert_eq!((round.overlaps, round.stale_tokens), (0, 0));
        assert_eq!((round.hand_overs.len(), round.hand_overs.max()), (1, 1));
    }

    #[test]
    fn turns_of_the_warm_up_are_looked_at_and_not_counted() {
        let round = round(vec![turn(0, 1, 5, 2), turn(1, 4, 6, 1), turn(0, 11, 30, 3)]);
        assert_eq!((round.overlaps, round.stale_tokens), (1, 1));
        assert_eq!((round.turns, round.hand_overs.len()), (1, 0));
        assert!((round.fairness - 0.5).abs() < 1e-9);
    }

    #[test]
    fn longest_free_time_at_the_end_of_the_window_counts_as_hand_over() {
        let stalled = round(vec![turn(0, 10, 11, 1), turn(1, 13, 14, 2)]);
        assert_eq!((stalled.hand_overs.len(), stalled.hand_overs.max()), (2, 16));
        let at_work = round(vec![turn(0, 10, 11, 1), turn(1, 28, 29, 2)]);
        assert_eq!((at_work.hand_overs.len(), at_work.hand_overs.max()), (1, 17));
        assert_eq!(round(vec![]).hand_overs.max(), 20);
    }

    #[test]
    fn repeated_token_is_counted_as_stale() {
        let round = round(vec![turn(0, 10, 20, 7), turn(1, 21, 29, 7), turn(0, 30, 31, 3)]);
        assert_eq!(round.stale_tokens, 2);
    }

    #[test]
    fn reacquisition_by_the_same_contender_is_no_hand_over() {
        let round = round(vec![turn(0, 10, 20, 1), turn(0, 21, 30, 2)]);
        assert_eq!(round.hand_overs.len(), 0);
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
