//! Stores with a replica: the cost of a fail-over for holders, waiters and releases, and of a replica that lags behind.

use crate::cases::prelude::*;
use crate::subject::Replicas;
use leasehold_core::{Fault, Outcome};

pub(super) const CASES: CaseTable = cases![
    J04 lost_grant_makes_two_holders_as_declared_and_never_two_equal_tokens(Quarter),
    J05 holder_and_waiter_outlive_a_fail_over_of_which_the_replica_knew(Quarter),
    J24 lagging_replica_grants_no_held_lock_and_gives_no_token_twice,
    J25 confirmed_grant_is_not_made_where_the_replica_cannot_have_it(Quarter),
    J27 release_while_failing_over_ends_the_hold(Quarter),
    J28 supplanted_primary_that_comes_back_turns_no_token_back(Quarter),
];

const OVER: &str = "over a fail-over";
/// Longer than a fail-over takes.
pub(in crate::cases) const OUTLASTS: Duration = Duration::from_secs(30);

pub(in crate::cases) fn long(cx: &Context) -> AcquireOptions {
    cx.options().with_ttl(OUTLASTS).with_wait(OUTLASTS)
}

/// The replicas of the store; they are added now if it was started without any.
pub(in crate::cases) async fn replicas(cx: &Context) -> Result<&dyn Replicas, Stop> {
    cx.store().replicate(Duration::ZERO).await?;
    cx.store().replicas()
}

/// The replica never had the grant, which is certain because it was cut off before. So the next primary gives the lock
/// to another: that this can happen must be declared. The tokens tell the two apart, and the first holder hears of it.
async fn lost_grant_makes_two_holders_as_declared_and_never_two_equal_tokens(cx: &Context) -> Verdict {
    let replicas = replicas(cx).await?;
    let (client, other, name) = (cx.client().await?, cx.client().await?, cx.name());
    cx.warm_up(&client).await?;
    replicas.cut_off(&name).await?;
    let guard = client.take(&name, &long(cx)).await?;
    let first = guard.token()?;
    replicas.fail_over(&name).await?;
    let next = other.take(&name, &long(cx)).await?;
    let both = guard.is_held();
    let declared = client.semantics().promises.under(Fault::FailOver);
    ensure_met!(both, "the holder of a lost grant knew too soon");
    ensure!(declared != Outcome::Holds, "two holders after a fail-over, and {declared:?} is declared");
    ensure_untimed!(next.token()? > first, "token {} after {first}, over a fail-over", next.token()?);
    // The holder hears of it from its next renewal.
    while guard.is_held() {
        let _ = guard.extend(OUTLASTS).await;
    }
    let loss = loss_within(&guard, cx.slack()).await?;
    ensure!(!guard.is_held(), "a holder believes after {loss:?}");
    Ok(next.release().await?)
}

/// A client that asks for the word of the replicas is not granted the lock, and nothing of its attempt stays.
async fn confirmed_grant_is_not_made_where_the_replica_cannot_have_it(cx: &Context) -> Verdict {
    let replicas = replicas(cx).await?;
    let (client, name) = (cx.client_at(&replicas.confirmed_address()?).await?, cx.name());
    let first = take_turn(&client, &name, &long(cx)).await?;
    replicas.cut_off(&name).await?;
    let unconfirmed = client.acquire_with(&name, &cx.options().with_wait(cx.ttl())).await;
    ensure_outage(unconfirmed, "a store whose replica is cut off")?;
    replicas.fail_over(&name).await?;
    ensure_larger_token(&cx.client().await?, &name, &long(cx), first, OVER).await
}

/// The holder goes on, unless its hold is a connection, and so does the waiter, which hangs on nothing that died with the primary:
/// connection, subscription, scripts.
async fn holder_and_waiter_outlive_a_fail_over_of_which_the_replica_knew(cx: &Context) -> Verdict {
    let replicas = replicas(cx).await?;
    let (client, waiting, name) = (cx.client().await?, cx.client().await?, cx.name());
    let guard = client.take(&name, &long(cx)).await?;
    let first = guard.token()?;
    let waiter = spawn_take(&waiting, &name, &long(cx));
    tokio::time::sleep(cx.ttl() / 2).await;
    replicas.catch_up(&name).await?;
    replicas.fail_over(&name).await?;
    if client.semantics().hold != HoldKind::Connection {
        // Renewed on the next primary, or not at all.
        while guard.extend(OUTLASTS).await.is_err() {
            ensure_not_lost(&guard, "lost after a fail-over")?;
        }
        tokio::time::sleep(cx.ttl() * 2).await;
        ensure!(!waiter.is_finished(), "the waiter ended before the holder released");
    }
    release(cx, &client, guard).await?;
    let bound = client.semantics().wake_up.bound() + cx.slack() * 4;
    let next = granted_within(waiter, bound, "a waiter over a fail-over").await?;
    ensure_untimed!(next.token()? > first, "token {} after {first}, over a fail-over", next.token()?);
    Ok(next.release().await?)
}

