//! Figures of several passes, and of the order in which a lock went round.

use super::job::{Turn, histogram};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// One figure in several passes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
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
        Self { median: at(values.len() / 2), min: at(0), max: at(values.len().saturating_sub(1)) }
    }

    /// How far the passes lie apart, as a part of the median.
    pub(crate) fn spread(self) -> f64 {
        if self.median > 0.0 { (self.max - self.min) / self.median } else { 0.0 }
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
pub(super) struct Round {
    /// How often somebody had it.
    pub(super) turns: u64,
    /// From the beginning of a release until the next one's acquisition has returned.
    pub(super) hand_overs: Histogram<u64>,
    /// Turns that began before the one before had ended. Zero, or the lock is none.
    pub(super) overlaps: u64,
    /// Tokens that were not larger than the one before. Zero, or a resource cannot rely on them.
    pub(super) stale_tokens: u64,
    /// Jain's index of the numbers of turns: 1 if all had the same, 1/n if one had all.
    pub(super) fairness: f64,
}

impl Round {
    pub(super) fn of(mut turns: Vec<Turn>, contenders: usize) -> Self {
        turns.sort_by_key(|turn| turn.acquired);
        let mut round = Self {
            turns: turns.len() as u64,
            hand_overs: histogram(),
            overlaps: 0,
            stale_tokens: 0,
            fairness: fairness(&turns, contenders),
        };
        for pair in turns.windows(2) {
            let [one, next] = pair else { continue };
            round.overlaps += u64::from(next.acquired < one.ends);
            round.stale_tokens += u64::from(next.token <= one.token);
            if next.who != one.who {
                // It grows with what it is given: `saturating_record` would cut off instead.
                let _ = round.hand_overs.record(next.acquired.nanos_since(one.ends));
            }
        }
        round
    }
}

fn fairness(turns: &[Turn], contenders: usize) -> f64 {
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
    use super::super::job::Moment;
    use super::*;

    fn turn(who: usize, acquired: u64, ends: u64, token: u64) -> Turn {
        Turn { who, acquired: Moment(acquired), ends: Moment(ends), token }
    }

    #[test]
    fn two_holders_at_once_are_seen_whoever_reported_first() {
        let round = Round::of(vec![turn(1, 15, 30, 2), turn(0, 10, 20, 1)], 2);
        assert_eq!((round.overlaps, round.stale_tokens), (1, 0));
        let round = Round::of(vec![turn(1, 21, 30, 2), turn(0, 10, 20, 1)], 2);
        assert_eq!((round.overlaps, round.stale_tokens), (0, 0));
        assert_eq!((round.hand_overs.len(), round.hand_overs.max()), (1, 1));
    }

    #[test]
    fn a_token_that_comes_again_is_seen() {
        let round = Round::of(vec![turn(0, 10, 20, 7), turn(1, 21, 30, 7), turn(0, 31, 32, 3)], 2);
        assert_eq!(round.stale_tokens, 2);
    }

    #[test]
    fn to_take_it_again_oneself_is_no_hand_over() {
        let round = Round::of(vec![turn(0, 10, 20, 1), turn(0, 21, 30, 2)], 2);
        assert_eq!(round.hand_overs.len(), 0);
    }

    #[test]
    fn fairness_is_one_for_equals_and_a_part_for_one_who_has_all() {
        let equal = [turn(0, 1, 2, 1), turn(1, 3, 4, 2)];
        assert!((fairness(&equal, 2) - 1.0).abs() < 1e-9);
        assert!((fairness(&equal[..1], 4) - 0.25).abs() < 1e-9);
        assert!(fairness(&[], 4).abs() < 1e-9);
    }

    #[test]
    fn the_passes_have_a_median_and_a_spread() {
        let passes = Passes::of(vec![10.0, 30.0, 20.0]);
        assert_eq!((passes.min, passes.median, passes.max), (10.0, 20.0, 30.0));
        assert!((passes.spread() - 1.0).abs() < 1e-9);
        assert!(passes.overlaps(Passes::of(vec![30.0])) && !passes.overlaps(Passes::of(vec![31.0])));
    }
}
