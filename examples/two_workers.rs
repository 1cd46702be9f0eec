//! Two processes that take turns: they exclude each other through a SQLite file, with no server.
//!
//! `cargo run --example two_workers --features sqlite`

#![allow(clippy::print_stdout, reason = "an example talks")]

use leasehold::DistributedLockExt;
use std::error::Error;
use std::process::Command;
use std::time::Duration;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.as_slice() {
        [_, worker, url] => Ok(work(worker, url).await?),
        _ => start_two(),
    }
}

/// Five turns. Between the two lines of a turn, the other worker prints nothing.
async fn work(worker: &str, url: &str) -> leasehold::Result<()> {
    let locks = leasehold::connect(url).await?;
    for turn in 1..=5 {
        let guard = locks.acquire("printer").await?;
        println!("{worker} begins turn {turn}, with token {}", guard.token()?);
        guard.protect(tokio::time::sleep(Duration::from_millis(20))).await?;
        println!("{worker} ends turn {turn}");
        guard.release().await?;
        // The other one's chance: this store keeps no queue, and whoever asks first gets the lock.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    locks.close().await
}

/// Starts this program twice, as workers on one store.
fn start_two() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let url = format!("sqlite:{}/locks.db", directory.path().display());
    let program = std::env::current_exe()?;
    let start = |worker| Command::new(&program).args([worker, url.as_str()]).spawn();
    for mut worker in [start("ada")?, start("bob")?] {
        if !worker.wait()?.success() {
            return Err("a worker failed".into());
        }
    }
    Ok(())
}
