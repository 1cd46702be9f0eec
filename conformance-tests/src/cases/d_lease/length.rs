//! A lease in the store is as long as it was asked for, whatever was asked for beside it; and as long as its holder chooses later.

use super::almost_whole_seconds;
use crate::cases::c_ownership::names::operator;
use crate::cases::prelude::*;
use crate::cases::t_shared_locks::modes::sharing;
use futures_util::future::try_join_all;
use leasehold_core::{HolderInfo, LockMode, LockStatus, LossCause};
use std::collections::HashSet;

pub(super) const CASES: CaseTable = cases![
    D12 max_hold_ends_a_healthy_hold,
    D13 extend_sets_the_time_that_is_left if lease_only,
    D14 extended_length_is_used_by_the_next_renewals if lease_only,
    D17 hold_at_least_keeps_others_out = ensure_held_at_least("released"),
    D19 store_keeps_each_lease_for_as_long_as_was_asked if lease_only,
    D20 renewals_of_one_batch_keep_their_own_ttls if lease_only,
    D21 lost_claim_of_a_batch_is_told_to_its_holder_alone,
    D22 hold_at_least_outlasts_a_dropped_guard = ensure_held_at_least("dropped"),
    D23 renewals_shorten_no_extension_in_the_store if lease_only,
    D26 reader_and_writer_are_shown_as_they_are_and_renewed if lease_only & sharing,
    D24 least_time_of_a_day_is_a_day if lease_only,
];

/// Expects of a lease that the store keeps it for as long as its holder believes, and not for much longer than `ttl`.
async fn ensure_lasts(cx: &Context, other: &Client, guard: &LockGuard, ttl: Duration) -> Verdict {
    let kept = ensure_kept(other, guard, &format!("on a lease of {ttl:?}")).await?;
    let bound = cx.lease(ttl) + cx.slack();
    ensure!(kept <= bound, "a lease of {ttl:?} ends only in {kept:?}");
    Ok(())
}

/// Expects for this long that each of these leases is believed in, and lasts.
async fn ensure_all_last(
    cx: &Context,
    other: &Client,
    held: &[(Duration, LockGuard)],
    time: Duration,
) -> Verdict {
    let end = Instant::now() + time;
    while Instant::now() < end {
        for (ttl, guard) in held {
            let lasts = ensure_lasts(cx, other, guard, *ttl).await;
            ensure_not_lost(guard, format_args!("a lease of {ttl:?} was lost"))?;
            lasts?;
        }
        tokio::time::sleep(cx.ttl() / 20).await;
    }
    Ok(())
}

/// From a second to a day: 24 h are more microseconds than 32 bits can count. Granted, and then extended.
async fn store_keeps_each_lease_for_as_long_as_was_asked(cx: &Context) -> Verdict {
    let (client, other) = (cx.client().await?, cx.client().await?);
    let (short, long) = (cx.ttl() * 3 / 2, [61_250, 3_600_000, 86_400_000].map(Duration::from_millis));
    for ttl in [&[short], &long[..]].concat() {
        let guard = client.take(&cx.named(&format!("{ttl:?}")), &cx.fixed().with_ttl(ttl)).await?;
        ensure_held(&other, guard.name(), "while it is held").await?;
        ensure_lasts(cx, &other, &guard, ttl).await?;
        guard.release().await?;
        ensure_free(&other, &cx.named(&format!("{ttl:?}")), "after a release").await?;
    }
    // Each is extended before much else is done: a machine that is late misses none of them.
    let extended = client.take(&cx.named("extended"), &cx.fixed().with_ttl(short)).await?;
    for ttl in [&[short * 5 / 3], &long[..]].concat() {
        extended.extend(ttl).await?;
        ensure_lasts(cx, &other, &extended, ttl).await?;
    }
    Ok(extended.release().await?)
}

/// Leases of once, twice and four times a ttl, granted at the same time, fall due together.
async fn renewals_of_one_batch_keep_their_own_ttls(cx: &Context) -> Verdict {
    let (client, other) = (cx.client().await?, cx.client().await?);
    let mut held = Vec::new();
    for times in [4, 1, 2] {
        let ttl = cx.ttl() * times;
        held.push((ttl, client.take(&cx.named(&times.to_string()), &cx.options().with_ttl(ttl)).await?));
    }
    // The longest is renewed once by then.
    ensure_all_last(cx, &other, &held, cx.ttl() * 3 / 2).await?;
    release_all(held.into_iter().map(|(_, guard)| guard)).await
}

