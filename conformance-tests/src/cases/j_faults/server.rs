//! Faults of one server, and the doings of its administrator.

use crate::cases::prelude::*;
use leasehold_core::{FencingToken, TokenClass};

pub(super) const CASES: CaseTable = cases![
    J10 evicted_lock_is_told_and_its_waiters_go_on_with_larger_tokens,
    J11 killed_connections_are_survived_or_told,
    J12 client_closes_in_time_although_the_store_is_silent,
    J13 idle_transaction_timeout_spares_a_living_holder,
    J16 read_only_store_grants_nothing_and_says_so,
    J21 forgotten_scripts_cost_neither_a_lock_nor_a_turn,
    J22 busy_store_says_so_in_time_and_costs_no_holder_its_lock,
];

/// An administrator ends every connection. A lease goes on; a hold that is a connection is gone, and its holder hears of it.
/// Waiters wait on, and the client makes itself new connections.
async fn killed_connections_are_survived_or_told(cx: &Context) -> Verdict {
    let administrator = cx.store().administrator()?;
    let (client, waiting, name) = (cx.client().await?, cx.client().await?, cx.name());
    let guard = client.take(&name, &cx.options()).await?;
    let waiter = spawn_take(&waiting, &name, &cx.options());
    tokio::time::sleep(cx.ttl() / 2).await;
    if let Ok(connections) = administrator.connections().await {
        ensure!(connections > 0, "nobody is connected whose connection could be killed");
    }
    administrator.kill_connections().await?;
    if client.semantics().hold == HoldKind::Connection {
        loss_within(&guard, cx.ttl() / 3 + cx.slack()).await?;
        drop(guard);
    } else {
        tokio::time::sleep(cx.ttl() * 3 / 2).await;
        ensure_not_lost(&guard, "lost with its connection, which a lease is not")?;
        ensure!(!waiter.is_finished(), "a lease that is renewed was given to another");
        guard.release().await?;
    }
    let bound = expiry_bound(cx, &client);
    let guard = granted_within(waiter, bound, "a waiter whose connection was killed").await?;
    match guard.release().await {
        // The waiter inherited the row just before its own connection was ended. It is told.
        Err(error) if client.semantics().hold == HoldKind::Connection && error.kind() == ErrorKind::Lost => {}
        released => released?,
    }
    ensure_all_free(&client, [&name; 5], "through the client whose connections were killed").await
}

/// Five seconds are promised for the end of what runs in the background.
async fn client_closes_in_time_although_the_store_is_silent(cx: &Context) -> Verdict {
    let (client, name) = (cx.client().await?, cx.name());
    let dropped = client.take(&name, &cx.options()).await?;
    let kept = client.take(&cx.named("kept"), &cx.options()).await?;
    cx.store().pause().await?;
    drop(dropped);
    let (_, took) = timed(client.close()).await;
    let bound = Duration::from_secs(5) + cx.slack() * 2;
    ensure_within!(took, bound, "closing took {took:?}, bound {bound:?}");
    ensure!(!kept.is_held(), "a guard is held although its client was closed");
    cx.store().resume().await?;
    let other = cx.client().await?;
    let bound = expiry_bound(cx, &other);
    free_within(&other, &name, bound, "dropped while the store was silent").await
}

async fn idle_transaction_timeout_spares_a_living_holder(cx: &Context) -> Verdict {
    let after = Duration::from_secs(1);
    cx.store().administrator()?.end_idle_transactions(after).await?;
    let (client, other, name) = (cx.client().await?, cx.client().await?, cx.name());
    let guards = [client.take(&name, &cx.options()).await?];
    held_for(&other, &guards, after * 3, "under a server that ends what is idle").await?;
    release_all(guards).await
}

/// A replica is read-only, and so is a primary that was told to stop. The answer is an error, in time, and no `Busy`.
async fn read_only_store_grants_nothing_and_says_so(cx: &Context) -> Verdict {
    let administrator = cx.store().administrator()?;
    let (client, name) = (cx.client().await?, cx.name());
    cx.warm_up(&client).await?;
    administrator.set_read_only(true).await?;
    // The second client has to connect first; and a row that the first one locked in vain is locked until it is rolled back.
    let patience = cx.ttl() * 2;
    let late = (cx.client().await?, cx.named("late"), Wait::UpTo(patience));
    for (client, name, wait) in [(client.clone(), name.clone(), Wait::No), late] {
        let options = AcquireOptions::new().with_wait(wait);
        let (outcome, took) = timed(client.acquire_with(&name, &options)).await;
        ensure_within!(took, patience + cx.slack(), "it gave up only after {took:?}");
        match outcome.map_err(|error| error.kind()) {
            Err(ErrorKind::Unavailable | ErrorKind::Misconfigured) => {}
            // The last question may have been on its way when the time was up.
            Err(ErrorKind::Indeterminate) if wait != Wait::No => {}
            odd => return Err(Stop::Failed(format!("a store that is read-only answered with {odd:?}"))),
        }
    }
    administrator.set_read_only(false).await?;
    ensure_free(&client, &name, "after the store could be written to again").await
}

