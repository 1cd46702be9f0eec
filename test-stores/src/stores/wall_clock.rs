use leasehold_conformance::Cannot;
use std::time::SystemTime;

/// What the clock of a server may be off when it is looked at.
const ABOUT_MS: u64 = 60_000;

/// Fails unless a clock, read in milliseconds since 1970, shows about so many seconds more than this host's. What was to run by
/// a clock of its own may have taken no notice, and where no lock hangs on it nothing else would show that.
pub(super) fn ensure_ahead(shown: i64, seconds: i64) -> Result<(), Cannot> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let wanted = i64::try_from(now.as_millis()).unwrap_or_default() + seconds * 1_000;
    match shown.abs_diff(wanted) < ABOUT_MS {
        true => Ok(()),
        false => Err(Cannot::failed(format!("its clock shows {shown} ms, and was set to {wanted}"))),
    }
}
