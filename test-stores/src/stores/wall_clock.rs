//! Wall clocks that servers are started on, and whether they run by them.

use leasehold_conformance::{Cannot, ShimmedClock, SteppedClock, Stop};
use std::fmt::Debug;
use std::time::SystemTime;

/// Tolerance for the clock of a server when it is read.
const ABOUT_MS: u64 = 60_000;

/// A wall clock that is stepped while servers run by it.
pub(super) trait WallClock: Debug + Send + Sized + 'static {
    fn ahead(seconds: i64) -> Result<Self, Stop>;
    fn step_to(&self, seconds: i64) -> Result<(), Stop>;
    /// What a server must be started with.
    fn environment(&self) -> Vec<(String, String)>;
}

impl WallClock for ShimmedClock {
    fn ahead(seconds: i64) -> Result<Self, Stop> {
        Self::ahead(seconds)
    }

    fn step_to(&self, seconds: i64) -> Result<(), Stop> {
        self.step_to(seconds)
    }

    fn environment(&self) -> Vec<(String, String)> {
        self.environment()
    }
}

impl WallClock for SteppedClock {
    fn ahead(seconds: i64) -> Result<Self, Stop> {
        Self::ahead(seconds)
    }

    fn step_to(&self, seconds: i64) -> Result<(), Stop> {
        self.step_to(seconds)
    }

    fn environment(&self) -> Vec<(String, String)> {
        self.environment()
    }
}

/// Fails unless a clock, read in milliseconds since 1970, shows about so many seconds more than this host's: a server may take no
/// notice of the clock that it was started on, and where no lock depends on the clock nothing else would show that.
pub(super) fn ensure_ahead(shown: i64, seconds: i64) -> Result<(), Cannot> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let wanted = i64::try_from(now.as_millis()).unwrap_or_default() + seconds * 1_000;
    match shown.abs_diff(wanted) < ABOUT_MS {
        true => Ok(()),
        false => Err(Cannot::failed(format!("its clock shows {shown} ms, and was set to {wanted}"))),
    }
}
