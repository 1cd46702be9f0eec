//! W: re-entry within a scope.

use crate::cases::prelude::*;

pub(super) const CASES: CaseTable = cases![
    W02 only_a_clone_of_the_scope_shares_its_holds,
    W03 last_guard_of_a_scope_releases_in_any_order,
];

/// Two scopes of one client in one task exclude each other; a clone in another task shares.
async fn only_a_clone_of_the_scope_shares_its_holds(cx: &Context) -> Verdict {
    let (client, name) = (cx.client().await?, cx.name());
    let (scope, stranger) = (cx.kinds().scope(&client), cx.kinds().scope(&client));
    let guard = scope.take(&name, &AcquireOptions::new()).await?;
    ensure_held(&stranger, &name, "by another scope of the same task").await?;
    ensure_held(&client, &name, "by the client of the scope").await?;
    let (within, other) = tokio::join!(scope.poke(&name), stranger.poke(&name));
    ensure!(within?.is_some(), "the scope does not get its own lock in a join");
    ensure!(other?.is_none(), "two scopes got one lock in a join");

    let (clone, spawned) = (scope.handle(), name.clone());
    let shared = tokio::spawn(async move { clone.poke(&spawned).await }).await??;
    let refused = || Stop::Failed("a clone of the scope in another task does not get its lock".to_owned());
    let shared = shared.ok_or_else(refused)?;
    ensure!(shared.token()? == guard.token()?, "a clone of the scope got a hold of its own");
    let spawned = name.clone();
    tokio::spawn(async move { ensure_held(&stranger, &spawned, "by another scope in another task").await })
        .await??;
    shared.release().await?;
    guard.release().await?;
    ensure_free(&client, &name, "after the scope has released it").await
}

async fn last_guard_of_a_scope_releases_in_any_order(cx: &Context) -> Verdict {
    let (client, name) = (cx.client().await?, cx.name());
    let scope = cx.kinds().scope(&client);
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
        for drops in [false, true] {
            let mut guards: Vec<Option<LockGuard>> = Vec::new();
            for _ in 0..3 {
                guards.push(Some(scope.take(&name, &AcquireOptions::new()).await?));
            }
            for (ended, at) in order.into_iter().enumerate() {
                if ended > 0 {
                    ensure_held(&client, &name, "after an inner release").await?;
                }
                let guard = guards[at].take().ok_or_else(|| Stop::Failed("a guard twice".to_owned()))?;
                let lease = guard.lease();
                match drops {
                    true => drop(guard),
                    false => guard.release().await?,
                }
                ensure!(!lease.is_held(), "a guard that was released says that it is held");
                let is_held = guards.iter().flatten().all(|guard| guard.is_held());
                ensure!(is_held, "an inner release ended the hold");
            }
            free_within(&client, &name, hand_over_bound(cx, &client), "after the last release").await?;
        }
    }
    Ok(())
}
