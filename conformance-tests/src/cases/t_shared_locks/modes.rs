//! Holds, attempts and waiters in a mode.

use crate::cases::prelude::*;
use crate::cases::tasks::{TakeTask, spawn_take};
use leasehold_core::{LockMode, Semantics, Sharing};

pub(super) const NOT_SHARED: [LockMode; 2] = [LockMode::Write, LockMode::Exclusive];
pub(super) const ALL: [LockMode; 3] = [LockMode::Shared, LockMode::Write, LockMode::Exclusive];

/// The semantics of a store that serves readers; skips the case on any other.
pub(super) async fn sharing(cx: &Context) -> Result<Semantics, Stop> {
    let semantics = cx.semantics().await?;
    require!(semantics.sharing != Sharing::Unsupported, "the store does not declare shared locks");
    Ok(semantics)
}

pub(super) async fn hold(
    cx: &Context,
    client: &Client,
    name: &LockName,
    mode: LockMode,
) -> Result<LockGuard, Stop> {
    client.take(name, &cx.options().with_mode(mode)).await
}

pub(super) async fn ensure_excluded(
    client: &Client,
    name: &LockName,
    modes: &[LockMode],
    when: &str,
) -> Verdict {
    for mode in modes {
        ensure!(client.poke_in(name, *mode).await?.is_none(), "{when}: another owner got a {mode} lock");
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
