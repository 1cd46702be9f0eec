//! B: one attempt, a bounded wait, an endless wait; and a store that refuses its clients for a while, as when their password is changed.

use crate::cases::prelude::*;
use leasehold_core::Error;

pub(super) const CASES: CaseTable = cases![
    B02 wait_shorter_than_the_poll_interval_is_kept,
    B04 deadline_covers_connecting_too,
    B05 every_waiter_keeps_its_own_deadline_neither_early_nor_late,
    B07 waiter_outlasts_a_renewed_lease_and_gets_a_full_one,
    B08 unreachable_store_is_an_error_in_time,
    B09 kinds_tell_the_outcomes_apart,
    B10 waiter_outlasts_a_refusal_that_passes,
];

/// How an acquisition came out, and how long it took.
async fn acquired(
    client: &Client,
    name: &LockName,
    wait: impl Into<Wait>,
) -> (Result<LockGuard, Error>, Duration) {
    timed(client.acquire_with(name, &AcquireOptions::new().with_wait(wait))).await
}

/// There are so many waits in a row that whole intervals would be seen beside what a busy machine needs.
async fn wait_shorter_than_the_poll_interval_is_kept(cx: &Context) -> Verdict {
    let (client, name) = (cx.client().await?, cx.name());
    let _guard = client.take(&name, &AcquireOptions::new()).await?;
    let interval = client.semantics().wake_up.bound();
    let wait = interval / 3;
    let waits = 1 + u32::try_from((cx.slack() * 3).div_duration_f64(interval * 2).ceil() as u64).unwrap_or(1);
    let mut in_all = Duration::ZERO;
    for _ in 0..waits {
        let (outcome, took) = acquired(&client, &name, wait).await;
        ensure_within!(took, wait + cx.slack(), "it gave up only after {took:?} of {wait:?}");
        ensure_kind_if_known(outcome, ErrorKind::TimedOut, "a short wait")?;
        in_all += took;
    }
    let bound = wait * waits + cx.slack();
    ensure_within!(in_all, bound, "{waits} waits of {wait:?} took {in_all:?}");
    Ok(())
}

async fn deadline_covers_connecting_too(cx: &Context) -> Verdict {
    let (proxy, client) = cx.new_client_behind_proxy(Duration::from_secs(10)).await?;
    proxy.set(Traffic::BlackHole);
    let wait = Duration::from_millis(500);
    let (outcome, took) = acquired(&client, &cx.name(), wait).await;
    ensure!(outcome.is_err(), "a lock was acquired through a black hole");
    ensure_within!(took, wait + cx.slack(), "it gave up only after {took:?} of {wait:?}");
    Ok(())
}

/// Ten waiters, each with the same deadline counted from its own start: none has its wait begun anew when another one
/// gives up before it.
async fn every_waiter_keeps_its_own_deadline_neither_early_nor_late(cx: &Context) -> Verdict {
    let (client, name) = (cx.client().await?, cx.name());
    let _guard = client.take(&name, &AcquireOptions::new()).await?;
    // A waiter whose wait restarts when another one gives up would wait for nearly twice as long.
    let wait = cx.slack() * 3;
    let mut waiters = JoinSet::new();
    for _ in 0..10 {
        let (client, name) = (client.clone(), name.clone());
        waiters.spawn(async move { acquired(&client, &name, wait).await });
        tokio::time::sleep(wait / 20).await;
    }
    while let Some(waiter) = waiters.join_next().await {
        let (outcome, took) = waiter?;
        ensure_kind(outcome, ErrorKind::TimedOut, "one of ten waiters")?;
        ensure!(took >= wait.mul_f64(0.9), "one of ten waiters gave up after {took:?} of {wait:?}");
        ensure_within!(took, wait + cx.slack(), "one of ten waiters gave up only after {took:?} of {wait:?}");
    }
    Ok(())
}

/// Validity counts from the attempt that succeeded, not from the first of a long wait.
async fn waiter_outlasts_a_renewed_lease_and_gets_a_full_one(cx: &Context) -> Verdict {
    let (client, name, ttl) = (cx.client().await?, cx.name(), cx.ttl());
    let guard = client.take(&name, &cx.options()).await?;
    let waiter = spawn_take(&cx.client().await?, &name, &cx.fixed());
    tokio::time::sleep(ttl * 5 / 2).await;
    ensure_not_lost(&guard, "a lease that is renewed was lost")?;
    ensure!(!waiter.is_finished(), "a lease that is renewed was given to another");
    guard.release().await?;
    let guard = waiter.await??;
    let remaining = guard.remaining();
    ensure!(remaining > ttl / 2, "of a new lease of {ttl:?} only {remaining:?} are left");
    Ok(guard.release().await?)
}

