//! J: what a network does to messages, short of cutting it: they are late, come in pieces, go one way only, or end in the
//! middle.

use super::crash::silent_bound;
use crate::cases::prelude::*;
use crate::faults::until_granted_unheard;
use leasehold_core::Error;
use std::num::{NonZeroU32, NonZeroUsize};
use tokio::task::JoinHandle;
use tokio::time::Instant;

pub(super) const CASES: CaseTable = cases![
    G12 only_attempt_whose_reply_is_lost_is_indeterminate,
    G13 release_whose_request_is_lost_is_made_again,
    J33 slow_network_costs_time_and_no_lock,
    J34 requests_that_vanish_end_belief_in_time,
    J35 connection_that_is_reset_within_a_message_leaves_no_lock_behind,
    J36 any_reply_of_an_acquisition_may_be_lost,
    J37 holder_without_file_descriptors_is_told_the_truth,
];

/// The attempt may hold the lock. A client that is told of another holder, or that nothing was done, would leave it held.
async fn only_attempt_whose_reply_is_lost_is_indeterminate(cx: &Context) -> Verdict {
    let (name, other) = (cx.name(), cx.client().await?);
    let (proxy, client) = cx.client_behind_proxy(cx.ttl()).await?;
    let once = AcquireOptions::new().with_wait(Wait::No);
    let attempt = attempt_without_a_reply(cx, (&proxy, &client), &name, once).await?;
    // By its own patience: after a connection that broke, a client may ask again over the next one.
    ensure_kind(attempt.await?, ErrorKind::Indeterminate, "the one attempt, without a reply")?;
    proxy.cut();
    proxy.set(Traffic::Pass);
    free_within(&other, &name, withdrawn_within(cx, &other), "after an attempt without a reply").await?;
    Ok(())
}

/// The lease is much longer than the case may take: a release that is taken for done is found out.
async fn release_whose_request_is_lost_is_made_again(cx: &Context) -> Verdict {
    let (name, other, patience) = (cx.name(), cx.client().await?, cx.ttl() / 4);
    let (proxy, client) = cx.client_behind_proxy(patience).await?;
    cx.warm_up(&client).await?;
    let guard = client.take(&name, &AcquireOptions::new()).await?;
    proxy.set(Traffic::BlackHole);
    let before = proxy.request_bytes();
    let release = tokio::spawn(guard.release());
    let sent = eventually(cx.patience(), || proxy.request_bytes() > before).await;
    ensure!(sent, "no release was sent");
    tokio::time::sleep(patience + cx.slack()).await;
    proxy.cut();
    proxy.set(Traffic::Pass);
    free_within(&other, &name, withdrawn_within(cx, &other), "after a release that was lost").await?;
    release.abort();
    Ok(())
}

/// The network is slow in three ways: each message is late, the bandwidth is small, and messages come in pieces. The client
/// does not give up because of it, and never reads half an answer.
async fn slow_network_costs_time_and_no_lock(cx: &Context) -> Verdict {
    let delay = cx.ttl() / 60;
    let ways = [
        Traffic::Delay(delay),
        Traffic::Throttle(NonZeroU32::new(20_000).unwrap_or(NonZeroU32::MAX)),
        Traffic::Slice(NonZeroUsize::new(50).unwrap_or(NonZeroUsize::MAX)),
    ];
    for (number, way) in ways.into_iter().enumerate() {
        let (proxy, client) = cx.client_behind_proxy(cx.patience()).await?;
        let (name, direct) = (cx.named(&number.to_string()), cx.client().await?);
        cx.warm_up(&client).await?;
        proxy.set(way);
        let start = Instant::now();
        let guard = client.take(&name, &cx.options().with_ttl(cx.ttl() * 2)).await?;
        let took = start.elapsed();
        ensure!(number > 0 || took >= delay * 2, "{took:?} for a question and its answer, through {way:?}");
        let (first, waiting, wanted, options) = (guard.token()?, client.clone(), name.clone(), cx.options());
        let waiter = tokio::spawn(async move { waiting.take(&wanted, &options).await });
        // Two renewals.
        tokio::time::sleep(cx.ttl() * 3 / 2).await;
        ensure!(guard.is_held(), "lost to {way:?}: {:?}", guard.loss());
        ensure_held(&direct, &name, &format!("through {way:?}")).await?;
        guard.release().await?;
        let next = waiter.await??;
        ensure!(next.token()? > first, "the token {:?} after {first}, through {way:?}", next.token());
        next.release().await?;
    }
    Ok(())
}

