//! Waiters that leave, each mode in each role: those behind them are let in as if they had never come.

use super::modes::{ALL, NOT_SHARED, Waiters, ensure_excluded, hold, sharing, waiter};
use crate::cases::prelude::*;
use crate::worker::Request;
use futures_util::future::{BoxFuture, try_join_all};
use leasehold_core::LockMode::{self, Exclusive, Shared, Write};
use leasehold_core::{CrashBound, Semantics};

pub(super) const CASES: CaseTable = cases![
    T80 attempt_that_does_not_wait_keeps_no_other_out if sharing,
    T81 waiter_that_gives_up_keeps_no_other_out = in_each_role(Departure::GivesUp),
    T82 dropped_waiter_keeps_no_other_out = in_each_role(Departure::Dropped),
    T83 killed_waiter_keeps_others_out_no_longer_than_its_lease = in_each_role(Departure::Killed),
    T84 waiter_that_is_cut_off_keeps_others_out_no_longer_than_its_lease = in_each_role(Departure::CutOff),
    T85 served_writer_keeps_no_reader_out_after_its_release,
    T86 second_waiting_writer_keeps_readers_out_when_the_first_leaves,
    T87 waiting_writer_keeps_out_the_readers_of_its_own_name_alone if sharing,
];

/// A holder, a waiter that leaves, and a waiter behind it. A reader behind it holds beside a reader; all others wait for the release.
const ROLES: [(LockMode, LockMode, LockMode); 9] = [
    (Shared, Write, Shared),
    (Shared, Exclusive, Shared),
    (Shared, Write, Exclusive),
    (Write, Shared, Write),
    (Write, Shared, Shared),
    (Write, Exclusive, Shared),
    (Exclusive, Shared, Exclusive),
    (Exclusive, Write, Shared),
    (Exclusive, Exclusive, Write),
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Departure {
    GivesUp,
    Dropped,
    Killed,
    CutOff,
}

async fn in_each_role(cx: &Context, departure: Departure) -> Verdict {
    let semantics = sharing(cx).await?;
    let (client, mut others) = (cx.client().await?, Waiters::of_a_client(cx).await?);
    let mut leavers = match departure {
        Departure::CutOff => Waiters::behind_a_proxy(cx).await?,
        _ => Waiters::of_a_client(cx).await?,
    };
    let has_network = optional(cx.store().proxied(cx.patience()).await)?.is_some();
    // Longer than a store takes to miss a waiter that asks no more, and than it takes for all to come.
    let ttl = cx.ttl() * 3;
    let options = |mode| cx.options().with_ttl(ttl).with_mode(mode);
    let mut rows = Vec::new();
    for (at, (holding, leaving, staying)) in ROLES.into_iter().enumerate() {
        let name = cx.named(&at.to_string());
        // Each is a process; without a network, only a writer's mark shows that it waits.
        if departure == Departure::Killed && (at % 2 == 1 || !(has_network || holding.is_shared())) {
            continue;
        }
        let guard = client.take(&name, &options(holding)).await?;
        let leaves: BoxFuture<'static, Verdict> = match departure {
            Departure::Killed => {
                let (mut process, network) = waiting_process(cx, &name, ttl, leaving).await?;
                Box::pin(async move {
                    let _network = network;
                    process.kill();
                    Ok(())
                })
            }
            Departure::GivesUp | Departure::Dropped | Departure::CutOff => {
                let wait = if departure == Departure::GivesUp { ttl } else { cx.patience() };
                let task = leavers.begin(cx, &name, &options(leaving).with_wait(wait)).await?;
                Box::pin(async move {
                    if departure == Departure::GivesUp {
                        ensure!(task.await?.is_err(), "a lock that stays held was granted");
                    } else if departure == Departure::Dropped {
                        task.abort();
                    }
                    Ok(())
                })
            }
        };
        if holding.is_shared() {
            until_kept_out(cx, &client, &name, leaving).await?;
        }
        let behind = others.begin(cx, &name, &options(staying)).await?;
        rows.push((leaves, guard, behind, (holding, leaving, staying)));
    }
    if departure == Departure::CutOff {
        leavers.set_traffic(Traffic::BlackHole);
    }
    let bound = departure.bound(cx.lease(ttl).max(cx.session_timeout()), &semantics) + cx.slack() * 2;
    let go_on = |(leaves, guard, behind, roles)| {
        others_go_on(&client, leaves, guard, behind, roles, (departure, bound))
    };
    try_join_all(rows.into_iter().map(go_on)).await.map(drop)
}

async fn others_go_on(
    client: &Client,
    leaves: BoxFuture<'static, Verdict>,
    guard: LockGuard,
    behind: TakeTask,
    (holding, leaving, staying): (LockMode, LockMode, LockMode),
    (departure, bound): (Departure, Duration),
) -> Verdict {
    leaves.await?;
    let (name, mut guard) = (guard.name().clone(), Some(guard));
    if !(holding.is_shared() && staying.is_shared()) {
        release_all(guard.take()).await?;
    }
    let when = format!("{departure:?}, a {leaving} lock that waited for a {holding} one");
    let who = format!("{when}: a {staying} lock behind it");
    granted_within(behind, bound, &who).await?.release().await?;
    release_all(guard).await?;
    free_within(client, &name, bound, &when).await.map(drop)
}