async fn unreachable_store_is_an_error_in_time(cx: &Context) -> Verdict {
    let client = cx.client().await?;
    cx.warm_up(&client).await?;
    cx.store().kill().await?;
    let wait = Duration::from_millis(700);
    for client in [client, cx.client().await?] {
        let (outcome, took) = acquired(&client, &cx.name(), wait).await;
        ensure_outage(outcome, "a dead store")?;
        ensure_within!(took, wait + cx.slack(), "it gave up only after {took:?} of {wait:?}");
        if client.admin().is_some() {
            ensure_outage(client.ping().await, "a look at a dead store")?;
        }
    }
    Ok(())
}

async fn kinds_tell_the_outcomes_apart(cx: &Context) -> Verdict {
    let (client, name) = (cx.client().await?, cx.name());
    // Twice as long as elsewhere: the waiter is to find it held to the end of its wait, on a busy machine too.
    let guard = client.take(&name, &cx.fixed().with_ttl(cx.ttl() * 2)).await?;
    let wait = |wait| AcquireOptions::new().with_wait(wait);
    for once in [Wait::No, Wait::from(Duration::ZERO)] {
        let (outcome, took) = acquired(&client, &name, once).await;
        ensure_kind(outcome, ErrorKind::Busy, "one attempt")?;
        ensure_within!(took, cx.slack(), "one attempt took {took:?}");
    }
    let short = Wait::UpTo(cx.slack());
    ensure_kind(client.acquire_with(&name, &wait(short)).await, ErrorKind::TimedOut, "a short wait")?;
    tokio::time::sleep(cx.ttl() * 2).await;
    ensure_kind(guard.token(), ErrorKind::Lost, "the token of a lease that is over")?;
    client.close().await?;
    ensure_kind(client.acquire_with(&name, &wait(Wait::No)).await, ErrorKind::Closed, "a closed client")
}

/// How long the store refuses: longer than a waiter pauses between two requests.
const REFUSAL: Duration = Duration::from_millis(2_500);

async fn waiter_outlasts_a_refusal_that_passes(cx: &Context) -> Verdict {
    let (client, name, options) = (cx.client().await?, cx.name(), waiting(cx));
    let take = async { client.acquire_with(&name, &options).await?.release().await };
    outlasts_a_refusal(cx, &client, &name, take).await
}

/// The options of a waiter that is refused meanwhile.
pub(super) fn waiting(cx: &Context) -> AcquireOptions {
    AcquireOptions::new().with_wait(cx.patience() * 2)
}

/// A waiter behind a holder of this name is served, although the store has refused both for a while.
pub(super) async fn outlasts_a_refusal(
    cx: &Context,
    client: &Client,
    held: &LockName,
    take: impl Future<Output = Result<(), Error>>,
) -> Verdict {
    cx.warm_up(client).await?;
    let (holder, other) = (cx.client().await?, cx.client().await?);
    cx.warm_up(&other).await?;
    let guard = holder.acquire_named(held, &AcquireOptions::new()).await?;
    let refusal = async {
        until_waiting(&holder, cx, held, 1).await?;
        cx.store().refuse(true).await?;
        let (free, mut answers) = (cx.named("free"), Vec::new());
        for _ in 0..5 {
            answers.push(acquired(&other, &free, Wait::No).await.0);
            tokio::time::sleep(REFUSAL / 5).await;
        }
        cx.store().refuse(false).await?;
        // Its connection may be lost at first, and an answer may be late.
        let is_refusal = |error: &Error| !error.is_outage() && !error.is_contended();
        let is_told = answers.iter().any(|answer| answer.as_ref().is_err_and(is_refusal));
        ensure!(is_told, "a client that the store refuses is told {answers:?}");
        guard.release().await?;
        Ok::<_, Stop>(Instant::now())
    };
    let waiter = async { (take.await, Instant::now()) };
    let ((served, at), released_at) = tokio::join!(waiter, refusal);
    let released_at = released_at?;
    if let Err(error) = served {
        // The refusal may have been the first answer, where the store does not show who waits.
        return Err(Stop::Late(format!("a waiter gave up when the store refused it: {error:?}"), None));
    }
    // One pause of a waiter that was refused, and a connection that is made again.
    let (took, bound) =
        (at.duration_since(released_at), hand_over_bound(cx, &holder) + Duration::from_secs(2));
    ensure_within!(took, bound, "a waiter that had been refused was served {took:?} after the release");
    Ok(())
}
