//! Servers that know nothing of each other: a majority of them decides, and no one of them knows what the others said.

use crate::cases::independent_nodes::{IndependentNodes, set_all};
use crate::cases::prelude::*;

pub(super) const CASES: CaseTable = cases![
    J06 nodes_that_fail_cost_nothing_until_they_are_a_majority,
    J07 failed_attempt_leaves_nothing_on_any_node,
    J08 node_that_forgets_is_given_its_locks_again,
    J09 grant_that_came_late_is_held_no_longer_than_its_lease,
    J31 lease_that_ended_on_most_nodes_is_never_brought_back,
    J32 halves_of_a_split_do_not_both_grant,
];

async fn nodes_that_fail_cost_nothing_until_they_are_a_majority(cx: &Context) -> Verdict {
    let nodes = IndependentNodes::new(cx).await?;
    let (members, minority) = (nodes.members, (nodes.count() - 1) / 2);
    let (client, options) = (cx.client().await?, cx.options().with_wait(cx.ttl() * 2));
    cx.warm_up(&client).await?;
    // A node that hangs is worse than a node that is down, which refuses connections.
    for stop in [true, false] {
        for node in 0..minority {
            if stop { members.pause(node).await? } else { members.kill(node).await? }
        }
        for client in [client.clone(), cx.client().await?] {
            let (guard, took) = timed(client.take(&nodes.name, &options)).await;
            let guard = guard?;
            ensure_within!(took, cx.ttl(), "with {minority} nodes failing it took {took:?}, all of a lease");
            tokio::time::sleep(cx.ttl() * 3 / 2).await;
            ensure_not_lost(&guard, "lost although a majority answers")?;
            ensure_held(&cx.client().await?, &nodes.name, "while a minority fails").await?;
            guard.release().await?;
        }
        if stop {
            for node in 0..minority {
                members.resume(node).await?;
            }
        }
    }
    members.pause(minority).await?;
    for (client, wait) in [(client.clone(), Wait::No), (cx.client().await?, Wait::UpTo(cx.ttl()))] {
        let options = cx.options().with_wait(wait);
        let (outcome, took) = timed(client.acquire_with(&nodes.name, &options)).await;
        ensure_within!(took, cx.ttl() * 2 + cx.slack(), "without a majority it gave up only after {took:?}");
        ensure_outage(outcome, "a store without its majority")?;
    }
    members.resume(minority).await?;
    for node in 0..minority {
        members.restart(node, true).await?;
    }
    Ok(client.take(&nodes.name, &cx.options()).await?.release().await?)
}

/// Two nodes are free: one says so, and the other is not heard. The attempt fails by the rest, and leaves nothing on either for as
/// long as its lease would last.
async fn failed_attempt_leaves_nothing_on_any_node(cx: &Context) -> Verdict {
    let nodes = IndependentNodes::new(cx).await?;
    let (proxies, address) = nodes.members.proxied().await?;
    let (holder, late) = (cx.client().await?, cx.client_at(&address).await?);
    nodes.warm_up(cx, &late).await?;
    let guard = holder.take(&nodes.name, &AcquireOptions::new().with_fixed_lease()).await?;
    nodes.until_held(0..nodes.count(), true, cx.slack()).await?;
    nodes.end_leases(0..2).await?;
    // Until it is seen on one node, no majority tells it that it is refused: it would be taken back at once.
    set_all(&proxies[1..], Traffic::HoldReplies);
    let (wanted, attempt) = (nodes.name.clone(), late.clone());
    let attempt = tokio::spawn(async move { attempt.poke(&wanted).await });
    nodes.until_held(1..2, true, cx.patience()).await?;
    set_all(&proxies[2..], Traffic::Pass);
    let hangs = |_| Stop::Late("the attempt hangs on one node".to_owned(), None);
    let refused = tokio::time::timeout(cx.patience(), attempt).await.map_err(hangs)???;
    ensure!(refused.is_none(), "granted beside a holder on most nodes");
    proxies[1].set(Traffic::Pass);
    nodes.until_held(0..2, false, cx.slack() * 4).await?;
    guard.release().await?;
    ensure_free(&cx.client().await?, &nodes.name, "after an attempt that failed half-way").await
}

