//! The stores that a call names: those of the user's by URLs, and private ones by their names.

use leasehold::{Error, ErrorKind, Result};
use leasehold_conformance::Subject;
use leasehold_console::StoreOptions;
use leasehold_test_stores::stores;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Every store in every mode, of which the suite starts private servers on this host.
pub(crate) fn private_stores() -> Vec<Arc<dyn Subject>> {
    stores::all().into_iter().map(Arc::from).collect()
}

/// The private stores of these names or schemes; all if there is none.
pub(crate) fn private_stores_named(names: &[String]) -> Result<Vec<Arc<dyn Subject>>> {
    let named = stores::named(names).map_err(|cannot| {
        let known: Vec<String> = private_stores().iter().map(|subject| subject.name().to_owned()).collect();
        Error::invalid("URL", cannot, format!("use one of: {}", known.join(", ")))
    })?;
    Ok(named.into_iter().map(Arc::from).collect())
}

/// The options of each store: of those that the call names by URLs, or of the configured one.
///
/// # Errors
///
/// If a store would be passed over or is named twice, or a process of this verb could not read the configuration again.
pub(crate) fn each_store(urls: &[String], options: &StoreOptions) -> Result<Vec<StoreOptions>> {
    check_rereadable(options)?;
    if urls.is_empty() {
        return Ok(vec![options.clone()]);
    }
    check_unnamed(options, "other URLs")?;
    for (at, url) in urls.iter().enumerate() {
        let is_same = |other: &String| other.trim_end_matches('/') == url.trim_end_matches('/');
        if let Some(first) = urls[..at].iter().position(is_same) {
            // The URL may have a password, and is not told.
            let problem = format_args!("the stores {} and {} of the call are the same", first + 1, at + 1);
            return Err(Error::invalid("URL", problem, "name each store once"));
        }
    }
    Ok(urls.iter().map(|url| options.with_url(url)).collect())
}

/// Refuses a `-u` where the call names its stores in another way, and would pass over that one.
pub(crate) fn check_unnamed(options: &StoreOptions, others: &str) -> Result<()> {
    if options.url.is_none() {
        return Ok(());
    }
    let problem = format_args!("it names a store beside {others}, and would not count");
    Err(Error::invalid("--url", problem, "leave -u out"))
}

/// Refuses a configuration file that says something once only, such as a pipe: a verb with processes of its own reads it
/// again, and each of them would find it empty, and use the default store.
fn check_rereadable(options: &StoreOptions) -> Result<()> {
    let named = std::env::var_os("LEASEHOLD_CONFIG").map(PathBuf::from);
    let Some(path) = options.config.clone().or(named) else { return Ok(()) };
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

/// True for `/dev/null`, which always says the same.
fn is_null(path: &Path) -> bool {
    let device = |path: &Path| std::fs::metadata(path).map(|metadata| metadata.rdev());
    device(path).is_ok_and(|this| device(Path::new("/dev/null")).is_ok_and(|null| this == null))
}
