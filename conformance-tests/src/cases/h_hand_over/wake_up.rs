//! What wakes a waiter, and how soon.

use crate::cases::prelude::*;
use crate::locked;
use crate::subject::Counters;
use leasehold_core::{Fault, Outcome, WakeUp};
use std::sync::Mutex;

/// A number of waiters whose leases, one after the other, would last longer than two.
const SEVERAL: usize = 4;

pub(super) const CASES: CaseTable = cases![
    H01 no_hand_over_is_missed,
    H02 lost_wake_up_costs_no_more_than_the_fallback,
    H04 waiter_that_died_delays_others_within_the_declared_bound,
    H07 idle_waiter_sends_no_more_requests_than_declared,
    H10 waiter_that_was_cut_off_holds_nothing_beside_another,
    H13 late_hand_over_is_counted_from_the_last_busy if lease_only & fifo_only,
];

async fn no_hand_over_is_missed(cx: &Context) -> Verdict {
    let (name, rounds) = (cx.name(), 100);
    let semantics = cx.semantics().await?;
    let one = semantics.wake_up.bound() + cx.slack();
    // The other may be lucky several times in a row where the order is luck.
    let bound = (one * 10).min(cx.patience() / 2);
    let options = AcquireOptions::new().with_wait(cx.patience());
    let last = Arc::<Mutex<Option<(usize, Instant)>>>::default();
    let mut players = JoinSet::new();
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
                if let Some((other, released)) = *locked(&last)
                    && other != player
                    && released > start
                {
                    hand_overs.push(granted - released);
                }
                *locked(&last) = Some((player, Instant::now()));
                guard.release().await?;
                tokio::task::yield_now().await;
            }
            Ok::<_, Stop>((longest, hand_overs))
        });
    }
    let mut hand_overs = Vec::new();
    for (longest, of_this_player) in joined(players).await? {
        ensure_within!(longest, bound, "one of two waited for {longest:?}");
        let slowest = of_this_player.iter().max().copied().unwrap_or_default();
        ensure_within!(slowest, one, "a hand-over between two took {slowest:?}");
        hand_overs.extend(of_this_player);
    }
    // Where the order is luck, one player may take it again before the other, and little is handed over.
    if hand_overs.len() < rounds / 2 {
        return Ok(());
    }
    ensure_told(semantics.wake_up, hand_overs)
}

/// The wake-up is lost with the connection that carried it.
async fn lost_wake_up_costs_no_more_than_the_fallback(cx: &Context) -> Verdict {
    let (client, name) = (cx.client().await?, cx.name());
    let guard = client.take(&name, &AcquireOptions::new()).await?;
    let (proxy, other) = cx.client_behind_proxy(cx.patience()).await?;
    let waiter = spawn_take(&other, &name, &AcquireOptions::new().with_wait(cx.patience()));
    until_waiting(&client, cx, &name, 1).await?;
    proxy.set(Traffic::HoldReplies);
    guard.release().await?;
    lose_connections(&proxy)?;
    let bound = hand_over_bound(cx, &client);
    granted_within(waiter, bound, "a waiter whose wake-up was lost").await?.release().await?;
    freed_without_a_word(cx).await
}

/// The record is deleted, as by an administrator, and all connections live: no message is sent to the waiter.
async fn freed_without_a_word(cx: &Context) -> Verdict {
    let (client, other, name) = (cx.client().await?, cx.client().await?, cx.named("deleted"));
    let guard = client.take(&name, &AcquireOptions::new()).await?;
    let waiter = spawn_take(&other, &name, &AcquireOptions::new().with_wait(cx.patience()));
    until_waiting(&client, cx, &name, 1).await?;
    // A store that keeps a queue of its own loses all of it; of one that has a second record, the loss of the first frees nothing.
    let is_free_then = client.semantics().promises.under(Fault::RecordDeleted) != Outcome::Holds;
    let is_freed = optional(cx.store().delete_queue(&name).await)?.is_some()
        || is_free_then && optional(cx.store().delete(&name).await)?.is_some();
    if !is_freed {
        waiter.abort();
        return Ok(guard.release().await?);
    }
    let bound = hand_over_bound(cx, &client);
    let successor = granted_within(waiter, bound, "a waiter that was told of nothing").await?;
    drop(guard);
    Ok(successor.release().await?)
}

/// The first in the queue is killed, or stopped; the next is a live one. Several that are killed are not waited for one after the
/// other: a store that has not noticed yet may give the lock to one more of them.
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
        let behind = spawn_take(&cx.client().await?, &name, &cx.options());
        until_waiting(&client, cx, &name, count + 1).await?;
        let bound = if kill {
            dying.iter_mut().for_each(Worker::kill);
            crash_bound(cx).await?
        } else {
            dying.iter().for_each(Worker::pause);
            silent_bound(cx).await?
        };
        let bound = of_a_waiter(bound, cx, &client) * if count == 1 { 1 } else { 2 };
        guard.release().await?;
        let who = format!("the one behind {count} waiters that were {what}");
        granted_within(behind, bound, &who).await?.release().await?;
        let when = format!("for a newcomer, after {count} waiters that were {what}");
        free_within(&client, &name, hand_over_bound(cx, &client), &when).await?;
    }
    Ok(())
}

