//! Two candidates for one job: while one leads, the other waits, and an observer tells who it is.
//!
//! `cargo run --example election`; with another store: `cargo run --example election --features redis -- redis://127.0.0.1`.

#![allow(clippy::print_stdout, reason = "an example talks")]

use futures_util::TryStreamExt;
use leasehold::{DistributedLockExt, FencingToken, Result};
use std::time::Duration;

#[tokio::main]
async fn main() -> Result<()> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory:".to_owned());
    let locks = leasehold::connect(&url).await?;
    let candidate = async |name: &str| {
        // Dropped if the leadership is lost, and then begun anew in a later term.
        let work = |leader: leasehold::Lease| async move {
            println!("{name} leads in term {}", leader.token().map_or(0, FencingToken::get));
            tokio::time::sleep(Duration::from_millis(1500)).await;
        };
        locks.elect("scheduler")?.lead(work).await
    };
    let mut leaders = locks.elect("scheduler")?.observe()?;
    let observer = async {
        for _ in 0..3 {
            match leaders.try_next().await?.flatten() {
                Some(leader) => println!("seen: {leader}"),
                None => println!("seen: nobody leads"),
            }
        }
        Ok(())
    };
    tokio::try_join!(candidate("ada"), candidate("bob"), observer).map(drop)
}
