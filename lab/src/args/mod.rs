//! The command line of the verbs of the lab.

#![allow(
    clippy::doc_markdown,
    reason = "the comments of options are what people read in a terminal, where a backtick is a backtick"
)]

mod bench;
mod compare;
mod conformance;

pub(crate) use bench::{BenchArgs, Format, Part};
pub(crate) use compare::{CompareArgs, ComparePart, Preset, ReportArgs, ReportFormat};
pub(crate) use conformance::{ConformanceArgs, Lines};

use clap::Subcommand;

/// The verbs of the lab.
#[derive(Debug, Subcommand)]
#[non_exhaustive]
#[allow(
    missing_docs,
    reason = "a comment here would take the place of the one that people read in a terminal"
)]
pub enum LabVerb {
    Bench(BenchArgs),
    /// What `bench` starts its processes with
    #[command(hide = true)]
    BenchWorker,
    Compare(CompareArgs),
    Report(ReportArgs),
    Conformance(ConformanceArgs),
}
