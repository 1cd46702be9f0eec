//! J and F, for stores of several servers that know nothing of each other: a majority of them decides, and no one of them
//! knows what the others said.

use crate::cases::prelude::*;
use crate::subject::Members;
use tokio::time::Instant;

pub(super) const CASES: CaseTable = cases![
    F12 tokens_grow_although_majorities_differ,
    J06 nodes_that_fail_cost_nothing_until_they_are_a_majority,
    J07 what_a_failed_attempt_took_is_given_back_on_every_node,
    J08 node_that_forgets_is_given_its_locks_again,
    J09 grant_that_came_late_is_held_no_longer_than_its_lease,
    J31 lease_that_ended_on_most_nodes_is_never_brought_back,
    J32 halves_of_a_split_do_not_both_grant,
];

/// The history with which a model checker refutes tokens that are the largest of the nodes' counters: a slow attempt that
/// has been counted on a minority, overtaken by another, is completed where the other has been counted as well.
async fn tokens_grow_although_majorities_differ(cx: &Context) -> Verdict {
    let nodes = Nodes::of(cx, &cx.name()).await?;
    let (proxies, address) = nodes.members.proxied().await?;
    let slow = cx.client_at(&address).await?;
    let minority = (nodes.count() - 1) / 2;
    black_hole(&proxies[minority..]);
    let (wanted, options) = (nodes.name.clone(), cx.options().with_ttl(cx.ttl() * 4));
    let task = tokio::spawn(async move { slow.take(&wanted, &options).await });
    nodes.hold_on(0..minority, cx.patience()).await?;
    nodes.end_leases(0..minority).await?;
    let (others, others_address) = nodes.members.proxied().await?;
    black_hole(&others[nodes.count() / 2 + 1..]);
    let fast = cx.client_at(&others_address).await?;
    let first = fast.take(&nodes.name, &cx.options().with_ttl(cx.ttl() * 4)).await?;
    let before = first.token()?;
    nodes.end_leases(0..nodes.count()).await?;
    proxies.iter().for_each(|proxy| proxy.set(Traffic::Pass));
    let guard = task.await??;
    let after = guard.token()?;
    ensure!(after > before, "token {after} after {before}, of a majority that differs in one node");
    Ok(())
}

