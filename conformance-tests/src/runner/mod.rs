//! Runs cases against subjects.
//!
//! | looking for | it is in |
//! |---|---|
//! | one named line each, in the form of `cargo test` | `libtest.rs` |
//! | results as values, for a program | `run.rs` |
//! | one case, watched | `one.rs` |
//! | a case that fails is run again; a machine that is late | `judge.rs` |
//! | how many at once | `host_capacity.rs` |
//! | what came of it | `result.rs` |

mod host_capacity;
mod judge;
mod libtest;
mod one;
mod result;
mod run;

pub use libtest::run;
pub use one::{run_case, run_case_here};
pub use result::{CaseOutcome, CaseResult, Tally, skipped_by_reason};
pub use run::{CaseEvent, Run};

pub(crate) use host_capacity::HostCapacity;
pub(crate) use one::{WATCHDOG, in_runtime, in_time};
