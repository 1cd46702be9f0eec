//! C: only the owner releases and renews; what people can see and do.

use crate::cases::prelude::*;
use leasehold_core::{Fairness, HolderInfo, LockStatus};
use std::collections::HashSet;
use tokio::time::Instant;

pub(super) const CASES: CaseTable = cases![
    C01 loser_that_gives_up_frees_nobodys_lock,
    C02 late_release_frees_no_successor,
    C03 late_release_through_the_same_client_frees_no_successor,
    C04 stale_renewal_touches_no_successor,
    C05 late_renewal_revives_no_ended_lease,
    C06 every_acquisition_has_an_owner_of_its_own,
    C07 holder_info_is_seen_while_held_and_gone_after,
    C08 looking_shows_the_holder_and_changes_nothing,
    C09 forced_release_frees_tells_the_holder_and_keeps_tokens_growing,
    C10 listing_shows_exactly_the_held_names,
    C11 interleaved_attempts_leave_one_holder_that_can_release,
    C12 release_delayed_on_the_wire_frees_no_successor,
    C13 late_release_after_a_deletion_frees_no_successor,
    C14 late_renewal_revives_no_lease_whose_end_nobody_saw,
];

async fn status(client: &Client, name: &LockName) -> Result<Option<LockStatus>, Stop> {
    Ok(client.looking()?.inspect(name).await?.pop())
}

async fn loser_that_gives_up_frees_nobodys_lock(cx: &Context) -> Verdict {
    let (holder, loser, name) = (cx.client().await?, cx.client().await?, cx.name());
    let guard = holder.take(&name, &cx.options()).await?;
    cx.warm_up(&loser).await?;
    let short = AcquireOptions::new().with_wait(cx.slack());
    match loser.acquire_with(&name, &short).await {
        // So short a wait may be over before a busy machine has brought the first answer; then nothing is known.
        Err(error) if error.kind() == ErrorKind::Indeterminate => {}
        outcome => ensure_kind(outcome, ErrorKind::TimedOut, "the loser")?,
    }
    drop(tokio::time::timeout(Duration::from_millis(150), loser.acquire_with(&name, &cx.options())).await);
    tokio::time::sleep(Duration::from_millis(100)).await;
    ensure_held(&loser, &name, "after a loser gave up").await?;
    Ok(guard.release().await?)
}

async fn late_release_frees_no_successor(cx: &Context) -> Verdict {
    let (name, second) = (cx.name(), cx.client().await?);
    let late = cx.outlived(&name).await?;
    let successor = second.take(&name, &cx.options()).await?;
    late.reaches_the_store();
    release_late(late.guard, successor, &second).await
}

async fn late_release_through_the_same_client_frees_no_successor(cx: &Context) -> Verdict {
    let name = cx.name();
    let late = cx.outlived(&name).await?;
    late.reaches_the_store();
    let successor = late.client.take(&name, &cx.options()).await?;
    release_late(late.guard, successor, &late.client).await
}

async fn release_late(late: LockGuard, successor: LockGuard, other: &Client) -> Verdict {
    ensure_kind(late.release().await, ErrorKind::Lost, "the late release")?;
    tokio::time::sleep(Duration::from_millis(100)).await;
    ensure_held(other, successor.name(), "after the late release").await?;
    Ok(successor.release().await?)
}

/// A holder whose renewals are under way in the network while its lease ends.
async fn with_a_renewal_on_the_wire(cx: &Context, name: &LockName) -> Result<(Proxy, LockGuard), Stop> {
    let (proxy, client) = cx.client_behind_proxy(cx.patience()).await?;
    let guard = client.take(name, &cx.options()).await?;
    // The first renewal passes, which is what makes the rest of a lease longer. Its connection is made by then, and a request that
    // the grant has left behind has ended: the proxy reads no other request behind one that it holds.
    let mut last = guard.remaining();
    let is_renewed = || std::mem::replace(&mut last, guard.remaining()) < last;
    ensure!(eventually(cx.ttl() * 2, is_renewed).await, "no renewal was confirmed: {:?}", guard.loss());
    // Read before: a renewal between the two lines may be held already, and the next is not read behind it.
    let before = proxy.request_bytes();
    proxy.set(Traffic::BlackHole);
    let sent = eventually(cx.ttl(), || proxy.request_bytes() > before).await;
    ensure!(sent, "no renewal was sent within a lease of {:?}", cx.ttl());
    loss_within(&guard, cx.ttl() + cx.slack()).await?;
    Ok((proxy, guard))
}

