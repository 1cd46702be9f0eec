//! Whether servers run by the wall clock that they were started on.

use leasehold_conformance::Stop;
use std::time::SystemTime;

/// Tolerance for the clock of a server when it is read.
const ABOUT_MS: u64 = 60_000;

/// Fails unless a clock, read in milliseconds since 1970, shows about so many seconds more than this host's: a server may take no
/// notice of the clock that it was started on, and where no lock depends on the clock nothing else would show that.
pub(super) fn ensure_ahead(shown: i64, seconds: i64) -> Result<(), Stop> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let wanted = i64::try_from(now.as_millis()).unwrap_or_default() + seconds * 1_000;
    match shown.abs_diff(wanted) < ABOUT_MS {
        true => Ok(()),
        false => Err(Stop::failed(format!("its clock shows {shown} ms, and was set to {wanted}"))),
    }
}
