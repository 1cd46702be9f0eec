//! When a lease ends: on its holder's side before the store's.

use super::almost_whole_seconds;
use crate::cases::prelude::*;
use leasehold_core::{FencingToken, LossCause, TokenClass};

pub(super) const CASES: CaseTable = cases![
    D01 fixed_lease_ends_on_time if lease_only,
    D08 loss_comes_before_the_store_lets_another_in,
    D09 restart_with_data_keeps_the_lock_and_without_data_loses_it if outlives_its_connection,
    D25 belief_after_a_renewal_ends_before_the_store_lets_another_in,
    D18 grant_that_arrives_after_its_lease_is_not_held if lease_only,
];

async fn fixed_lease_ends_on_time(cx: &Context) -> Verdict {
    let (client, other, name, ttl) = (cx.client().await?, cx.client().await?, cx.name(), cx.ttl());
    let start = Instant::now();
    let guard = client.take(&name, &cx.fixed()).await?;
    free_within(&other, &name, expiry_bound(cx, &other), "a lease that nobody renews").await?;
    let took = start.elapsed();
    ensure!(took >= ttl.mul_f64(0.95), "a lease of {ttl:?} was over after {took:?}");
    ensure!(!guard.is_held(), "its holder believes that it holds");
    Ok(())
}

async fn loss_comes_before_the_store_lets_another_in(cx: &Context) -> Verdict {
    let (name, other) = (cx.name(), cx.client().await?);
    // A grant that takes as long as the margin would hide that there is none: this client has its connections.
    let (proxy, client) = cx.client_behind_proxy(cx.patience()).await?;
    let guard = client.take(&name, &cx.options()).await?;
    // On one host no clock is faster than another: the rest of the case would not show a missing margin.
    let (left, ttl) = (guard.remaining(), cx.ttl());
    ensure!(left <= ttl - ttl / 100, "of {ttl:?} it believes in {left:?}: no margin for its clock");
    proxy.set(Traffic::BlackHole);
    ensure_believed_before(&guard, spawn_successor(cx, &other, &name), "behind a black hole").await?;
    loss_within(&guard, cx.slack()).await.map(drop)
}

/// A store that rounds its renewals down to whole seconds is found out, after the second of them if it rounds grants up.
async fn belief_after_a_renewal_ends_before_the_store_lets_another_in(cx: &Context) -> Verdict {
    let (name, other, ttl) = (cx.name(), cx.client().await?, almost_whole_seconds(cx.ttl() * 3 / 2));
    let (proxy, client) = cx.client_behind_proxy(cx.patience()).await?;
    let guard = client.take(&name, &cx.options().with_ttl(ttl)).await?;
    until_renewed(&guard, ttl).await?;
    until_renewed(&guard, ttl).await?;
    proxy.set(Traffic::BlackHole);
    ensure_believed_before(&guard, spawn_successor(cx, &other, &name), "after a renewal").await
}

async fn restart_with_data_keeps_the_lock_and_without_data_loses_it(cx: &Context) -> Verdict {
    let mut ttl = cx.ttl() * 4;
    for _ in 0..3 {
        let Some(away) = over_restarts(cx, ttl).await? else { return Ok(()) };
        ttl = away.max(ttl) * 3;
    }
    Err(Stop::Failed("the store takes too long to come back".to_owned()))
}

/// How long the store was away, if that was so long that nothing can be said of a lease of `ttl`.
async fn over_restarts(cx: &Context, ttl: Duration) -> Result<Option<Duration>, Stop> {
    let name = cx.named(&ttl.as_millis().to_string());
    let client = cx.client_at(&cx.store().address_for_holds_of(ttl)).await?;
    let guard = client.take(&name, &cx.options().with_ttl(ttl)).await?;
    let token = guard.token()?;
    let away = Instant::now();
    cx.store().kill().await?;
    cx.store().restart(true).await?;
    if away.elapsed() > ttl / 2 {
        return Ok(Some(away.elapsed()));
    }
    tokio::time::sleep(ttl).await;
    ensure_not_lost(&guard, "a restart with all its data lost the lock")?;
    let away = Instant::now();
    cx.store().restart(false).await?;
    if away.elapsed() > ttl / 2 {
        return Ok(Some(away.elapsed()));
    }
    let loss = loss_within(&guard, ttl + cx.slack()).await?;
    let told = match client.semantics().hold {
        HoldKind::Lease => loss.cause() == LossCause::Gone,
        // A server that has seen less than its client sends it away, and then nobody is left to tell.
        _ => matches!(loss.cause(), LossCause::SessionOver | LossCause::Unreachable),
    };
    // Where the restart took long, the lease may end before a renewal finds out.
    ensure_came!(told, "a restart without its data was reported as {:?}", loss.cause());
    let last = if client.semantics().token == TokenClass::Durable { token } else { FencingToken::new(0) };
    ensure_larger_token(&cx.client().await?, &name, &cx.options(), last, "over the loss of all data").await?;
    Ok(None)
}

async fn grant_that_arrives_after_its_lease_is_not_held(cx: &Context) -> Verdict {
    let (name, direct) = (cx.name(), cx.client().await?);
    let once = cx.fixed().with_wait(Duration::ZERO);
    let (proxy, _slow, attempt) = attempt_without_a_reply(cx, cx.patience(), &name, &once).await?;
    let successor = direct.take(&name, &AcquireOptions::new().with_wait(cx.patience())).await?;
    proxy.set(Traffic::Pass);
    let held = attempt.await?.is_ok_and(|guard| guard.is_held());
    ensure!(!held, "a grant that arrived after its lease was taken for a hold: there are two");
    Ok(successor.release().await?)
}
