//! J: faults of the machine around, and of those who look after it.

use super::programs::evicted_lock_is_told_and_its_waiters_go_on_with_larger_tokens;
use crate::cases::prelude::*;
use crate::clock::SteppedClock;
use leasehold_core::{Fault, Outcome};
use tokio::time::Instant;

pub(super) const CASES: CaseTable = cases![
    J10 evicted_lock_is_told_and_its_waiters_go_on_with_larger_tokens,
    J11 killed_connections_are_survived_or_told,
    J12 client_closes_in_time_although_the_store_is_silent,
    J13 idle_killer_spares_who_still_lives,
    J14 wall_clock_of_a_client_decides_nothing,
    J15 wall_clock_of_the_store_ends_leases_and_turns_no_token_back,
    J16 read_only_store_grants_nothing_and_says_so,
];

const HOUR: i64 = 3600;

/// An administrator ends every connection. A lease is of the store and goes on; a hold that is a connection is gone, and
/// its holder hears of it. Waiters wait on, and the client makes itself new connections.
async fn killed_connections_are_survived_or_told(cx: &Context) -> Verdict {
    let administrator = cx.store().administrator()?;
    let (client, waiting, name) = (cx.client().await?, cx.client().await?, cx.name());
    let guard = client.take(&name, &cx.options()).await?;
    let (wanted, options) = (name.clone(), cx.options());
    let waiter = tokio::spawn(async move { waiting.take(&wanted, &options).await });
    tokio::time::sleep(cx.ttl() / 2).await;
    if let Ok(connections) = administrator.connections().await {
        ensure!(connections > 0, "nobody is connected whose connection could be killed");
    }
    administrator.kill_connections().await?;
    if client.semantics().hold == HoldKind::Connection {
        loss_within(&guard, cx.ttl() / 3 + cx.slack()).await?;
        drop(guard);
    } else {
        tokio::time::sleep(cx.ttl() * 3 / 2).await;
        ensure!(guard.is_held(), "lost with its connection, which a lease is not: {:?}", guard.loss());
        ensure!(!waiter.is_finished(), "a lease that is renewed was given to another");
        guard.release().await?;
    }
    let bound = client.semantics().wake_up.bound() + cx.ttl() + cx.slack();
    let Ok(guard) = tokio::time::timeout(bound, waiter).await else {
        return Err(Stop::Failed(format!("a waiter whose connection was killed got nothing in {bound:?}")));
    };
    match guard??.release().await {
        // The waiter inherited the row just before its own connection was ended. It is told.
        Err(error) if client.semantics().hold == HoldKind::Connection && error.kind() == ErrorKind::Lost => {}
        released => released?,
    }
    for _ in 0..5 {
        ensure_free(&client, &name, "through the client whose connections were killed").await?;
    }
    Ok(())
}

/// Five seconds are promised for the end of what runs in the background.
async fn client_closes_in_time_although_the_store_is_silent(cx: &Context) -> Verdict {
    let (client, name) = (cx.client().await?, cx.name());
    let dropped = client.take(&name, &cx.options()).await?;
    let kept = client.take(&cx.named("kept"), &cx.options()).await?;
    cx.store().pause().await?;
    drop(dropped);
    let start = Instant::now();
    let _ = client.close().await;
    let took = start.elapsed();
    let bound = Duration::from_secs(5) + cx.slack() * 2;
    ensure!(took <= bound, "closing took {took:?}, bound {bound:?}");
    ensure!(!kept.is_held(), "a guard is held although its client was closed");
    cx.store().resume().await?;
    let free = cx.ttl() + cx.client().await?.semantics().wake_up.bound() + cx.slack();
    free_within(&cx.client().await?, &name, free, "dropped while the store was silent").await?;
    Ok(())
}

async fn idle_killer_spares_who_still_lives(cx: &Context) -> Verdict {
    let after = Duration::from_secs(1);
    cx.store().administrator()?.end_idle_transactions(after).await?;
    let (client, other, name) = (cx.client().await?, cx.client().await?, cx.name());
    let guard = client.take(&name, &cx.options()).await?;
    let end = Instant::now() + after * 3;
    while Instant::now() < end {
        tokio::time::sleep(cx.ttl() / 3).await;
        ensure!(guard.is_held(), "a living holder was ended as idle: {:?}", guard.loss());
        ensure_held(&other, &name, "under a server that ends what is idle").await?;
    }
    Ok(guard.release().await?)
}

