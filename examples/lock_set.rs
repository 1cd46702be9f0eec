//! Two transfers in opposite directions: each locks both accounts at once, and none waits for the other for ever.
//!
//! `cargo run --example lock_set`; with another store: `cargo run --example lock_set --features redis -- redis://127.0.0.1`.

#![allow(clippy::print_stdout, reason = "an example talks")]

use leasehold::{DistributedLock, DistributedLockExt, Result};

#[tokio::main]
async fn main() -> Result<()> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory:".to_owned());
    let locks = leasehold::connect(&url).await?;
    let there = transfer(&*locks, "account/3", "account/7");
    let back = transfer(&*locks, "account/7", "account/3");
    tokio::try_join!(there, back)?;
    locks.close().await
}

async fn transfer(locks: &dyn DistributedLock, from: &str, to: &str) -> Result<()> {
    let accounts = locks.acquire_all([from, to]).await?;
    let (from_token, to_token) = (accounts.token(from)?, accounts.token(to)?);
    let booking = async { println!("from {from} with token {from_token} to {to} with token {to_token}") };
    accounts.protect(booking).await?; // stops if one of the two locks is lost
    accounts.release().await
}