/// What the store says by itself still arrives, so the connection looks alive.
async fn requests_that_vanish_end_belief_in_time(cx: &Context) -> Verdict {
    let (client, name) = (cx.client().await?, cx.name());
    let (proxy, holder) = cx.client_behind_proxy(cx.ttl() / 4).await?;
    let guard = holder.take(&name, &cx.options()).await?;
    proxy.set(Traffic::HoldRequests);
    loss_within(&guard, cx.ttl() + cx.slack()).await?;
    free_within(&client, &name, silent_bound(cx).await?, "whose holder's requests vanish").await?;
    Ok(())
}

/// Swept over logging in, and then over the acquisition and release of a client that has its connections.
async fn connection_that_is_reset_within_a_message_leaves_no_lock_behind(cx: &Context) -> Verdict {
    let direct = cx.client().await?;
    let (while_new, when_warm) = ([0, 10, 100, 1000], [0, 1, 15, 60, 120, 250, 500, 1000]);
    let sweep = while_new.map(|bytes| (bytes, false)).into_iter().chain(when_warm.map(|bytes| (bytes, true)));
    for (bytes, warm) in sweep {
        let (proxy, client) = cx.client_behind_proxy(cx.ttl() / 4).await?;
        if warm {
            cx.warm_up(&client).await?;
        }
        let (name, traffic) = (cx.named(&format!("{bytes}-{warm}")), Traffic::ResetAfter(bytes));
        hit(cx, (&proxy, &client), traffic, &name).await?;
        undone(cx, (&proxy, &direct), traffic, &name).await?;
        ensure!(bytes > 15 || proxy.resets() > 0, "it took less than {bytes} bytes, and nothing was reset");
    }
    Ok(())
}

/// With all that follow it over its connections, as a network loses them. What was granted is taken back, long before its
/// lease ends, and what was prepared for it hurts nobody. Ends with the first reply that nobody needed.
async fn any_reply_of_an_acquisition_may_be_lost(cx: &Context) -> Verdict {
    let direct = cx.client().await?;
    for number in 0..20 {
        let (proxy, client) = cx.client_behind_proxy(cx.ttl() / 4).await?;
        cx.warm_up(&client).await?;
        let (name, traffic) = (cx.named(&number.to_string()), Traffic::HoldRepliesFrom(number));
        let granted = hit(cx, (&proxy, &client), traffic, &name).await?;
        ensure!(number > 0 || !granted, "granted without an answer");
        undone(cx, (&proxy, &direct), traffic, &name).await?;
        if granted {
            return Ok(());
        }
    }
    Err(Stop::Failed("an acquisition of a free lock needed more than 20 replies".to_owned()))
}

/// An attempt that the store has granted. It has not heard so: replies are held back.
pub(super) async fn attempt_without_a_reply(
    cx: &Context,
    (proxy, client): (&Proxy, &Client),
    name: &LockName,
    options: AcquireOptions,
) -> Result<JoinHandle<Result<LockGuard, Error>>, Stop> {
    // With this very name: others may be another server's.
    ensure_free(client, name, "before anybody wanted it").await?;
    proxy.set(Traffic::HoldReplies);
    let before = proxy.reply_bytes();
    let (wanted, client) = (name.clone(), client.clone());
    let attempt = tokio::spawn(async move { client.acquire_with(&wanted, &options).await });
    until_granted_unheard(proxy, before, &*cx.client().await?, name).await?;
    Ok(attempt)
}

