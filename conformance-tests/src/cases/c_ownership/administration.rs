//! What an operator does to holds, and what a look at them changes: nothing.

use crate::cases::prelude::*;
use crate::cases::t_shared_locks::modes::{ensure_excluded, waiter};
use crate::clock::ProcessClock;
use crate::worker::Request;
use futures_util::future::try_join_all;
use futures_util::{StreamExt, TryStreamExt, stream};
use leasehold_core::LockMode::{self, Exclusive, Shared, Write};
use leasehold_core::{Error, Fairness, FencingToken, LockStatus, Sharing};
use std::collections::BTreeSet;

pub(super) const CASES: CaseTable = cases![
    C09 forced_release_frees_tells_the_holder_and_keeps_tokens_growing = forced_release(Exclusive, 1),
    C19 forced_release_lets_in_the_first_waiter_and_costs_no_place,
    C20 look_shows_each_hold_until_its_end_and_moves_no_end if lease_only,
    C25 look_of_a_client_whose_clock_is_wrong_ends_no_hold,
];

/// Modes in which a name is held, and by how many: readers where the store has them.
pub(in crate::cases) fn crowds(client: &Client) -> &'static [(LockMode, usize)] {
    match client.semantics().sharing {
        Sharing::Unsupported => &[(Exclusive, 1)],
        _ => &[(Exclusive, 1), (Write, 1), (Shared, 4)],
    }
}

/// For holds that are to go on, on a busy machine too.
pub(super) fn long(cx: &Context, mode: LockMode) -> AcquireOptions {
    cx.options().with_ttl(cx.ttl() * 2).with_mode(mode)
}

/// Holds of one name, by turns of two clients.
pub(in crate::cases) async fn crowd(
    clients: [&Client; 2],
    name: &LockName,
    number: usize,
    options: &AcquireOptions,
) -> Result<Vec<LockGuard>, Stop> {
    let take = |at: usize| clients[at % 2].take(name, options);
    stream::iter(0..number).then(take).try_collect().await
}

pub(in crate::cases) fn tokens_of(guards: &[LockGuard]) -> Result<BTreeSet<FencingToken>, Error> {
    guards.iter().map(|guard| guard.token()).collect()
}

/// Expects that the holds of the name with these tokens are told of, each once, and no other.
pub(in crate::cases) fn ensure_told(
    told: &[LockStatus],
    (name, mode, held): (&LockName, LockMode, &BTreeSet<FencingToken>),
    when: &str,
) -> Verdict {
    let tokens = told.iter().filter_map(|hold| hold.token).collect();
    let is_exact = told.len() == held.len() && *held == tokens;
    ensure!(is_exact, "{when}: of the holds {held:?}, {told:?} were told");
    let is_of_them = |hold: &LockStatus| hold.name == *name && hold.mode.is_shared() == mode.is_shared();
    ensure!(told.iter().all(is_of_them), "{when}: {told:?} were told of {mode} locks of {name}");
    Ok(())
}

/// Expects that the store renews these holds, where it is asked to.
pub(super) async fn ensure_go_on(cx: &Context, guards: &[LockGuard], when: &str) -> Verdict {
    for guard in guards {
        match guard.extend(cx.ttl() * 2).await {
            Err(error) if error.kind() == ErrorKind::Unsupported => {}
            outcome => outcome.map_err(|error| Stop::Failed(format!("{when}, another was lost: {error}")))?,
        }
        ensure_not_lost(guard, format_args!("{when}, another was lost"))?;
    }
    Ok(())
}

