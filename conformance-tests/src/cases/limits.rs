//! D, what a holder chooses: for how long at most, for how long at least, and when to have more.

use super::lease::lease_only;
use crate::cases::prelude::*;
use leasehold_core::LossCause;
use tokio::time::Instant;

pub(super) const CASES: CaseTable = cases![
    D12 max_hold_ends_a_healthy_hold,
    D13 extend_sets_the_time_that_is_left,
    D14 extend_is_what_the_next_renewals_use,
    D17 hold_at_least_keeps_others_out,
];

async fn max_hold_ends_a_healthy_hold(cx: &Context) -> Verdict {
    let (client, other, name) = (cx.client().await?, cx.client().await?, cx.name());
    let limit = cx.ttl() * 2;
    let start = Instant::now();
    let guard = client.take(&name, &cx.options().with_max_hold(limit)).await?;
    let loss = loss_within(&guard, limit + cx.slack()).await?;
    ensure!(loss.cause() == LossCause::MaxHold, "the limit was reported as {:?}", loss.cause());
    ensure!(start.elapsed() >= limit.mul_f64(0.9), "it ended after {:?} of {limit:?}", start.elapsed());
    let _lost = Context::let_go_unless_lease(&client, guard);
    let bound = cx.ttl() + other.semantics().wake_up.bound() + cx.slack();
    free_within(&other, &name, bound, "after max_hold").await?;
    Ok(())
}

async fn extend_sets_the_time_that_is_left(cx: &Context) -> Verdict {
    lease_only(cx).await?;
    let (client, other, name) = (cx.client().await?, cx.client().await?, cx.name());
    let guard = client.take(&name, &cx.fixed()).await?;
    let longer = cx.ttl() * 3;
    guard.extend(longer).await?;
    let left = guard.remaining();
    ensure!(left <= longer && left >= longer.mul_f64(0.8), "extended to {longer:?}, {left:?} are left");
    guard.extend(cx.ttl() / 2).await?;
    ensure!(guard.remaining() >= longer.mul_f64(0.8), "a shorter extension shortened the lease");
    tokio::time::sleep(cx.ttl() * 3 / 2).await;
    ensure_held(&other, &name, "on the extended lease").await?;
    ensure_kind(guard.extend(Duration::ZERO).await, ErrorKind::Invalid, "an extension by nothing")?;
    Ok(guard.release().await?)
}

async fn extend_is_what_the_next_renewals_use(cx: &Context) -> Verdict {
    lease_only(cx).await?;
    let (client, name) = (cx.client().await?, cx.name());
    let guard = client.take(&name, &cx.options()).await?;
    let longer = cx.ttl() * 4;
    guard.extend(longer).await?;
    tokio::time::sleep(cx.ttl() * 2).await;
    let left = guard.remaining();
    ensure!(
        left > longer / 2,
        "after an extension to {longer:?}, {left:?} are left: the renewer shrank it back"
    );
    Ok(guard.release().await?)
}

async fn hold_at_least_keeps_others_out(cx: &Context) -> Verdict {
    let (client, other, name) = (cx.client().await?, cx.client().await?, cx.name());
    let at_least = cx.ttl();
    let options = cx.options().with_ttl(cx.ttl() * 3).with_hold_at_least(at_least);
    let start = Instant::now();
    client.take(&name, &options).await?.release().await?;
    let bound = at_least + other.semantics().wake_up.bound() + cx.slack();
    free_within(&other, &name, bound, "after the least time").await?;
    let took = start.elapsed();
    ensure!(took >= at_least.mul_f64(0.95), "held for {took:?} instead of {at_least:?} at least");
    Ok(())
}
