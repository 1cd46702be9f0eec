//! The verbs of the command `leasehold` that measure stores and put them to the test.
//!
//! | topic | place |
//! |---|---|
//! | the cost of locks on a store | `bench/` |
//! | tasks that take locks, over and over: the load of a measurement | `load/` |
//! | the properties of a lock, and its behaviour under faults | `conformance/` |
//! | a comparison of stores, from both | `compare/` |
//! | cases and faults, many at once, and the signals that end them | `background.rs`, `interrupt.rs` |
//! | the stores that a call names | `stores.rs` |
//! | raw stores, without a lock library, which a bench compares with (`--raw`) | `yardstick/` |
//! | options of these verbs | `args/` |
//!
//! The command links this crate by its feature `lab`. It is no library for other programs, but for the driver beside it, which runs the same
//! [load].

mod args;
mod background;
mod bench;
mod compare;
mod conformance;
mod format;
mod interrupt;
pub mod load;
mod progress;
mod result_file;
mod stores;
mod yardstick;

pub use args::LabVerb;
pub use conformance::serve_suite;

use leasehold_console::exit::Code;
use leasehold_console::{Failure, Invocation};

/// Executes a verb.
///
/// # Errors
///
/// What ended the verb, for the command to report. What was seen before that is printed, and written to its files.
pub async fn execute(verb: LabVerb, invocation: &Invocation) -> Result<Code, Failure> {
    match verb {
        LabVerb::Bench(args) => bench::bench(&args, invocation).await,
        LabVerb::BenchWorker => bench::work(invocation).await,
        LabVerb::Compare(args) => compare::compare(&args, invocation).await,
        LabVerb::Report(args) => compare::render_again(&args),
        LabVerb::Conformance(args) => conformance::conformance(&args, invocation).await,
    }
}
