//! H: from one holder to the next.

use crate::case::{Case, Stop, Verdict, cases, ensure};
use crate::cases::crash::{crash_bound, silent_bound};
use crate::context::{Client, ClientExt, Context, eventually, optional, until_queued};
use crate::proxy::Traffic;
use leasehold_core::{AcquireOptions, Fairness, FencingToken, LockName};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

pub(super) const CASES: &[Case] = cases![
    H01 no_hand_over_is_missed,
    H02 lost_wake_up_costs_no_more_than_the_fallback,
    H03 waiters_are_served_in_their_order,
    H04 waiter_that_died_delays_others_within_the_declared_bound,
    H07 idle_waiter_costs_what_is_declared,
    H09 nobody_starves,
    H10 waiter_that_was_cut_off_holds_nothing_beside_another,
    H11 tasks_that_take_turns_share_with_other_processes,
    H12 newcomer_waits_behind_one_who_has_not_heard,
];

async fn no_hand_over_is_missed(cx: &Context) -> Verdict {
    let name = cx.name();
    let rounds = 100;
    let bound = cx.semantics().await?.wake_up.bound() + cx.slack();
    let options = AcquireOptions::new().with_wait(cx.patience());
    let mut players = tokio::task::JoinSet::new();
    for _ in 0..2 {
        let (client, name, options) = (cx.client().await?, name.clone(), options.clone());
        players.spawn(async move {
            let mut longest = Duration::ZERO;
            for _ in 0..rounds {
                let start = Instant::now();
                let guard = client.take(&name, &options).await?;
                longest = longest.max(start.elapsed());
                guard.release().await?;
                tokio::task::yield_now().await;
            }
            Ok::<_, Stop>(longest)
        });
    }
    while let Some(player) = players.join_next().await {
        let longest = player??;
        // The other may be lucky several times in a row where the order is luck.
        ensure!(longest <= bound * 10, "a hand-over between two took {longest:?}");
    }
    Ok(())
}

async fn waiters_are_served_in_their_order(cx: &Context) -> Verdict {
    let (client, name) = (cx.client().await?, cx.name());
    if client.semantics().fairness != Fairness::Fifo {
        return Err(Stop::Skipped("the backend declares no order of its waiters".to_owned()));
    }
    let guard = client.take(&name, &AcquireOptions::new()).await?;
    let mut waiters = tokio::task::JoinSet::new();
    let options = AcquireOptions::new().with_wait(cx.patience());
    let served = Arc::<Mutex<Vec<usize>>>::default();
    for place in 0..10 {
        let (waiter, name, options) = (cx.client().await?, name.clone(), options.clone());
        let served = Arc::clone(&served);
        waiters.spawn(async move {
            let guard = waiter.take(&name, &options).await?;
            // Written down under the lock: tasks may end in another order than that in which they held it.
            served.lock().unwrap_or_else(PoisonError::into_inner).push(place);
            guard.release().await?;
            Ok::<_, Stop>(())
        });
        // The order is that of arrival in the store.
        until_waiting(&client, cx, &cx.name(), place + 1).await?;
    }
    guard.release().await?;
    while let Some(waiter) = waiters.join_next().await {
        waiter??;
    }
    let served = served.lock().unwrap_or_else(PoisonError::into_inner);
    ensure!(served.is_sorted(), "served in the order {served:?}");
    Ok(())
}

/// The lock is free, and the first in the queue does not know it yet. Its turn it is all the same.
async fn newcomer_waits_behind_one_who_has_not_heard(cx: &Context) -> Verdict {
    let (client, newcomer, name) = (cx.client().await?, cx.client().await?, cx.name());
    if client.semantics().fairness != Fairness::Fifo {
        return Err(Stop::Skipped("the backend declares no order of its waiters".to_owned()));
    }
    cx.warm_up(&newcomer).await?;
    let guard = client.take(&name, &AcquireOptions::new()).await?;
    let (proxy, first) = cx.client_behind_proxy(cx.patience()).await?;
    let (wanted, options) = (name.clone(), AcquireOptions::new().with_wait(cx.patience()));
    let first = tokio::spawn(async move { first.take(&wanted, &options).await });
    until_queued(cx, &client, &name, 1).await?;
    proxy.set(Traffic::BlackHole);
    guard.release().await?;
    let overtakes = newcomer.poke(&name).await?.is_some();
    ensure!(!overtakes, "a newcomer got the lock before the one who waited for it");
    proxy.set(Traffic::Pass);
    Ok(first.await??.release().await?)
}

