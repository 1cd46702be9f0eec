//! P: databases, whose clients have pools, transactions and sessions with settings.

use crate::cases::prelude::*;
use futures_util::future::try_join_all;
use leasehold_core::Purge;

pub(super) const CASES: CaseTable = cases![
    P01 many_locks_need_the_declared_connections,
    P02 fifty_waiters_delay_neither_renewals_nor_other_locks,
    P03 waiter_that_gives_up_leaves_no_transaction,
    P04 new_name_wanted_by_twenty_clients_has_one_holder,
    P06 isolation_level_of_the_server_decides_nothing,
    P07 pooler_that_lends_sessions_is_refused_or_holds,
    P12 purge_forgets_nothing_that_counts(Usual, Others),
    P15 time_zone_of_a_session_decides_nothing,
    P16 no_connection_left_is_said_in_time,
    P17 full_disk_grants_nothing_twice,
];

/// Beyond one for each statement under way, a client may have one to listen and one on its way out.
const SPARE: usize = 2;

async fn many_locks_need_the_declared_connections(cx: &Context) -> Verdict {
    const LOCKS: usize = 12;
    let administrator = cx.store().administrator()?;
    for connections in [1, 2] {
        let before = administrator.connections().await?;
        let client = cx.client_at(&administrator.address_with(connections)?).await?;
        let mut guards = Vec::new();
        for n in 0..LOCKS {
            guards.push(client.take(&cx.named(&n.to_string()), &cx.options()).await?);
        }
        tokio::time::sleep(cx.ttl() * 3 / 2).await;
        let words = format!("one of {LOCKS} holds is lost with {connections} connections for statements");
        guards.iter().try_for_each(|guard| ensure_not_lost(guard, &words))?;
        let used = administrator.connections().await?.saturating_sub(before);
        let for_holds = if client.semantics().hold == HoldKind::Connection { LOCKS } else { 0 };
        let declared = connections + for_holds + SPARE;
        ensure!(used <= declared, "{used} connections for {LOCKS} locks, declared {declared}");
        release_all(guards).await?;
        client.close().await?;
    }
    Ok(())
}

/// One client has two connections for its statements, and fifty waiters of its own: its renewals are in time, it takes and
/// releases other locks as without waiters, and its release lets a waiter in.
async fn fifty_waiters_delay_neither_renewals_nor_other_locks(cx: &Context) -> Verdict {
    let client = cx.client_at(&cx.store().administrator()?.address_with(2)?).await?;
    let name = cx.name();
    let guard = client.take(&name, &cx.options()).await?;
    let mut waiters = JoinSet::new();
    for _ in 0..50 {
        let (client, name, options) = (client.clone(), name.clone(), cx.options());
        waiters.spawn(async move { client.take(&name, &options).await?.release().await.map_err(Stop::from) });
    }
    tokio::time::sleep(cx.ttl()).await;
    for _ in 0..10 {
        let (free, took) = timed(ensure_free(&client, &cx.named("other"), "beside fifty waiters")).await;
        free?;
        ensure_within!(took, cx.slack() * 2, "beside fifty waiters, another lock took {took:?}");
    }
    tokio::time::sleep(cx.ttl()).await;
    ensure_not_lost(&guard, "its renewals waited behind the waiters")?;
    guard.release().await?;
    let bound = hand_over_bound(cx, &client) + cx.slack();
    let first = tokio::time::timeout(bound, waiters.join_next()).await.ok().flatten();
    let never = || Stop::Late(format!("none of fifty waiters was let in within {bound:?}"), None);
    first.ok_or_else(never)???;
    waiters.shutdown().await;
    Ok(())
}

/// The server has said "waited long enough" at least once by then, and has not ended the transaction by itself.
async fn waiter_that_gives_up_leaves_no_transaction(cx: &Context) -> Verdict {
    let administrator = cx.store().administrator()?;
    let (client, other, name) = (cx.client().await?, cx.client().await?, cx.name());
    let guard = client.take(&name, &AcquireOptions::new()).await?;
    cx.warm_up(&other).await?;
    let before = administrator.open_transactions().await?;
    let options = AcquireOptions::new().with_wait(Duration::from_millis(2_500));
    ensure_kind(other.acquire_with(&name, &options).await, ErrorKind::TimedOut, "a lock that stays held")?;
    // InnoDB repeats its last answer to a question that comes within a tenth of a second.
    let (pause, ask) = (Duration::from_millis(250), || async { administrator.open_transactions().await });
    let after = last_answer_within(cx.slack() * 12, pause, ask, |after| *after <= before).await?;
    ensure_came!(after <= before, "{} transactions are left of a waiter that gave up", after - before);
    Ok(guard.release().await?)
}