/// The answer to the release may be lost with the primary; the lock is free all the same, long before the end of its lease.
async fn release_while_failing_over_ends_the_hold(cx: &Context) -> Verdict {
    let replicas = replicas(cx).await?;
    let (client, other, name) = (cx.client().await?, cx.client().await?, cx.name());
    let guard = client.take(&name, &long(cx)).await?;
    let first = guard.token()?;
    replicas.catch_up(&name).await?;
    let (_, failed_over) = tokio::join!(guard.release(), replicas.fail_over(&name));
    failed_over?;
    let (next, took) = timed(other.take(&name, &long(cx))).await;
    let next = next?;
    ensure_within!(took, OUTLASTS * 2 / 3, "released while its primary died, and free only after {took:?}");
    ensure_untimed!(next.token()? > first, "token {} after {first}, over a fail-over", next.token()?);
    Ok(next.release().await?)
}

/// A primary that was stopped is replaced, and goes on. Clients that are still connected to it may be granted locks
/// for a moment, where that is declared; every later grant has the larger token.
async fn supplanted_primary_that_comes_back_turns_no_token_back(cx: &Context) -> Verdict {
    let replicas = replicas(cx).await?;
    let (client, other, name) = (cx.client().await?, cx.client().await?, cx.name());
    cx.warm_up(&client).await?;
    client.take(&name, &cx.options()).await?.release().await?;
    replicas.supplant(&name).await?;
    let guard = other.take(&name, &long(cx)).await?;
    let first = guard.token()?;
    replicas.revive().await?;
    let stale = client.acquire_with(&name, &cx.options().with_wait(cx.ttl())).await;
    if let Ok(stale) = &stale {
        let declared = client.semantics().promises.under(Fault::SplitBrain);
        ensure!(declared != Outcome::Holds, "two holders beside two primaries, and {declared:?} is declared");
        ensure_untimed!(stale.token()? > first, "token {} after {first}, by the old primary", stale.token()?);
    }
    let last = stale.ok().and_then(|stale| stale.token().ok()).unwrap_or(first);
    release(cx, &client, guard).await?;
    ensure_larger_token(&other, &name, &long(cx), last, OVER).await
}

/// The first request on a connection that died with its server may get no answer; the core sends the release again.
async fn release(cx: &Context, client: &Client, guard: LockGuard) -> Verdict {
    let is_connection = client.semantics().hold == HoldKind::Connection;
    match guard.release().await {
        Ok(()) => Ok(()),
        // The holder may learn before its release that its connection to the old primary has ended.
        Err(error) if is_connection && error.kind() == ErrorKind::Lost => Ok(()),
        Err(error) if error.is_outage() => {
            tokio::time::sleep(cx.slack()).await;
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

/// The replica has not heard of the lock yet, and takes it for free. Then it lags behind several grants, and has not heard of their
/// tokens.
async fn lagging_replica_grants_no_held_lock_and_gives_no_token_twice(cx: &Context) -> Verdict {
    let administrator = cx.store().administrator()?;
    let (client, other, name) = (cx.client().await?, cx.client().await?, cx.name());
    cx.warm_up(&other).await?;
    administrator.hold_back_replication(true).await?;
    let guard = client.take(&name, &cx.options()).await?;
    ensure_held(&other, &name, "taken while a replica lags behind").await?;
    administrator.hold_back_replication(false).await?;
    ensure_held(&other, &name, "once the replica has caught up").await?;
    let mut last = guard.token()?;
    guard.release().await?;
    administrator.hold_back_replication(true).await?;
    for client in [&client, &other, &client] {
        let token = take_turn(client, &name, &cx.options()).await?;
        ensure_untimed!(token > last, "token {token} after {last}, with replication held back");
        last = token;
    }
    administrator.hold_back_replication(false).await
}
