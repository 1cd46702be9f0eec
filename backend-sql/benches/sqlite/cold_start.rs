//! The cost of one lock for a process: it is started without one, with one in a file that must be made, and with one in a
//! file that is there.

use super::{client, median, options, url};
use leasehold_core::{DistributedLock as _, DistributedLockExt as _, LockName};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Tells a process that it is a fresh one, and at which store it is to take a lock; empty for none.
pub(super) const URL: &str = "LEASEHOLD_BENCH_FRESH";
const RUNS: usize = 60;

pub(super) fn measure(directories: &[PathBuf]) {
    println!("\n| where | process without a lock | with one, first in the file | with one | added |");
    println!("|---|---|---|---|---|");
    for directory in directories {
        cold_start(directory);
    }
}

fn cold_start(directory: &Path) {
    let scratch = tempfile::tempdir_in(directory).unwrap();
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    for run in 0..RUNS {
        let fresh = url(&scratch.path().join(format!("{run}.db")));
        let old = url(&scratch.path().join("old.db"));
        for (times, url) in times.iter_mut().zip(["", &fresh, &old]) {
            times.push(time_process(url));
        }
    }
    let [nothing, first, one] = times.map(|mut times| median(&mut times));
    println!(
        "| {} | {nothing:.1} ms | {first:.1} ms | {one:.1} ms | {:.1} ms |",
        directory.display(),
        one - nothing
    );
}

/// In milliseconds.
fn time_process(url: &str) -> f64 {
    let start = Instant::now();
    let status =
        Command::new(std::env::current_exe().unwrap()).env(URL, url).stdin(Stdio::null()).status().unwrap();
    assert!(status.success());
    start.elapsed().as_secs_f64() * 1000.0
}

pub(super) async fn fresh_process(url: &str) {
    if url.is_empty() {
        return;
    }
    let locks = client(url);
    let name = LockName::new("cold").unwrap();
    let guard = locks.acquire_with(&name, &options()).await.unwrap();
    guard.release().await.unwrap();
    locks.close().await.unwrap();
}