/// Twenty clients ask for the same new name: each has sent its first request before any of them hears an answer, where
/// there is a network between.
async fn new_name_wanted_by_twenty_clients_has_one_holder(cx: &Context) -> Verdict {
    let (proxy, address) = match optional(cx.store().proxied(cx.patience()).await)? {
        // Among several primaries, a client may have no connection yet to the one of the name, and gets none meanwhile.
        Some((proxy, address)) if cx.store().replicas().is_err() => (Some(proxy), address),
        _ => (None, cx.store().address()),
    };
    let mut clients = Vec::new();
    for _ in 0..20 {
        let client = cx.client_at(&address).await?;
        cx.warm_up(&client).await?;
        clients.push(client);
    }
    for round in 0..3 {
        one_first_holder(cx, proxy.as_ref(), &clients, &cx.named(&round.to_string())).await?;
    }
    Ok(())
}

async fn one_first_holder(
    cx: &Context,
    proxy: Option<&Proxy>,
    clients: &[Client],
    name: &LockName,
) -> Verdict {
    let before = proxy.map_or(0, Proxy::requests);
    proxy.iter().for_each(|proxy| proxy.set(Traffic::HoldReplies));
    let mut attempts = JoinSet::new();
    for client in clients {
        let (client, name) = (client.clone(), name.clone());
        attempts.spawn(async move { client.poke(&name).await });
    }
    if let Some(proxy) = proxy {
        let asked = clients.len() as u64;
        let all = eventually(cx.patience(), || proxy.requests() >= before + asked).await;
        ensure_came!(all, "not all of {asked} clients have asked");
        proxy.set(Traffic::Pass);
    }
    let holders: Vec<_> = joined(attempts).await?.into_iter().flatten().collect();
    ensure!(holders.len() == 1, "{} first holders of one name", holders.len());
    ensure_held(&clients[0], name, "after its first acquisition").await?;
    release_all(holders).await
}

async fn isolation_level_of_the_server_decides_nothing(cx: &Context) -> Verdict {
    for level in ["SERIALIZABLE", "REPEATABLE READ", "READ COMMITTED"] {
        cx.store().administrator()?.set_isolation(level).await?;
        let name = cx.named(level);
        let play = async |_| {
            let (client, mut tokens) = (cx.client().await?, Vec::new());
            for _ in 0..4 {
                tokens.push(take_turn(&client, &name, &cx.options()).await?);
            }
            Ok::<_, Stop>(tokens)
        };
        ensure_distinct(try_join_all((0..6).map(play)).await?.concat(), level)?;
    }
    Ok(())
}

/// The pooler is refused as a mistake of the configuration, or is as good as the store itself: no lock ends with the transaction of
/// another client.
async fn pooler_that_lends_sessions_is_refused_or_holds(cx: &Context) -> Verdict {
    let (_pooler, address) = cx.store().administrator()?.behind_pooler().await?;
    let direct = cx.client().await?;
    for round in 0..3 {
        let (pooled, name) = (cx.client_at(&address).await?, cx.named(&round.to_string()));
        match pooled.acquire_with(&name, &cx.options()).await {
            Ok(guard) => {
                let other = cx.client_at(&address).await?;
                ensure_held(&other, &name, "by another client of the pooler").await?;
                ensure_held(&direct, &name, "through a pooler").await?;
                tokio::time::sleep(cx.ttl()).await;
                ensure_not_lost(&guard, "lost through a pooler")?;
                guard.release().await?;
            }
            Err(error) => ensure!(error.kind() == ErrorKind::Misconfigured, "through a pooler: {error:?}"),
        }
        ensure_free(&direct, &name, "after its use through a pooler").await?;
    }
    Ok(())
}

