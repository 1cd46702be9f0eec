use super::Failure;
use leasehold::Error;
use leasehold::admin::{LockStatus, Waiter};
use serde::Serialize;
use std::fs::{self, OpenOptions};
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

/// Writes a result, beside an older one at first: that stays if this one cannot be written. What is no plain file, such as
/// a pipe or a link to one, is written to as it is.
pub(crate) fn write_result(file: &Path, result: &[u8]) -> Result<(), Failure> {
    let is_plain = fs::symlink_metadata(file).is_ok_and(|metadata| metadata.is_file());
    let written = if is_plain { replace(file, result) } else { fs::write(file, result) };
    written.map_err(|error| Failure::internal("cannot write the result", error))
}

fn replace(file: &Path, result: &[u8]) -> io::Result<()> {
    let mut beside = file.as_os_str().to_owned();
    beside.push(".new");
    let replaced = fs::write(&beside, result).and_then(|()| fs::rename(&beside, file));
    match replaced {
        // A file that may be written to, in a directory that may not.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => fs::write(file, result),
        Err(error) => {
            let _ = fs::remove_file(&beside);
            Err(error)
        }
        Ok(()) => Ok(()),
    }
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
        let _ = fs::remove_file(file);
    }
    Ok(())
}
