use super::change::changes_of;
use super::{Changes, Setup, StoreReport};
use serde::{Deserialize, Serialize};

/// Goes up when a reader of the JSON has to change.
pub(crate) const SCHEMA: u32 = 3;

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Report {
    pub(crate) schema: u32,
    /// The version of this program.
    pub(crate) leasehold: String,
    /// In UTC.
    pub(crate) started_at: String,
    pub(crate) took_s: f64,
    /// True if a signal ended it early: what is missing was not measured.
    pub(crate) interrupted: bool,
    /// What random choices were made from.
    pub(crate) seed: u64,
    pub(crate) setup: Setup,
    pub(crate) stores: Vec<StoreReport>,
    /// Beside an earlier run, if one was named.
    pub(crate) changes: Option<Changes>,
}

impl Report {
    /// What the two runs have in common, side by side.
    pub(crate) fn changes_since(&self, before: &Self) -> Changes {
        let same = |get: fn(&Self) -> String| get(before) == get(self);
        let rows = self.stores.iter().filter_map(|store| {
            let earlier = before.stores.iter().find(|earlier| earlier.name == store.name)?;
            Some(changes_of(earlier, store))
        });
        Changes {
            baseline_started_at: before.started_at.clone(),
            same_machine: same(|report| report.setup.kernel.clone())
                && same(|report| format!("{:?} {}", report.setup.cpu, report.setup.cores)),
            rows: rows.flatten().collect(),
        }
    }
}
