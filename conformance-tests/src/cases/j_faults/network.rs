//! Messages that are late, come in pieces, go one way only, or end in the middle; and connections that cannot be made.

use crate::cases::prelude::*;
use crate::worker::Request;
use leasehold_core::FencingToken;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

pub(super) const CASES: CaseTable = cases![
    J23 storm_of_resets_never_lets_two_in if lease_only,
    J33 slow_network_costs_time_and_no_lock,
    J35 connection_that_is_reset_within_a_message_leaves_no_lock_behind,
    J36 any_reply_of_an_acquisition_may_be_lost,
    J37 holder_without_file_descriptors_is_told_the_truth,
];

/// Connections break faster than a lock is held; a hold that is left behind ends with its lease.
async fn storm_of_resets_never_lets_two_in(cx: &Context) -> Verdict {
    let (proxy, address) = cx.store().proxied(cx.ttl() / 2).await?;
    let (name, end, at_last) = (cx.name(), Instant::now() + cx.ttl() * 2, Instant::now() + cx.patience());
    let calm = Arc::<AtomicBool>::default();
    let (inside, granted) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let mut players = JoinSet::new();
    for _ in 0..6 {
        let (client, name) = (cx.client_at(&address).await?, name.clone());
        let options = cx.options().with_wait(cx.ttl());
        let (inside, granted, calm) = (Arc::clone(&inside), Arc::clone(&granted), Arc::clone(&calm));
        players.spawn(async move {
            let mut tokens = Vec::new();
            while !calm.load(Ordering::SeqCst) {
                let Ok(guard) = client.acquire_with(&name, &options).await else { continue };
                let Some(token) = alone_inside(&guard, &inside).await? else { continue };
                tokens.push(token);
                granted.fetch_add(1, Ordering::SeqCst);
                drop(guard.release().await);
            }
            Ok::<_, Stop>(tokens)
        });
    }
    // The storm abates, and goes on until the lock was granted between two resets: on a busy machine, logging in may take longer
    // than the first pauses are.
    let (mut pause, mut connections) = (Duration::from_millis(20), 0);
    while Instant::now() < end || (granted.load(Ordering::SeqCst) == 0 && Instant::now() < at_last) {
        connections += proxy.cut();
        tokio::time::sleep(pause).await;
        pause = (pause * 5 / 4).min(cx.ttl() / 2);
    }
    calm.store(true, Ordering::SeqCst);
    proxy.set(Traffic::Pass);
    let tokens = joined(players).await?;
    let grow = tokens.iter().all(|of_one| of_one.is_sorted());
    ensure_untimed!(grow, "the tokens of one client do not grow: {tokens:?}");
    ensure_distinct(tokens.concat(), "under resets")?;
    let other = cx.client().await?;
    free_within(&other, &name, expiry_bound(cx, &other), "after a storm of resets").await?;
    ensure_met!(connections > 0, "the storm met no connection");
    ensure_came!(granted.load(Ordering::SeqCst) > 0, "nobody ever got the lock");
    Ok(())
}

/// Holds for a moment. The token, if the guard was held for all of it; then no other may have been inside.
async fn alone_inside(guard: &LockGuard, inside: &AtomicUsize) -> Result<Option<FencingToken>, Stop> {
    let Ok(token) = guard.token() else { return Ok(None) };
    let others = inside.fetch_add(1, Ordering::SeqCst);
    tokio::task::yield_now().await;
    let held = guard.is_held();
    inside.fetch_sub(1, Ordering::SeqCst);
    ensure!(!held || others == 0, "{} holders at once", others + 1);
    Ok(held.then_some(token))
}

/// The network is slow in three ways: each message is late, the bandwidth is small, and messages come in pieces. The client
/// does not give up because of it, and never reads half an answer.
async fn slow_network_costs_time_and_no_lock(cx: &Context) -> Verdict {
    let delay = cx.ttl() / 60;
    let pieces = |bytes| NonZeroUsize::new(bytes).unwrap_or(NonZeroUsize::MAX);
    let ways = [
        Traffic::Slow(pieces(usize::MAX), delay),
        Traffic::Slow(pieces(200), Duration::from_millis(10)),
        Traffic::Slow(pieces(50), Duration::from_millis(1)),
    ];
    for (number, way) in ways.into_iter().enumerate() {
        let (proxy, client) = cx.client_behind_proxy(cx.patience()).await?;
        let (name, direct) = (cx.named(&number.to_string()), cx.client().await?);
        proxy.set(way);
        let start = Instant::now();
        let guard = client.take(&name, &cx.options().with_ttl(cx.ttl() * 2)).await?;
        let took = start.elapsed();
        ensure!(number > 0 || took >= delay * 2, "{took:?} for a question and its answer, through {way:?}");
        let (first, waiter) = (guard.token()?, spawn_take(&client, &name, &cx.options()));
        // Two renewals.
        tokio::time::sleep(cx.ttl() * 3 / 2).await;
        ensure_not_lost(&guard, format_args!("lost to {way:?}"))?;
        ensure_held(&direct, &name, &format!("through {way:?}")).await?;
        guard.release().await?;
        let next = waiter.await??;
        ensure_untimed!(next.token()? > first, "the token {:?} after {first}, through {way:?}", next.token());
        next.release().await?;
    }
    Ok(())
}