async fn stale_renewal_touches_no_successor(cx: &Context) -> Verdict {
    let name = cx.name();
    let (proxy, _stale) = with_a_renewal_on_the_wire(cx, &name).await?;
    let (second, third) = (cx.client().await?, cx.client().await?);
    // A successor whose lease is much longer than the one that the stale renewal would give it.
    let long = cx.fixed().with_ttl(cx.ttl() * 6);
    let successor = second.take(&name, &long).await?;
    proxy.set(Traffic::Pass);
    tokio::time::sleep(cx.ttl() * 3 / 2).await;
    ensure!(successor.is_held(), "the successor lost its lock");
    ensure_held(&third, &name, "after the stale renewal arrived").await?;
    Ok(successor.release().await?)
}

async fn late_renewal_revives_no_ended_lease(cx: &Context) -> Verdict {
    let (client, name) = (cx.client().await?, cx.name());
    let (proxy, stale) = with_a_renewal_on_the_wire(cx, &name).await?;
    // The store ends the lease a little after the holder does; only then may the late renewal arrive.
    let bound = cx.ttl() / 4 + cx.slack() + client.semantics().wake_up.bound();
    free_within(&client, &name, bound, "after the lease ended").await?;
    proxy.set(Traffic::Pass);
    tokio::time::sleep(Duration::from_millis(200)).await;
    ensure!(!stale.is_held(), "a lost lock is held again");
    ensure_free(&client, &name, "after the late renewal arrived").await
}

/// An acquisition would remove the record of the last hold, so none is made before the late renewal arrives.
async fn late_renewal_revives_no_lease_whose_end_nobody_saw(cx: &Context) -> Verdict {
    let (client, name) = (cx.client().await?, cx.name());
    if client.semantics().hold != HoldKind::Lease {
        return Err(Stop::Skipped("a hold here is no lease, and ends when the store says so".to_owned()));
    }
    let (proxy, stale) = with_a_renewal_on_the_wire(cx, &name).await?;
    tokio::time::sleep(cx.ttl() / 4 + cx.slack()).await;
    proxy.set(Traffic::Pass);
    tokio::time::sleep(Duration::from_millis(200)).await;
    ensure!(!stale.is_held(), "a lost lock is held again");
    ensure_free(&client, &name, "after the late renewal arrived").await
}

async fn every_acquisition_has_an_owner_of_its_own(cx: &Context) -> Verdict {
    let (client, name) = (cx.client().await?, cx.name());
    let mut owners = HashSet::new();
    for _ in 0..200 {
        let guard = client.take(&name, &AcquireOptions::new()).await?;
        let owner = status(&client, &name).await?.and_then(|status| status.owner);
        let Some(owner) = owner else {
            return Err(Stop::Skipped("the store shows no owner".to_owned()));
        };
        ensure!(owners.insert(owner), "two acquisitions had the same owner {owner}");
        guard.release().await?;
    }
    Ok(())
}

async fn holder_info_is_seen_while_held_and_gone_after(cx: &Context) -> Verdict {
    let (client, name) = (cx.client().await?, cx.name());
    let info = HolderInfo::this_process().with_doing("Reindex “Ü” '\"\\").with_label("version", "1.4.2");
    let guard = client.take(&name, &cx.options().with_holder(&info)).await?;
    let seen = status(&cx.client().await?, &name).await?.map(|status| status.holder);
    ensure!(seen.as_ref() == Some(&info), "stored {info:?}, seen {seen:?}");
    guard.release().await?;
    let seen = status(&client, &name).await?;
    ensure!(seen.is_none(), "a released lock still shows {seen:?}");
    Ok(())
}