async fn nodes_that_fail_cost_nothing_until_they_are_a_majority(cx: &Context) -> Verdict {
    let nodes = Nodes::of(cx, &cx.name()).await?;
    let (members, minority) = (nodes.members, (nodes.count() - 1) / 2);
    let (client, options) = (cx.client().await?, cx.options().with_wait(cx.ttl() * 2));
    cx.warm_up(&client).await?;
    // A node that hangs is worse than a node that is down, which refuses connections.
    for stop in [true, false] {
        for node in 0..minority {
            if stop { members.pause(node).await? } else { members.kill(node).await? }
        }
        for client in [client.clone(), cx.client().await?] {
            let start = Instant::now();
            let guard = client.take(&nodes.name, &options).await?;
            let took = start.elapsed();
            ensure!(took < cx.ttl(), "with {minority} nodes failing it took {took:?}, all of a lease");
            tokio::time::sleep(cx.ttl() * 3 / 2).await;
            ensure!(guard.is_held(), "lost although a majority answers: {:?}", guard.loss());
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
        let start = Instant::now();
        let outcome = client.acquire_with(&nodes.name, &cx.options().with_wait(wait)).await;
        let took = start.elapsed();
        ensure!(took <= cx.ttl() * 2 + cx.slack(), "without a majority it gave up only after {took:?}");
        match outcome.map_err(|error| error.kind()) {
            Err(ErrorKind::Unavailable | ErrorKind::Indeterminate) => {}
            Err(kind) => return Err(Stop::Failed(format!("a lost majority was reported as {kind:?}"))),
            Ok(_) => return Err(Stop::Failed("a minority granted a lock".to_owned())),
        }
    }
    members.resume(minority).await?;
    for node in 0..minority {
        members.restart(node).await?;
    }
    let guard = client.take(&nodes.name, &cx.options()).await?;
    Ok(guard.release().await?)
}

/// Of two nodes that are free, one says so and the other is not heard. The attempt fails by the rest, and leaves nothing
/// on either for as long as its lease would last.
async fn what_a_failed_attempt_took_is_given_back_on_every_node(cx: &Context) -> Verdict {
    let nodes = Nodes::of(cx, &cx.name()).await?;
    let (proxies, address) = nodes.members.proxied().await?;
    let (holder, late) = (cx.client().await?, cx.client_at(&address).await?);
    nodes.are_all_reached_by(&late, cx).await?;
    let guard = holder.take(&nodes.name, &AcquireOptions::new().with_fixed_lease()).await?;
    nodes.hold_on(0..nodes.count(), cx.slack()).await?;
    nodes.end_leases(0..2).await?;
    // Until it is seen on one node, no majority tells it that it is refused: it would be taken back at once.
    proxies[1..].iter().for_each(|proxy| proxy.set(Traffic::HoldReplies));
    let (wanted, attempt) = (nodes.name.clone(), late.clone());
    let attempt = tokio::spawn(async move { attempt.poke(&wanted).await });
    nodes.hold_on(1..2, cx.patience()).await?;
    proxies[2..].iter().for_each(|proxy| proxy.set(Traffic::Pass));
    let refused = tokio::time::timeout(cx.patience(), attempt).await;
    let Ok(refused) = refused else { return Err(Stop::Failed("the attempt hangs on one node".to_owned())) };
    ensure!(refused??.is_none(), "granted beside a holder on most nodes");
    proxies[1].set(Traffic::Pass);
    for node in 0..2 {
        nodes.freed_on(node, cx.slack() * 4).await?;
    }
    guard.release().await?;
    ensure_free(&cx.client().await?, &nodes.name, "after an attempt that failed half-way").await
}

/// One after the other, so that without repair the holder would be left with a minority.
async fn node_that_forgets_is_given_its_locks_again(cx: &Context) -> Verdict {
    let nodes = Nodes::of(cx, &cx.name()).await?;
    let (client, other) = (cx.client().await?, cx.client().await?);
    let guard = client.take(&nodes.name, &cx.options()).await?;
    let token = guard.token()?;
    for node in 0..nodes.count() {
        nodes.members.restart_empty(node).await?;
        nodes.hold_on(node..node + 1, cx.ttl() * 2 + cx.slack()).await?;
        ensure!(guard.is_held(), "lost with one node's memory: {:?}", guard.loss());
    }
    ensure_held(&other, &nodes.name, "after every node has forgotten it once").await?;
    guard.release().await?;
    for node in 0..nodes.count() {
        nodes.freed_on(node, cx.slack()).await?;
    }
    let next = other.take(&nodes.name, &cx.options()).await?;
    ensure!(next.token()? > token, "token {} after {token}, which every node had forgotten", next.token()?);
    Ok(next.release().await?)
}

/// What is granted after a long silence is judged by the leases in the nodes, which began when they were asked.
async fn grant_that_came_late_is_held_no_longer_than_its_lease(cx: &Context) -> Verdict {
    let nodes = Nodes::of(cx, &cx.name()).await?;
    let (proxies, address) = nodes.members.proxied().await?;
    let (late, other) = (cx.client_at(&address).await?, cx.client().await?);
    cx.warm_up(&late).await?;
    cx.warm_up(&other).await?;
    proxies.iter().for_each(|proxy| proxy.set(Traffic::HoldReplies));
    let (wanted, options) = (nodes.name.clone(), cx.fixed());
    let task = tokio::spawn(async move { late.take(&wanted, &options).await });
    tokio::time::sleep(cx.ttl() * 9 / 10).await;
    proxies.iter().for_each(|proxy| proxy.set(Traffic::Pass));
    let guard = task.await??;
    let end = Instant::now() + cx.ttl() * 2;
    while guard.is_held() {
        ensure!(Instant::now() < end, "a fixed lease lasts twice its time");
        if let Some(second) = other.poke(&nodes.name).await? {
            ensure!(!guard.is_held(), "held by belief when its lease on the nodes had ended");
            second.release().await?;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Ok(())
}

async fn lease_that_ended_on_most_nodes_is_never_brought_back(cx: &Context) -> Verdict {
    let nodes = Nodes::of(cx, &cx.name()).await?;
    let (client, majority) = (cx.client().await?, nodes.count() / 2 + 1);
    let guard = client.take(&nodes.name, &cx.options()).await?;
    nodes.hold_on(0..nodes.count(), cx.slack()).await?;
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
    let nodes = Nodes::of(cx, &cx.name()).await?;
    let half = nodes.count() / 2;
    let (left, left_address) = nodes.members.proxied().await?;
    let (right, right_address) = nodes.members.proxied().await?;
    let (one, two) = (cx.client_at(&left_address).await?, cx.client_at(&right_address).await?);
    black_hole(&left[half..]);
    black_hole(&right[..half]);
    let options = AcquireOptions::new().with_wait(cx.ttl());
    let first = one.acquire_with(&nodes.name, &options).await;
    // The larger half, if one is: a split that keeps out everybody would show nothing.
    let must_grant = nodes.count() - half > half;
    let options = if must_grant { options.with_wait(cx.patience()) } else { options };
    let second = two.acquire_with(&nodes.name, &options).await;
    ensure!(
        second.is_ok() || !must_grant,
        "{} nodes of {} granted nothing: {second:?}",
        nodes.count() - half,
        nodes.count()
    );
    let both = first.is_ok_and(|guard| guard.is_held()) && second.is_ok_and(|guard| guard.is_held());
    ensure!(!both, "each half of {} nodes has granted the lock to another owner", nodes.count());
    Ok(())
}

fn black_hole(proxies: &[Proxy]) {
    proxies.iter().for_each(|proxy| proxy.set(Traffic::BlackHole));
}

/// The servers, and one lock on them.
struct Nodes<'a> {
    members: &'a dyn Members,
    name: LockName,
}

impl<'a> Nodes<'a> {
    /// Skips the case where the servers are not independent.
    async fn of(cx: &'a Context, name: &LockName) -> Result<Self, Stop> {
        let members = cx.store().members()?;
        members.holds(0, name).await?;
        Ok(Self { members, name: name.clone() })
    }

    fn count(&self) -> usize {
        self.members.count()
    }

    async fn end_leases(&self, nodes: std::ops::Range<usize>) -> Verdict {
        for node in nodes {
            self.members.end_lease(node, &self.name).await?;
        }
        Ok(())
    }

    /// Has a client take and give back the lock on every node, so that it has a connection to each: a first use is over when
    /// a majority has answered, and what connects later does not get through to a node whose replies are held.
    async fn are_all_reached_by(&self, client: &Client, cx: &Context) -> Verdict {
        let guard = client.take(&self.name, &cx.options()).await?;
        self.hold_on(0..self.count(), cx.patience()).await?;
        guard.release().await?;
        for node in 0..self.count() {
            self.freed_on(node, cx.patience()).await?;
        }
        Ok(())
    }

    /// Waits until each of these nodes has the lock as taken.
    async fn hold_on(&self, nodes: std::ops::Range<usize>, bound: Duration) -> Verdict {
        for node in nodes {
            self.is_on(node, true, bound).await?;
        }
        Ok(())
    }

    async fn freed_on(&self, node: usize, bound: Duration) -> Verdict {
        self.is_on(node, false, bound).await
    }

    async fn is_on(&self, node: usize, held: bool, bound: Duration) -> Verdict {
        let start = Instant::now();
        while self.members.holds(node, &self.name).await? != held {
            let what = if held { "free" } else { "taken" };
            ensure!(start.elapsed() <= bound, "node {node} still has the lock as {what} after {bound:?}");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        Ok(())
    }
}
