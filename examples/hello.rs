//! Takes a lock, works under it, and releases it.
//!
//! `cargo run --example hello`; with another store: `cargo run --example hello --features redis -- redis://127.0.0.1`.

#![allow(clippy::print_stdout, reason = "an example talks")]

use leasehold::{DistributedLockExt, Result};

#[tokio::main]
async fn main() -> Result<()> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory:".to_owned());
    let locks = leasehold::connect(&url).await?;

    let guard = locks.acquire("greeting").await?;
    println!("held, with token {}", guard.token()?);

    let second = locks.try_acquire("greeting").await?;
    println!("a second one is {}", if second.is_some() { "granted" } else { "refused" });

    guard.protect(greet()).await?;
    guard.release().await
}

async fn greet() {
    println!("hello");
}
