//! A semaphore of four for which 64 tasks wait, in four clients: `cargo bench -p leasehold-conformance --bench semaphore`.
//!
//! Prints for each store: grants per second, the 99th percentile of the wait, and Jain's index of the grants per task (1 is
//! equal). On Redis also the scripts that the server has run for each grant. Then one task alone, beside a plain lock.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints, and ends at the first error"
)]

use leasehold::{DistributedLock, DistributedLockExt};
use leasehold_test_stores::servers::RedisServer;
use std::sync::Arc;
use std::time::{Duration, Instant};

const PERMITS: u32 = 4;
const CLIENTS: usize = 4;
const TASKS: usize = 64;
const HOLD: Duration = Duration::from_millis(5);
const LASTS: Duration = Duration::from_secs(5);

#[tokio::main]
async fn main() {
    let directory = tempfile::tempdir().unwrap();
    let redis = RedisServer::start().unwrap();
    let stores = [
        ("memory", format!("memory:{:x}", fastrand::u64(..))),
        ("redis", redis.url()),
        ("sqlite", format!("sqlite:{}/locks.db", directory.path().display())),
    ];
    println!("{PERMITS} permits, {TASKS} tasks in {CLIENTS} clients, held for {HOLD:?}");
    for (store, url) in &stores {
        let before = scripts(&redis);
        let grants = crowd(store, url).await;
        if *store == "redis" {
            println!("{:>44.1} scripts per grant", (scripts(&redis) - before) as f64 / grants as f64);
        }
        alone(store, url).await;
    }
}

/// How many scripts the server has run.
fn scripts(redis: &RedisServer) -> u64 {
    let stats = redis.command(&["INFO", "commandstats"]).unwrap();
    let calls =
        |line: &str| line.strip_prefix("cmdstat_evalsha:calls=")?.split(',').next()?.parse::<u64>().ok();
    stats.lines().find_map(calls).unwrap_or(0)
}

async fn crowd(store: &str, url: &str) -> usize {
    let mut tasks = tokio::task::JoinSet::new();
    let start = Instant::now();
    for _ in 0..CLIENTS {
        let semaphore = leasehold::connect(url).await.unwrap().semaphore("crowd", PERMITS).unwrap();
        for _ in 0..TASKS / CLIENTS {
            let semaphore = semaphore.clone();
            tasks.spawn(async move {
                let mut waits = Vec::new();
                while start.elapsed() < LASTS {
                    let begun = Instant::now();
                    let permit = semaphore.acquire().await.unwrap();
                    waits.push(begun.elapsed());
                    tokio::time::sleep(HOLD).await;
                    permit.release().await.unwrap();
                }
                waits
            });
        }
    }
    let of_tasks = tasks.join_all().await;
    let took = start.elapsed();
    let counts: Vec<f64> = of_tasks.iter().map(|waits| waits.len() as f64).collect();
    let (sum, squares) = (counts.iter().sum::<f64>(), counts.iter().map(|count| count * count).sum::<f64>());
    let mut waits: Vec<Duration> = of_tasks.into_iter().flatten().collect();
    waits.sort_unstable();
    println!(
        "{store:>8}: {:>6.0} grants/s, p50 {:>7.1} ms, p99 {:>7.1} ms, Jain {:.3}",
        sum / took.as_secs_f64(),
        millis(waits[waits.len() / 2]),
        millis(waits[waits.len() * 99 / 100]),
        sum * sum / (counts.len() as f64 * squares)
    );
    waits.len()
}

/// The median of an acquisition and its release that nothing disturbs.
async fn alone(store: &str, url: &str) {
    let locks = leasehold::connect(url).await.unwrap();
    let permit =
        median(&locks, async |locks| locks.semaphore("alone", PERMITS).unwrap().acquire().await).await;
    let semaphore = locks.semaphore("alone", PERMITS).unwrap();
    let kept = median(&locks, async |_| semaphore.acquire().await).await;
    let lock = median(&locks, async |locks| locks.acquire("alone").await).await;
    println!("{store:>8}: alone {permit:.3} ms, with one value {kept:.3} ms, a lock {lock:.3} ms");
}

async fn median(
    locks: &Arc<dyn DistributedLock>,
    acquire: impl AsyncFn(&Arc<dyn DistributedLock>) -> leasehold::Result<leasehold::LockGuard>,
) -> f64 {
    let mut times = Vec::new();
    for _ in 0..500 {
        let begun = Instant::now();
        acquire(locks).await.unwrap().release().await.unwrap();
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    millis(times[times.len() / 2])
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
