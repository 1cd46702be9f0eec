//! What locks cost on one store, measured.
//!
//! | looking for | it is in |
//! |---|---|
//! | what is measured, for how long | `plan.rs` |
//! | the order of the passes, and how each row is measured | `measurement.rs` |
//! | what tasks do meanwhile | `load/`, beside this folder; in processes of their own, `worker.rs` |
//! | what is said to a worker, and by it | `protocol.rs` |
//! | holders at once, fairness, passes | `figures.rs`, and `tally.rs` for one row |
//! | the form of the result | `row_result.rs` |
//!
//! Loads are closed loops: they tell how long a pair takes when clients keep the store as busy as they can, and the pairs a second.

mod bench_store;
mod figures;
mod measurement;
mod plan;
mod protocol;
mod row_result;
mod tally;
mod worker;

pub(crate) use bench_store::BenchStore;
pub(crate) use figures::{Latency, Passes};
pub(crate) use measurement::measure;
pub(crate) use plan::{LeftOut, Plan, Row};
pub(crate) use row_result::{RowResult, StoreFigures};
pub(crate) use worker::work;
