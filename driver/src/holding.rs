//! Many names, held and renewed.

use crate::Outcome;
use crate::arguments::Arguments;
use crate::usage::{cpu_seconds, now, read_line, resident_kib};
use leasehold::{AcquireOptions, DistributedLock, DistributedLockExt, LockGuard};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// Each name is renewed at a third of it: at least once while nothing else happens.
const TTL: Duration = Duration::from_secs(15);
const IDLE: Duration = Duration::from_secs(6);
/// How many names are acquired at a time.
const AT_ONCE: usize = 64;

pub(crate) async fn hold(arguments: &Arguments) -> Outcome<()> {
    let locks = leasehold::connect(&arguments.url).await?;
    mark("start").await?;
    let (before, begin) = (resident_kib(), now());
    let guards = acquire_all(&locks, arguments).await?;
    let (after, acquired) = (resident_kib(), now());
    mark("held").await?;
    let cpu = cpu_seconds();
    tokio::time::sleep(IDLE).await;
    let cpu = cpu_seconds() - cpu;
    mark("idle6s").await?;
    let lost = guards.iter().filter(|guard| !guard.is_held()).count();
    let done = serde_json::json!({
        "impl": "leasehold", "n": guards.len(), "ttl_s": TTL.as_secs(), "lost": lost,
        "acquire_s": (acquired - begin) as f64 / 1e9,
        "client_bytes_per_lock": (after.saturating_sub(before)) * 1024 / guards.len().max(1) as u64,
        "idle6s_client_cpu_s": cpu,
    });
    println!("DONE {done}");
    // They end with their leases: a measurement that goes on is not to wait for a hundred thousand releases.
    std::mem::forget(guards);
    Ok(())
}

async fn acquire_all(locks: &Arc<dyn DistributedLock>, arguments: &Arguments) -> Outcome<Vec<LockGuard>> {
    let (mut guards, mut running) = (Vec::with_capacity(arguments.names), JoinSet::new());
    let options = AcquireOptions::new().with_ttl(TTL);
    for number in 0..arguments.names {
        let (locks, name, options) = (Arc::clone(locks), arguments.name(number)?, options.clone());
        running.spawn(async move { locks.acquire_with(&name, &options).await });
        if running.len() >= AT_ONCE
            && let Some(guard) = running.join_next().await
        {
            guards.push(guard??);
        }
    }
    while let Some(guard) = running.join_next().await {
        guards.push(guard??);
    }
    Ok(guards)
}

async fn mark(name: &str) -> Outcome<()> {
    println!("MARK {name}");
    read_line().await.map(drop)
}
