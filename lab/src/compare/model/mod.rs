//! What a comparison has shown, as data: `report.json` is this and nothing else, and everything that people read is made
//! from it. The published form is `docs/compare.schema.json`.

mod change;
mod report;
mod setup;
mod speed;
mod store;
mod suite;

pub(crate) use change::{Change, Changes, Difference};
pub(crate) use report::{Report, SCHEMA};
pub(crate) use setup::Setup;
pub(crate) use speed::{Distribution, KindFigures, PairFigures, Speed};
pub(crate) use store::{Declared, NotRun, StoreReport, Verdict};
pub(crate) use suite::ReportedCase;
