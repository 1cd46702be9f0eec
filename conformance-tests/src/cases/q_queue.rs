//! Q: waiters that stand in a queue in the store, and are told when it is their turn.

use crate::cases::prelude::*;
use crate::subject::Counters;
use leasehold_core::{FencingToken, TokenClass, WakeUp};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

pub(super) const CASES: CaseTable = cases![
    Q01 release_wakes_one_waiter_whatever_their_number(Whole, Load),
    Q05 waiters_survive_the_deletion_of_their_queue if fifo_only,
    Q08 thousands_of_waiters_are_served_in_their_order(Whole, Load) if fifo_only,
    Q09 newcomer_never_overtakes_by_its_name,
];

/// The number of hand-overs that are measured; the cheapest counts, because the store may hear of other things meanwhile.
const ROUNDS: usize = 6;

/// The time after a hand-over in which its messages are counted.
const SETTLES_WITHIN: Duration = Duration::from_millis(100);

/// Every waiter has a connection of its own, so that a store that tells each of them is seen to do so. What one
/// hand-over costs the store must not grow with the waiters.
async fn release_wakes_one_waiter_whatever_their_number(cx: &Context) -> Verdict {
    cx.store().counters().await?;
    let alone = cost_of_a_hand_over(cx, 1).await?;
    for waiters in [10, 100] {
        let cost = cost_of_a_hand_over(cx, waiters).await?;
        let (told, told_alone) = (cost.wake_ups, alone.wake_ups);
        ensure!(told <= told_alone, "a release told {told} of {waiters} waiters, and {told_alone} of one");
        // How often connections are kept alive is a matter of luck; a herd would be several hundred.
        let bound = alone.messages * 2 + waiters as u64 / 2 + 10;
        let sent = cost.messages;
        ensure!(sent <= bound, "{sent} messages for a hand-over among {waiters} waiters, bound {bound}");
    }
    Ok(())
}

async fn cost_of_a_hand_over(cx: &Context, waiters: usize) -> Result<Counters, Stop> {
    let name = cx.named(&format!("among-{waiters}"));
    let (granted, mut guards) = unbounded_channel();
    let mut players = JoinSet::new();
    // A hundred short sessions would be a load of their own.
    let address = cx.store().address_for_holds_of(cx.patience());
    let mut holder = cx.client_at(&address).await?;
    let mut guard = holder.take(&name, &AcquireOptions::new()).await?;
    let watched_before = cx.store().counters().await?.waiting;
    for _ in 0..waiters {
        let client = cx.client_at(&address).await?;
        players.spawn(play(client, name.clone(), granted.clone()));
    }
    // The holder may begin to wait for the store's word too, for that of a loss.
    until_waiting(&holder, cx, &name, waiters).await?;
    let mut costs = Vec::new();
    for _ in 0..ROUNDS {
        until_all_wait(cx, watched_before + waiters as u64).await?;
        // Connections that are only kept alive have messages, too.
        let idle = cx.store().counters().await?.messages;
        tokio::time::sleep(SETTLES_WITHIN).await;
        let before = cx.store().counters().await?;
        guard.release().await?;
        let next = tokio::time::timeout(cx.patience(), guards.recv()).await.ok().flatten();
        let nobody = || Stop::Late("a release woke nobody".to_owned(), None);
        let next: (Client, LockGuard) = next.ok_or_else(nobody)?;
        // What a herd asks next, it asks now.
        tokio::time::sleep(SETTLES_WITHIN).await;
        let after = cx.store().counters().await?;
        let messages = (after.messages - before.messages).saturating_sub(before.messages - idle);
        costs.push(Counters::new(messages, after.wake_ups - before.wake_ups, 0));
        // The old holder joins the queue, so that the next round finds as many waiters as this one.
        players.spawn(play(std::mem::replace(&mut holder, next.0), name.clone(), granted.clone()));
        guard = next.1;
    }
    let cheapest = costs.into_iter().min_by_key(|cost| cost.messages);
    cheapest.ok_or_else(|| Stop::Failed("nothing was measured".to_owned()))
}

async fn play(client: Client, name: LockName, granted: UnboundedSender<(Client, LockGuard)>) {
    if let Ok(guard) = client.acquire_with(&name, &AcquireOptions::new()).await {
        let _ = granted.send((client, guard));
    }
}