/// Wrong tokens end nothing, then one hold in the middle is ended, then all that are left.
pub(in crate::cases) async fn forced_release(cx: &Context, mode: LockMode, number: usize) -> Verdict {
    let (client, other, name) = (cx.client().await?, cx.client().await?, cx.name());
    let (admin, options) = (other.looking()?, long(cx, mode));
    // Of tokens with several digits, one may be the beginning of another.
    for _ in 0..10 {
        take_turn(&client, &name, &options).await?;
    }
    let mut guards = crowd([&client, &other], &name, number, &options).await?;
    let of_another = client.take(&cx.named("beside"), &options).await?;
    let tokens = tokens_of(&guards)?;
    let last = tokens.last().copied().unwrap_or(FencingToken::new(0));
    let wrong =
        [of_another.token()?.get(), 1, last.get() / 10, last.get() + 1_000_000].map(FencingToken::new);
    for wrong in wrong.into_iter().filter(|wrong| !tokens.contains(wrong)) {
        let ended = admin.force_release(&name, Some(wrong)).await?;
        ensure!(ended.is_empty(), "the lock of another token was broken: {ended:?}");
    }
    for meant in [Some(number / 2), None] {
        let only_if = meant.map(|at| guards[at].token()).transpose()?;
        let ended: Vec<LockGuard> = match meant {
            Some(at) => vec![guards.remove(at)],
            None => std::mem::take(&mut guards),
        };
        let when = format!("{} of {number} {mode} holds ended by force", ended.len());
        // Before it: a guard that knows of its loss gives no token.
        let (ends, stays) = (tokens_of(&ended)?, tokens_of(&guards)?);
        let told = admin.force_release(&name, only_if).await?;
        ensure_told(&told, (&name, mode, &ends), &when)?;
        ensure_told(&admin.inspect(&name).await?, (&name, mode, &stays), &format!("{when}, then"))?;
        ensure_go_on(cx, &guards, &when).await?;
        for guard in &ended {
            loss_within(guard, cx.ttl() * 2 + cx.slack()).await?;
        }
    }
    ensure_go_on(cx, std::slice::from_ref(&of_another), "the other name").await?;
    ensure_larger_token(&client, &name, &cx.options(), last, "after a hold was ended by force").await?;
    let ended = admin.force_release(&name, None).await?;
    ensure!(ended.is_empty(), "a free lock was broken: {ended:?}");
    Ok(of_another.release().await?)
}

/// Two wait. The first that is served is the first of all, where the store has an order, and the second comes after it.
async fn forced_release_lets_in_the_first_waiter_and_costs_no_place(cx: &Context) -> Verdict {
    let (client, other) = (cx.client().await?, cx.client().await?);
    let (admin, bound) = (other.looking()?, hand_over_bound(cx, &client) + cx.slack());
    let is_fifo = client.semantics().fairness == Fairness::Fifo;
    for (mode, number) in crowds(&client) {
        for at_once in [false, true] {
            let name = cx.named(&format!("{mode}-{at_once}"));
            let guards = crowd([&client, &other], &name, *number, &long(cx, *mode)).await?;
            let (one, two) = (waiter(cx, &name, Exclusive).await?, waiter(cx, &name, Exclusive).await?);
            let tokens =
                if at_once { vec![None] } else { tokens_of(&guards)?.into_iter().map(Some).collect() };
            for token in tokens {
                let early = one.is_finished() || two.is_finished();
                ensure!(!early, "a waiter was let in before all {mode} holds were ended");
                let before = admin.waiters(&name).await?.len();
                admin.force_release(&name, token).await?;
                let after = admin.waiters(&name).await?.len();
                ensure!(after + 1 >= before, "{before} waiters were shown, {after} after a forced release");
                if mode.is_shared() {
                    let when = "when readers were ended by force, and others waited";
                    ensure_excluded(&client, &name, &[Shared], when).await?;
                }
            }
            let served = eventually(bound, || one.is_finished() || two.is_finished()).await;
            ensure_came!(served, "no waiter was let in after {mode} holds were ended");
            let in_order = one.is_finished() || !is_fifo;
            ensure!(in_order, "after a forced release, the second waiter was served first");
            let (first, second) = if one.is_finished() { (one, two) } else { (two, one) };
            let first = first.await??;
            ensure!(!second.is_finished(), "after a forced release, two hold the lock");
            first.release().await?;
            granted_within(second, bound, "the second waiter").await?.release().await?;
            for guard in guards {
                loss_within(&guard, cx.ttl() * 2 + cx.slack()).await?;
            }
        }
    }
    Ok(())
}

