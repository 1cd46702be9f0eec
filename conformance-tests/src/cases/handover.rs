//! H: from one holder to the next.

use crate::case::{Case, Stop, Verdict, cases, ensure};
use crate::cases::crash::{crash_bound, silent_bound};
use crate::cases::order::until_waiting;
use crate::context::{ClientExt, Context, eventually, optional, time_scale};
use crate::proxy::Traffic;
use leasehold_core::{AcquireOptions, WakeUp};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

pub(super) const CASES: &[Case] = cases![
    H01 no_hand_over_is_missed,
    H02 lost_wake_up_costs_no_more_than_the_fallback,
    H04 waiter_that_died_delays_others_within_the_declared_bound,
    H07 idle_waiter_costs_what_is_declared,
    H10 waiter_that_was_cut_off_holds_nothing_beside_another,
];

async fn no_hand_over_is_missed(cx: &Context) -> Verdict {
    let (name, rounds) = (cx.name(), 100);
    let semantics = cx.semantics().await?;
    // The other may be lucky several times in a row where the order is luck.
    let bound = ((semantics.wake_up.bound() + cx.slack()) * 10).min(cx.patience() / 2);
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
        ensure!(longest <= bound, "a hand-over between two took {longest:?}");
        hand_overs.extend(of_this_player);
    }
    // Where the order is luck, who has released may take it again before the other, and little is handed over.
    if hand_overs.len() < rounds / 2 {
        return Ok(());
    }
    ensure_told(semantics.wake_up, hand_overs)
}

/// A store that says that it tells its waiters tells them: if every word were lost, most hand-overs would last until the
/// question that is asked anyway. Of many, the middle one: a busy machine makes some of them late, but not half.
pub(super) fn ensure_told(wake_up: WakeUp, mut hand_overs: Vec<Duration>) -> Verdict {
    let WakeUp::Push { fallback } = wake_up else { return Ok(()) };
    hand_overs.sort();
    let Some(median) = hand_overs.get(hand_overs.len() / 2) else { return Ok(()) };
    // What is asked anyway does not wait for a slow machine; what is told may.
    let bound = fallback.mul_f64(time_scale().max(1.0)) / 4;
    ensure!(
        *median < bound,
        "waiters are not told, as is declared: half of the hand-overs took {median:?} and more, and {fallback:?} is the \
         interval at which they ask anyway"
    );
    Ok(())
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