/// A time below an hour is refused. Names that are held, or were just now, are kept; and the token goes on growing.
async fn purge_forgets_nothing_that_counts(cx: &Context) -> Verdict {
    // Away from the names of earlier cases: one that was begun and never granted counts as idle at once.
    let address = optional(cx.store().namespaced(&format!("{}/", cx.mark())).await)?;
    let address = address.unwrap_or_else(|| cx.store().address());
    let (client, held, free) = (cx.client_at(&address).await?, cx.named("held"), cx.named("free"));
    let admin = client.admin().ok_or_else(|| Stop::skipped("it cannot be administrated"))?;
    let guard = client.take(&held, &cx.options()).await?;
    let token = take_turn(&client, &free, &cx.options()).await?;
    let idle = Duration::from_secs(3600);
    for purge in [Purge::Count, Purge::Delete] {
        for idle in [Duration::ZERO, idle - Duration::from_millis(1)] {
            let when = format!("a purge ({purge:?}) of names idle for {idle:?}");
            ensure_kind(admin.purge(idle, purge).await, ErrorKind::Invalid, &when)?;
        }
        let forgotten = admin.purge(idle, purge).await?;
        ensure!(forgotten.unwrap_or(0) == 0, "{forgotten:?} names of this minute were idle for an hour");
    }
    ensure_held(&cx.client_at(&address).await?, &held, "while names were purged").await?;
    ensure_larger_token(&client, &free, &cx.options(), token, "over a purge").await?;
    Ok(guard.release().await?)
}

/// West of the holder, its lease would have ended hours ago, and east of it, it would never end.
async fn time_zone_of_a_session_decides_nothing(cx: &Context) -> Verdict {
    let administrator = cx.store().administrator()?;
    for (holders, others) in [("+00:00", "+02:00"), ("+02:00", "-11:00")] {
        administrator.set_time_zone(holders).await?;
        let (client, name) = (cx.client().await?, cx.named(others));
        let guard = client.take(&name, &cx.fixed()).await?;
        administrator.set_time_zone(others).await?;
        let other = cx.client().await?;
        ensure_held(&other, &name, &format!("in a session at {others}, of a holder at {holders}")).await?;
        tokio::time::sleep(cx.ttl()).await;
        drop(guard);
        let when = format!("at {others}, when its lease was over");
        free_within(&other, &name, hand_over_bound(cx, &other), &when).await?;
    }
    Ok(())
}

async fn no_connection_left_is_said_in_time(cx: &Context) -> Verdict {
    let administrator = cx.store().administrator()?;
    let (client, name, wait) = (cx.client().await?, cx.name(), Duration::from_secs(1));
    let guard = client.take(&name, &cx.options()).await?;
    let all = administrator.take_all_connections().await?;
    let late = cx.client().await?;
    let (outcome, took) = timed(late.acquire_with(&name, &cx.options().with_wait(wait))).await;
    ensure_kind_if_known(outcome, ErrorKind::Unavailable, "a store that takes no more connections")?;
    ensure_within!(took, wait + cx.slack(), "it gave up only after {took:?}");
    tokio::time::sleep(cx.ttl()).await;
    ensure_not_lost(&guard, "a holder lost its lock to a crowd of strangers")?;
    drop(all);
    tokio::time::sleep(Duration::from_millis(100)).await;
    ensure_held(&late, &name, "once there are connections again").await?;
    Ok(guard.release().await?)
}

/// The holder keeps the lock or is told of its loss in time, no second holder is granted it, and all works again once
/// there is room.
async fn full_disk_grants_nothing_twice(cx: &Context) -> Verdict {
    let administrator = cx.store().administrator()?;
    administrator.prepare_disk().await?;
    let (client, other, name) = (cx.client().await?, cx.client().await?, cx.name());
    let guard = client.take(&name, &cx.options()).await?;
    let token = guard.token()?;
    cx.warm_up(&other).await?;
    administrator.fill_disk(true).await?;
    let wait = cx.ttl() * 2;
    let (outcome, took) = timed(other.acquire_with(&name, &cx.options().with_wait(wait))).await;
    ensure_within!(took, wait + cx.slack(), "it gave up only after {took:?}");
    ensure!(outcome.is_err() || !guard.is_held(), "two holders, for want of room on a disk");
    let at_free = other.acquire_with(&cx.named("free"), &AcquireOptions::new().with_wait(Wait::No)).await;
    ensure!(at_free.is_err(), "the disk is not full: there was room for another lock");
    drop((outcome, guard));
    administrator.fill_disk(false).await?;
    ensure_larger_token(&client, &name, &cx.options(), token, "over a full disk").await
}
