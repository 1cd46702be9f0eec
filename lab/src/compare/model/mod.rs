//! What a comparison has shown, as data: `report.json` is this and nothing else, and everything that people read is made
//! from it. The published form is `docs/compare.schema.json`.

mod change;
mod setup;
mod speed;
mod store;
mod suite;

pub(crate) use change::{Change, Changes, Verdict};
pub(crate) use setup::Setup;
pub(crate) use speed::{Costs, Distribution, HandOver, Pairs, Rate, Speed};
pub(crate) use store::{Declared, StoreReport};
pub(crate) use suite::{CaseOutcome, CaseResult, Counts};

use serde::{Deserialize, Serialize};

/// Goes up when a reader of the JSON has to change.
pub(crate) const SCHEMA: u32 = 2;

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
    /// The stores of which anything was measured.
    pub(crate) fn measured(&self) -> impl Iterator<Item = &StoreReport> {
        self.stores.iter().filter(|store| store.not_run.is_none())
    }
}
