//! A trial of all that locks need, on names that are not in use.

use crate::backend::RedisBackend;
use crate::rights::unheard;
use crate::semantics::HEARTBEAT;
use leasehold_core::trial::{Failure, acquire, failed, finding, release, renew, share, unused_name};
use leasehold_core::{
    Attempt, Claim, Finding, HolderInfo, LockBackend, LockMode, LockName, OwnerId, Release, Result,
};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// Long enough for every step, and the longest time that a trial which is cut off leaves a name held.
const TTL: Duration = Duration::from_secs(10);
/// How many names are tried to find one on each node of a cluster.
const NAMES: usize = 1000;

/// Acquires, renews, waits for, hands over and releases locks, on each server that has names and answers, and removes what is
/// left. What fails is a finding.
pub(crate) async fn try_locks(backend: &RedisBackend) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for name in one_name_for_each_server(backend).await? {
        let Ok(link) = backend.servers.link(backend.keys.of(&name).lock()).await else { continue };
        if link.connection().await.is_err() {
            continue;
        }
        match try_on(backend, &name).await {
            Ok(true) => {}
            Ok(false) => findings.push(unheard(&failed("no message came in a trial").with_help(
                "look whether the server knows PUBLISH and SUBSCRIBE, and at what stands between",
            ))),
            Err(failure) => findings.push(finding(failure)),
        }
    }
    Ok(findings)
}

async fn one_name_for_each_server(backend: &RedisBackend) -> Result<Vec<LockName>> {
    // Each server is known from here on.
    backend.servers.each().await?;
    let mut names = BTreeMap::new();
    for _ in 0..NAMES {
        let name = unused_name()?;
        names.entry(backend.servers.number_of(backend.keys.of(&name).lock())).or_insert(name);
    }
    Ok(names.into_values().collect())
}

/// True if the waiter was told of its grant, or need not be. An error names its step.
async fn try_on(backend: &RedisBackend, name: &LockName) -> Result<bool, Failure> {
    let claim = |mode: LockMode| {
        let holder = HolderInfo::this_process().to_json();
        let owner = OwnerId::random().map_err(|why| ("named", why))?;
        Ok(Claim::new(name.clone(), owner, TTL, holder.as_str().into()).with_mode(mode))
    };
    let holder = claim(LockMode::Exclusive)?;
    let waiter = claim(LockMode::Exclusive)?.with_waiting(true);
    let readers = [claim(LockMode::Shared)?, claim(LockMode::Shared)?];
    let tried = try_steps(backend, &holder, &waiter, &readers).await;
    // Also after a step that failed, or whose answer did not come.
    let mut removed = Ok(Release::NotHeld);
    for claim in readers.iter().chain([&waiter, &holder]) {
        removed = removed.and(backend.release(claim, Duration::ZERO).await);
    }
    let removed = removed.and(backend.servers.delete(&backend.keys.of(name)).await);
    let told = tried?;
    removed.map_err(|why| ("removed", why))?;
    Ok(told)
}

async fn try_steps(
    backend: &RedisBackend,
    holder: &Claim,
    waiter: &Claim,
    readers: &[Claim],
) -> Result<bool, Failure> {
    acquire(backend, holder).await.map_err(|why| ("acquired", why))?;
    renew(backend, holder).await.map_err(|why| ("renewed", why))?;
    backend.try_acquire(waiter).await.map_err(|why| ("waited for", why))?;
    release(backend, holder).await.map_err(|why| ("released", why))?;
    let told = hand_over(backend, waiter).await.map_err(|why| ("handed over", why))?;
    release(backend, waiter).await.map_err(|why| ("released", why))?;
    share(backend, readers).await?;
    Ok(told)
}

/// True if the waiter had the lock before its next heartbeat, or hears no messages here.
async fn hand_over(backend: &RedisBackend, waiter: &Claim) -> Result<bool> {
    let (start, hears) = (Instant::now(), backend.servers.channel(backend.keys.of(waiter.name()).lock()));
    let mut told = true;
    while start.elapsed() < TTL / 2 {
        told &= timeout(HEARTBEAT, backend.changed(waiter)).await.is_ok();
        if let Attempt::Granted(_) = backend.try_acquire(waiter).await? {
            return Ok(told || hears.is_none());
        }
    }
    Err(failed("the waiter did not get it"))
}
