//! Six downloads, and never more than two at a time, whatever the number of processes.
//!
//! `cargo run --example semaphore`; with another store: `cargo run --example semaphore --features redis -- redis://127.0.0.1`.

#![allow(clippy::print_stdout, reason = "an example talks")]

use leasehold::{DistributedLockExt, Result};
use std::time::Duration;

#[tokio::main]
async fn main() -> Result<()> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory:".to_owned());
    let downloads = leasehold::connect(&url).await?.semaphore("downloads", 2)?;
    let mut tasks = tokio::task::JoinSet::new();
    for file in 1..=6 {
        let downloads = downloads.clone();
        tasks.spawn(async move {
            let permit = downloads.acquire().await?;
            println!("file {file} in slot {:?}, with token {}", permit.slot(), permit.token()?);
            permit.protect(tokio::time::sleep(Duration::from_millis(50))).await?;
            permit.release().await
        });
    }
    tasks.join_all().await.into_iter().collect()
}
