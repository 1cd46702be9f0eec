use clap::{Args, ValueEnum, ValueHint};
use std::path::PathBuf;
use std::time::Duration;

/// Put a store to the test: is what it grants a lock?
///
/// Takes and gives back locks of random names in the store, from processes of its own, and deletes afterwards what they
/// left. Cases that would disturb others there, or that need a server to be killed, are skipped with a reason; --faults
/// starts private servers for all of them.
#[derive(Clone, Debug, Args)]
pub struct ConformanceArgs {
    /// The stores. Without one: the configured one. With --faults: names of subjects or schemes, such as postgres
    #[arg(value_name = "URL")]
    pub(crate) stores: Vec<String>,
    /// Start private servers of this host, do to them what breaks locks, and hold every promise against what is seen
    #[arg(long)]
    pub(crate) faults: bool,
    /// Only cases whose line has this in it; may be given several times
    #[arg(long, value_name = "TEXT")]
    pub(crate) filter: Vec<String>,
    /// Only say what would be run
    #[arg(long)]
    pub(crate) list: bool,
    /// Make random choices from this number, which a failure names
    #[arg(long, value_name = "N", value_parser = super::bench::seed)]
    pub(crate) seed: Option<u64>,
    /// For so long, random schedules of these faults under random clients, round after round; --seed repeats one
    #[arg(long, value_name = "TIME", requires = "faults", conflicts_with_all = ["filter", "list", "junit"], value_parser = leasehold_console::duration)]
    pub(crate) soak: Option<Duration>,
    /// How many cases run at once. Default: 20 with --faults, where each has a store of its own, and 10 faults; 4 in a
    /// store of yours, and 1 in a SQLite file, which serves one at a time
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    pub(crate) threads: Option<u8>,
    /// Write the results into this file, as JUnit's XML
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) junit: Option<PathBuf>,
    /// What to print
    #[arg(long, value_name = "FORMAT", default_value = "plain")]
    pub(crate) format: Lines,
}

/// How events are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Lines {
    /// For people: bars at a terminal, a line for each case elsewhere
    Plain,
    /// For programs: one JSON object in a line for each event
    Ndjson,
}
