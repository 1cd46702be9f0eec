//! J, for stores that keep everything in memory and run programs of their clients: what they throw away, what they forget,
//! and when they have no time for anybody.

use crate::cases::prelude::*;
use leasehold_core::{FencingToken, TokenClass};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tokio::task::JoinSet;
use tokio::time::Instant;

pub(super) const CASES: CaseTable = cases![
    J21 forgotten_scripts_cost_nobody_a_lock_or_a_turn,
    J22 busy_store_says_so_in_time_and_costs_no_holder_its_lock,
    J23 storm_of_resets_never_lets_two_in,
    J24 replica_that_lags_behind_lets_nobody_in,
    J38 tokens_grow_while_a_replica_lags_behind,
];

/// The number of waiters in each of these cases.
const WAITERS: usize = 3;

/// Takes turns: each gets the lock, and tells its token.
async fn waiters(cx: &Context, name: &LockName) -> Result<JoinSet<Result<FencingToken, Stop>>, Stop> {
    let mut waiters = JoinSet::new();
    for _ in 0..WAITERS {
        let (client, wanted, options) = (cx.client().await?, name.clone(), cx.options());
        waiters.spawn(async move {
            let guard = client.take(&wanted, &options).await?;
            let token = guard.token()?;
            guard.release().await?;
            Ok(token)
        });
    }
    // Long enough for all of them to have asked.
    tokio::time::sleep(cx.slack()).await;
    Ok(waiters)
}

async fn all_are_served(waiters: JoinSet<Result<FencingToken, Stop>>, after: FencingToken) -> Verdict {
    let tokens = tokens_of(waiters).await?;
    ensure!(tokens.iter().all(|token| *token > after), "tokens {tokens:?} after {after}");
    Ok(())
}

/// Expects that all are served, and that no two have one token.
async fn tokens_of(mut waiters: JoinSet<Result<FencingToken, Stop>>) -> Result<Vec<FencingToken>, Stop> {
    let mut tokens = Vec::new();
    while let Some(token) = waiters.join_next().await {
        tokens.push(token??);
    }
    tokens.sort_unstable();
    ensure!(tokens.is_sorted_by(|one, next| one < next), "a token was given twice: {tokens:?}");
    Ok(tokens)
}

/// Everything goes at once: the lock, its holder, the last token, and the queue. For want of memory, or by the hand of an
/// administrator. Where tokens are declared to live in the store's data, they begin anew; the waiters' are distinct all the same.
pub(super) async fn evicted_lock_is_told_and_its_waiters_go_on_with_larger_tokens(cx: &Context) -> Verdict {
    let administrator = cx.store().administrator()?;
    let client = cx.client().await?;
    for how in ["evicted", "wiped"] {
        let name = cx.named(how);
        let guard = client.take(&name, &cx.options()).await?;
        let token = guard.token()?;
        let waiters = waiters(cx, &name).await?;
        match how {
            "evicted" => administrator.evict_everything().await?,
            _ => cx.store().wipe().await?,
        }
        loss_within(&guard, cx.ttl() / 3 + cx.slack()).await?;
        if client.semantics().token == TokenClass::Durable {
            all_are_served(waiters, token).await?;
        } else {
            tokens_of(waiters).await?;
        }
    }
    Ok(())
}

async fn forgotten_scripts_cost_nobody_a_lock_or_a_turn(cx: &Context) -> Verdict {
    let administrator = cx.store().administrator()?;
    let (client, name) = (cx.client().await?, cx.name());
    let guard = client.take(&name, &cx.options()).await?;
    let token = guard.token()?;
    let waiters = waiters(cx, &name).await?;
    let end = Instant::now() + cx.ttl() * 2;
    while Instant::now() < end {
        administrator.forget_scripts().await?;
        ensure!(guard.is_held(), "lost with the scripts: {:?}", guard.loss());
        tokio::time::sleep(cx.ttl() / 20).await;
    }
    ensure_held(&client, &name, "after its scripts were forgotten").await?;
    administrator.forget_scripts().await?;
    guard.release().await?;
    all_are_served(waiters, token).await
}

/// A script of another client blocks the store for half a lease.
async fn busy_store_says_so_in_time_and_costs_no_holder_its_lock(cx: &Context) -> Verdict {
    let administrator = cx.store().administrator()?;
    let (client, other, name) = (cx.client().await?, cx.client().await?, cx.name());
    cx.warm_up(&other).await?;
    let options = cx.options().with_ttl(cx.ttl() * 4);
    let guard = client.take(&name, &options).await?;
    let token = guard.token()?;
    let waiters = waiters(cx, &name).await?;
    administrator.be_busy(cx.ttl() * 2).await?;
    let (wait, start) = (cx.ttl(), Instant::now());
    let attempt = AcquireOptions::new().with_wait(Wait::UpTo(wait));
    let outcome = other.acquire_with(&cx.named("free"), &attempt).await;
    ensure!(start.elapsed() <= wait + cx.slack(), "it gave up only after {:?}", start.elapsed());
    match outcome.map_err(|error| error.kind()) {
        Err(ErrorKind::Unavailable | ErrorKind::Indeterminate) => {}
        Err(kind) => return Err(Stop::Failed(format!("a store that is busy was reported as {kind:?}"))),
        Ok(_) => return Err(Stop::Failed("a store that is busy granted a lock".to_owned())),
    }
    tokio::time::sleep(cx.ttl() * 2).await;
    ensure!(guard.is_held(), "lost to somebody's program: {:?}", guard.loss());
    ensure_held(&other, &name, "after the store had been busy").await?;
    guard.release().await?;
    all_are_served(waiters, token).await
}

