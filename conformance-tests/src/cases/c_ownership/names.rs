//! What an operator does to names: forgets, purges and lists them.

use super::administration::{crowd, crowds, ensure_go_on, ensure_told, long, tokens_of};
use crate::cases::prelude::*;
use crate::cases::t_shared_locks::modes::waiter;
use futures_util::{StreamExt, TryStreamExt, stream};
use leasehold_core::LockMode::Exclusive;
use std::collections::BTreeSet;

pub(super) const CASES: CaseTable = cases![
    C21 forget_keeps_held_names_and_those_that_look_alike,
    C22 forget_leaves_nothing_of_a_free_name,
    C24 list_of_many_names_is_whole_while_others_come_and_go(Quarter, Load),
];

/// A client that may forget names.
pub(in crate::cases) async fn operator(cx: &Context) -> Result<Client, Stop> {
    let address = cx.store().administrator().and_then(|administrator| administrator.address_of_operator());
    cx.client_at(&optional(address)?.unwrap_or_else(|| cx.store().address())).await
}

/// Names that begin with each other, or differ in what a pattern would take for the same.
async fn forget_keeps_held_names_and_those_that_look_alike(cx: &Context) -> Verdict {
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
        ensure_untimed!(token > last, "token {token:?} after {last:?}, over what was to forget a held name");
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
    // By the store's clock, the last lease ends later, and at a whole second if the store counts in seconds.
    tokio::time::sleep(cx.lease(cx.ttl()) - cx.ttl() + cx.slack() / 5).await;
    admin.forget(&names).await?;
    until_records_gone(cx, before, cx.slack(), "15 free names were to be forgotten").await
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
            for _ in 0_u64.. {
                take_turn(&other, &name, &options).await?;
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            Ok::<_, Stop>(())
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
