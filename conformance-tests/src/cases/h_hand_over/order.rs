//! In which order waiters are served.

use crate::cases::prelude::*;
use crate::cases::t_shared_locks::modes::{Waiters, waiter};
use crate::cases::t_shared_locks::waiting::waiting_process;
use crate::locked;
use futures_util::future::try_join_all;
use leasehold_core::LockMode::{self, Exclusive, Shared, Write};
use leasehold_core::{Fairness, OwnerId, Sharing, WakeUp};
use std::sync::Mutex;
use std::sync::mpsc::channel;

pub(super) const CASES: CaseTable = cases![
    H05 waiters_are_served_in_their_order_also_when_some_give_up if fifo_only,
    H09 no_competing_client_starves,
    H11 tasks_of_two_processes_share_a_lock,
    H12 newcomer_waits_behind_a_first_waiter_that_is_cut_off if fifo_only,
    H14 waiters_of_several_processes_are_served_in_their_order if fifo_only,
    H15 waiters_are_shown_by_name_and_in_their_order if fifo_only,
];

/// Each is shown behind those that came before it, and the first that is shown is the next owner.
async fn waiters_are_shown_by_name_and_in_their_order(cx: &Context) -> Verdict {
    let (client, name, other) = (cx.client().await?, cx.name(), cx.named("other"));
    let shown_of = async |name: &LockName| {
        let waiters = client.looking()?.waiters(name).await?;
        Ok::<Vec<Option<OwnerId>>, Stop>(waiters.into_iter().map(|waiter| waiter.owner).collect())
    };
    let guards = [client.take(&name, &cx.options()).await?, client.take(&other, &cx.options()).await?];
    let (mut waiters, mut shown) = (Vec::new(), Vec::new());
    for place in 0..3 {
        waiters.push(spawn_take(&cx.client().await?, &name, &cx.options()));
        until_queued(cx, &client, &name, place + 1).await?;
        let owners = shown_of(&name).await?;
        let is_longer = owners.len() == place + 1 && owners.starts_with(&shown);
        ensure!(is_longer, "after {shown:?} and one more waiter, {owners:?} are shown");
        shown = owners;
    }
    let of_other = shown_of(&other).await?;
    ensure!(of_other.is_empty(), "the waiters {of_other:?} are shown of a lock that has none");
    release_all(guards).await?;
    for (place, (waiter, shown)) in waiters.into_iter().zip(shown).enumerate() {
        let guard = waiter.await??;
        let owner = client.looking()?.inspect(&name).await?.pop().and_then(|hold| hold.owner);
        let is_same = shown.is_none() || owner == shown;
        ensure!(is_same, "{shown:?} was shown as waiter {place}, and {owner:?} was served in its place");
        guard.release().await?;
    }
    Ok(())
}

/// The waiters are by turns a process of its own and a client in this one.
async fn waiters_of_several_processes_are_served_in_their_order(cx: &Context) -> Verdict {
    let (client, name) = (cx.client().await?, cx.name());
    let guard = client.take(&name, &AcquireOptions::new()).await?;
    let (mut workers, mut tasks) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        workers.push(waiting_process(cx, &name, cx.patience(), Exclusive).await?);
        until_waiting(&client, cx, &name, workers.len() + tasks.len()).await?;
        tasks.push(waiter(cx, &name, Exclusive).await?);
        until_waiting(&client, cx, &name, workers.len() + tasks.len()).await?;
    }
    let set =
        |traffic| workers.iter().flat_map(|(_, network)| network).for_each(|network| network.set(traffic));
    // What the workers ask arrives later: where the order is that of a process, a client takes the lock meanwhile.
    let (silent_since, session) = (Instant::now(), cx.session_timeout());
    set(Traffic::HoldRequests);
    guard.release().await?;
    let pause = client.semantics().wake_up.bound().clamp(cx.ttl() / 2, cx.ttl());
    tokio::time::sleep(if session.is_zero() { pause } else { pause.min(session / 3) }).await;
    cx.ensure_session(silent_since)?;
    ensure!(!tasks.iter().any(|task| task.is_finished()), "the first worker was not served in its turn");
    set(Traffic::Pass);
    let bound = hand_over_bound(cx, &client) + cx.slack();
    for (pair, ((mut worker, _network), task)) in workers.into_iter().zip(tasks).enumerate() {
        let served = worker.answers_within(bound).await?.is_some();
        let is_passed = !served && task.is_finished();
        ensure!(!is_passed, "pair {pair}: the worker was not served in its turn, and the client was");
        ensure_came!(served, "pair {pair}: the worker was not served in its turn");
        worker.release().await?;
        let late = |_| Stop::Late(format!("pair {pair}: the client was not served in its turn"), None);
        tokio::time::timeout(bound, task).await.map_err(late)???.release().await?;
    }
    Ok(())
}

