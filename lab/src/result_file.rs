//! The files that a run writes its result into.

use leasehold::Error;
use leasehold_console::Failure;
use std::fs::{self, OpenOptions};
use std::io;
use std::path::Path;

/// Writes a result, beside an older one at first: that stays if this one cannot be written. What is no plain file, such as
/// a pipe or a link to one, is written to as it is.
pub(crate) fn write_result(file: &Path, result: &[u8]) -> Result<(), Failure> {
    let is_new_or_plain = fs::symlink_metadata(file).map_or(true, |metadata| metadata.is_file());
    let written = if is_new_or_plain { replace(file, result) } else { fs::write(file, result) };
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