/// The reset is swept over logging in, and then over the acquisition and release of a client that has its connections.
async fn connection_that_is_reset_within_a_message_leaves_no_lock_behind(cx: &Context) -> Verdict {
    let direct = cx.client().await?;
    let (while_new, when_warm) = ([0, 10, 100, 1000], [0, 1, 15, 60, 120, 250, 500, 1000]);
    let sweep = while_new.map(|bytes| (bytes, false)).into_iter().chain(when_warm.map(|bytes| (bytes, true)));
    for (bytes, warm) in sweep {
        let (proxy, client) = cx.new_client_behind_proxy(cx.ttl() / 4).await?;
        if warm {
            cx.warm_up(&client).await?;
        }
        let (name, traffic) = (cx.named(&format!("{bytes}-{warm}")), Traffic::ResetAfter(bytes));
        acquire_under(cx, (&proxy, &client), traffic, &name).await?;
        ensure_undone(cx, (&proxy, &direct), traffic, &name).await?;
        ensure!(bytes > 15 || proxy.resets() > 0, "it took less than {bytes} bytes, and nothing was reset");
    }
    Ok(())
}

/// A reply is lost with all that follow it over its connections, as a network loses them. The grant is taken back, long before its
/// lease ends. The case ends with the first reply that the acquisition did not need.
async fn any_reply_of_an_acquisition_may_be_lost(cx: &Context) -> Verdict {
    let direct = cx.client().await?;
    for number in 0..20 {
        let (proxy, client) = cx.client_behind_proxy(cx.ttl() / 4).await?;
        let (name, traffic) = (cx.named(&number.to_string()), Traffic::HoldRepliesFrom(number));
        let granted = acquire_under(cx, (&proxy, &client), traffic, &name).await?;
        ensure!(number > 0 || !granted, "granted without an answer");
        ensure_undone(cx, (&proxy, &direct), traffic, &name).await?;
        if granted {
            return Ok(());
        }
    }
    Err(Stop::Failed("an acquisition of a free lock needed more than 20 replies".to_owned()))
}

/// Lets a client acquire while this happens to its first messages; whether it was granted. No answer is wrong, none is late.
async fn acquire_under(
    cx: &Context,
    (proxy, client): (&Proxy, &Client),
    traffic: Traffic,
    name: &LockName,
) -> Result<bool, Stop> {
    let wait = cx.ttl();
    proxy.set(traffic);
    // The lease is so long that nothing of this ends by itself.
    let options = AcquireOptions::new().with_wait(wait);
    let (outcome, took) = timed(client.acquire_with(name, &options)).await;
    ensure_within!(took, wait + cx.slack(), "{traffic:?}: answered after {took:?}, of a wait of {wait:?}");
    match outcome {
        Ok(guard) => {
            ensure_not_lost(&guard, format_args!("{traffic:?}: granted and not held"))?;
            // Its reply may be the one that is lost.
            let _ = guard.release().await;
            Ok(true)
        }
        Err(error) => {
            let is_known = error.is_outage() || error.kind() == ErrorKind::TimedOut;
            ensure!(is_known, "{traffic:?}: {error:?}");
            Ok(false)
        }
    }
}

/// Expects that the lock is free soon after the network is well again. A reply that was kept back is lost with its connection.
async fn ensure_undone(
    cx: &Context,
    (proxy, direct): (&Proxy, &Client),
    traffic: Traffic,
    name: &LockName,
) -> Verdict {
    if let Traffic::HoldRepliesFrom(_) = traffic {
        proxy.cut();
    }
    proxy.set(Traffic::Pass);
    free_within(direct, name, withdrawn_within(cx, direct), &format!("after {traffic:?}")).await
}

/// The holder can make no new connection. It renews over those that there are; when they break, it hears in time that it lost; and
/// once it has descriptors again, everything is as before.
async fn holder_without_file_descriptors_is_told_the_truth(cx: &Context) -> Verdict {
    let (client, name) = (cx.client().await?, cx.name());
    let proxied = optional(cx.store().proxied(cx.ttl()).await)?;
    let address = proxied.as_ref().map_or_else(|| cx.store().address(), |(_, address)| address.clone());
    let mut worker = cx.worker_at(&address, &Vec::new()).await?;
    let first = worker.take(&name, cx.ttl() * 2).await?;
    worker.order(Request::MayOpenFiles(false)).await?;
    tokio::time::sleep(cx.ttl() * 2).await;
    worker.ensure_not_lost("with its connections, and no descriptor for more").await?;
    ensure_held(&client, &name, "by a process without file descriptors").await?;
    if let Some((proxy, _)) = &proxied {
        proxy.cut();
        let bound = silent_bound(cx).await? + cx.lease(cx.ttl() * 2) - cx.ttl();
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
    worker.order(Request::MayOpenFiles(true)).await?;
    // A lost lock cannot be given back.
    let _ = worker.release().await;
    let next = worker.take(&name, cx.ttl()).await?;
    ensure_untimed!(next > first, "token {next} after {first}");
    worker.release().await
}