/// They come one after the other, and wait for longer than a store takes to miss one that asks no more. Two in the middle give up while
/// the lock is held. That gives it to nobody, and all others are served as they came.
async fn waiters_are_served_in_their_order_also_when_some_give_up(cx: &Context) -> Verdict {
    const LEAVE: [usize; 2] = [1, 4];
    let (client, name) = (cx.client().await?, cx.name());
    let guard = client.take(&name, &AcquireOptions::new()).await?;
    // Each tells its place while it holds.
    let (tell, served) = channel();
    let (mut leavers, mut others) = (JoinSet::new(), JoinSet::new());
    for place in 0..8 {
        let leaves = LEAVE.contains(&place);
        // Long enough for all to have come.
        let wait = if leaves { cx.ttl() * 5 } else { cx.patience() };
        let (waiter, name, tell) = (cx.client().await?, name.clone(), tell.clone());
        let options = cx.options().with_wait(wait);
        let queue = if leaves { &mut leavers } else { &mut others };
        queue.spawn(async move {
            let guard = waiter.acquire_with(&name, &options).await?;
            let _ = tell.send(place);
            guard.release().await
        });
        // The order is that of arrival in the store.
        until_waiting(&client, cx, &cx.name(), place + 1).await?;
        tokio::time::sleep(cx.ttl() * 2 / 3).await;
    }
    let left = leavers.join_all().await;
    // By then, whatever their leaving has set off is over.
    tokio::time::sleep(cx.slack()).await;
    let early: Vec<usize> = served.try_iter().collect();
    let untouched = early.is_empty() && guard.is_held();
    ensure!(untouched, "two left the queue, and {early:?} got a lock that is held");
    let gives_up = |outcome| ensure_kind(outcome, ErrorKind::TimedOut, "a waiter that gives up");
    left.into_iter().try_for_each(gives_up)?;
    guard.release().await?;
    joined(others).await?;
    let served: Vec<usize> = served.try_iter().collect();
    let in_order = served == [0, 2, 3, 5, 6, 7];
    ensure!(in_order, "when 1 and 4 had left, the others were served in the order {served:?}");
    Ok(())
}

/// The lock is free, and the first in the queue does not know it yet. It is served first all the same, also before another mode if
/// the store serves all modes in their order.
async fn newcomer_waits_behind_a_first_waiter_that_is_cut_off(cx: &Context) -> Verdict {
    const ROLES: [(LockMode, LockMode); 5] =
        [(Exclusive, Exclusive), (Shared, Write), (Shared, Exclusive), (Write, Shared), (Exclusive, Shared)];
    let (client, newcomer) = (cx.client().await?, cx.client().await?);
    cx.warm_up(&newcomer).await?;
    let roles = if client.semantics().sharing == Sharing::Fifo { &ROLES[..] } else { &ROLES[..1] };
    for (first, coming) in roles {
        let name = cx.named(&format!("{first}-{coming}"));
        let guard = client.take(&name, &AcquireOptions::new()).await?;
        let mut waiters = Waiters::behind_a_proxy(cx).await?;
        let options = AcquireOptions::new().with_wait(cx.patience()).with_mode(*first);
        let waiter = waiters.begin(cx, &name, &options).await?;
        waiters.set_traffic(Traffic::BlackHole);
        guard.release().await?;
        let overtakes = newcomer.poke_in(&name, *coming).await?.is_some();
        ensure!(!overtakes, "a {coming} lock overtook a {first} one that had waited for longer");
        waiters.set_traffic(Traffic::Pass);
        waiter.await??.release().await?;
    }
    Ok(())
}

