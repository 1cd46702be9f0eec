//! By how much everything takes longer on this machine, as `LEASEHOLD_TIME_SCALE` says.

use std::time::Duration;

/// The factor; 1 if nothing is said.
pub(crate) fn time_scale() -> f64 {
    said_time_scale().unwrap_or(Some(1.0)).unwrap_or(1.0)
}

/// This time on this machine.
pub(crate) fn scaled(time: Duration) -> Duration {
    time.mul_f64(time_scale())
}

/// What `LEASEHOLD_TIME_SCALE` says; `None` if nothing.
///
/// # Errors
///
/// What it says, if that is no number from 0.1 to 10: a bound that is nothing would judge the machine. A lease that is not
/// asked for in the scale of a case lasts for 30 s, and what waits for longer than that would not see who forgot to end it.
pub fn said_time_scale() -> Result<Option<f64>, String> {
    let Some(said) = std::env::var_os("LEASEHOLD_TIME_SCALE") else { return Ok(None) };
    let scale = said.to_str().and_then(|scale| scale.parse().ok());
    match scale.filter(|scale| (0.1..=10.0).contains(scale)) {
        Some(scale) => Ok(Some(scale)),
        None => Err(said.to_string_lossy().into_owned()),
    }
}
