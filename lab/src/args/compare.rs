use super::bench::{duration, seed};
use clap::{Args, ValueEnum, ValueHint};
use std::path::PathBuf;
use std::time::Duration;

/// Compare stores: the conformance suite, faults, and what locks cost.
///
/// With URLs, or with the configured store if there is none, the cases of the suite that do no harm are put to your stores, and
/// their speed is measured: all names are random, and no fault is made. With --preset local, private servers are started for every backend,
/// and faults are made in them, too; a store whose server is not installed is in the report as not run.
/// Exit codes: 0 all is as declared, 1 a store is broken, 2 one is late, 75 one was not judged, 69 nothing could be measured.
#[derive(Clone, Debug, Args)]
pub struct CompareArgs {
    /// The stores. Without one: the configured one
    #[arg(value_name = "URL", conflicts_with = "preset")]
    pub(crate) stores: Vec<String>,
    /// Private stores in place of yours
    #[arg(long, value_name = "NAME")]
    pub(crate) preset: Option<Preset>,
    /// Only the private stores whose names contain this; may be given several times
    #[arg(long, value_name = "TEXT", requires = "preset")]
    pub(crate) store: Vec<String>,
    /// Do only this; may be given several times
    #[arg(long, value_name = "PART")]
    pub(crate) only: Vec<ComparePart>,
    /// Write report.json, report.md and report.html into this directory
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) out: Option<PathBuf>,
    /// What to print
    #[arg(long, value_name = "FORMAT", default_value = "terminal")]
    pub(crate) format: ReportFormat,
    /// Say what is faster or slower than in an earlier report.json
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) baseline: Option<PathBuf>,
    /// Short windows, small crowds, and no case that needs more than its share of the machine
    #[arg(long)]
    pub(crate) quick: bool,
    /// How long one window of a measurement is
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) bench_time: Option<Duration>,
    /// What random choices are made from; printed in the report
    #[arg(long, value_name = "N", value_parser = seed)]
    pub(crate) seed: Option<u64>,
}

/// Render a comparison again.
#[derive(Clone, Debug, Args)]
pub struct ReportArgs {
    /// The report.json of a comparison
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// Write report.json, report.md and report.html into this directory
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) out: Option<PathBuf>,
    /// What to print
    #[arg(long, value_name = "FORMAT", default_value = "terminal")]
    pub(crate) format: ReportFormat,
    /// Say what is faster or slower than in an earlier report.json
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) baseline: Option<PathBuf>,
}

/// Stores that nobody has to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Preset {
    /// A private store of every backend and mode, on this machine
    Local,
}

/// A part of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ComparePart {
    /// The cases of the conformance suite
    Suite,
    /// Every fault under every private store
    Faults,
    /// Latency, hand-over, throughput, costs
    Bench,
}

/// The form of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportFormat {
    Terminal,
    Json,
    Markdown,
    Html,
}