/// Ten clients that all want it, all the time: each comes back as soon as it has released. Where waiters are served in
/// order they share alike; elsewhere each has it at least once, however often the others do.
async fn no_competing_client_starves(cx: &Context) -> Verdict {
    const PLAYERS: usize = 10;
    const ROUNDS: usize = 200;
    let (client, name) = (cx.client().await?, cx.name());
    let fifo = client.semantics().fairness == Fairness::Fifo;
    let grants = Arc::new(Mutex::new([0; PLAYERS]));
    let enough =
        move |grants: &[usize]| grants.iter().sum::<usize>() >= ROUNDS && (fifo || !grants.contains(&0));
    let guard = client.take(&name, &AcquireOptions::new()).await?;
    let options = AcquireOptions::new().with_wait(cx.patience());
    let mut players = JoinSet::new();
    for player in 0..PLAYERS {
        let (client, name, options) = (cx.client().await?, name.clone(), options.clone());
        let grants = Arc::clone(&grants);
        players.spawn(async move {
            loop {
                let outcome = client.acquire_with(&name, &options).await;
                let sums = {
                    let mut grants = locked(&grants);
                    grants[player] += usize::from(outcome.is_ok() && !enough(&*grants));
                    *grants
                };
                let starves = outcome.as_ref().is_err_and(|error| error.kind() == ErrorKind::TimedOut);
                ensure_came!(!starves, "client {player} starved; so often they got it: {sums:?}");
                let guard = outcome?;
                if enough(&sums) {
                    return Ok(guard.release().await?);
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
                guard.release().await?;
                // Where the order is luck, a client that never paused would have more of it than one that has to be woken.
                if !fifo {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            }
        });
    }
    until_waiting(&client, cx, &name, PLAYERS).await?;
    guard.release().await?;
    joined(players).await?;
    let grants = locked(&grants);
    let alike = grants.iter().all(|count| (18..=22).contains(count));
    ensure_came!(alike || !fifo, "ten who waited in order all the time got it so often: {grants:?}");
    Ok(())
}

/// Eight tasks of each of two clients acquire and release as fast as they can. Every grant has a larger token than the last; in
/// the order of arrival both clients get about half; in no order, each gets a part, because the line of the other pauses. A client
/// meets such a pause by luck: a part that is too small is late.
async fn tasks_of_two_processes_share_a_lock(cx: &Context) -> Verdict {
    let semantics = cx.semantics().await?;
    let (name, (tell, grants)) = (cx.name(), channel());
    let mut tasks = JoinSet::new();
    // Long enough for four turns of clients that ask at intervals: a turn lasts two of them, and the pause one.
    let turns = if let WakeUp::Poll { at_most } = semantics.wake_up { at_most * 12 } else { Duration::ZERO };
    let clients = [cx.client().await?, cx.client().await?];
    try_join_all(clients.iter().map(|client| cx.warm_up(client))).await?;
    let end = Instant::now() + cx.ttl().max(turns);
    for (process, client) in clients.into_iter().enumerate() {
        for _ in 0..8 {
            let (client, name, options) = (client.clone(), name.clone(), cx.options());
            let tell = tell.clone();
            tasks.spawn(async move {
                while Instant::now() < end {
                    let guard = client.take(&name, &options).await?;
                    let _ = tell.send((process, guard.token()?));
                    guard.release().await?;
                }
                Ok::<_, Stop>(())
            });
        }
    }
    joined(tasks).await?;
    let grants: Vec<_> = grants.try_iter().collect();
    ensure_untimed!(grants.is_sorted_by(|one, next| one.1 < next.1), "tokens do not grow with each grant");
    let (all, of_one) = (grants.len(), grants.iter().filter(|(process, _)| *process == 0).count());
    let least = if semantics.fairness == Fairness::Fifo { all / 4 } else { all / 20 };
    ensure_came!((least..=all - least).contains(&of_one), "one of two processes got {of_one} of {all}");
    Ok(())
}
