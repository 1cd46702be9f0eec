//! What an operator does to holds and names, and what a look at them changes: nothing.

use crate::cases::declared::hand_over_bound;
use crate::cases::outcomes::{ensure_larger_token, until_records_are_gone};
use crate::cases::prelude::*;
use crate::cases::t_shared_locks::modes::waiter;
use crate::cases::tasks::{granted_within, joined, take_turn};
use crate::clock::SteppedClock;
use crate::worker::Request;
use futures_util::future::try_join_all;
use futures_util::{StreamExt, TryStreamExt, stream};
use leasehold_core::LockMode::{self, Exclusive, Shared, Write};
use leasehold_core::{Error, Fairness, FencingToken, LockStatus, Purge, Sharing};
use std::collections::BTreeSet;
use tokio::task::JoinSet;
use tokio::time::Instant;

pub(super) const CASES: CaseTable = cases![
    C09 forced_release_frees_tells_the_holder_and_keeps_tokens_growing,
    C19 forced_release_lets_in_the_first_waiter_and_costs_no_place,
    C20 look_shows_each_hold_until_its_end_and_moves_no_end,
    C21 forget_keeps_what_is_held_or_looks_alike,
    C22 forget_leaves_nothing_of_a_free_name,
    C23 purge_refuses_a_time_below_an_hour,
    C24 list_of_many_names_is_whole_while_others_come_and_go(half, load),
    C25 look_of_a_client_whose_clock_is_wrong_ends_no_hold,
];

/// Modes in which a name is held, and by how many: readers where the store has them.
fn crowds(client: &Client) -> &'static [(LockMode, usize)] {
    match client.semantics().sharing {
        Sharing::Unsupported => &[(Exclusive, 1)],
        _ => &[(Exclusive, 1), (Write, 1), (Shared, 4)],
    }
}

