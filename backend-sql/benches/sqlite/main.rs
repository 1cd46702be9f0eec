//! The cost of a lock on SQLite under contention, and in a fresh process. A lock without contention is measured by
//! `leasehold bench`, and the statements by hand by `leasehold-driver URL hand`.
//!
//! `cargo bench -p leasehold-sql --features sqlite [-- DIRECTORY…]`; by default in `/dev/shm` and in the working
//! directory, which stand for memory and for a disk.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a program for people: what it cannot measure it must not pass over"
)]

mod cold_start;
mod contention;

use leasehold_core::{AcquireOptions, LockClient, Namespace};
use leasehold_store_url::StoreUrl;
use std::path::{Path, PathBuf};
use std::time::Duration;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    match (std::env::var(cold_start::URL), std::env::var(contention::URL)) {
        (Ok(url), _) => runtime.block_on(cold_start::fresh_process(&url)),
        (_, Ok(url)) => runtime.block_on(contention::work(&url)),
        _ => runtime.block_on(measure_all()),
    }
}

async fn measure_all() {
    let given = std::env::args().skip(1).filter(|argument| !argument.starts_with('-'));
    let mut directories: Vec<PathBuf> = given.map(PathBuf::from).collect();
    if directories.is_empty() {
        directories = vec![PathBuf::from("/dev/shm"), std::env::current_dir().unwrap()];
    }
    contention::measure(&directories);
    cold_start::measure(&directories);
}

fn client(url: &str) -> LockClient {
    let url = StoreUrl::parse(url).unwrap();
    LockClient::new(leasehold_sql::open(&url, &Namespace::default()).unwrap())
}

fn url(file: &Path) -> String {
    format!("sqlite:{}", file.display())
}

fn options() -> AcquireOptions {
    AcquireOptions::new().with_ttl(Duration::from_secs(30))
}

fn median(numbers: &mut [f64]) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}
