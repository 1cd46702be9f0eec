use leasehold_conformance::Stop;
use std::time::{Duration, Instant};

/// Limit for servers to become one store, or for a fail-over. It takes a second on a quiet machine.
pub(super) const SETTLED_WITHIN: Duration = Duration::from_secs(120);

/// Waits until this holds, which is asked every few milliseconds.
pub(super) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) -> Result<(), Stop> {
    let start = Instant::now();
    while !holds() {
        if start.elapsed() > SETTLED_WITHIN {
            return Err(Stop::failed(format!("after {SETTLED_WITHIN:?} it is not so that {what}")));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}