/// The nodes forget one after the other: without repair the holder would be left with a minority.
async fn node_that_forgets_is_given_its_locks_again(cx: &Context) -> Verdict {
    let nodes = IndependentNodes::new(cx).await?;
    let (client, other) = (cx.client().await?, cx.client().await?);
    let guard = client.take(&nodes.name, &cx.options()).await?;
    let token = guard.token()?;
    for node in 0..nodes.count() {
        nodes.members.restart(node, false).await?;
        nodes.until_held(node..node + 1, true, cx.ttl() * 2 + cx.slack()).await?;
        ensure_not_lost(&guard, "lost with one node's memory")?;
    }
    ensure_held(&other, &nodes.name, "after every node has forgotten it once").await?;
    guard.release().await?;
    nodes.until_held(0..nodes.count(), false, cx.slack()).await?;
    ensure_larger_token(&other, &nodes.name, &cx.options(), token, "which every node had forgotten").await
}

/// A grant after a long silence is judged by the leases in the nodes, which began when they were asked.
async fn grant_that_came_late_is_held_no_longer_than_its_lease(cx: &Context) -> Verdict {
    let nodes = IndependentNodes::new(cx).await?;
    let (proxies, address) = nodes.members.proxied().await?;
    let (late, other) = (cx.client_at(&address).await?, cx.client().await?);
    cx.warm_up(&late).await?;
    cx.warm_up(&other).await?;
    set_all(&proxies, Traffic::HoldReplies);
    let late = spawn_take(&late, &nodes.name, &cx.fixed());
    tokio::time::sleep(cx.ttl() * 9 / 10).await;
    set_all(&proxies, Traffic::Pass);
    let guard = late.await??;
    let successor = spawn_successor(cx, &other, &nodes.name);
    ensure_believed_before(&guard, successor, "granted late by the nodes").await
}

async fn lease_that_ended_on_most_nodes_is_never_brought_back(cx: &Context) -> Verdict {
    let nodes = IndependentNodes::new(cx).await?;
    let (client, majority) = (cx.client().await?, nodes.count() / 2 + 1);
    let guard = client.take(&nodes.name, &cx.options()).await?;
    nodes.until_held(0..nodes.count(), true, cx.slack()).await?;
    nodes.end_leases(0..majority).await?;
    loss_within(&guard, cx.ttl() / 3 + cx.slack()).await?;
    let end = Instant::now() + cx.ttl();
    while Instant::now() < end {
        for node in 0..majority {
            let back = nodes.members.holds(node, &nodes.name).await?;
            ensure!(!back, "a renewal brought an ended lease back on node {node}");
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(guard);
    ensure_free(&cx.client().await?, &nodes.name, "after its lease had ended on most nodes").await
}

async fn halves_of_a_split_do_not_both_grant(cx: &Context) -> Verdict {
    let nodes = IndependentNodes::new(cx).await?;
    let half = nodes.count() / 2;
    let (left, left_address) = nodes.members.proxied().await?;
    let (right, right_address) = nodes.members.proxied().await?;
    let (one, two) = (cx.client_at(&left_address).await?, cx.client_at(&right_address).await?);
    set_all(&left[half..], Traffic::BlackHole);
    set_all(&right[..half], Traffic::BlackHole);
    let options = AcquireOptions::new().with_wait(cx.ttl());
    let first = one.acquire_with(&nodes.name, &options).await;
    // The larger half, if one is: a split that keeps out everybody would show nothing.
    let must_grant = nodes.count() - half > half;
    let options = if must_grant { options.with_wait(cx.patience()) } else { options };
    let second = two.acquire_with(&nodes.name, &options).await;
    let larger = nodes.count() - half;
    ensure!(second.is_ok() || !must_grant, "{larger} nodes of {} granted nothing: {second:?}", nodes.count());
    let both = first.is_ok_and(|guard| guard.is_held()) && second.is_ok_and(|guard| guard.is_held());
    ensure!(!both, "each half of {} nodes has granted the lock to another owner", nodes.count());
    Ok(())
}