impl Departure {
    /// How long a waiter may keep others out when it has left.
    fn bound(self, ttl: Duration, semantics: &Semantics) -> Duration {
        let until_missed = match self {
            Self::GivesUp | Self::Dropped => Duration::ZERO,
            // A connection that is silent is ended after whole seconds.
            Self::CutOff if semantics.crash_bound == CrashBound::Connection => ttl + Duration::from_secs(2),
            Self::Killed | Self::CutOff => ttl,
        };
        until_missed + semantics.wake_up.bound()
    }
}

/// A process that waits for a lock, and its network, if the store has one.
pub(in crate::cases) async fn waiting_process(
    cx: &Context,
    name: &LockName,
    ttl: Duration,
    mode: LockMode,
) -> Result<(Worker, Option<Proxy>), Stop> {
    let network = optional(cx.store().proxied(cx.patience()).await)?;
    let (proxy, address) = network.map_or((None, cx.store().address()), |(proxy, at)| (Some(proxy), at));
    let mut worker = cx.worker_at(&address, &Vec::new()).await?;
    worker.take(&cx.named(&format!("warm-up-{}", fastrand::u64(..))), ttl).await?;
    worker.release().await?;
    let before = proxy.as_ref().map_or(0, Proxy::reply_bytes);
    worker.send(&Request::Acquire(name.clone(), ttl, mode, true)).await?;
    if let Some(proxy) = &proxy {
        until_answered(cx, proxy, before).await?;
    }
    Ok((worker, proxy))
}

/// Waits until a writer that waits for readers keeps a new one out.
async fn until_kept_out(cx: &Context, client: &Client, name: &LockName, writer: LockMode) -> Verdict {
    let (start, bound) = (Instant::now(), client.semantics().wake_up.bound() + cx.slack());
    while let Some(reader) = client.poke_in(name, Shared).await? {
        reader.release().await?;
        let waited = start.elapsed();
        ensure_came!(waited < bound, "a reader was let in before a {writer} lock that waited for {waited:?}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Ok(())
}

async fn attempt_that_does_not_wait_keeps_no_other_out(cx: &Context) -> Verdict {
    let (client, other) = (cx.client().await?, cx.client().await?);
    for (holding, asking) in ROLES.map(|(holding, asking, _)| (holding, asking)) {
        let name = cx.named(&format!("{holding}-{asking}"));
        let guard = hold(cx, &client, &name, holding).await?;
        for round in 0..5 {
            ensure_excluded(&other, &name, &[asking], "one attempt").await?;
            let reader = client.poke_in(&name, Shared).await?;
            let is_as_before = reader.is_some() == holding.is_shared();
            ensure!(is_as_before, "after attempt {round} of a {asking} lock, a reader was kept out");
            release_all(reader).await?;
        }
        guard.release().await?;
        ensure_free(&client, &name, &format!("after attempts of a {asking} lock that did not wait")).await?;
    }
    Ok(())
}

async fn served_writer_keeps_no_reader_out_after_its_release(cx: &Context) -> Verdict {
    let bound = sharing(cx).await?.wake_up.bound() + cx.slack();
    let client = cx.client().await?;
    for mode in NOT_SHARED {
        let name = cx.named(&mode.to_string());
        let reader = hold(cx, &client, &name, Shared).await?;
        let writer = waiter(cx, &name, mode).await?;
        until_kept_out(cx, &client, &name, mode).await?;
        reader.release().await?;
        let writer = granted_within(writer, bound, "a writer after the last reader").await?;
        ensure_excluded(&client, &name, &ALL, "under a writer that has waited").await?;
        writer.release().await?;
        let reader = client.poke_in(&name, Shared).await?;
        ensure!(reader.is_some(), "a {mode} lock was served and released, and keeps readers out");
    }
    Ok(())
}

/// The first or the second of them leaves. From then on readers ask all the time, until the writer that stays has asked again.
async fn second_waiting_writer_keeps_readers_out_when_the_first_leaves(cx: &Context) -> Verdict {
    let bound = sharing(cx).await?.wake_up.bound();
    let client = cx.client().await?;
    for leaves in [0, 1] {
        let name = cx.named(&leaves.to_string());
        let reader = hold(cx, &client, &name, Shared).await?;
        let mut writers = vec![waiter(cx, &name, Write).await?, waiter(cx, &name, Exclusive).await?];
        until_kept_out(cx, &client, &name, Write).await?;
        writers.swap_remove(leaves).abort();
        let left = Instant::now();
        while left.elapsed() < bound.min(cx.slack()) {
            ensure_excluded(&client, &name, &[Shared], "when one of two waiting writers had left").await?;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        reader.release().await?;
        for writer in writers {
            granted_within(writer, bound + cx.slack(), "the writer that stayed").await?.release().await?;
        }
    }
    Ok(())
}

/// Readers hold locks whose names look alike.
async fn waiting_writer_keeps_out_the_readers_of_its_own_name_alone(cx: &Context) -> Verdict {
    let client = cx.client().await?;
    let names = ["a/b", "a", "a/b/c", "a/bb", "a/B", "a/c", "b/b"].map(|name| cx.named(name));
    let mut readers = Vec::new();
    for name in &names {
        readers.push(hold(cx, &client, name, Shared).await?);
    }
    let writer = waiter(cx, &names[0], Write).await?;
    until_kept_out(cx, &client, &names[0], Write).await?;
    for name in &names[1..] {
        let reader = client.poke_in(name, Shared).await?;
        ensure!(reader.is_some(), "a writer waits for {}, and keeps readers out of {name}", names[0]);
        readers.extend(reader);
    }
    writer.abort();
    release_all(readers).await
}
