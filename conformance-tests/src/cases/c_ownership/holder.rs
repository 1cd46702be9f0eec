//! The owner of a hold, and the holder that people see.

use crate::cases::prelude::*;
use leasehold_core::{ExpiryClock, Fairness, HolderInfo, LockStatus};
use std::collections::HashSet;

pub(super) const CASES: CaseTable = cases![
    C06 every_acquisition_has_an_owner_of_its_own,
    C08 looking_shows_the_holder_and_changes_nothing,
    C10 listing_shows_exactly_the_held_names,
    C17 processes_of_one_pid_are_different_owners_whatever_their_boot_clocks,
];

async fn status(client: &Client, name: &LockName) -> Result<Option<LockStatus>, Stop> {
    Ok(client.looking()?.inspect(name).await?.pop())
}

async fn every_acquisition_has_an_owner_of_its_own(cx: &Context) -> Verdict {
    let (client, name) = (cx.client().await?, cx.name());
    let mut owners = HashSet::new();
    for _ in 0..200 {
        let guard = client.take(&name, &AcquireOptions::new()).await?;
        let owner = status(&client, &name).await?.and_then(|status| status.owner);
        let owner = owner.ok_or_else(|| Stop::Skipped("the store shows no owner".to_owned()))?;
        ensure!(owners.insert(owner), "two acquisitions had the same owner {owner}");
        guard.release().await?;
    }
    Ok(())
}

/// By another client, several times. After its release, nobody is shown.
async fn looking_shows_the_holder_and_changes_nothing(cx: &Context) -> Verdict {
    let (client, other, name) = (cx.client().await?, cx.client().await?, cx.name());
    let (declared, mut last) = (other.semantics().hold, cx.lease(cx.ttl() * 2) + cx.slack());
    let guard = client.take(&name, &cx.fixed().with_ttl(cx.ttl() * 2)).await?;
    let token = guard.token()?;
    for _ in 0..5 {
        let seen = status(&other, &name).await?;
        let seen = seen.ok_or_else(|| Stop::Failed("a held lock is not shown".to_owned()))?;
        ensure!(seen.token == Some(token), "token {:?} is shown", seen.token);
        ensure!(seen.hold == declared, "a hold is a {declared:?}, and is shown as a {:?}", seen.hold);
        ensure!(!seen.mode.is_shared(), "a hold that excludes all others is shown as {}", seen.mode);
        let is_lease = declared == HoldKind::Lease;
        ensure!(is_lease == seen.ends_in.is_some(), "a hold that is no lease ends in {:?}", seen.ends_in);
        let ends_in = seen.ends_in.unwrap_or(last / 2);
        ensure!(!ends_in.is_zero() && ends_in <= last, "looked at: {ends_in:?} are left after {last:?}");
        last = ends_in;
    }
    let waiters = other.looking()?.waiters(&name).await?;
    let fifo = other.semantics().fairness == Fairness::Fifo;
    ensure!(waiters.is_empty() || fifo, "waiters of a store without a queue: {waiters:?}");
    ensure!(guard.is_held(), "looking at a lock lost it");
    guard.release().await?;
    let seen = status(&client, &name).await?;
    ensure!(seen.is_none(), "a released lock still shows {seen:?}");
    Ok(())
}

async fn listing_shows_exactly_the_held_names(cx: &Context) -> Verdict {
    let (client, other) = (cx.client().await?, cx.client().await?);
    let info = HolderInfo::this_process().with_doing("Reindex “Ü” '\"\\").with_label("version", "1.4.2");
    let options = AcquireOptions::new().with_holder(&info);
    let mut guards = Vec::new();
    // `%` and `_` are wildcards in SQL, `*`, `?` and `[` in Redis.
    for name in ["list/a", "list/b", "list/%", "list/_x", "list/*", "list/[a]", "lis", "other"] {
        let guard = client.take(&cx.named(name), &options).await?;
        let seen = status(&other, guard.name()).await?.map(|status| status.holder);
        ensure!(seen.as_ref() == Some(&info), "stored {info:?}, seen {seen:?}");
        guards.push(guard);
    }
    client.take(&cx.named("list/done"), &AcquireOptions::new()).await?.release().await?;
    let listed = async |prefix: &str| {
        let root = format!("{}/", cx.mark());
        let found = client.looking()?.list(&format!("{root}{prefix}")).await?;
        let names = found.iter().map(|status| status.name.as_str().replace(&root, ""));
        Ok::<Vec<String>, Stop>(names.collect())
    };
    let all = listed("list/").await?;
    ensure!(all == ["list/%", "list/*", "list/[a]", "list/_x", "list/a", "list/b"], "listed {all:?}");
    for prefix in ["list/%", "list/_", "list/*", "list/["] {
        let some = listed(prefix).await?;
        ensure!(some.len() == 1, "{prefix:?} is a prefix, not a pattern: listed {some:?}");
    }
    Ok(())
}

/// As in containers: each process is process 1 in its own namespace. The boot clock of the last is a day ahead of the others', as
/// that of another host is; where a lease ends by the clock that the processes of a host share, there is no such process.
async fn processes_of_one_pid_are_different_owners_whatever_their_boot_clocks(cx: &Context) -> Verdict {
    const DAY: Duration = Duration::from_secs(86_400);
    let semantics = cx.semantics().await?;
    cx.reaches_other_processes().await?;
    let (name, address) = (cx.name(), cx.store().address());
    let start = |ahead| Worker::start_as_process_one(cx.subject().name(), &address, ahead);
    let mut holder = start(Duration::ZERO).await?;
    holder.take(&name, cx.ttl()).await?;
    for ahead in [Duration::ZERO, DAY] {
        if ahead == DAY && semantics.expiry_clock == ExpiryClock::Host {
            continue;
        }
        let is_granted = start(ahead).await?.try_take(&name, cx.ttl()).await?;
        let other = format!("another process 1, whose boot clock is {ahead:?} ahead");
        ensure!(!is_granted, "{other}, got a held lock");
        holder.ensure_not_lost(&format!("after an attempt of {other}")).await?;
    }
    holder.release().await
}
