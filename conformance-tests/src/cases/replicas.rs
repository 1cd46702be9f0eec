//! J, for stores with a replica that takes over: what a fail-over costs those who hold, wait and release.

use crate::cannot::Cannot;
use crate::cases::prelude::*;
use crate::subject::Replicas;
use leasehold_core::{Fault, Outcome};
use tokio::time::Instant;

pub(super) const CASES: CaseTable = cases![
    J04 lost_grant_makes_two_holders_as_declared_and_never_two_equal_tokens(quarter),
    J05 waiter_outlives_a_fail_over(quarter),
    J25 confirmed_grant_is_not_made_where_the_replica_cannot_have_it(quarter),
    J26 holder_keeps_its_lock_over_a_fail_over_of_which_the_replica_knew(quarter),
    J27 release_while_failing_over_ends_the_hold(quarter),
    J28 supplanted_primary_that_comes_back_turns_no_token_back(quarter),
];

/// Longer than a fail-over takes.
pub(super) const OUTLASTS: Duration = Duration::from_secs(30);

pub(super) fn long(cx: &Context) -> AcquireOptions {
    cx.options().with_ttl(OUTLASTS).with_wait(OUTLASTS)
}

/// The replicas of the store; they are added now if it was started without any.
pub(super) async fn replicas(cx: &Context) -> Result<&dyn Replicas, Cannot> {
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
    ensure!(both, "the holder of a lost grant knew too soon: the case shows nothing");
    ensure!(declared != Outcome::Holds, "two holders after a fail-over, and {declared:?} is declared");
    ensure!(next.token()? > first, "token {} after {first}, over a fail-over", next.token()?);
    // It hears of it from its next renewal.
    while guard.is_held() {
        let _ = guard.extend(OUTLASTS).await;
    }
    let loss = loss_within(&guard, cx.slack()).await?;
    ensure!(!guard.is_held(), "a holder believes after {loss:?}");
    Ok(next.release().await?)
}

/// With the word of the replicas, the same grant is not made; nobody holds it, and nothing of it stays.
async fn confirmed_grant_is_not_made_where_the_replica_cannot_have_it(cx: &Context) -> Verdict {
    let replicas = replicas(cx).await?;
    let (client, name) = (cx.client_at(&replicas.confirmed_address()?).await?, cx.name());
    let guard = client.take(&name, &long(cx)).await?;
    let first = guard.token()?;
    guard.release().await?;
    replicas.cut_off(&name).await?;
    match client.acquire_with(&name, &cx.options().with_wait(cx.ttl())).await {
        Ok(guard) => return Err(Stop::Failed(format!("granted {:?}, which no replica has", guard.token()))),
        Err(error) => ensure!(
            matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Indeterminate),
            "reported as {error}"
        ),
    }
    replicas.fail_over(&name).await?;
    let next = cx.client().await?.take(&name, &long(cx)).await?;
    ensure!(next.token()? > first, "token {} after {first}, over a fail-over", next.token()?);
    Ok(next.release().await?)
}

/// It hangs on nothing that died with the primary: connection, subscription, scripts.
async fn waiter_outlives_a_fail_over(cx: &Context) -> Verdict {
    let replicas = replicas(cx).await?;
    let (client, waiting, name) = (cx.client().await?, cx.client().await?, cx.name());
    let guard = client.take(&name, &long(cx)).await?;
    let first = guard.token()?;
    let (wanted, options) = (name.clone(), long(cx));
    let waiter = tokio::spawn(async move { waiting.take(&wanted, &options).await });
    tokio::time::sleep(cx.ttl() / 2).await;
    replicas.catch_up(&name).await?;
    replicas.fail_over(&name).await?;
    let ended = client.semantics().hold == HoldKind::Connection;
    ensure!(ended || !waiter.is_finished(), "the waiter ended before the holder released");
    release(cx, &client, guard).await?;
    let bound = client.semantics().wake_up.bound() + cx.slack() * 4;
    let start = Instant::now();
    let Ok(next) = tokio::time::timeout(OUTLASTS, waiter).await else {
        return Err(Stop::Failed("a waiter hangs after a fail-over".to_owned()));
    };
    let next = next??;
    ensure!(
        start.elapsed() <= bound,
        "a waiter got a free lock after {:?}, bound {bound:?}",
        start.elapsed()
    );
    ensure!(next.token()? > first, "token {} after {first}, over a fail-over", next.token()?);
    Ok(next.release().await?)
}

async fn holder_keeps_its_lock_over_a_fail_over_of_which_the_replica_knew(cx: &Context) -> Verdict {
    let replicas = replicas(cx).await?;
    let (client, other, name) = (cx.client().await?, cx.client().await?, cx.name());
    let guard = client.take(&name, &long(cx)).await?;
    replicas.catch_up(&name).await?;
    replicas.fail_over(&name).await?;
    // Renewed on the next primary, or not at all.
    while guard.extend(OUTLASTS).await.is_err() {
        ensure!(guard.is_held(), "lost after a fail-over: {:?}", guard.loss());
    }
    let wanted = other.acquire_with(&name, &cx.options().with_wait(cx.ttl() * 2)).await;
    ensure_kind(wanted, ErrorKind::TimedOut, "after a fail-over of which the replica knew")?;
    let first = guard.token()?;
    release(cx, &client, guard).await?;
    let next = other.take(&name, &long(cx)).await?;
    ensure!(next.token()? > first, "token {} after {first}, over a fail-over", next.token()?);
    Ok(next.release().await?)
}

/// Its answer may be lost with the primary; the lock is free all the same, and long before the lease would have ended.
async fn release_while_failing_over_ends_the_hold(cx: &Context) -> Verdict {
    let replicas = replicas(cx).await?;
    let (client, other, name) = (cx.client().await?, cx.client().await?, cx.name());
    let guard = client.take(&name, &long(cx)).await?;
    let first = guard.token()?;
    replicas.catch_up(&name).await?;
    let (_, failed_over) = tokio::join!(guard.release(), replicas.fail_over(&name));
    failed_over?;
    let start = Instant::now();
    let next = other.take(&name, &long(cx)).await?;
    ensure!(
        start.elapsed() < OUTLASTS * 2 / 3,
        "a lock that was released while its primary died was free after {:?}",
        start.elapsed()
    );
    ensure!(next.token()? > first, "token {} after {first}, over a fail-over", next.token()?);
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
        ensure!(stale.token()? > first, "token {} after {first}, by the old primary", stale.token()?);
    }
    let last = stale.ok().and_then(|stale| stale.token().ok()).unwrap_or(first);
    release(cx, &client, guard).await?;
    let next = other.take(&name, &long(cx)).await?;
    ensure!(next.token()? > last, "token {} after {last}, over a fail-over", next.token()?);
    Ok(next.release().await?)
}

/// The first request on a connection that died with its server may get no answer; the core sends the release again.
async fn release(cx: &Context, client: &Client, guard: LockGuard) -> Verdict {
    let is_connection = client.semantics().hold == HoldKind::Connection;
    match guard.release().await {
        Ok(()) => Ok(()),
        // The holder may learn before its release that its connection to the old primary has ended.
        Err(error) if is_connection && error.kind() == ErrorKind::Lost => Ok(()),
        Err(error) if matches!(error.kind(), ErrorKind::Indeterminate | ErrorKind::Unavailable) => {
            tokio::time::sleep(cx.slack()).await;
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}