async fn wall_clock_of_a_client_decides_nothing(cx: &Context) -> Verdict {
    let (client, name) = (cx.client().await?, cx.name());
    let address = cx.store().address();

    let guard = client.take(&name, &AcquireOptions::new()).await?;
    let fast = SteppedClock::ahead(HOUR)?;
    let mut thief = cx.worker_at(&address, &fast.environment()).await?;
    // Connected, so that what it says or not is about the lock.
    thief.take(&cx.named("warm-up"), cx.ttl()).await?;
    let gave_back = thief.release().await?;
    ensure!(
        gave_back == "released",
        "a process whose clock is an hour ahead gives back a free lock: {gave_back}"
    );
    thief.begin_take(&name, cx.ttl()).await?;
    // Asked, and not the lock: that is held by the thief, if it is one.
    let theft = thief.answers_within(cx.slack()).await?;
    ensure!(
        theft.is_none(),
        "a process whose clock is an hour ahead was told {theft:?} of a lock that is held"
    );
    ensure!(guard.is_held(), "lost to a process whose clock is an hour ahead: {:?}", guard.loss());
    thief.kill();
    guard.release().await?;

    let clock = SteppedClock::ahead(0)?;
    let mut holder = cx.worker_at(&address, &clock.environment()).await?;
    holder.take(&name, cx.ttl()).await?;
    for ahead in [HOUR, -HOUR] {
        clock.step_to(ahead)?;
        tokio::time::sleep(cx.ttl() * 3 / 2).await;
        let status = holder.status().await?;
        ensure!(
            status == "held",
            "after its wall clock stepped by {ahead} s, a renewed holder is {status:?}"
        );
        ensure_held(&client, &name, "held by a process whose clock was stepped").await?;
    }
    // Between two renewals: a process that is stopped while it writes to a file keeps that locked, whatever its clock says.
    tokio::time::sleep(cx.ttl() / 6).await;
    holder.pause();
    let bound = cx.ttl() + client.semantics().wake_up.bound() + cx.slack();
    free_within(&client, &name, bound, "whose holder has a clock an hour behind, and stopped").await?;
    holder.resume();
    let status = holder.status().await?;
    ensure!(
        status.starts_with("lost"),
        "with its clock an hour behind, a holder whose lease is over is {status:?}"
    );
    Ok(())
}

/// The holder keeps the lock or is told of its loss, as declared; the next token is larger in both cases.
async fn wall_clock_of_the_store_ends_leases_and_turns_no_token_back(cx: &Context) -> Verdict {
    let administrator = cx.store().administrator()?;
    administrator.step_clock(0).await?;
    let (client, other, name) = (cx.client().await?, cx.client().await?, cx.name());
    let guard = client.take(&name, &cx.options()).await?;
    let first = guard.token()?;
    administrator.step_clock(HOUR).await?;
    let ended = after_the_step(cx, &client, &guard, Fault::StoreClockForward).await?;
    let guard = if ended {
        drop(guard);
        other.take(&name, &cx.options()).await?
    } else {
        guard
    };
    let second = guard.token()?;
    ensure!(second > first || !ended, "token {second} after {first}, when the clock had gone forward");
    administrator.step_clock(-HOUR).await?;
    if after_the_step(cx, &other, &guard, Fault::StoreClockBack).await? {
        drop(guard);
    } else {
        ensure_held(&client, &name, "after the clock of the store went back").await?;
        guard.release().await?;
    }
    let next = client.take(&name, &cx.options()).await?;
    ensure!(next.token()? > second, "token {} after {second}, when the clock had gone back", next.token()?);
    Ok(next.release().await?)
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
    ensure!(
        guard.is_held() || declared != Outcome::Holds,
        "under {fault:?} {declared:?} is declared, and the lock was lost: {:?}",
        guard.loss()
    );
    Ok(!guard.is_held())
}

/// As a replica is, or a primary that was told to stop. What it answers is an error, in time, and no `Busy`.
async fn read_only_store_grants_nothing_and_says_so(cx: &Context) -> Verdict {
    let administrator = cx.store().administrator()?;
    let (client, name) = (cx.client().await?, cx.name());
    cx.warm_up(&client).await?;
    administrator.set_read_only(true).await?;
    // The second one has to connect first; and a row that the first one locked in vain is locked until it is rolled back.
    let patience = cx.ttl() * 2;
    let late = (cx.client().await?, cx.named("late"), Wait::UpTo(patience));
    for (client, name, wait) in [(client.clone(), name.clone(), Wait::No), late] {
        let start = Instant::now();
        let outcome = client.acquire_with(&name, &AcquireOptions::new().with_wait(wait)).await;
        ensure!(start.elapsed() <= patience + cx.slack(), "it gave up only after {:?}", start.elapsed());
        match outcome.map_err(|error| error.kind()) {
            Err(ErrorKind::Unavailable | ErrorKind::Misconfigured) => {}
            // The last question may have been on its way when the time was up.
            Err(ErrorKind::Indeterminate) if wait != Wait::No => {}
            Err(kind) => {
                return Err(Stop::Failed(format!("a store that is read-only was reported as {kind:?}")));
            }
            Ok(_) => return Err(Stop::Failed("a store that is read-only granted a lock".to_owned())),
        }
    }
    administrator.set_read_only(false).await?;
    ensure_free(&client, &name, "after the store could be written to again").await
}
