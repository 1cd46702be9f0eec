use clap::{Args, ValueEnum, ValueHint};
use std::path::PathBuf;
use std::time::Duration;

/// Measure what locks cost on a store.
///
/// Takes and gives back locks of random names, from processes of its own, and deletes afterwards what they left. A run
/// takes about a minute for each store, and says what it leaves out. The figures are those of this host, this network and
/// this hour: compare ratios, and runs of one machine.
#[derive(Clone, Debug, Args)]
pub struct BenchArgs {
    /// The stores, one after the other. Without one: the configured one
    #[arg(value_name = "URL")]
    pub(crate) stores: Vec<String>,
    /// Measure only this; may be given several times
    #[arg(long, value_name = "PART")]
    pub(crate) only: Vec<Part>,
    /// Short windows and small crowds: about 20 seconds for a store
    #[arg(long, conflicts_with = "full")]
    pub(crate) quick: bool,
    /// Everything, 100 000 held locks too
    #[arg(long)]
    pub(crate) full: bool,
    /// How long one window is
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) duration: Option<Duration>,
    /// How many windows each row has; the rows take turns
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = |text: &str| number(text, 1..=1_000))]
    pub(crate) passes: usize,
    /// Over how many processes a crowd is spread in the rows with several
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = |text: &str| number(text, 1..=64))]
    pub(crate) processes: usize,
    /// What to print
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(crate) format: Format,
    /// Write the result into this file too, as JSON
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) json: Option<PathBuf>,
}

/// A part of what can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Acquire and release, each task on a name of its own
    Uncontended,
    /// One name that goes round among many
    Handover,
    /// Readers, a writer beside readers, and permits
    Kinds,
    /// Many that wait while nothing happens
    Waiting,
    /// Many names that are held and renewed
    Held,
}

/// How a result is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Table,
    Json,
}

const SHORTEST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_secs(60);

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let time = leasehold_console::duration(text)?;
    if (SHORTEST..=LONGEST).contains(&time) { Ok(time) } else { Err("a window has 10ms to 60s".to_owned()) }
}

/// In decimal, or as it is printed: `0x5eed`.
pub(super) fn seed(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| "it is no number from 0 to 2^64-1, nor one in hexadecimal behind 0x".to_owned())
}

fn number(text: &str, range: std::ops::RangeInclusive<usize>) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| format!("it is no number from {} to {}", range.start(), range.end()))
}