/// Counted are its requests, less those that keep the connection alive. A waiter that looks by itself may ask four times as
/// often as its longest interval, because pauses are jittered down to a quarter of it; one that is told asks once in an
/// interval, but a question may be several requests. A waiter whose client looks for changes sends a request for each look besides. All
/// ask a few times more at first.
async fn idle_waiter_sends_no_more_requests_than_declared(cx: &Context) -> Verdict {
    let (client, wait) = (cx.client().await?, Duration::from_secs(2));
    let wake_up = client.semantics().wake_up;
    let looks = match wake_up {
        WakeUp::Look { at_most, .. } => wait.as_millis() / at_most.as_millis().max(1),
        _ => 0,
    };
    let bound = looks + 4 * wait.as_millis() / wake_up.bound().as_millis().max(1) + 12;
    let is_seldom = |count: u64| u128::from(count) <= bound;
    let (requests, waiter) = Requests::of_client(cx).await?;
    for mode in cx.modes_in_front() {
        let [first, name] = ["first", "second"].map(|name| cx.named(&format!("{mode}-{name}")));
        let options = AcquireOptions::new().with_mode(*mode);
        let _guards = [client.take(&first, &options).await?, client.take(&name, &options).await?];
        // It has whatever it makes at its first wait: connections, statements.
        let options = cx.long_lease().with_wait(wait / 4);
        ensure!(waiter.acquire_with(&first, &options).await.is_err(), "a second holder");
        let kept_alive = requests.during(wait).await?;
        ensure!(
            is_seldom(kept_alive),
            "{kept_alive} requests of a client in {wait:?} after its wait, bound {bound}"
        );
        let before = requests.so_far().await?;
        ensure!(waiter.acquire_with(&name, &options.with_wait(wait)).await.is_err(), "a second holder");
        let asked = (requests.so_far().await? - before).saturating_sub(kept_alive);
        ensure!(is_seldom(asked), "{asked} requests of an idle waiter in {wait:?}, bound {bound}");
    }
    Ok(())
}

/// Its place in the queue ends with its lease or session while it hears nothing. Woken by the first word that gets
/// through, it must look again before it believes that it is its turn.
async fn waiter_that_was_cut_off_holds_nothing_beside_another(cx: &Context) -> Verdict {
    let (client, name) = (cx.client().await?, cx.name());
    let guard = client.take(&name, &cx.options()).await?;
    let (proxy, cut_off) = cx.client_behind_proxy(cx.ttl() / 2).await?;
    let (before, waiting) = (proxy.requests(), optional(cx.store().counters().await)?);
    let waiter = spawn_take(&cut_off, &name, &cx.options());
    ensure_came!(eventually(cx.patience(), || proxy.requests() > before).await, "the waiter asked nothing");
    until_it_listens(cx, waiting).await?;
    proxy.set(Traffic::BlackHole);
    tokio::time::sleep(cx.lease(cx.ttl()) + cx.ttl()).await;
    guard.release().await?;
    let successor = client.take(&name, &cx.options()).await?;
    proxy.set(Traffic::Pass);
    if eventually(cx.ttl() * 5, || waiter.is_finished()).await {
        // Its own keeper may have found out by now; that it was told so at all is the mistake.
        let second = waiter.await?.is_ok();
        ensure!(!(second && successor.is_held()), "a waiter that was cut off got a lock that another holds");
        return Ok(successor.release().await?);
    }
    ensure_not_lost(&successor, "the holder lost its lock")?;
    successor.release().await?;
    Ok(waiter.await??.release().await?)
}

/// The store has handed the lock over to a waiter, which hears of it when most of that lease is over: by what the store says by
/// itself, while no question of the waiter arrives that would make the lease longer; and by its next question.
async fn late_hand_over_is_counted_from_the_last_busy(cx: &Context) -> Verdict {
    let (client, other) = (cx.client().await?, cx.client().await?);
    for (hears, how) in [(Traffic::HoldRequests, "told"), (Traffic::Pass, "answered")] {
        let name = cx.named(how);
        let guard = client.take(&name, &AcquireOptions::new()).await?;
        // The waiter asks again while it hears nothing: a request from before the hand-over would not be seen.
        let (proxy, waiting) = cx.client_behind_proxy(cx.ttl() / 5).await?;
        let listening = optional(cx.store().counters().await)?;
        let waiter = spawn_take(&waiting, &name, &cx.fixed());
        until_queued(cx, &client, &name, 1).await?;
        until_it_listens(cx, listening).await?;
        proxy.set(Traffic::BlackHole);
        guard.release().await?;
        let is_handed_over = client.looking()?.inspect(&name).await?.iter().any(|hold| !hold.is_released());
        require!(is_handed_over, "the store hands nothing over: the lock was free until its waiter asked");
        tokio::time::sleep(cx.ttl() * 3 / 5).await;
        let successor = spawn_successor(cx, &other, &name);
        proxy.set(hears);
        eventually(cx.patience(), || waiter.is_finished() || successor.is_finished()).await;
        let is_granted = waiter.is_finished();
        if is_granted {
            let guard = waiter.await??;
            ensure_believed_before(&guard, successor, "after a hand-over that was heard of late").await?;
        } else {
            // The lease was over before its waiter could ask: it has believed nothing.
            successor.await??.0.release().await?;
            proxy.set(Traffic::Pass);
            waiter.await??.release().await?;
        }
    }
    Ok(())
}

/// Waits until one more waits for the store's word, as far as it knows; else for long enough.
async fn until_it_listens(cx: &Context, before: Option<Counters>) -> Verdict {
    match before {
        Some(counters) => until_all_wait(cx, counters.waiting + 1).await,
        None => {
            tokio::time::sleep(cx.slack()).await;
            Ok(())
        }
    }
}
