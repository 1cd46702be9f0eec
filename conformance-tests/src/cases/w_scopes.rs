//! W: re-entry within a scope.

use crate::cases::declared::hand_over_bound;
use crate::cases::prelude::*;
use crate::cases::tasks::spawn_take;
use leasehold_core::{LockMode, Sharing};
use std::time::Instant;

pub(super) const CASES: CaseTable = cases![
    W01 second_acquire_has_the_same_token_and_asks_nobody,
    W02 only_a_clone_of_the_scope_shares_its_holds,
    W03 last_guard_of_a_scope_releases_in_any_order,
    W04 acquiring_on_a_lost_hold_is_lost,
    W05 exclusive_within_shared_is_refused,
    W06 first_calls_at_once_share_one_acquisition,
];

async fn second_acquire_has_the_same_token_and_asks_nobody(cx: &Context) -> Verdict {
    let (name, options) = (cx.name(), cx.options().with_ttl(cx.patience()));
    let cut = optional(cx.store().proxied(cx.patience()).await)?;
    let address = cut.as_ref().map_or_else(|| cx.store().address(), |(_, address)| address.clone());
    let scope = cx.kinds().scope(&cx.client_at(&address).await?);
    let outer = scope.take(&name, &options).await?;
    if let Some((proxy, _)) = &cut {
        proxy.set(Traffic::BlackHole);
    }
    let start = Instant::now();
    let inner = scope.take(&name, &options.with_wait(cx.slack())).await?;
    ensure_within!(start.elapsed(), cx.slack(), "the second acquire took {:?}", start.elapsed());
    ensure!(inner.token()? == outer.token()?, "tokens {} and {} of one hold", outer.token()?, inner.token()?);
    inner.release().await?;
    ensure!(outer.is_held(), "the hold ended with its second guard");
    if let Some((proxy, _)) = &cut {
        proxy.set(Traffic::Pass);
    }
    Ok(outer.release().await?)
}

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

async fn acquiring_on_a_lost_hold_is_lost(cx: &Context) -> Verdict {
    let (client, name) = (cx.client().await?, cx.name());
    let scope = cx.kinds().scope(&client);
    cx.warm_up(&client).await?;
    let guard = scope.take(&name, &cx.options().with_max_hold(cx.ttl())).await?;
    let token = guard.token()?;
    loss_within(&guard, cx.ttl() + cx.slack()).await?;
    ensure_kind(scope.acquire_with(&name, &cx.options()).await, ErrorKind::Lost, "acquiring on a lost hold")?;
    ensure_kind(scope.try_acquire(&name).await, ErrorKind::Lost, "an attempt on a lost hold")?;
    drop(guard);
    let again = scope.take(&name, &cx.options()).await?;
    ensure!(again.token()? > token, "token {} after the lost one's {token}", again.token()?);
    Ok(again.release().await?)
}

async fn exclusive_within_shared_is_refused(cx: &Context) -> Verdict {
    let (client, name) = (cx.client().await?, cx.name());
    let scope = cx.kinds().scope(&client);
    let exclusive = scope.take(&name, &AcquireOptions::new()).await?;
    let within = scope.take(&name, &AcquireOptions::new().with_mode(LockMode::Shared)).await?;
    let same = within.token()? == exclusive.token()?;
    ensure!(same, "a shared call within an exclusive hold got a hold of its own");
    within.release().await?;
    exclusive.release().await?;
    if client.semantics().sharing == Sharing::Unsupported {
        return ensure_kind(scope.read(&name).await, ErrorKind::Unsupported, "a shared lock on this store");
    }
    let shared = scope.read(&name).await?;
    for mode in [LockMode::Exclusive, LockMode::Write] {
        let upgrade = scope.acquire_with(&name, &AcquireOptions::new().with_mode(mode)).await;
        ensure_kind(upgrade, ErrorKind::Invalid, "an exclusive call within a shared hold")?;
    }
    let again = scope.read(&name).await?;
    ensure!(again.token()? == shared.token()?, "a second shared call got a hold of its own");
    again.release().await?;
    ensure!(shared.is_held(), "the refused upgrade ended the shared hold");
    Ok(shared.release().await?)
}

/// The lock is held elsewhere while the two calls begin. The second time the first call is dropped before the lock is free.
async fn first_calls_at_once_share_one_acquisition(cx: &Context) -> Verdict {
    let (client, other, name) = (cx.client().await?, cx.client().await?, cx.name());
    let bound = hand_over_bound(cx, &client);
    let options = AcquireOptions::new().with_wait(cx.patience());
    for drops_first in [false, true] {
        let scope = cx.kinds().scope(&client);
        let held = other.take(&name, &AcquireOptions::new()).await?;
        let (first, second) =
            (spawn_take(&scope.handle(), &name, &options), spawn_take(&scope.handle(), &name, &options));
        tokio::time::sleep(cx.slack()).await;
        if let Some(admin) = other.admin() {
            let waiters = admin.waiters(&name).await?.len();
            ensure!(waiters <= 1, "{waiters} waiters of one scope");
        }
        if drops_first {
            first.abort();
        }
        let released = Instant::now();
        held.release().await?;
        let second = second.await??;
        ensure_within!(
            released.elapsed(),
            bound + cx.slack(),
            "the second call took {:?}",
            released.elapsed()
        );
        if !drops_first {
            let first = first.await??;
            ensure!(first.token()? == second.token()?, "two calls of one scope got a hold each");
            first.release().await?;
        }
        ensure!(second.is_held(), "the second call lost its hold with the first");
        second.release().await?;
        free_within(&other, &name, bound, "after the last guard of the scope").await?;
    }
    Ok(())
}
