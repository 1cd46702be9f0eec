//! Stores of several servers: one of them is killed, stopped or cut off, and then most of them.

use crate::cases::prelude::*;

pub(super) const CASES: CaseTable = cases![
    J17 killed_or_stopped_leader_costs_no_holder_its_lock(Half),
    J19 lost_majority_grants_nothing_and_ends_belief_in_time(Half),
    J20 partitioned_server_costs_its_client_no_lock(Half),
];

/// Longer than an election takes, also where the old leader only fell silent.
const OUTLASTS_AN_ELECTION: Duration = Duration::from_secs(8);

async fn killed_or_stopped_leader_costs_no_holder_its_lock(cx: &Context) -> Verdict {
    ensure_held_without_leader(cx, true).await?;
    ensure_held_without_leader(cx, false).await
}

/// Six clients hold a lock each when the leader is killed, or stopped. None loses its lock, no other gets it, and the next hand-over
/// comes.
async fn ensure_held_without_leader(cx: &Context, kill: bool) -> Verdict {
    let members = cx.store().members()?;
    let leader = members.leader_of(members.count()).await?;
    let options = cx.options().with_ttl(cx.ttl().max(OUTLASTS_AN_ELECTION));
    let mut held = Vec::new();
    for n in 0..6 {
        let (client, name) = (cx.client().await?, cx.named(&format!("{kill}-{n}")));
        let guard = client.take(&name, &options).await?;
        held.push((client, name, guard));
    }
    match kill {
        true => members.kill(leader).await?,
        false => members.pause(leader).await?,
    }
    let next = members.leader_of(members.count() - 1).await?;
    ensure!(!members.has_leader() || next != leader, "the leader was to be lost, and leads");
    let healed = Instant::now();
    while healed.elapsed() < OUTLASTS_AN_ELECTION / 4 {
        for (_, name, guard) in &held {
            ensure_not_lost(guard, format_args!("{name} was lost with one server"))?;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let other = cx.client().await?;
    for (_, name, guard) in held {
        let token = guard.token()?;
        ensure_held(&other, &name, "after one server was lost").await?;
        guard.release().await?;
        ensure_larger_token(&other, &name, &options, token, "over an election").await?;
    }
    match kill {
        true => members.restart(leader, true).await?,
        false => members.resume(leader).await?,
    }
    members.leader_of(members.count()).await?;
    Ok(())
}

async fn lost_majority_grants_nothing_and_ends_belief_in_time(cx: &Context) -> Verdict {
    let members = cx.store().members()?;
    let (client, other, name) = (cx.client().await?, cx.client().await?, cx.name());
    let ttl = cx.ttl() * 2;
    let guard = client.take(&name, &cx.options().with_ttl(ttl)).await?;
    let leader = members.leader_of(members.count()).await?;
    let lost: Vec<usize> = (0..members.count()).filter(|member| *member != leader).collect();
    let start = Instant::now();
    for member in &lost {
        members.kill(*member).await?;
    }
    let attempt = AcquireOptions::new().with_wait(Wait::UpTo(ttl));
    let granted = other.acquire_with(&name, &attempt).await;
    ensure!(granted.is_err(), "without a majority of its servers, the store granted a lock");
    let loss = loss_within(&guard, (ttl + cx.slack()).saturating_sub(start.elapsed())).await?;
    ensure!(!guard.is_held(), "a holder believes without a majority, after {loss:?}");
    for member in lost {
        members.restart(member, true).await?;
    }
    members.leader_of(members.count()).await?;
    drop(guard);
    // The old session may survive or not; one client gets the lock, and then it is taken.
    let next = other.take(&name, &cx.options().with_ttl(cx.ttl() * 8)).await?;
    ensure_held(&client, &name, "after the majority came back").await?;
    Ok(next.release().await?)
}

/// The client finds another server within its session, and has lost nothing.
async fn partitioned_server_costs_its_client_no_lock(cx: &Context) -> Verdict {
    let (proxies, address) = cx.store().members()?.proxied().await?;
    let (client, name) = (cx.client_at(&address).await?, cx.name());
    let ttl = cx.ttl().max(OUTLASTS_AN_ELECTION);
    let guard = client.take(&name, &cx.options().with_ttl(ttl)).await?;
    let used = proxies.iter().max_by_key(|proxy| proxy.request_bytes());
    let used = used.filter(|used| used.request_bytes() > 0);
    used.ok_or_else(|| Stop::Failed("the client talks to no server".to_owned()))?.set(Traffic::BlackHole);
    let (other, guards) = (cx.client().await?, [guard]);
    held_for(&other, &guards, ttl * 3 / 2, "while one server is cut off").await?;
    release_all(guards).await?;
    free_within(&other, &name, cx.slack(), "after its release through another server").await
}
