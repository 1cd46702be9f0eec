//! What the call says about its stores, where the verb reads it again in processes of its own.

use crate::args::Common;
use leasehold::{Error, ErrorKind, Result};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Refuses a configuration file that says something once only, such as a pipe, for verbs that read it again in processes of
/// their own: the second time it would be empty, and every one of those would use the default store.
pub(crate) fn check_rereadable(common: &Common) -> Result<()> {
    let named = std::env::var_os("LEASEHOLD_CONFIG").map(PathBuf::from);
    let Some(path) = common.config.clone().or(named) else { return Ok(()) };
    // What cannot be found is told when it is read.
    let kind = std::fs::metadata(&path).map(|metadata| metadata.file_type());
    if !kind
        .is_ok_and(|kind| kind.is_fifo() || kind.is_socket() || (kind.is_char_device() && !is_null(&path)))
    {
        return Ok(());
    }
    let message = format!("invalid configuration file {}: it can be read only once", path.display());
    Err(Error::new(ErrorKind::Misconfigured, message)
        .with_help("write it into a file: this verb has processes of its own, and each of them reads it"))
}

/// Refuses a `-u` where the call names its stores in another way, and would pass over that one.
pub(crate) fn check_unnamed(common: &Common, others: &str) -> Result<()> {
    if common.url.is_none() {
        return Ok(());
    }
    let problem = format_args!("it names a store beside {others}, and would not count");
    Err(Error::invalid("--url", problem, "leave -u out"))
}

/// True for `/dev/null`, which always says the same.
fn is_null(path: &Path) -> bool {
    let device = |path: &Path| std::fs::metadata(path).map(|metadata| metadata.rdev());
    device(path).is_ok_and(|this| device(Path::new("/dev/null")).is_ok_and(|null| this == null))
}
