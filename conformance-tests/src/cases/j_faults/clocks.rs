//! Wall clocks that jump: a client's, and the store's.

use crate::cases::c_ownership::names::operator;
use crate::cases::prelude::*;
use crate::clock::ProcessClock;
use leasehold_core::{Fault, Outcome, Purge};

pub(super) const CASES: CaseTable = cases![
    J14 wall_clock_of_a_client_decides_nothing,
    J15 wall_clock_of_the_store_ends_leases_and_turns_no_token_back,
];

const HOUR: i64 = 3600;

async fn wall_clock_of_a_client_decides_nothing(cx: &Context) -> Verdict {
    let (client, name) = (cx.client().await?, cx.name());
    let address = cx.store().address();

    let guard = client.take(&name, &cx.long_lease()).await?;
    let fast = ProcessClock::ahead(HOUR)?;
    let mut thief = cx.worker_at(&address, &fast.environment()).await?;
    // It is connected by now: its answer, or its silence, is about the lock.
    thief.take(&cx.named("warm-up"), cx.ttl()).await?;
    thief.release().await?;
    let is_stolen = thief.try_take(&name, cx.ttl()).await?;
    ensure!(!is_stolen, "a process whose clock is an hour ahead got a held lock");
    ensure_not_lost(&guard, "lost to a process whose clock is an hour ahead")?;
    thief.kill();
    guard.release().await?;

    let clock = ProcessClock::ahead(0)?;
    let mut holder = cx.worker_at(&address, &clock.environment()).await?;
    holder.take(&name, cx.ttl()).await?;
    for ahead in [HOUR, -HOUR] {
        clock.set_ahead(ahead)?;
        tokio::time::sleep(cx.ttl() * 3 / 2).await;
        holder.ensure_not_lost(&format!("after its wall clock stepped by {ahead} s")).await?;
        ensure_held(&client, &name, "held by a process whose clock was stepped").await?;
    }
    // Between two renewals: a process that is stopped while it writes to a file keeps that locked, whatever its clock says.
    tokio::time::sleep(cx.ttl() / 6).await;
    holder.pause();
    let bound = expiry_bound(cx, &client);
    free_within(&client, &name, bound, "whose holder has a clock an hour behind, and stopped").await?;
    holder.resume();
    let status = holder.status().await?;
    let lost = status.starts_with("lost");
    ensure!(lost, "with its clock an hour behind, a holder whose lease is over is {status:?}");
    Ok(())
}

/// The holder keeps the lock or is told of its loss, as declared; the next token is larger in both cases.
async fn wall_clock_of_the_store_ends_leases_and_turns_no_token_back(cx: &Context) -> Verdict {
    let administrator = cx.store().administrator()?;
    administrator.set_clock_ahead(0).await?;
    let (client, other, name) = (cx.client().await?, cx.client().await?, cx.name());
    let guard = client.take(&name, &cx.options()).await?;
    let first = guard.token()?;
    administrator.set_clock_ahead(HOUR * 2).await?;
    let ended = after_the_step(cx, &client, &guard, Fault::StoreClockForward).await?;
    if let Some(admin) = operator(cx).await?.admin() {
        admin.purge(Duration::from_secs(3600), Purge::Delete).await?;
    }
    let guard = if ended {
        drop(guard);
        other.take(&name, &cx.options()).await?
    } else {
        guard
    };
    let second = guard.token()?;
    let grows = second > first || !ended;
    ensure_untimed!(grows, "token {second} after {first}, when the clock had gone forward");
    administrator.set_clock_ahead(-HOUR).await?;
    if after_the_step(cx, &other, &guard, Fault::StoreClockBack).await? {
        drop(guard);
    } else {
        ensure_held(&client, &name, "after the clock of the store went back").await?;
        guard.release().await?;
    }
    ensure_larger_token(&client, &name, &cx.options(), second, "when the clock had gone back").await
}

/// Waits for longer than a lease. True if the hold was ended, which must then have been declared.
async fn after_the_step(
    cx: &Context,
    client: &Client,
    guard: &LockGuard,
    fault: Fault,
) -> Result<bool, Stop> {
    tokio::time::sleep(cx.ttl() * 3 / 2).await;
    let declared = client.semantics().promises.under(fault);
    let (is_ended, loss) = (!guard.is_held(), guard.loss());
    ensure!(!is_ended || declared != Outcome::Holds, "lost under {fault:?}, declared {declared:?}: {loss:?}");
    Ok(is_ended)
}