/// Holds of one client are renewed together: many, or fewer where each needs a connection. The store loses every second one. Half of the
/// others are an owner's.
async fn lost_claim_of_a_batch_is_told_to_its_holder_alone(cx: &Context) -> Verdict {
    let (client, other) = (cx.client().await?, cx.client().await?);
    let pairs = if client.semantics().hold == HoldKind::Lease { 20 } else { 3 };
    let (asked, owner) = (cx.options(), cx.options().with_mode(LockMode::Exclusive));
    let take = async |name: String, options| client.take(&cx.named(&name), options).await;
    let take_pair = async |pair| {
        let kept = if pair % 2 == 0 { &owner } else { &asked };
        tokio::try_join!(take(format!("{pair}-held"), kept), take(format!("{pair}-lost"), &asked))
    };
    // What is taken at one moment is renewed at one moment.
    let (held, lost): (Vec<_>, Vec<_>) = try_join_all((0..pairs).map(take_pair)).await?.into_iter().unzip();
    for guard in &lost {
        end_of(cx, &other, guard.name()).await?;
    }
    loss_within(&lost[0], cx.ttl() + cx.slack()).await?;
    held_for(&other, &held, cx.ttl() * 3 / 2, "renewed beside lost ones").await?;
    for guard in lost {
        let name = guard.name();
        ensure!(guard.loss().is_some(), "{name} was lost with others, and is believed in");
        ensure_free(&other, name, "after its loss").await?;
    }
    release_all(held).await
}

/// Ends a hold behind its holder's back.
async fn end_of(cx: &Context, operator: &Client, name: &LockName) -> Verdict {
    if let Some(admin) = operator.admin() {
        let ended = admin.force_release(name, None).await?;
        ensure!(!ended.is_empty(), "a held lock was not there to be released by force");
        return Ok(());
    }
    let is_deleted = optional(cx.store().delete(name).await)?.is_some();
    require!(is_deleted, "the store has no way to end one hold");
    Ok(())
}

/// Two readers and two writers: each is believed in, shown and renewed as it was asked for.
async fn reader_and_writer_are_shown_as_they_are_and_renewed(cx: &Context) -> Verdict {
    let (client, other, ttl) = (cx.client().await?, cx.client().await?, cx.ttl() * 2);
    let (operator, info) = (other.looking()?, HolderInfo::this_process().with_doing("read"));
    let (mut held, mut owners) = (Vec::new(), HashSet::new());
    let modes = [LockMode::Shared, LockMode::Shared, LockMode::Write, LockMode::Write];
    for (number, mode) in modes.into_iter().enumerate() {
        let options = cx.options().with_ttl(ttl).with_mode(mode).with_holder(&info);
        let guard = client.take(&cx.named(&number.to_string()), &options).await?;
        let (token, believed) = (guard.token()?, guard.remaining());
        ensure!(believed > ttl / 2, "of a new {mode} lease of {ttl:?}, {believed:?} are believed in");
        let shown = operator.inspect(guard.name()).await?;
        let is_shown = |hold: &LockStatus| {
            let is_lease = hold.hold == HoldKind::Lease && hold.ends_in.is_some();
            is_lease && hold.token == Some(token) && hold.holder == info
        };
        ensure!(shown.len() == 1 && is_shown(&shown[0]), "a {mode} lock of {info:?} is shown as {shown:?}");
        let is_new = shown[0].owner.is_none_or(|owner| owners.insert(owner));
        ensure!(is_new, "two holders are shown as the owner {:?}", shown[0].owner);
        held.push((ttl, guard));
    }
    ensure_all_last(cx, &other, &held, ttl * 3 / 2).await?;
    release_all(held.into_iter().map(|(_, guard)| guard)).await
}

/// Its renewals go on while it is extended.
async fn renewals_shorten_no_extension_in_the_store(cx: &Context) -> Verdict {
    let (client, other, name) = (cx.client().await?, cx.client().await?, cx.name());
    let guard = client.take(&name, &cx.options()).await?;
    let longer = cx.ttl() * 4;
    guard.extend(longer).await?;
    let held = [(longer, guard)];
    ensure_all_last(cx, &other, &held, cx.ttl() * 3 / 2).await?;
    release_all(held.into_iter().map(|(_, guard)| guard)).await
}