async fn look_shows_each_hold_until_its_end_and_moves_no_end(cx: &Context) -> Verdict {
    let (client, other) = (cx.client().await?, cx.client().await?);
    let modes = crowds(&client).iter().map(|(mode, _)| look_until_its_end(cx, &client, &other, *mode));
    try_join_all(modes).await.map(drop)
}

/// One lease ends and another of its kind goes on, of the same name if they are shared. Each way to look shows both until the end,
/// then one; the end stays where it was.
async fn look_until_its_end(cx: &Context, client: &Client, other: &Client, mode: LockMode) -> Verdict {
    let (admin, prefix) = (other.looking()?, format!("{}/{mode}/", cx.mark()));
    let (name, kept) = (cx.named(&format!("{mode}/ends")), cx.named(&format!("{mode}/stays")));
    let kept = if mode.is_shared() { &name } else { &kept };
    let stays = client.take(kept, &cx.options().with_ttl(cx.ttl() * 3).with_mode(mode)).await?;
    let ends = client.take(&name, &cx.fixed().with_mode(mode)).await?;
    let (token, token_kept, end) = (ends.token()?, stays.token()?, Instant::now() + cx.lease(cx.ttl()));
    let mut last = cx.lease(cx.ttl()) + cx.slack();
    while Instant::now() < end + cx.slack() {
        let (believed, asked) = (ends.is_held(), Instant::now());
        let (seen, listed) = (admin.inspect(&name).await?, admin.list(&prefix).await?);
        admin.waiters(&name).await?;
        // Held until after the looks, or over before they began.
        let (must, may) = (believed && ends.is_held(), asked < end + cx.slack() / 2);
        for (shown, how) in [(&seen, "inspect"), (&listed, "list")] {
            let times = shown.iter().filter(|hold| hold.name == name && hold.token == Some(token)).count();
            ensure!(times >= usize::from(must), "`{how}` does not show a {mode} hold that goes on");
            ensure!(times <= usize::from(may), "`{how}` shows a {mode} hold {times} times, or after its end");
        }
        let is_kept = |hold: &&LockStatus| hold.name == *kept && hold.token == Some(token_kept);
        let times = listed.iter().filter(is_kept).count();
        ensure!(times == 1, "a {mode} hold that goes on is listed as {listed:?}");
        let left = seen.iter().find(|hold| hold.token == Some(token)).and_then(|hold| hold.ends_in);
        let left = left.unwrap_or_default();
        ensure!(left <= last, "a look at a {mode} hold has moved its end: {left:?} after {last:?}");
        last = left;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    ensure_go_on(cx, std::slice::from_ref(&stays), "beside looks").await?;
    stays.release().await?;
    ensure_free(client, &name, &format!("after looks at a {mode} hold that has ended")).await
}

async fn look_of_a_client_whose_clock_is_wrong_ends_no_hold(cx: &Context) -> Verdict {
    let (client, other) = (cx.client().await?, cx.client().await?);
    other.looking()?;
    for hours in [-1, 1] {
        let clock = ProcessClock::ahead(hours * 3600)?;
        let mut looker = cx.worker_at(&cx.store().address(), &clock.environment()).await?;
        for (mode, number) in crowds(&client) {
            let name = cx.named(&format!("{mode}-{hours}"));
            let guards = crowd([&client, &other], &name, *number, &long(cx, *mode)).await?;
            let tokens = tokens_of(&guards)?;
            looker.order(Request::Look(name.clone())).await?;
            let when = format!("after a look of a client whose clock is {hours} h ahead");
            ensure_told(&other.looking()?.inspect(&name).await?, (&name, *mode, &tokens), &when)?;
            ensure_go_on(cx, &guards, &when).await?;
            release_all(guards).await?;
        }
    }
    Ok(())
}
