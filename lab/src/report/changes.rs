//! What is faster or slower than in an earlier report.

use super::findings::{Column, Datum, Section, Tone};
use super::{Report, StoreReport};
use crate::format::count;
use crate::measure::{Passes, Row};
use serde::{Deserialize, Serialize};

/// What is different from an earlier run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Changes {
    /// When that was, in UTC.
    baseline_started_at: String,
    /// True if that ran on the same kernel and the same processors. Otherwise nothing here says anything about a store.
    same_machine: bool,
    rows: Vec<Change>,
}

/// One rate, then and now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Change {
    store: String,
    row: Row,
    /// The median, and the band of the passes.
    before: Passes,
    now: Passes,
    verdict: Difference,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Difference {
    Faster,
    Slower,
    /// Some pass of one run lies between passes of the other.
    SameWithinNoise,
}

impl Changes {
    /// What two runs have in common, side by side.
    pub(crate) fn between(before: &Report, now: &Report) -> Self {
        let machine = |report: &Report| {
            let setup = &report.setup;
            (setup.kernel.clone(), setup.cpu.clone(), setup.cores)
        };
        let rows = now.stores.iter().filter_map(|store| {
            let is_same = |old: &&StoreReport| (&old.name, &old.url) == (&store.name, &store.url);
            let earlier = before.stores.iter().find(is_same)?;
            Some(changes_of(earlier, store))
        });
        Self {
            baseline_started_at: before.started_at.clone(),
            same_machine: machine(before) == machine(now),
            rows: rows.flatten().collect(),
        }
    }

    pub(super) fn section(&self) -> Section {
        let machine = if self.same_machine {
            "It ran on the same kind of machine."
        } else {
            "It ran on another machine or kernel: the differences are not those of the stores alone."
        };
        let of = |verdict| self.rows.iter().filter(|row| row.verdict == verdict).count();
        let lead = format!(
            "Beside the run of {}: {} faster, {} slower, {} the same within noise. {machine} The bands are those of the \
             passes; where they touch, nothing can be told.",
            self.baseline_started_at,
            of(Difference::Faster),
            of(Difference::Slower),
            of(Difference::SameWithinNoise),
        );
        let mut columns = Column::all(&["Store", "What"], &["Then", "Now", "Now / then"]);
        columns.push(Column::words("Verdict"));
        let rows = self.rows.iter().map(Change::data).collect();
        Section::new("changes", "Since the baseline", lead, "Rates a second, then and now", columns, rows)
    }
}

fn changes_of(before: &StoreReport, now: &StoreReport) -> Vec<Change> {
    let changes = now.speed.rows.iter().filter_map(|result| {
        let before = before.row(|row| row == result.row)?.per_second?;
        let now_rate = result.per_second?;
        let verdict = Difference::of(before, now_rate);
        Some(Change { store: now.name.clone(), row: result.row, before, now: now_rate, verdict })
    });
    changes.collect()
}

impl Change {
    fn data(&self) -> Vec<Datum> {
        let rate = |rate: Passes| Datum {
            note: Some(format!("{}–{}", count(rate.min), count(rate.max))),
            ..Datum::figure(rate.median, count(rate.median))
        };
        let (words, tone, mark) = match self.verdict {
            Difference::Faster => ("faster", Tone::Good, "▲"),
            Difference::Slower => ("slower", Tone::Careful, "▼"),
            Difference::SameWithinNoise => ("same within noise", Tone::Muted, "="),
        };
        let ratio = Some(self.now.median / self.before.median).filter(|ratio| ratio.is_finite());
        vec![
            Datum::words(&self.store),
            Datum::words(self.row.to_string()),
            rate(self.before),
            rate(self.now),
            Datum::maybe(ratio, |ratio| format!("{ratio:.2}")),
            Datum::words(words).with_tone(tone, Some(mark)),
        ]
    }
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
