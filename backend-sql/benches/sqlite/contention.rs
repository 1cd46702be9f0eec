//! Many waiters for one lock, in several processes: hand-overs per second, and the time of a release.

use super::{client, median, options, url};
use leasehold_core::{DistributedLockExt as _, LockName};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Tells a process that it is a worker, and at which store.
pub(super) const URL: &str = "LEASEHOLD_BENCH_CONTENTION";
const PROCESSES: usize = 4;
const WAITERS: usize = 16;
const TIME: Duration = Duration::from_secs(3);
const HOLD: Duration = Duration::from_millis(1);

pub(super) fn measure(directories: &[PathBuf]) {
    println!("\n| where | waiters | hand-overs/s | release, median | release, 99 % |");
    println!("|---|---|---|---|---|");
    for directory in directories {
        measure_in(directory);
    }
}

fn measure_in(directory: &Path) {
    let scratch = tempfile::tempdir_in(directory).unwrap();
    let url = url(&scratch.path().join("locks.db"));
    let start = || {
        Command::new(std::env::current_exe().unwrap())
            .env(URL, &url)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let processes: Vec<_> = (0..PROCESSES).map(|_| start()).collect();
    let mut releases: Vec<f64> = Vec::new();
    for process in processes {
        let output = process.wait_with_output().unwrap();
        assert!(output.status.success());
        let lines = String::from_utf8(output.stdout).unwrap();
        releases.extend(lines.lines().map(|micros| micros.parse::<f64>().unwrap()));
    }
    let median = median(&mut releases);
    println!(
        "| {} | {PROCESSES} x {WAITERS} | {:.0} | {:.1} ms | {:.1} ms |",
        directory.display(),
        f64::from(u32::try_from(releases.len()).unwrap()) / TIME.as_secs_f64(),
        median / 1000.0,
        releases[releases.len() * 99 / 100] / 1000.0,
    );
}

/// Prints how many microseconds each release took.
pub(super) async fn work(url: &str) {
    let locks = client(url);
    let name = LockName::new("one for all").unwrap();
    let start = Instant::now();
    let mut waiters = JoinSet::new();
    for _ in 0..WAITERS {
        let (locks, name) = (locks.clone(), name.clone());
        waiters.spawn(async move {
            let mut releases = Vec::new();
            while let Some(left) = TIME.checked_sub(start.elapsed()) {
                let Ok(guard) = locks.acquire_with(&name, &options().with_wait(left)).await else {
                    break;
                };
                tokio::time::sleep(HOLD).await;
                let before = Instant::now();
                guard.release().await.unwrap();
                releases.push(before.elapsed());
            }
            releases
        });
    }
    for release in waiters.join_all().await.concat() {
        println!("{}", release.as_micros());
    }
}
