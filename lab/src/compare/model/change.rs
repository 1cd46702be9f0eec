use super::StoreReport;
use crate::bench::Passes;
use serde::{Deserialize, Serialize};

/// What is different from an earlier run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Changes {
    /// When that was, in UTC.
    pub(crate) baseline_started_at: String,
    /// True if that ran on the same kernel and the same processors. Otherwise nothing here says anything about a store.
    pub(crate) same_machine: bool,
    pub(crate) rows: Vec<Change>,
}

/// One rate, then and now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Change {
    pub(crate) store: String,
    /// `pairs@64`, `hand-over@8x2p`.
    pub(crate) row: String,
    /// Pairs or turns a second: the median, and the band of the passes.
    pub(crate) before: Passes,
    pub(crate) now: Passes,
    pub(crate) verdict: Difference,
}

/// What a difference is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Difference {
    Faster,
    Slower,
    /// Some pass of one run lies between passes of the other.
    SameWithinNoise,
}

/// What the two runs of a store have in common, side by side.
pub(super) fn changes_of(before: &StoreReport, now: &StoreReport) -> Vec<Change> {
    let earlier = rates(before);
    let rates = rates(now).into_iter();
    let found = rates.filter_map(|(row, now_rate)| {
        let before = earlier.iter().find(|(other, _)| *other == row)?.1;
        let verdict = Difference::of(before, now_rate);
        Some(Change { store: now.name.clone(), row, before, now: now_rate, verdict })
    });
    found.collect()
}

/// Every rate of a store, by a name that is the same in every run.
fn rates(store: &StoreReport) -> Vec<(String, Passes)> {
    let pairs = store.speed.pairs.iter().map(|row| (format!("pairs@{}", row.tasks), row.per_second));
    let turns = store.speed.hand_over.iter();
    let turns = turns.map(|row| (format!("hand-over@{}x{}p", row.waiters, row.processes), row.per_second));
    let kinds = store.speed.kinds.iter().map(|kind| (kind.row.clone(), kind.per_second));
    pairs.chain(turns).chain(kinds).collect()
}

impl Difference {
    /// The bands are those of the passes: within them nothing can be told.
    fn of(before: Passes, now: Passes) -> Self {
        if now.overlaps(before) {
            Self::SameWithinNoise
        } else if now.median > before.median {
            Self::Faster
        } else {
            Self::Slower
        }
    }

    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::SameWithinNoise => "same within noise",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn difference_within_the_bands_is_none() {
        let rate = |min, median, max| Passes { median, min, max };
        let before = rate(90.0, 100.0, 110.0);
        assert_eq!(Difference::of(before, rate(109.0, 130.0, 150.0)), Difference::SameWithinNoise);
        assert_eq!(Difference::of(before, rate(111.0, 130.0, 150.0)), Difference::Faster);
        assert_eq!(Difference::of(before, rate(50.0, 60.0, 89.0)), Difference::Slower);
    }
}
