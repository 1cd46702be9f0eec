//! Stores of several servers: one of them is killed, stopped or cut off, and then most of them.

use crate::cases::prelude::*;

pub(super) const CASES: CaseTable = cases![
    J17 killed_or_stopped_leader_costs_no_holder_its_lock(Quarter),
    J19 lost_majority_grants_nothing_and_ends_belief_in_time(Quarter),
    J20 partitioned_server_costs_its_client_no_lock(Quarter),
    J38 leader_that_was_replaced_prolongs_no_belief(Quarter),
];

/// Longer than an election takes, also where the old leader only fell silent.
const OUTLASTS_AN_ELECTION: Duration = Duration::from_secs(8);
/// No answer is shorter, in bytes; what keeps a connection is.
const ANSWER: u64 = 64;

/// Six clients hold a lock each when the leader is killed, or stopped. None loses its lock, no other gets it, and the next hand-over
/// comes.
async fn killed_or_stopped_leader_costs_no_holder_its_lock(cx: &Context) -> Verdict {
    let members = cx.store().members()?;
    let options = cx.options().with_ttl(cx.ttl().max(OUTLASTS_AN_ELECTION));
    for fault in ["killed", "stopped"] {
        let leader = members.leader_of(members.count()).await?;
        let mut held = Vec::new();
        for n in 0..6 {
            held.push(cx.client().await?.take(&cx.named(&format!("{fault}-{n}")), &options).await?);
        }
        match fault {
            "killed" => members.kill(leader).await?,
            _ => members.pause(leader).await?,
        }
        let next = members.leader_of(members.count() - 1).await?;
        ensure!(!members.has_leader() || next != leader, "the leader was to be lost, and leads");
        let other = cx.client().await?;
        held_for(&other, &held, OUTLASTS_AN_ELECTION / 4, "after one server was lost").await?;
        for guard in held {
            let (name, token) = (guard.name().clone(), guard.token()?);
            guard.release().await?;
            ensure_larger_token(&other, &name, &options, token, "over an election").await?;
        }
        match fault {
            "killed" => members.restart(leader, true).await?,
            _ => members.resume(leader).await?,
        }
    }
    members.leader_of(members.count()).await.map(drop)
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

/// The clients reach only a leader that is stopped, replaced, and hears nothing of that until it has answered two renewals: it takes
/// itself for the leader. They are cut off from it when it hears of the new leader, which ends their leases.
async fn leader_that_was_replaced_prolongs_no_belief(cx: &Context) -> Verdict {
    let members = cx.store().members()?;
    require!(members.has_leader(), "no server leads the others");
    let peers = members.proxied_from_each_other().await?;
    let leader = members.leader_of(members.count()).await?;
    let (mut proxies, address) = members.proxied().await?;
    let old = proxies.swap_remove(leader);
    for other in &proxies {
        other.lead_to(old.address());
    }
    let (client, other) = (cx.client_at(&address).await?, cx.client().await?);
    let ttl = OUTLASTS_AN_ELECTION * 3 / 2;
    let mut guards = Vec::new();
    for n in 0..2 {
        let options = cx.options().with_ttl(ttl).with_fixed_lease();
        guards.push(Arc::new(client.take(&cx.named(&n.to_string()), &options).await?));
    }
    members.pause(leader).await?;
    for peer in &peers {
        // Only the others connect again while the leader is stopped.
        peers[leader].set(Traffic::BlackHole);
        peer.cut();
    }
    members.leader_of(members.count() - 1).await?;
    // The new leader keeps every lease for longer than it is, as of its election.
    tokio::time::sleep(OUTLASTS_AN_ELECTION * 3 / 8).await;
    let led_to: Vec<_> = peers.iter().map(|peer| peer.lead_to(peers[leader].address())).collect();
    let successors: Vec<_> = guards.iter().map(|guard| spawn_successor(cx, &other, guard.name())).collect();
    members.resume(leader).await?;
    let mut renewals = JoinSet::new();
    for guard in &guards {
        let before = old.reply_bytes();
        let guard = Arc::clone(guard);
        renewals.spawn(async move { guard.extend(ttl).await });
        let is_answered = eventually(cx.patience(), || old.reply_bytes() >= before + ANSWER).await;
        ensure_met!(is_answered, "the old leader has answered no renewal");
        // Until all of the answer is there. The second renewal stands behind the first, which waits for a majority.
        tokio::time::sleep(OUTLASTS_AN_ELECTION / 160).await;
    }
    old.set(Traffic::HoldRequests);
    for (peer, target) in peers.iter().zip(led_to) {
        peer.lead_to(target);
    }
    if let Some(cut_off) = peers.get(leader) {
        // It connects again, and to the others.
        cut_off.cut();
        cut_off.set(Traffic::Pass);
    }
    for (guard, successor) in guards.iter().zip(successors).rev() {
        ensure_believed_before(guard, successor, "renewed by a leader that was replaced").await?;
    }
    Ok(())
}