/// An administrator might delete a queue with the best intentions. The holder hears of it; the waiters take new places.
async fn waiters_survive_the_deletion_of_their_queue(cx: &Context) -> Verdict {
    let (client, name) = (cx.client().await?, cx.name());
    let guard = client.take(&name, &cx.options()).await?;
    let token = guard.token()?;
    let mut waiters = JoinSet::new();
    for place in 0..5 {
        let (waiter, wanted, options) = (cx.client().await?, name.clone(), cx.options());
        waiters.spawn(async move { take_turn(&waiter, &wanted, &options).await });
        until_queued(cx, &client, &name, place + 1).await?;
    }
    cx.store().delete_queue(&name).await?;
    loss_within(&guard, cx.ttl() + cx.slack()).await?;
    let survives = client.semantics().token == TokenClass::Durable;
    for next in joined(waiters).await? {
        ensure_untimed!(next > token || !survives, "token {next} after {token}, and a deleted queue");
    }
    Ok(())
}

/// The waiters are of five clients, and come a hundred at a time; the first hundred are served, in order, and the others leave.
/// Nothing of them stays.
async fn thousands_of_waiters_are_served_in_their_order(cx: &Context) -> Verdict {
    const AT_ONCE: usize = 100;
    let waiting = match cx.semantics().await?.wake_up {
        // A new waiter on ZooKeeper lists all: twelve million names, which take code without optimization minutes.
        WakeUp::Push { .. } if cfg!(debug_assertions) => 1_000,
        WakeUp::Push { .. } => 5_000,
        // Each waiter asks again and again, and each question may list all: more waiters would test the speed of the store.
        _ => 200,
    };
    // A thousand waiters keep their client busy, and its session must not end by that.
    let address = cx.store().address_for_holds_of(cx.patience());
    let (client, name) = (cx.client_at(&address).await?, cx.name());
    client.looking()?;
    let mut clients = Vec::new();
    for _ in 0..5 {
        clients.push(cx.client_at(&address).await?);
    }
    // The first queue of a name leaves something behind for good, which is no residue of these waiters.
    let guard = client.take(&name, &AcquireOptions::new()).await?;
    let waiter = spawn_take(&clients[0], &name, &AcquireOptions::new());
    until_queued(cx, &client, &name, 1).await?;
    guard.release().await?;
    waiter.await??.release().await?;
    let guard = client.take(&name, &AcquireOptions::new()).await?;
    let empty = optional(cx.store().records().await)?;
    let (served, mut order) = unbounded_channel();
    let mut waiters = JoinSet::new();
    for batch in 1..=waiting / AT_ONCE {
        for place in 0..AT_ONCE {
            let waiter = clients[place % clients.len()].clone();
            waiters.spawn(wait_and_tell(waiter, name.clone(), batch, served.clone()));
        }
        until_queued(cx, &client, &name, batch * AT_ONCE).await?;
        ensure!(waiters.try_join_next().is_none(), "a waiter ended while the lock was held");
    }
    guard.release().await?;
    let mut last = None;
    for _ in 0..AT_ONCE {
        let next = tokio::time::timeout(cx.patience(), order.recv()).await.ok().flatten();
        let never = || Stop::Late(format!("a hand-over among {waiting} waiters"), None);
        let (batch, token) = next.ok_or_else(never)?;
        // The first hundred came at once, before all others. So many waiters may lose their places on a busy machine.
        let overtaken = || Stop::Away(format!("one of hundred {batch} was served before the first hundred"));
        (batch == 1).then_some(()).ok_or_else(overtaken)?;
        ensure_untimed!(Some(token) > last, "token {token} was given after {last:?}");
        last = Some(token);
    }
    waiters.shutdown().await;
    let Some(empty) = empty else { return Ok(()) };
    until_records_gone(cx, empty, cx.patience() * 2, "the queue was left").await
}

async fn wait_and_tell(
    client: Client,
    name: LockName,
    batch: usize,
    served: UnboundedSender<(usize, FencingToken)>,
) {
    let options = AcquireOptions::new().with_wait(Wait::Forever);
    if let Ok(guard) = client.acquire_with(&name, &options).await
        && let Ok(token) = guard.token()
    {
        let _ = served.send((batch, token));
        let _ = guard.release().await;
    }
}

/// Several clients make several attempts each: whatever the names of their places, none comes before the holder's.
async fn newcomer_never_overtakes_by_its_name(cx: &Context) -> Verdict {
    let (client, name) = (cx.client().await?, cx.name());
    let guard = client.take(&name, &AcquireOptions::new()).await?;
    for _ in 0..3 {
        let newcomer = cx.client().await?;
        for _ in 0..4 {
            let second = newcomer.poke(&name).await?;
            ensure!(second.is_none(), "a newcomer took a lock that is held");
        }
    }
    Ok(guard.release().await?)
}