async fn max_hold_ends_a_healthy_hold(cx: &Context) -> Verdict {
    let (client, other, name) = (cx.client().await?, cx.client().await?, cx.name());
    let limit = cx.ttl() * 2;
    let start = Instant::now();
    let guard = client.take(&name, &cx.options().with_max_hold(limit)).await?;
    let loss = loss_within(&guard, limit + cx.slack()).await?;
    ensure!(loss.cause() == LossCause::MaxHold, "the limit was reported as {:?}", loss.cause());
    ensure!(start.elapsed() >= limit.mul_f64(0.9), "it ended after {:?} of {limit:?}", start.elapsed());
    let _lost = Context::let_go_unless_lease(&client, guard);
    free_within(&other, &name, expiry_bound(cx, &other), "after max_hold").await
}

async fn extend_sets_the_time_that_is_left(cx: &Context) -> Verdict {
    let (client, other, name) = (cx.client().await?, cx.client().await?, cx.name());
    let guard = client.take(&name, &cx.fixed()).await?;
    let longer = cx.ttl() * 3;
    guard.extend(longer).await?;
    let left = guard.remaining();
    ensure!(left <= longer && left >= longer.mul_f64(0.8), "extended to {longer:?}, {left:?} are left");
    guard.extend(cx.ttl() / 2).await?;
    ensure!(guard.remaining() >= longer.mul_f64(0.8), "a shorter extension shortened the lease");
    tokio::time::sleep(cx.ttl() * 3 / 2).await;
    ensure_held(&other, &name, "on the extended lease").await?;
    ensure_kind(guard.extend(Duration::ZERO).await, ErrorKind::Invalid, "an extension by nothing")?;
    Ok(guard.release().await?)
}

async fn extended_length_is_used_by_the_next_renewals(cx: &Context) -> Verdict {
    let (client, name) = (cx.client().await?, cx.name());
    let guard = client.take(&name, &cx.options()).await?;
    let longer = cx.ttl() * 4;
    guard.extend(longer).await?;
    tokio::time::sleep(cx.ttl() * 2).await;
    let left = guard.remaining();
    ensure!(left > longer / 2, "a renewal shrank an extension to {longer:?} back to {left:?}");
    Ok(guard.release().await?)
}

/// Expects that a guard that is released, or dropped, keeps others out for the least time of its hold, although the name is to be
/// forgotten meanwhile.
async fn ensure_held_at_least(cx: &Context, end: &str) -> Verdict {
    let (client, other, name) = (cx.client().await?, cx.client().await?, cx.name());
    let at_least = almost_whole_seconds(cx.ttl() * 3 / 2);
    let options = cx.options().with_ttl(at_least * 3).with_hold_at_least(at_least);
    let operator = operator(cx).await?;
    cx.warm_up(&other).await?;
    let start = Instant::now();
    let guard = client.take(&name, &options).await?;
    match end {
        "dropped" => drop(guard),
        _ => guard.release().await?,
    }
    if let Some(admin) = operator.admin() {
        // Whether it succeeds is for C21.
        let _ = admin.forget(std::slice::from_ref(&name)).await;
    }
    if options.mode() != LockMode::Exclusive {
        for asked in [LockMode::Shared, LockMode::Write] {
            let granted = other.poke_in(&name, asked).await?;
            let (is_granted, may_be) = (granted.is_some(), !asked.conflicts_with(options.mode()));
            let is_early = start.elapsed() < at_least.mul_f64(0.95);
            release_all(granted).await?;
            ensure!(is_granted == may_be || !is_early, "a {end} guard lets a {asked} lock in: {is_granted}");
        }
    }
    let when = format!("after the least time of a {end} guard");
    free_within(&other, &name, cx.lease(at_least) + hand_over_bound(cx, &other), &when).await?;
    let took = start.elapsed();
    ensure_untimed!(took >= at_least.mul_f64(0.95), "a {end} guard held for {took:?}, not for {at_least:?}");
    Ok(())
}

/// By the end that the store shows after the release. Then an operator ends it.
async fn least_time_of_a_day_is_a_day(cx: &Context) -> Verdict {
    let (client, other, name) = (cx.client().await?, cx.client().await?, cx.name());
    let day = AcquireOptions::MAX_TTL;
    let operator = other.looking()?;
    let start = Instant::now();
    client.take(&name, &cx.options().with_hold_at_least(day)).await?.release().await?;
    let left = operator.inspect(&name).await?.first().and_then(|status| status.ends_in);
    let bounds = day - start.elapsed() - cx.slack()..=cx.lease(day);
    operator.force_release(&name, None).await?;
    let endless = || Stop::Failed(format!("a lock that was to be held for {day:?} is shown without an end"));
    let left = left.ok_or_else(endless)?;
    ensure!(bounds.contains(&left), "a lock that was to be held for {day:?} ends in {left:?}");
    ensure_free(&other, &name, "after an operator ended the least time of a hold").await
}
