//! F: tokens that only grow.

use crate::cases::independent_nodes::{IndependentNodes, set_all};
use crate::cases::prelude::*;
use crate::clock::ProcessClock;
use leasehold_core::{FencingToken, TokenClass};

pub(super) const CASES: CaseTable = cases![
    F02 tokens_grow_over_expiry_force_deletion_and_restart,
    F06 renewal_does_not_change_the_token,
    F11 tokens_survive_the_loss_of_all_data,
    F12 tokens_grow_although_majorities_differ,
    F13 tokens_grow_whatever_the_clocks_of_clients_show,
    F14 tokens_grow_over_several_idle_leases,
];

async fn next_token(cx: &Context, client: &Client, name: &LockName) -> Result<FencingToken, Stop> {
    take_turn(client, name, &cx.long_lease()).await
}

async fn tokens_grow_over_expiry_force_deletion_and_restart(cx: &Context) -> Verdict {
    let (client, name) = (cx.client().await?, cx.name());
    let mut last = None;
    let mut ensure_grows = |next: FencingToken, when: &str| -> Verdict {
        ensure_untimed!(last < Some(next), "{when}: token {next} after {last:?}");
        last = Some(next);
        Ok(())
    };
    ensure_grows(next_token(cx, &client, &name).await?, "at first")?;

    let expiring = client.take(&name, &cx.fixed()).await?;
    ensure_grows(expiring.token()?, "after a release")?;
    tokio::time::sleep(cx.ttl() + Duration::from_millis(20)).await;
    let _expired = Context::let_go_unless_lease(&client, expiring);
    ensure_grows(next_token(cx, &client, &name).await?, "after a lease that ended")?;

    if let Some(admin) = client.admin() {
        let forced = client.take(&name, &cx.options()).await?;
        ensure_grows(forced.token()?, "before a forced release")?;
        admin.force_release(&name, None).await?;
        ensure_grows(next_token(cx, &client, &name).await?, "after a forced release")?;
    }

    let deleted = client.take(&name, &cx.options()).await?;
    ensure_grows(deleted.token()?, "before a deletion")?;
    let deletion = cx.store().delete(&name).await;
    optional(deletion.clone())?;
    drop(deleted);
    ensure_grows(next_token(cx, &client, &name).await?, "after a deletion")?;

    let restart = cx.store().restart(true).await;
    optional(restart.clone())?;
    ensure_grows(next_token(cx, &cx.client().await?, &name).await?, "after a restart")?;
    // Too little is shown for a success, of a store that can neither delete nor restart.
    if let (Err(no_deletion), Err(no_restart)) = (deletion, restart) {
        return Err(Stop::Skipped(format!(
            "shown over release, expiry and force only: {no_deletion}; {no_restart}"
        )));
    }
    Ok(())
}

async fn renewal_does_not_change_the_token(cx: &Context) -> Verdict {
    let (client, name) = (cx.client().await?, cx.name());
    let guard = client.take(&name, &cx.options()).await?;
    let token = guard.token()?;
    tokio::time::sleep(cx.ttl() * 3 / 2).await;
    ensure!(guard.token()? == token, "token {} after renewals of {token}", guard.token()?);
    let shown = client.looking()?.inspect(&name).await?;
    ensure!(shown.iter().all(|hold| hold.token == Some(token)), "{shown:?} is shown for {token}");
    Ok(guard.release().await?)
}

async fn tokens_survive_the_loss_of_all_data(cx: &Context) -> Verdict {
    let (client, name) = (cx.client().await?, cx.name());
    let class = client.semantics().token;
    require!(class == TokenClass::Durable, "tokens are declared to live as long as the {class:?}");
    let before = next_token(cx, &client, &name).await?;
    cx.store().wipe().await?;
    let after = next_token(cx, &cx.client().await?, &name).await?;
    ensure_untimed!(after > before, "token {after} after {before}, over the loss of all data");
    Ok(())
}

/// The next hold begins long after the end of anything that a store might keep for as long as a lease. One name was released, one
/// was not.
async fn tokens_grow_over_several_idle_leases(cx: &Context) -> Verdict {
    let (client, released, ended) = (cx.client().await?, cx.named("released"), cx.named("ended"));
    let ttl = cx.ttl() / 2;
    let after_release = take_turn(&client, &released, &cx.options().with_ttl(ttl)).await?;
    let guard = client.take(&ended, &cx.fixed().with_ttl(ttl)).await?;
    let after_end = guard.token()?;
    tokio::time::sleep(ttl * 4).await;
    let _ended = Context::let_go_unless_lease(&client, guard);
    let options = cx.long_lease();
    ensure_larger_token(&client, &released, &options, after_release, "four leases after a release").await?;
    ensure_larger_token(&client, &ended, &options, after_end, "three leases after the end of a lease").await
}

/// The client whose clock is an hour ahead takes the lock first.
async fn tokens_grow_whatever_the_clocks_of_clients_show(cx: &Context) -> Verdict {
    let (client, name, ahead) = (cx.client().await?, cx.name(), ProcessClock::ahead(3600)?);
    let mut worker = cx.worker_at(&cx.store().address(), &ahead.environment()).await?;
    let mut last = 0;
    for _ in 0..3 {
        for whose in ["ahead", "right"] {
            let token = if whose == "ahead" {
                let token = worker.take(&name, cx.ttl()).await?;
                worker.release().await?;
                token
            } else {
                next_token(cx, &client, &name).await?.get()
            };
            ensure_untimed!(token > last, "token {token} after {last}, of a client whose clock is {whose}");
            last = token;
        }
    }
    Ok(())
}

/// The history with which a model checker refutes tokens that are the largest of the nodes' counters: a slow attempt that
/// has been counted on a minority, overtaken by another, is completed where the other has been counted as well.
async fn tokens_grow_although_majorities_differ(cx: &Context) -> Verdict {
    let nodes = IndependentNodes::new(cx).await?;
    let (proxies, address) = nodes.members.proxied().await?;
    let slow = cx.client_at(&address).await?;
    let minority = (nodes.count() - 1) / 2;
    set_all(&proxies[minority..], Traffic::BlackHole);
    let options = cx.options().with_ttl(cx.ttl() * 4);
    let slow = spawn_take(&slow, &nodes.name, &options);
    nodes.until_held(0..minority, true, cx.patience()).await?;
    nodes.end_leases(0..minority).await?;
    let (others, others_address) = nodes.members.proxied().await?;
    set_all(&others[nodes.count() / 2 + 1..], Traffic::BlackHole);
    let fast = cx.client_at(&others_address).await?;
    let first = fast.take(&nodes.name, &options).await?;
    let before = first.token()?;
    nodes.end_leases(0..nodes.count()).await?;
    set_all(&proxies, Traffic::Pass);
    let guard = slow.await??;
    let after = guard.token()?;
    ensure_untimed!(after > before, "token {after} after {before}, of a majority that differs in one node");
    Ok(())
}
