//! A trial of all that locks need, on a name that is not in use.

use crate::ZooKeeperBackend;
use leasehold_core::trial::{Failure, acquire, failed, finding, release, renew};
use leasehold_core::{
    Attempt, Claim, Finding, HolderInfo, LockAdmin, LockBackend, LockMode, LockName, OwnerId, Release, Result,
};
use std::time::Duration;

/// Long enough for every step.
const TTL: Duration = Duration::from_secs(10);

/// Acquires, renews, waits for, hands over and releases a lock in each mode, and removes it. A failure is a finding.
pub(crate) async fn try_lock(backend: &ZooKeeperBackend) -> Result<Option<Finding>> {
    let name = LockName::new(format!("leasehold/check/{}", OwnerId::random()?.to_hex()))?;
    let holder = HolderInfo::this_process().to_json();
    let claim = |mode: LockMode| -> Result<Claim> {
        let owner = OwnerId::random()?;
        Ok(Claim::new(name.clone(), owner, TTL, holder.as_str().into()).with_mode(mode).with_waiting(true))
    };
    let writer = claim(LockMode::Exclusive)?;
    let readers = [claim(LockMode::Shared)?, claim(LockMode::Shared)?];
    let tried = try_steps(backend, &writer, &readers).await;
    // Also after a step that failed, or whose answer did not come.
    let mut removed = Ok(Release::NotHeld);
    for claim in readers.iter().chain([&writer]) {
        removed = removed.and(backend.release(claim, Duration::ZERO).await);
    }
    let removed = removed.map(drop).and(backend.forget(&[name]).await);
    Ok(tried.and(removed.map_err(|why| ("removed", why))).err().map(finding))
}

async fn try_steps(backend: &ZooKeeperBackend, writer: &Claim, readers: &[Claim]) -> Result<(), Failure> {
    acquire(backend, writer).await.map_err(|why| ("acquired", why))?;
    renew(backend, writer).await.map_err(|why| ("renewed", why))?;
    for reader in readers {
        match backend.try_acquire(reader).await {
            Ok(Attempt::Busy(_)) => {}
            Ok(Attempt::Granted(_)) => return Err(("kept", failed("another owner was granted it too"))),
            Err(why) => return Err(("waited for", why)),
        }
    }
    release(backend, writer).await.map_err(|why| ("released", why))?;
    for reader in readers {
        acquire(backend, reader).await.map_err(|why| ("shared", why))?;
    }
    for reader in readers {
        renew(backend, reader).await.map_err(|why| ("renewed by a reader", why))?;
        release(backend, reader).await.map_err(|why| ("released by a reader", why))?;
    }
    Ok(())
}
