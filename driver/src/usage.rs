//! Moments, what this process has used, and its input.

use crate::Outcome;
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader, stdin};

/// Nanoseconds of `CLOCK_MONOTONIC`.
pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

pub(crate) async fn sleep_until(moment: u64) {
    tokio::time::sleep(Duration::from_nanos(moment.saturating_sub(now()))).await;
}

/// Seconds on a processor, of all threads.
pub(crate) fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Memory in use, by `proc_pid_statm(5)`; 0 where there is no such file.
pub(crate) fn resident_kib() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split_whitespace().nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0_u64);
    pages * rustix::param::page_size() as u64 / 1024
}

/// The next line of the input; it is read by nobody else.
pub(crate) async fn read_line() -> Outcome<String> {
    let mut line = String::new();
    BufReader::new(stdin()).read_line(&mut line).await?;
    Ok(line)
}
