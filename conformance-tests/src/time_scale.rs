//! By how much everything takes longer on this machine: as `LEASEHOLD_TIME_SCALE` says, and more while the machine is late.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What a busy machine with two cores may add to anything.
pub(crate) const SLACK: Duration = Duration::from_millis(500);

/// The longest scale. Some leases last for 30 s in any scale; a case that waits for longer than that would not see that the lock was
/// never given back.
const LONGEST: f64 = 10.0;

/// The factor for a machine that is late.
const STRETCH: f64 = 3.0;
static IS_STRETCHED: AtomicBool = AtomicBool::new(false);

/// The factor; 1 if nothing is said, on a machine that is on time.
pub(crate) fn time_scale() -> f64 {
    let said = said_factor();
    if is_stretched() { (said * STRETCH).min(LONGEST) } else { said }
}

/// The factor that was said, however late the machine is.
pub(crate) fn said_factor() -> f64 {
    said_time_scale().unwrap_or(Some(1.0)).unwrap_or(1.0)
}

/// True if everything takes longer, for a machine that is late.
pub(crate) fn is_stretched() -> bool {
    IS_STRETCHED.load(Ordering::Relaxed)
}

/// Makes everything take longer in each case that starts from now on; `false` ends that.
pub(crate) fn stretch(is_late: bool) {
    IS_STRETCHED.store(is_late, Ordering::Relaxed);
}

/// This time on this machine.
pub(crate) fn scaled(time: Duration) -> Duration {
    time.mul_f64(time_scale())
}

/// In whole nanoseconds, as histories count them.
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// In whole milliseconds.
pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// What `LEASEHOLD_TIME_SCALE` says; `None` if nothing.
///
/// # Errors
///
/// What it says, if that is no number from 0.1 to 10: a bound that is nothing would judge the machine.
pub fn said_time_scale() -> Result<Option<f64>, String> {
    let Some(said) = std::env::var_os("LEASEHOLD_TIME_SCALE") else { return Ok(None) };
    let scale = said.to_str().and_then(|scale| scale.parse().ok());
    match scale.filter(|scale| (0.1..=LONGEST).contains(scale)) {
        Some(scale) => Ok(Some(scale)),
        None => Err(said.to_string_lossy().into_owned()),
    }
}