/// For holds that are to go on, on a busy machine too.
fn long(cx: &Context, mode: LockMode) -> AcquireOptions {
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
async fn ensure_go_on(cx: &Context, guards: &[LockGuard], when: &str) -> Verdict {
    for guard in guards {
        match guard.extend(cx.ttl() * 2).await {
            Err(error) if error.kind() == ErrorKind::Unsupported => {}
            outcome => outcome.map_err(|error| Stop::Failed(format!("{when}, another was lost: {error}")))?,
        }
        ensure!(guard.is_held(), "{when}, another was lost: {:?}", guard.loss());
    }
    Ok(())
}

async fn forced_release_frees_tells_the_holder_and_keeps_tokens_growing(cx: &Context) -> Verdict {
    forced_release(cx, Exclusive, 1).await
}

/// Wrong tokens end nothing, then one hold in the middle is ended, then all that are left.
pub(in crate::cases) async fn forced_release(cx: &Context, mode: LockMode, number: usize) -> Verdict {
    let (client, other, name) = (cx.client().await?, cx.client().await?, cx.name());
    let (admin, options) = (other.looking()?, long(cx, mode));
    let mut guards = crowd([&client, &other], &name, number, &options).await?;
    let of_another = client.take(&cx.named("beside"), &options).await?;
    let tokens = tokens_of(&guards)?;
    let last = tokens.last().copied().unwrap_or(FencingToken::new(0));
    let wrong = [of_another.token()?, FencingToken::new(1), FencingToken::new(last.get() + 1_000_000)];
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
                ensure!(
                    after + 1 >= before,
                    "{before} waiters were shown, and {after} after a forced release"
                );
            }
            let served = eventually(bound, || one.is_finished() || two.is_finished()).await;
            ensure!(served, "no waiter was let in after {mode} holds were ended");
            ensure!(
                one.is_finished() || !is_fifo,
                "after a forced release, the second waiter was served first"
            );
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
    let is_lease = client.semantics().hold == HoldKind::Lease;
    require!(is_lease, "a hold here is no lease, and has no end of its own");
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
    let (token, token_kept, end) = (ends.token()?, stays.token()?, Instant::now() + cx.ttl());
    let mut last = cx.ttl() + cx.slack();
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
        ensure!(
            listed.iter().filter(is_kept).count() == 1,
            "a {mode} hold that goes on is listed as {listed:?}"
        );
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

/// A client that may forget names.
async fn operator(cx: &Context) -> Result<Client, Stop> {
    let address = cx.store().administrator().and_then(|administrator| administrator.address_of_operator());
    cx.client_at(&optional(address)?.unwrap_or_else(|| cx.store().address())).await
}

/// Names that begin with each other, or differ in what a pattern would take for the same.
async fn forget_keeps_what_is_held_or_looks_alike(cx: &Context) -> Verdict {
    let (client, other, operator) = (cx.client().await?, cx.client().await?, operator(cx).await?);
    let admin = operator.looking()?;
    let (free, alike) = (cx.named("a"), ["a/b", "aa", "a:", "A"].map(|name| cx.named(name)));
    let mut tokens = Vec::new();
    for name in &alike {
        tokens.push(take_turn(&client, name, &cx.options()).await?);
    }
    take_turn(&client, &free, &cx.options()).await?;
    let mut held = Vec::new();
    for (mode, number) in crowds(&client) {
        let name = cx.named(&format!("a/{mode}"));
        let guards = crowd([&client, &other], &name, *number, &long(cx, *mode)).await?;
        let waits = waiter(cx, &name, Exclusive).await?;
        held.push((*mode, name, tokens_of(&guards)?, guards, waits));
    }
    let never = cx.named("a/never");
    let names: Vec<LockName> = held.iter().map(|(_, name, ..)| name.clone()).collect();
    admin.forget(&[]).await?;
    admin.forget(&[&names[..], &[free.clone(), never.clone(), free.clone()]].concat()).await?;
    for name in names.iter().chain([&free, &never]) {
        admin.forget(std::slice::from_ref(name)).await?;
    }
    for (mode, name, mut tokens, guards, waits) in held {
        let shown = admin.inspect(&name).await?;
        ensure_told(&shown, (&name, mode, &tokens), "a held name that was to be forgotten")?;
        ensure_held(&other, &name, &format!("{mode} holds, of a name that was to be forgotten")).await?;
        let last = tokens.pop_last();
        ensure_go_on(cx, &guards, "of a name that was to be forgotten").await?;
        ensure!(!waits.is_finished(), "a waiter was let in when a held name was to be forgotten");
        release_all(guards).await?;
        let next = granted_within(waits, hand_over_bound(cx, &client) + cx.slack(), "its waiter").await?;
        let token = next.token().ok();
        ensure!(token > last, "token {token:?} after {last:?}, over what was to forget a held name");
        next.release().await?;
    }
    for (name, last) in alike.iter().zip(tokens) {
        ensure_larger_token(&client, name, &cx.options(), last, "when a name like it was forgotten").await?;
    }
    ensure_free(&client, &free, "which was forgotten").await
}

/// Names that were released, held by readers, and left to end with their lease.
async fn forget_leaves_nothing_of_a_free_name(cx: &Context) -> Verdict {
    let (client, is_lease) = (cx.client().await?, cx.semantics().await?.hold == HoldKind::Lease);
    cx.warm_up(&client).await?;
    let operator = operator(cx).await?;
    let (admin, before) = (operator.looking()?, cx.store().records().await?);
    let mut names = Vec::new();
    for (mode, number) in crowds(&client) {
        for at in 0..5 {
            let name = cx.named(&format!("{mode}-{at}"));
            let options = if at == 0 && is_lease { cx.fixed() } else { cx.options() };
            let guards = crowd([&client; 2], &name, *number, &options.with_mode(*mode)).await?;
            match at == 0 && is_lease {
                true => loss_within(&guards[number - 1], cx.ttl() + cx.slack()).await.map(drop)?,
                false => release_all(guards).await?,
            }
            names.push(name);
        }
    }
    // By the store's clock, the last lease may end a moment later.
    tokio::time::sleep(cx.slack() / 5).await;
    admin.forget(&names).await?;
    until_records_are_gone(cx, before, cx.slack(), "15 free names were to be forgotten").await
}

async fn purge_refuses_a_time_below_an_hour(cx: &Context) -> Verdict {
    let client = cx.client().await?;
    for purge in [Purge::Count, Purge::Delete] {
        for idle in [Duration::ZERO, Duration::from_secs(1), Duration::from_millis(3_599_999)] {
            let outcome = client.looking()?.purge(idle, purge).await;
            ensure_kind(
                outcome,
                ErrorKind::Invalid,
                &format!("a purge ({purge:?}) of names idle for {idle:?}"),
            )?;
        }
    }
    Ok(())
}

/// More than a page of any store's cursor. Meanwhile, others come and go among them.
async fn list_of_many_names_is_whole_while_others_come_and_go(cx: &Context) -> Verdict {
    let (client, other) = (cx.client().await?, cx.client().await?);
    // Each has a connection.
    let is_dear = client.semantics().hold == HoldKind::Connection;
    let (many, few) = if is_dear { (24, 8) } else { (1_200, 300) };
    let (admin, options) = (other.looking()?, AcquireOptions::new());
    let many_names = (0..many).map(|n| format!("many/{n}")).chain((0..few).map(|n| format!("many-{n}")));
    let names: BTreeSet<LockName> = many_names.map(|name| cx.named(&name)).collect();
    let take = |name: LockName| {
        let (client, options) = (&client, &options);
        async move { client.take(&name, options).await }
    };
    let taken = stream::iter(names.clone()).map(take).buffer_unordered(4);
    let guards: Vec<LockGuard> = taken.try_collect().await?;
    let mut comers = JoinSet::new();
    for comer in 0..2 {
        let (other, name, options) =
            (other.clone(), cx.named(&format!("many/{comer}-comes")), options.clone());
        comers.spawn(async move {
            loop {
                take_turn(&other, &name, &options).await?;
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            #[expect(unreachable_code, reason = "names the type of the errors")]
            Ok::<(), Stop>(())
        });
    }
    for prefix in ["many/", "many", "many-", "many/7", "nothing"] {
        let prefix = format!("{}/{prefix}", cx.mark());
        let held = names.iter().filter(|name| name.as_str().starts_with(&prefix));
        let held: BTreeSet<&LockName> = held.collect();
        let listed = admin.list(&prefix).await?;
        let mut listed: Vec<&LockName> = listed.iter().map(|hold| &hold.name).collect();
        ensure!(listed.is_sorted(), "a list of {} names is not in their order", listed.len());
        let all = listed.len();
        listed.dedup();
        ensure!(listed.len() == all, "{all} names are listed, and {} of them are different", listed.len());
        listed.retain(|name| !name.as_str().ends_with("-comes"));
        let listed: BTreeSet<&LockName> = listed.into_iter().collect();
        let (missing, all) = (held.difference(&listed).count(), held.len());
        ensure!(missing == 0, "below {prefix}, {missing} of {all} held names are not listed");
        ensure!(listed.len() == all, "below {prefix}, {} names are listed, and {all} are held", listed.len());
    }
    comers.shutdown().await;
    let all = admin.list("").await?.len();
    ensure!(all >= guards.len(), "{all} names are listed in all, and {} are held", guards.len());
    let mut released = JoinSet::new();
    guards.into_iter().for_each(|guard| drop(released.spawn(guard.release())));
    joined(released).await.map(drop)
}

async fn look_of_a_client_whose_clock_is_wrong_ends_no_hold(cx: &Context) -> Verdict {
    let (client, other) = (cx.client().await?, cx.client().await?);
    for hours in [-1, 1] {
        let clock = SteppedClock::ahead(hours * 3600)?;
        let mut looker = cx.worker_at(&cx.store().address(), &clock.environment()).await?;
        for (mode, number) in crowds(&client) {
            let name = cx.named(&format!("{mode}-{hours}"));
            let guards = crowd([&client, &other], &name, *number, &long(cx, *mode)).await?;
            let tokens = tokens_of(&guards)?;
            looker.send(&Request::Look(name.clone())).await?;
            looker.done().await?;
            let when = format!("after a look of a client whose clock is {hours} h ahead");
            ensure_told(&other.looking()?.inspect(&name).await?, (&name, *mode, &tokens), &when)?;
            ensure_go_on(cx, &guards, &when).await?;
            release_all(guards).await?;
        }
    }
    Ok(())
}