/// Whatever the store told the waiter is lost with the connection on which it was told.
async fn lost_wake_up_costs_no_more_than_the_fallback(cx: &Context) -> Verdict {
    let (client, name) = (cx.client().await?, cx.name());
    let guard = client.take(&name, &AcquireOptions::new()).await?;
    let (proxy, other) = cx.client_behind_proxy(cx.patience()).await?;
    cx.warm_up(&other).await?;
    let (wanted, options) = (name.clone(), AcquireOptions::new().with_wait(cx.patience()));
    let waiter = tokio::spawn(async move { other.take(&wanted, &options).await });
    until_waiting(&client, cx, &name, 1).await?;
    proxy.set(Traffic::HoldReplies);
    guard.release().await?;
    proxy.cut();
    proxy.set(Traffic::Pass);
    let bound = client.semantics().wake_up.bound() + cx.slack();
    let granted = tokio::time::timeout(bound, waiter).await;
    let late = || Stop::Failed(format!("a waiter whose wake-up was lost has no lock after {bound:?}"));
    Ok(granted.map_err(|_| late())???.release().await?)
}

/// The first in the queue is killed, or stopped; the second is a live one.
async fn waiter_that_died_delays_others_within_the_declared_bound(cx: &Context) -> Verdict {
    for kill in [true, false] {
        let (client, name) = (cx.client().await?, cx.named(if kill { "killed" } else { "stopped" }));
        let guard = client.take(&name, &AcquireOptions::new()).await?;
        let mut first = cx.worker().await?;
        first.begin_take(&name, cx.ttl()).await?;
        until_waiting(&client, cx, &name, 1).await?;
        let (other, wanted, options) = (cx.client().await?, name.clone(), cx.options());
        let second = tokio::spawn(async move { other.take(&wanted, &options).await });
        until_waiting(&client, cx, &name, 2).await?;
        let bound = if kill {
            first.kill();
            crash_bound(cx).await?
        } else {
            first.pause();
            silent_bound(cx).await?
        };
        guard.release().await?;
        let freed = Instant::now();
        let guard = second.await??;
        let took = freed.elapsed();
        ensure!(took <= bound, "the one behind a waiter that died got the lock after {took:?}");
        guard.release().await?;
    }
    Ok(())
}

/// Two processes' worth of tasks, each task with no more than its share of time to hold. Every grant has its own token, also
/// those of which the store knows nothing.
async fn tasks_that_take_turns_share_with_other_processes(cx: &Context) -> Verdict {
    let semantics = cx.semantics().await?;
    if semantics.local_queue.is_none() {
        return Err(Stop::Skipped("each task waits in the store for itself".to_owned()));
    }
    let (name, grants) = (cx.name(), Arc::<Mutex<Vec<(usize, FencingToken)>>>::default());
    let mut tasks = tokio::task::JoinSet::new();
    let end = Instant::now() + cx.ttl();
    for process in 0..2 {
        let client = cx.client().await?;
        for _ in 0..8 {
            let (client, name, options) = (client.clone(), name.clone(), cx.options());
            let grants = Arc::clone(&grants);
            tasks.spawn(async move {
                while Instant::now() < end {
                    let guard = client.take(&name, &options).await?;
                    let grant = (process, guard.token()?);
                    grants.lock().unwrap_or_else(PoisonError::into_inner).push(grant);
                    guard.release().await?;
                }
                Ok::<_, Stop>(())
            });
        }
    }
    while let Some(task) = tasks.join_next().await {
        task??;
    }
    let grants = grants.lock().unwrap_or_else(PoisonError::into_inner);
    ensure!(grants.is_sorted_by(|one, next| one.1 < next.1), "tokens do not grow from grant to grant");
    let (all, of_one) = (grants.len(), grants.iter().filter(|(process, _)| *process == 0).count());
    let fifo = semantics.fairness == Fairness::Fifo;
    ensure!(
        !fifo || (all / 4..=all - all / 4).contains(&of_one),
        "one of two processes got {of_one} of {all}"
    );
    Ok(())
}

