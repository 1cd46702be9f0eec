//! Moments, and what this process and this host use.

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The moments between which a load is measured; what ran before them is warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Nanoseconds of `CLOCK_MONOTONIC`, which all processes of a host share.
    pub from: u64,
    /// The same.
    pub until: u64,
}

impl Window {
    /// Its length.
    pub fn seconds(self) -> f64 {
        seconds(self.until - self.from)
    }

    /// True of a moment within it.
    pub fn covers(self, moment: u64) -> bool {
        self.from <= moment && moment <= self.until
    }
}

/// This moment, in nanoseconds of `CLOCK_MONOTONIC`.
pub fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// Waits for a moment.
pub async fn sleep_until(moment: u64) {
    tokio::time::sleep(Duration::from_nanos(moment.saturating_sub(now()))).await;
}

/// Nanoseconds as seconds.
pub fn seconds(nanos: u64) -> f64 {
    Duration::from_nanos(nanos).as_secs_f64()
}

/// Time on a processor that this process has had, all threads, in seconds.
pub fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Memory of this process that is in use, by `proc_pid_statm(5)`; `None` where there is no such file.
pub fn resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// System, release, architecture.
pub(crate) fn system() -> String {
    let system = rustix::system::uname();
    let parts = [system.sysname(), system.release(), system.machine()];
    parts.map(|part| part.to_string_lossy()).join(" ")
}

/// How many tasks want a processor, on average over the last minute; `None` where the system does not tell.
pub(crate) fn load_average() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}

pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