/// Connections break faster than a lock is held; whatever is left behind ends with its lease.
async fn storm_of_resets_never_lets_two_in(cx: &Context) -> Verdict {
    if cx.semantics().await?.hold != HoldKind::Lease {
        return Err(Stop::Skipped("a hold here is no lease, and ends with what carries it".to_owned()));
    }
    let (proxy, address) = cx.store().proxied(cx.ttl() / 2).await?;
    let (name, end, at_last) = (cx.name(), Instant::now() + cx.ttl() * 2, Instant::now() + cx.patience());
    let calm = Arc::<AtomicBool>::default();
    let (inside, granted) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let mut players = JoinSet::new();
    for _ in 0..6 {
        let (client, name) = (cx.client_at(&address).await?, name.clone());
        let options = cx.options().with_wait(cx.ttl());
        let (inside, granted, calm) = (Arc::clone(&inside), Arc::clone(&granted), Arc::clone(&calm));
        players.spawn(async move {
            let mut tokens = Vec::new();
            while !calm.load(Ordering::SeqCst) {
                let Ok(guard) = client.acquire_with(&name, &options).await else { continue };
                let Some(token) = alone_inside(&guard, &inside).await? else { continue };
                tokens.push(token);
                granted.fetch_add(1, Ordering::SeqCst);
                drop(guard.release().await);
            }
            Ok::<_, Stop>(tokens)
        });
    }
    // It abates, and goes on until somebody had the lock between two resets: on a busy machine, logging in may take longer
    // than the first pauses are.
    let mut pause = Duration::from_millis(20);
    while Instant::now() < end || (granted.load(Ordering::SeqCst) == 0 && Instant::now() < at_last) {
        proxy.cut();
        tokio::time::sleep(pause).await;
        pause = (pause * 5 / 4).min(cx.ttl() / 2);
    }
    calm.store(true, Ordering::SeqCst);
    proxy.set(Traffic::Pass);
    let mut tokens = Vec::new();
    while let Some(player) = players.join_next().await {
        let of_one = player??;
        ensure!(of_one.is_sorted(), "the tokens of one client do not grow: {of_one:?}");
        tokens.extend(of_one);
    }
    let count = tokens.len();
    tokens.sort_unstable();
    tokens.dedup();
    ensure!(tokens.len() == count, "{} tokens for {count} grants", tokens.len());
    let bound = cx.ttl() + cx.semantics().await?.wake_up.bound() + cx.slack();
    free_within(&cx.client().await?, &name, bound, "after a storm of resets").await?;
    ensure!(granted.load(Ordering::SeqCst) > 0, "nobody ever got the lock");
    Ok(())
}

/// Holds for a moment. The token, if the guard was held for all of it; then nobody else may have been inside.
async fn alone_inside(guard: &LockGuard, inside: &AtomicUsize) -> Result<Option<FencingToken>, Stop> {
    let Ok(token) = guard.token() else { return Ok(None) };
    let others = inside.fetch_add(1, Ordering::SeqCst);
    tokio::task::yield_now().await;
    let held = guard.is_held();
    inside.fetch_sub(1, Ordering::SeqCst);
    ensure!(!held || others == 0, "{} holders at once", others + 1);
    Ok(held.then_some(token))
}

/// What it has not heard of yet it takes for free.
async fn replica_that_lags_behind_lets_nobody_in(cx: &Context) -> Verdict {
    let administrator = cx.store().administrator()?;
    let (client, other, name) = (cx.client().await?, cx.client().await?, cx.name());
    cx.warm_up(&other).await?;
    administrator.hold_back_replication(true).await?;
    let guard = client.take(&name, &cx.options()).await?;
    ensure_held(&other, &name, "taken while a replica lags behind").await?;
    administrator.hold_back_replication(false).await?;
    ensure_held(&other, &name, "once the replica has caught up").await?;
    Ok(guard.release().await?)
}

/// Several grants within its lag, by two clients.
async fn tokens_grow_while_a_replica_lags_behind(cx: &Context) -> Verdict {
    let administrator = cx.store().administrator()?;
    let (client, other, name) = (cx.client().await?, cx.client().await?, cx.name());
    let mut last = None;
    for held_back in [false, true] {
        administrator.hold_back_replication(held_back).await?;
        for client in [&client, &other, &client] {
            let guard = client.take(&name, &cx.options()).await?;
            let token = guard.token()?;
            ensure!(
                last < Some(token),
                "token {token} after {last:?}, with replication held back: {held_back}"
            );
            last = Some(token);
            guard.release().await?;
        }
    }
    administrator.hold_back_replication(false).await.map_err(Into::into)
}
