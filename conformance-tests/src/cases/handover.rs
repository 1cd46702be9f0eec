//! H: from one holder to the next.

use crate::cases::crash::{crash_bound, silent_bound};
use crate::cases::order::until_waiting;
use crate::cases::prelude::*;
use crate::time_scale::time_scale;
use leasehold_core::{Fault, Outcome, WakeUp};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::time::Instant;

/// So many that leases of all of them would last longer than two.
const SEVERAL: usize = 4;

pub(super) const CASES: CaseTable = cases![
    H01 no_hand_over_is_missed,
    H02 lost_wake_up_costs_no_more_than_the_fallback,
    H04 waiter_that_died_delays_others_within_the_declared_bound,
    H07 idle_waiter_costs_what_is_declared,
    H10 waiter_that_was_cut_off_holds_nothing_beside_another,
];

async fn no_hand_over_is_missed(cx: &Context) -> Verdict {
    let (name, rounds) = (cx.name(), 100);
    let semantics = cx.semantics().await?;
    let one = semantics.wake_up.bound() + cx.slack();
    // The other may be lucky several times in a row where the order is luck.
    let bound = (one * 10).min(cx.patience() / 2);
    let options = AcquireOptions::new().with_wait(cx.patience());
    let last = Arc::<Mutex<Option<(usize, Instant)>>>::default();
    let mut players = tokio::task::JoinSet::new();
    for player in 0..2 {
        let (client, name, options) = (cx.client().await?, name.clone(), options.clone());
        let last = Arc::clone(&last);
        players.spawn(async move {
            let (mut longest, mut hand_overs) = (Duration::ZERO, Vec::new());
            for _ in 0..rounds {
                let start = Instant::now();
                let guard = client.take(&name, &options).await?;
                let granted = Instant::now();
                longest = longest.max(granted - start);
                if let Some((other, released)) = *last.lock().unwrap_or_else(PoisonError::into_inner)
                    && other != player
                    && released > start
                {
                    hand_overs.push(granted - released);
                }
                *last.lock().unwrap_or_else(PoisonError::into_inner) = Some((player, Instant::now()));
                guard.release().await?;
                tokio::task::yield_now().await;
            }
            Ok::<_, Stop>((longest, hand_overs))
        });
    }
    let mut hand_overs = Vec::new();
    while let Some(player) = players.join_next().await {
        let (longest, of_this_player) = player??;
        ensure!(longest <= bound, "one of two waited for {longest:?}");
        let late = of_this_player.iter().find(|took| **took > one);
        ensure!(late.is_none(), "a hand-over between two took {late:?}");
        hand_overs.extend(of_this_player);
    }
    // Where the order is luck, who has released may take it again before the other, and little is handed over.
    if hand_overs.len() < rounds / 2 {
        return Ok(());
    }
    ensure_told(semantics.wake_up, hand_overs)
}

/// A store that says that it tells its waiters tells them: if every word were lost, most hand-overs would last until the
/// question that is asked anyway. A busy machine makes some of them late, but not half, and few of them very late.
pub(super) fn ensure_told(wake_up: WakeUp, mut hand_overs: Vec<Duration>) -> Verdict {
    let WakeUp::Push { fallback } = wake_up else { return Ok(()) };
    hand_overs.sort();
    // What is asked anyway does not wait for a slow machine; what is told may.
    let fallback_here = fallback.mul_f64(time_scale().max(1.0));
    let (all, half, tenth) = (hand_overs.len(), "half", "a tenth");
    for (at, share, bound) in [(all / 2, half, fallback_here / 4), (all * 9 / 10, tenth, fallback_here / 2)] {
        let Some(took) = hand_overs.get(at) else { return Ok(()) };
        ensure!(
            *took < bound,
            "waiters are not told, as is declared: {share} of the hand-overs took {took:?} and more, and {fallback:?} is \
             the interval at which they ask anyway"
        );
    }
    Ok(())
}

/// The wake-up is lost with the connection that carried it.
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
    granted.map_err(|_| late())???.release().await?;
    freed_without_a_word(cx).await
}

/// Its record is deleted, as by an administrator, and all connections live: nobody tells whoever waits.
async fn freed_without_a_word(cx: &Context) -> Verdict {
    let (client, other, name) = (cx.client().await?, cx.client().await?, cx.named("deleted"));
    let guard = client.take(&name, &AcquireOptions::new()).await?;
    let (wanted, options) = (name.clone(), AcquireOptions::new().with_wait(cx.patience()));
    let waiter = tokio::spawn(async move { other.take(&wanted, &options).await });
    until_waiting(&client, cx, &name, 1).await?;
    if !is_freed_in_silence(cx, &name).await? {
        waiter.abort();
        return Ok(guard.release().await?);
    }
    let bound = client.semantics().wake_up.bound() + cx.slack();
    let granted = tokio::time::timeout(bound, waiter).await;
    let late = || Stop::Failed(format!("a waiter that was told of nothing has no lock after {bound:?}"));
    let successor = granted.map_err(|_| late())???;
    drop(guard);
    Ok(successor.release().await?)
}

/// False if the store has no way to it: one that keeps a queue of its own loses all of it, and of one that has a second record,
/// the loss of the first frees nothing.
async fn is_freed_in_silence(cx: &Context, name: &LockName) -> Result<bool, Stop> {
    if optional(cx.store().delete_queue(name).await)?.is_some() {
        return Ok(true);
    }
    let is_free_then = cx.semantics().await?.promises.under(Fault::RecordDeleted) != Outcome::Holds;
    Ok(is_free_then && optional(cx.store().delete(name).await)?.is_some())
}

/// The first in the queue is killed, or stopped; the next is a live one. And of several that are killed, not one after the other
/// is waited for: a store may not have noticed yet, and give the lock to one more of them.
async fn waiter_that_died_delays_others_within_the_declared_bound(cx: &Context) -> Verdict {
    for (kill, count) in [(true, 1), (false, 1), (true, SEVERAL)] {
        let what = if kill { "killed" } else { "stopped" };
        let (client, name) = (cx.client().await?, cx.named(&format!("{what}-{count}")));
        let guard = client.take(&name, &AcquireOptions::new()).await?;
        let mut dying = Vec::new();
        for number in 1..=count {
            let mut waiter = cx.worker().await?;
            waiter.begin_take(&name, cx.ttl()).await?;
            until_waiting(&client, cx, &name, number).await?;
            dying.push(waiter);
        }
        let (other, wanted, options) = (cx.client().await?, name.clone(), cx.options());
        let behind = tokio::spawn(async move { other.take(&wanted, &options).await });
        until_waiting(&client, cx, &name, count + 1).await?;
        let bound = if kill {
            dying.iter_mut().for_each(Worker::kill);
            crash_bound(cx).await?
        } else {
            dying.iter().for_each(Worker::pause);
            silent_bound(cx).await?
        };
        let bound = if count == 1 { bound } else { bound * 2 };
        guard.release().await?;
        let freed = Instant::now();
        let guard = behind.await??;
        let took = freed.elapsed();
        ensure!(took <= bound, "the one behind {count} waiters that were {what} got the lock after {took:?}");
        guard.release().await?;
    }
    Ok(())
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
