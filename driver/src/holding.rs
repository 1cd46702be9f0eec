//! Many names, held and renewed.

use crate::Outcome;
use crate::arguments::Arguments;
use crate::read_line;
use leasehold::{AcquireOptions, LockName};
use leasehold_lab::load::{acquire_all, cpu_seconds, now, resident_bytes, seconds};
use std::time::Duration;

/// Each name is renewed at a third of it: at least once while nothing else happens.
const TTL: Duration = Duration::from_secs(15);
const IDLE: Duration = Duration::from_secs(6);

pub(crate) async fn hold(arguments: &Arguments) -> Outcome<()> {
    let locks = leasehold::connect(&arguments.url).await?;
    mark("start").await?;
    let (before, begin) = (resident_bytes(), now());
    let names = (0..arguments.names).map(|number| LockName::new(format!("lock-number-{number:08}")));
    let guards = acquire_all(&locks, names, &AcquireOptions::new().with_ttl(TTL)).await?;
    let (after, acquired) = (resident_bytes(), now());
    let grown = after.unwrap_or_default().saturating_sub(before.unwrap_or_default());
    mark("held").await?;
    let cpu = cpu_seconds();
    tokio::time::sleep(IDLE).await;
    let cpu = cpu_seconds() - cpu;
    mark("idle6s").await?;
    let lost = guards.iter().filter(|guard| !guard.is_held()).count();
    let done = serde_json::json!({
        "impl": "leasehold", "n": guards.len(), "ttl_s": TTL.as_secs(), "lost": lost,
        "acquire_s": seconds(acquired - begin),
        "client_bytes_per_lock": grown / guards.len().max(1) as u64,
        "idle6s_client_cpu_s": cpu,
    });
    println!("DONE {done}");
    // They end with their leases: a measurement that goes on is not to wait for a hundred thousand releases.
    std::mem::forget(guards);
    Ok(())
}

async fn mark(name: &str) -> Outcome<()> {
    println!("MARK {name}");
    read_line().await.map(drop)
}
