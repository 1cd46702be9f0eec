use super::Failure;
use leasehold::Error;
use leasehold::admin::{LockStatus, Waiter};
use serde::Serialize;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

/// A lock, held or not, as `try` and `inspect` print it.
#[derive(Debug, Serialize)]
pub(crate) struct State<'a> {
    pub(crate) name: &'a str,
    pub(crate) held: bool,
    /// True if nobody has it: its last holder has released it, and others are kept out for a while.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) released: bool,
    /// The hold, if it is held.
    pub(crate) lock: Option<&'a LockStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) waiters: Option<&'a [Waiter]>,
}

/// Prints a value on one line of standard output, and sees that it is out.
pub(crate) fn print_json(value: &impl Serialize) -> io::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, value)?;
    out.write_all(b"\n")?;
    out.flush()
}

/// Sees that a result can be written there, before hours are spent on it.
pub(crate) fn can_be_written(option: &str, file: Option<&Path>) -> Result<(), Failure> {
    let Some(file) = file else { return Ok(()) };
    let is_new = !file.exists();
    OpenOptions::new().append(true).create(true).open(file).map_err(|error| {
        let problem = format!("{}: {error}", file.display());
        Failure::new(Error::invalid(option, problem, "name a file that can be written"))
    })?;
    if is_new {
        // A run that comes to nothing leaves no empty result.
        let _ = std::fs::remove_file(file);
    }
    Ok(())
}
