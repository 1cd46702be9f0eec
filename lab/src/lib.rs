//! The verbs of the command `leasehold` that measure stores and put them to the test.
//!
//! | topic | place |
//! |---|---|
//! | the verbs | `bench.rs`, `compare/`, `conformance/`; their options: `args/` |
//! | the cost of locks on a store, measured | `measure/` |
//! | tasks that take locks, over and over: the load of a measurement | `load/` |
//! | the result of `bench` and `compare`, as data and as text | `report/` |
//! | cases and faults, many at once, and the signals that end them | `background.rs`, `interrupt.rs` |
//! | the stores that a call names | `stores.rs` |
//! | the server behind a store: its version and its counters | `server.rs` |
//!
//! The command links this crate by its feature `lab`. No other program uses it but the driver beside it, which runs the same [load].

mod args;
mod background;
mod bench;
mod compare;
mod conformance;
mod format;
mod interrupt;
pub mod load;
mod measure;
mod progress;
mod report;
mod result_file;
mod server;
mod stores;
mod template;

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
        LabVerb::BenchWorker => measure::work(invocation).await,
        LabVerb::Compare(args) => compare::compare(&args, invocation).await,
        LabVerb::Report(args) => compare::render_again(&args),
        LabVerb::Conformance(args) => conformance::conformance(&args, invocation).await,
    }
}