/// Everything goes at once, for want of memory or by an administrator: the lock, its holder, the last token, and the queue. Where
/// tokens are declared to live in the store's data, they begin anew; the waiters' are distinct all the same.
async fn evicted_lock_is_told_and_its_waiters_go_on_with_larger_tokens(cx: &Context) -> Verdict {
    let administrator = cx.store().administrator()?;
    let client = cx.client().await?;
    for how in ["evicted", "wiped"] {
        let name = cx.named(how);
        let guard = client.take(&name, &cx.options()).await?;
        let token = guard.token()?;
        let waiters = spawn_waiters(cx, &name).await?;
        match how {
            "evicted" => administrator.evict_everything().await?,
            _ => cx.store().wipe().await?,
        }
        loss_within(&guard, cx.ttl() / 3 + cx.slack()).await?;
        let goes_on = client.semantics().token == TokenClass::Durable;
        ensure_all_served(waiters, goes_on.then_some(token)).await?;
    }
    Ok(())
}

async fn forgotten_scripts_cost_neither_a_lock_nor_a_turn(cx: &Context) -> Verdict {
    let administrator = cx.store().administrator()?;
    let (client, name) = (cx.client().await?, cx.name());
    let guard = client.take(&name, &cx.options()).await?;
    let token = guard.token()?;
    let waiters = spawn_waiters(cx, &name).await?;
    let end = Instant::now() + cx.ttl() * 2;
    while Instant::now() < end {
        administrator.forget_scripts().await?;
        ensure_not_lost(&guard, "lost with the scripts")?;
        tokio::time::sleep(cx.ttl() / 20).await;
    }
    ensure_held(&client, &name, "after its scripts were forgotten").await?;
    administrator.forget_scripts().await?;
    guard.release().await?;
    ensure_all_served(waiters, Some(token)).await
}

/// A script of another client blocks the store for half a lease.
async fn busy_store_says_so_in_time_and_costs_no_holder_its_lock(cx: &Context) -> Verdict {
    let administrator = cx.store().administrator()?;
    let (client, other, name) = (cx.client().await?, cx.client().await?, cx.name());
    cx.warm_up(&other).await?;
    let options = cx.options().with_ttl(cx.ttl() * 4);
    let guard = client.take(&name, &options).await?;
    let token = guard.token()?;
    let waiters = spawn_waiters(cx, &name).await?;
    administrator.be_busy(cx.ttl() * 2).await?;
    let (wait, start) = (cx.ttl(), Instant::now());
    let attempt = AcquireOptions::new().with_wait(Wait::UpTo(wait));
    let outcome = other.acquire_with(&cx.named("free"), &attempt).await;
    ensure_within!(start.elapsed(), wait + cx.slack(), "it gave up only after {:?}", start.elapsed());
    ensure_outage(outcome, "a store that is busy")?;
    tokio::time::sleep(cx.ttl() * 2).await;
    ensure_not_lost(&guard, "lost to somebody's program")?;
    ensure_held(&other, &name, "after the store had been busy").await?;
    guard.release().await?;
    ensure_all_served(waiters, Some(token)).await
}

/// Starts waiters that take turns: each gets the lock, and tells its token.
async fn spawn_waiters(cx: &Context, name: &LockName) -> Result<JoinSet<Result<FencingToken, Stop>>, Stop> {
    const WAITERS: usize = 3;
    let mut waiters = JoinSet::new();
    for _ in 0..WAITERS {
        let (client, wanted, options) = (cx.client().await?, name.clone(), cx.options());
        waiters.spawn(async move { take_turn(&client, &wanted, &options).await });
    }
    // Long enough for all of them to have asked.
    tokio::time::sleep(cx.slack()).await;
    Ok(waiters)
}

/// Expects that all are served, that no two have one token, and that each token is larger than this one.
async fn ensure_all_served(
    waiters: JoinSet<Result<FencingToken, Stop>>,
    after: Option<FencingToken>,
) -> Verdict {
    let tokens = joined(waiters).await?;
    ensure_untimed!(tokens.iter().all(|token| Some(*token) > after), "tokens {tokens:?} after {after:?}");
    ensure_distinct(tokens, "of several waiters")
}
