//! Holds, attempts and waiters in a mode.

use crate::cases::prelude::*;
use crate::cases::tasks::{TakeTask, spawn_take};
use leasehold_core::{LockMode, Semantics, Sharing};

pub(super) const NOT_SHARED: [LockMode; 2] = [LockMode::Write, LockMode::Exclusive];
pub(super) const ALL: [LockMode; 3] = [LockMode::Shared, LockMode::Write, LockMode::Exclusive];

/// The semantics of a store that serves readers; skips the case on any other.
pub(super) async fn sharing(cx: &Context) -> Result<Semantics, Stop> {
    let semantics = cx.semantics().await?;
    match semantics.sharing {
        Sharing::Unsupported => Err(Stop::Skipped("the store does not declare shared locks".to_owned())),
        _ => Ok(semantics),
    }
}

pub(super) async fn hold(
    cx: &Context,
    client: &Client,
    name: &LockName,
    mode: LockMode,
) -> Result<LockGuard, Stop> {
    client.take(name, &cx.options().with_mode(mode)).await
}

/// One attempt: the guard, or `None` if the lock is held in a mode that conflicts.
pub(super) async fn attempt(
    client: &Client,
    name: &LockName,
    mode: LockMode,
) -> Result<Option<LockGuard>, Stop> {
    let options = AcquireOptions::new().with_wait(Wait::No).with_mode(mode);
    match client.acquire_with(name, &options).await {
        Ok(guard) => Ok(Some(guard)),
        Err(error) if error.kind() == ErrorKind::Busy => Ok(None),
        Err(error) => Err(error.into()),
    }
}

pub(super) async fn ensure_excluded(
    client: &Client,
    name: &LockName,
    modes: &[LockMode],
    when: &str,
) -> Verdict {
    for mode in modes {
        ensure!(attempt(client, name, *mode).await?.is_none(), "{when}: another owner got a {mode} lock");
    }
    Ok(())
}

/// A waiter that the store has refused once.
pub(super) async fn waiter(cx: &Context, name: &LockName, mode: LockMode) -> Result<TakeTask, Stop> {
    let (client, mut waits) = cx.observed_client().await?;
    let mut waiter = spawn_take(&client, name, &cx.options().with_mode(mode));
    tokio::select! {
        refused = waits.reach(cx, 1) => refused.map(|()| waiter),
        granted = &mut waiter => {
            drop(granted??);
            Err(Stop::Failed(format!("a {mode} lock was not waited for")))
        }
    }
}
