//! The verbs that measure stores and put them to the test. They come with the feature `lab`.
//!
//! | topic | place |
//! |---|---|
//! | the cost of locks on a store | `bench/` |
//! | the properties of a lock, and its behaviour under faults | `conformance/` |
//! | a comparison of stores, from both | `compare/` |
//! | faults that run beside each other, for the last two | `cells.rs` |
//! | stores without locks, to measure and to tidy up | `yardstick.rs` |
//! | options of these verbs | `args/` |

mod args;
mod bench;
mod cells;
mod compare;
mod conformance;
mod progress;
mod result_file;
mod store_arguments;
mod yardstick;

pub(crate) use args::LabVerb;
pub(crate) use conformance::work;

use crate::args::Common;
use crate::exit::Code;
use crate::report::{Console, Failure};

/// Executes a verb of the lab.
pub(crate) async fn execute(verb: LabVerb, common: &Common, console: Console) -> Result<Code, Failure> {
    match verb {
        LabVerb::Bench(args) => bench::bench(&args, common, console).await,
        LabVerb::BenchWorker => bench::work(common, console).await,
        LabVerb::Compare(args) => compare::compare(&args, common, console).await,
        LabVerb::Report(args) => compare::report(&args),
        LabVerb::Conformance(args) => conformance::conformance(&args, common, console).await,
    }
}