async fn looking_shows_the_holder_and_changes_nothing(cx: &Context) -> Verdict {
    let (client, other, name) = (cx.client().await?, cx.client().await?, cx.name());
    let ttl = cx.ttl() * 2;
    let guard = client.take(&name, &cx.fixed().with_ttl(ttl)).await?;
    // A store may round a lease up.
    let (token, mut last) = (guard.token()?, ttl + cx.slack());
    for _ in 0..5 {
        let Some(seen) = status(&other, &name).await? else {
            return Err(Stop::Failed("a held lock is not shown".to_owned()));
        };
        ensure!(seen.token == Some(token), "token {:?} is shown", seen.token);
        let hold = other.semantics().hold;
        let lease = hold == HoldKind::Lease;
        ensure!(seen.hold == hold, "a hold is declared to be a {hold:?}, and shown as a {:?}", seen.hold);
        ensure!(!seen.mode.is_shared(), "a hold that excludes all others is shown as {}", seen.mode);
        ensure!(lease == seen.ends_in.is_some(), "a hold that is no lease ends in {:?}", seen.ends_in);
        let ends_in = seen.ends_in.unwrap_or(last / 2);
        ensure!(
            ends_in <= last && !ends_in.is_zero(),
            "{ends_in:?} are left after {last:?}: looking changed the lease"
        );
        last = ends_in;
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    let waiters = other.looking()?.waiters(&name).await?;
    let fifo = other.semantics().fairness == Fairness::Fifo;
    ensure!(waiters.is_empty() || fifo, "waiters of a store without a queue: {waiters:?}");
    ensure!(guard.is_held(), "looking at a lock lost it");
    tokio::time::sleep(ttl).await;
    let _ended = Context::let_go_unless_lease(&client, guard);
    let start = Instant::now();
    while status(&other, &name).await?.is_some() {
        ensure!(start.elapsed() < cx.slack(), "a lock whose hold is over is shown as held");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

async fn forced_release_frees_tells_the_holder_and_keeps_tokens_growing(cx: &Context) -> Verdict {
    let (client, operator, name) = (cx.client().await?, cx.client().await?, cx.name());
    let guard = client.take(&name, &cx.options()).await?;
    let token = guard.token()?;
    let wrong = leasehold_core::FencingToken::new(token.get() + 1);
    let spared = operator.looking()?.force_release(&name, Some(wrong)).await?;
    ensure!(spared.is_empty() && guard.is_held(), "the lock of another token was broken: {spared:?}");
    let broken = operator.looking()?.force_release(&name, Some(token)).await?;
    ensure!(
        broken.first().and_then(|status| status.token) == Some(token),
        "the broken lock is not the one that was held"
    );
    let next = operator.take(&name, &cx.options()).await?;
    ensure!(next.token()? > token, "token {} after the broken {token}", next.token()?);
    loss_within(&guard, cx.ttl() + cx.slack()).await?;
    ensure!(
        operator.looking()?.force_release(&cx.named("free"), None).await?.is_empty(),
        "a free lock was broken"
    );
    Ok(next.release().await?)
}

async fn listing_shows_exactly_the_held_names(cx: &Context) -> Verdict {
    let client = cx.client().await?;
    let mut guards = Vec::new();
    // `%` and `_` are wildcards in SQL, `*`, `?` and `[` in Redis.
    for name in ["list/a", "list/b", "list/%", "list/_x", "list/*", "list/[a]", "lis", "other"] {
        guards.push(client.take(&cx.named(name), &AcquireOptions::new()).await?);
    }
    client.take(&cx.named("list/done"), &AcquireOptions::new()).await?.release().await?;
    let listed = |prefix: &'static str| {
        let client = client.clone();
        async move {
            let found = client.looking()?.list(&format!("{}/{prefix}", cx.mark())).await?;
            let names =
                found.iter().map(|status| status.name.to_string().replace(&format!("{}/", cx.mark()), ""));
            Ok::<Vec<String>, Stop>(names.collect())
        }
    };
    let all = listed("list/").await?;
    ensure!(all == ["list/%", "list/*", "list/[a]", "list/_x", "list/a", "list/b"], "listed {all:?}");
    for prefix in ["list/%", "list/_", "list/*", "list/["] {
        let some = listed(prefix).await?;
        ensure!(some.len() == 1, "{prefix:?} is a prefix, not a pattern: listed {some:?}");
    }
    Ok(())
}

/// Two attempts at a lock whose lease has just ended, or that was just given back, one of them slow: its first reply is
/// held while the other finishes. The attempt that reports a grant must really hold the lock.
async fn interleaved_attempts_leave_one_holder_that_can_release(cx: &Context) -> Verdict {
    let (name, direct) = (cx.name(), cx.client().await?);
    let over = direct.take(&name, &cx.fixed()).await?;
    let (proxy, slow) = cx.client_behind_proxy(cx.patience()).await?;
    cx.warm_up(&slow).await?;
    tokio::time::sleep(cx.ttl() + Duration::from_millis(20)).await;
    let _over = Context::let_go_unless_lease(&direct, over);

    // A store may round a lease up: then both are refused until it is over.
    let over_by = Instant::now() + cx.slack();
    let holder = loop {
        let mut holders = interleaved(cx, (&proxy, &slow), &direct, &name).await?;
        ensure!(holders.len() < 2, "{} holders of one lock", holders.len());
        match holders.pop() {
            Some(holder) => break holder,
            None => ensure!(Instant::now() < over_by, "nobody got a lock whose lease is over"),
        }
    };
    let released = holder.release().await;
    ensure!(released.is_ok(), "the one holder could not release: another attempt overwrote it: {released:?}");
    ensure_free(&direct, &name, "after the one holder's release").await
}

/// The guards of two single attempts, one of which is answered only when the other has its answer.
async fn interleaved(
    cx: &Context,
    (proxy, slow): (&Proxy, &Client),
    fast: &Client,
    name: &LockName,
) -> Result<Vec<LockGuard>, Stop> {
    proxy.set(Traffic::HoldReplies);
    let before = proxy.reply_bytes();
    let (wanted, slow) = (name.clone(), slow.clone());
    let attempt = tokio::spawn(async move { slow.poke(&wanted).await });
    let answered = eventually(cx.patience(), || proxy.reply_bytes() > before).await;
    ensure!(answered, "the slow attempt was never answered by the store");
    let fast = fast.poke(name).await?;
    proxy.set(Traffic::Pass);
    Ok(fast.into_iter().chain(attempt.await??).collect())
}

/// The release was sent in time; its first reply is held until the lease is over and somebody else holds the lock.
async fn release_delayed_on_the_wire_frees_no_successor(cx: &Context) -> Verdict {
    let (name, direct) = (cx.name(), cx.client().await?);
    let (proxy, client) = cx.client_behind_proxy(cx.patience()).await?;
    let guard = client.take(&name, &cx.fixed()).await?;
    proxy.set(Traffic::HoldReplies);
    let before = proxy.reply_bytes();
    let release = tokio::spawn(guard.release());
    let answered = eventually(cx.ttl(), || proxy.reply_bytes() > before).await;
    ensure!(answered, "the store answered no release while the lease lasted");
    let successor = direct.take(&name, &AcquireOptions::new().with_wait(cx.patience())).await?;
    proxy.set(Traffic::Pass);
    let _ = release.await?;
    tokio::time::sleep(Duration::from_millis(100)).await;
    ensure_held(&direct, &name, "after the delayed release went on").await?;
    Ok(successor.release().await?)
}

/// What an administrator deletes is made anew by the next holder. Where places have numbers, those begin anew, too: the
/// successor's may be the late holder's.
async fn late_release_after_a_deletion_frees_no_successor(cx: &Context) -> Verdict {
    let (holder, second, name) = (cx.client().await?, cx.client().await?, cx.name());
    let late = holder.take(&name, &cx.options()).await?;
    if optional(cx.store().delete_queue(&name).await)?.is_none() {
        cx.store().delete(&name).await?;
    }
    let successor = second.take(&name, &cx.options()).await?;
    release_late(late, successor, &second).await
}
