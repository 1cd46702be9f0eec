//! A function that locks what its caller has locked already: both pass the same scope.
//!
//! `cargo run --example scope`; with another store: `cargo run --example scope --features redis -- redis://127.0.0.1`.

#![allow(clippy::print_stdout, reason = "an example talks")]

use leasehold::{DistributedLock, DistributedLockExt, Result};

#[tokio::main]
async fn main() -> Result<()> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory:".to_owned());
    let locks = leasehold::connect(&url).await?;
    let scope = locks.scope();

    let order = scope.acquire("order/42").await?;
    println!("order 42 is locked, with token {}", order.token()?);
    pay(&scope).await?; // in a scope of its own, or with `locks`, it would wait for ever
    println!("after the payment it is {}", if order.is_held() { "still locked" } else { "free" });
    order.release().await?; // the last guard releases
    locks.close().await
}

/// Right by itself, and within a scope that holds the order.
async fn pay(locks: &dyn DistributedLock) -> Result<()> {
    let order = locks.acquire("order/42").await?;
    println!("it is paid under the lock with token {}", order.token()?);
    order.release().await
}