/// Until so many wait for a lock, as far as the store knows; else for long enough to have asked.
async fn until_waiting(client: &Client, cx: &Context, name: &LockName, count: usize) -> Verdict {
    if client.semantics().fairness != Fairness::Fifo {
        tokio::time::sleep(Duration::from_millis(300)).await;
        return Ok(());
    }
    until_queued(cx, client, name, count).await
}

/// Counted by the proxy, less what keeps its connection alive. A waiter that looks by itself may ask four times as
/// often as its longest interval, because pauses are jittered down to a quarter of it; one that is told asks once in an
/// interval, but a question may be several requests. Both ask a few times more at first.
async fn idle_waiter_costs_what_is_declared(cx: &Context) -> Verdict {
    let (client, name) = (cx.client().await?, cx.name());
    let _guard = client.take(&name, &AcquireOptions::new()).await?;
    let (proxy, waiter) = cx.client_behind_proxy(cx.patience()).await?;
    cx.warm_up(&waiter).await?;
    let wait = Duration::from_secs(2);
    let before = proxy.requests();
    tokio::time::sleep(wait).await;
    let kept_alive = proxy.requests() - before;
    let before = proxy.requests();
    let options = AcquireOptions::new().with_wait(wait);
    ensure!(waiter.acquire_with(&name, &options).await.is_err(), "a second holder");
    let asked = (proxy.requests() - before).saturating_sub(kept_alive);
    let bound = 4 * wait.as_millis() / client.semantics().wake_up.bound().as_millis().max(1) + 12;
    ensure!(
        u128::from(asked) <= bound,
        "an idle waiter sent {asked} requests in {wait:?}, declared at most {bound}"
    );
    Ok(())
}

async fn nobody_starves(cx: &Context) -> Verdict {
    let name = cx.name();
    let options = AcquireOptions::new().with_wait(cx.patience());
    let mut players = tokio::task::JoinSet::new();
    for _ in 0..10 {
        let (client, name, options) = (cx.client().await?, name.clone(), options.clone());
        players.spawn(async move {
            for _ in 0..5 {
                let guard = client.take(&name, &options).await?;
                tokio::time::sleep(Duration::from_millis(1)).await;
                guard.release().await?;
            }
            Ok::<_, Stop>(())
        });
    }
    while let Some(player) = players.join_next().await {
        player??;
    }
    Ok(())
}

/// Its place in the queue ends with its lease or session while it hears nothing. Woken by the first word that gets
/// through, it must look again before it believes that it is its turn.
async fn waiter_that_was_cut_off_holds_nothing_beside_another(cx: &Context) -> Verdict {
    let (client, name) = (cx.client().await?, cx.name());
    let guard = client.take(&name, &cx.options()).await?;
    let (proxy, cut_off) = cx.client_behind_proxy(cx.ttl() / 2).await?;
    cx.warm_up(&cut_off).await?;
    let (before, waiting) = (proxy.requests(), optional(cx.store().counters().await)?);
    let (wanted, options) = (name.clone(), cx.options());
    let waiter = tokio::spawn(async move { cut_off.take(&wanted, &options).await });
    ensure!(eventually(cx.patience(), || proxy.requests() > before).await, "the waiter asked nothing");
    match waiting {
        Some(counters) => crate::cases::queue::until_all_wait(cx, counters.waiting + 1).await?,
        None => tokio::time::sleep(cx.slack()).await,
    }
    proxy.set(Traffic::BlackHole);
    tokio::time::sleep(cx.ttl() * 2).await;
    guard.release().await?;
    let successor = client.take(&name, &cx.options()).await?;
    proxy.set(Traffic::Pass);
    let end = Instant::now() + cx.ttl() * 5;
    while Instant::now() < end && !waiter.is_finished() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    if waiter.is_finished() {
        // Its own keeper may have found out by now; that it was told so at all is the mistake.
        let second = waiter.await?.is_ok();
        ensure!(!(second && successor.is_held()), "a waiter that was cut off got a lock that another holds");
        return Ok(successor.release().await?);
    }
    ensure!(successor.is_held(), "the holder lost its lock: {:?}", successor.loss());
    successor.release().await?;
    Ok(waiter.await??.release().await?)
}