/// How long what was withdrawn may stay, once the network is well again: a withdrawal that failed is tried again, a second
/// later at most.
pub(super) fn withdrawn_within(cx: &Context, client: &Client) -> Duration {
    Duration::from_secs(1) + client.semantics().wake_up.bound() + cx.slack() * 2
}

/// Lets a client acquire while this happens to its first messages; whether it was granted. No answer is wrong, none is late.
async fn hit(
    cx: &Context,
    (proxy, client): (&Proxy, &Client),
    traffic: Traffic,
    name: &LockName,
) -> Result<bool, Stop> {
    let wait = cx.ttl();
    proxy.set(traffic);
    let start = Instant::now();
    // The lease is so long that nothing of this ends by itself.
    let outcome = client.acquire_with(name, &AcquireOptions::new().with_wait(wait)).await;
    let took = start.elapsed();
    ensure!(took <= wait + cx.slack(), "{traffic:?}: answered after {took:?}, of a wait of {wait:?}");
    match outcome {
        Ok(guard) => {
            ensure!(guard.is_held(), "{traffic:?}: granted and not held: {:?}", guard.loss());
            // Its reply may be the one that is lost.
            let _ = guard.release().await;
            Ok(true)
        }
        Err(error) => {
            use ErrorKind::{Indeterminate, TimedOut, Unavailable};
            let known = matches!(error.kind(), Indeterminate | TimedOut | Unavailable);
            ensure!(known, "{traffic:?}: {error:?}");
            Ok(false)
        }
    }
}

/// Then the network is well again, and the lock soon free: by those who want nothing of it any more. A reply that was kept
/// back is lost with its connection.
async fn undone(
    cx: &Context,
    (proxy, direct): (&Proxy, &Client),
    traffic: Traffic,
    name: &LockName,
) -> Verdict {
    if let Traffic::HoldRepliesFrom(_) = traffic {
        proxy.cut();
    }
    proxy.set(Traffic::Pass);
    free_within(direct, name, withdrawn_within(cx, direct), &format!("after {traffic:?}")).await?;
    Ok(())
}

/// Of its connections it can make no new one. It renews over those that there are; when they break, it hears in time
/// that it lost; and once it has descriptors again, everything is as before.
async fn holder_without_file_descriptors_is_told_the_truth(cx: &Context) -> Verdict {
    let (client, name) = (cx.client().await?, cx.name());
    let proxied = optional(cx.store().proxied(cx.ttl()).await)?;
    let address = proxied.as_ref().map_or_else(|| cx.store().address(), |(_, address)| address.clone());
    let mut worker = cx.worker_at(&address, &[]).await?;
    let first = worker.take(&name, cx.ttl() * 2).await?;
    worker.may_open_files(false).await?;
    tokio::time::sleep(cx.ttl() * 2).await;
    let status = worker.status().await?;
    ensure!(status == "held", "with its connections, and no descriptor for more: {status}");
    ensure_held(&client, &name, "by a process without file descriptors").await?;
    if let Some((proxy, _)) = &proxied {
        proxy.cut();
        let bound = silent_bound(cx).await? + cx.ttl();
        free_within(&client, &name, bound, "whose holder can make no connection").await?;
        // A hold that is a connection ends with it, and its holder hears of it when it renews.
        let told_by = match client.semantics().hold {
            HoldKind::Connection => Instant::now() + cx.ttl() + cx.slack(),
            _ => Instant::now(),
        };
        let mut status = worker.status().await?;
        while status == "held" && Instant::now() < told_by {
            tokio::time::sleep(cx.ttl() / 20).await;
            status = worker.status().await?;
        }
        ensure!(status.starts_with("lost"), "it can make no connection, and another one held: {status}");
    }
    worker.may_open_files(true).await?;
    worker.release().await?;
    let next = worker.take(&name, cx.ttl()).await?;
    ensure!(next > first, "token {next} after {first}");
    worker.release().await?;
    Ok(())
}
