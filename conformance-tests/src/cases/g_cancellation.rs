//! G: dropped, cancelled, panicked: nothing stays behind.

use crate::cases::prelude::*;
use crate::cases::t_shared_locks::modes::waiter;
use leasehold_core::{FencingToken, LockMode};

pub(super) const CASES: CaseTable = cases![
    G01 waiter_that_leaves_delays_no_other_and_takes_nothing,
    G02 acquire_dropped_at_any_await_frees_the_lock,
    G03 acquire_dropped_between_grant_and_reply_is_undone,
    G04 acquire_that_is_never_polled_asks_nothing,
    G05 release_that_is_dropped_still_releases,
    G06 dropped_guard_is_released_soon_and_blocks_no_thread,
    G07 lease_outlives_the_runtime_of_its_acquisition,
    G08 panic_in_the_critical_section_frees_the_lock,
    G09 grant_whose_reply_is_lost_is_recognised,
    G10 release_whose_reply_is_lost_is_a_success,
    G12 only_attempt_whose_reply_is_lost_is_indeterminate,
    G13 release_whose_request_is_lost_is_made_again,
    G14 grant_recognised_late_lasts_a_whole_lease if lease_only,
    G15 fifty_refused_attempts_leave_nothing,
];

async fn waiter_that_leaves_delays_no_other_and_takes_nothing(cx: &Context) -> Verdict {
    let (client, other, name) = (cx.client().await?, cx.client().await?, cx.name());
    cx.warm_up(&other).await?;
    let guard = client.take(&name, &AcquireOptions::new()).await?;
    let leaver = cx.client().await?;
    drop(tokio::time::timeout(Duration::from_millis(200), leaver.acquire_with(&name, &cx.options())).await);
    let short = cx.options().with_wait(cx.slack());
    let outcome = leaver.acquire_with(&name, &short).await;
    ensure_kind_if_known(outcome, ErrorKind::TimedOut, "a waiter that gives up")?;
    ensure_held(&other, &name, "after waiters left").await?;
    let before = optional(cx.store().records().await)?;
    guard.release().await?;
    free_within(&other, &name, hand_over_bound(cx, &client), "after a waiter left").await?;
    let after = optional(cx.store().records().await)?;
    ensure!(after <= before, "{before:?} records while a waiter had left, {after:?} later");
    Ok(())
}

/// Fifty make one attempt, and fifty wait in vain. A name keeps for good what the first of each leaves.
async fn fifty_refused_attempts_leave_nothing(cx: &Context) -> Verdict {
    const TIMES: usize = 50;
    let (client, other, name) = (cx.client().await?, cx.client().await?, cx.name());
    let guard = client.take(&name, &AcquireOptions::new()).await?;
    let fail = async |times: usize| {
        let mut attempts = JoinSet::new();
        for number in 0..times * 2 {
            let wait = if number < times { Duration::ZERO } else { cx.slack() / 2 };
            let (other, name, options) = (other.clone(), name.clone(), cx.long_lease());
            attempts.spawn(async move { other.acquire_with(&name, &options.with_wait(wait)).await.is_ok() });
        }
        ensure!(!attempts.join_all().await.contains(&true), "a lock that is held was granted again");
        Ok::<_, Stop>(())
    };
    fail(1).await?;
    tokio::time::sleep(cx.slack()).await;
    let before = cx.store().records().await?;
    fail(TIMES).await?;
    let bound = withdrawn_within(cx, &other);
    until_records_gone(cx, before, bound, &format!("{TIMES} refused attempts of each kind")).await?;
    guard.release().await?;
    // An attempt whose time was over before its answer is taken back.
    free_within(&other, &name, bound, "after refused attempts").await
}

/// The leases are so long that none ends within the case.
async fn acquire_dropped_at_any_await_frees_the_lock(cx: &Context) -> Verdict {
    let (client, other) = (cx.client().await?, cx.client().await?);
    for polls in 1..=200 {
        let name = cx.named(&format!("dropped-{polls}"));
        let outcome = at_most(polls, client.acquire_with(&name, &cx.long_lease())).await;
        let done = outcome.is_some();
        drop(outcome);
        let bound = hand_over_bound(cx, &other) + cx.slack();
        free_within(&other, &name, bound, &format!("dropped after {polls} polls")).await?;
        if done {
            return Ok(());
        }
    }
    Err(Stop::Failed("an acquisition of a free lock was not ready after 200 polls".to_owned()))
}

/// The reply comes late, when nobody wants it any more; or never, because its connection ends.
async fn acquire_dropped_between_grant_and_reply_is_undone(cx: &Context) -> Verdict {
    let other = cx.client().await?;
    for lost in [false, true] {
        let name = cx.named(if lost { "lost" } else { "late" });
        let (proxy, _client, attempt) =
            attempt_without_a_reply(cx, cx.patience(), &name, &cx.long_lease()).await?;
        attempt.abort();
        let _ = attempt.await;
        let mut bound = hand_over_bound(cx, &other) + cx.slack();
        if lost {
            proxy.cut();
            bound = withdrawn_within(cx, &other);
        }
        proxy.set(Traffic::Pass);
        free_within(&other, &name, bound, "dropped between grant and reply").await?;
    }
    Ok(())
}

async fn acquire_that_is_never_polled_asks_nothing(cx: &Context) -> Verdict {
    let (name, other) = (cx.name(), cx.client().await?);
    let client = cx.client().await?;
    cx.warm_up(&client).await?;
    let before = optional(cx.store().records().await)?;
    let options = cx.options();
    drop(client.acquire_with(&name, &options));
    tokio::time::sleep(Duration::from_millis(50)).await;
    let after = optional(cx.store().records().await)?;
    ensure!(before == after, "{before:?} records before, and {after:?} without one poll");
    ensure_free(&other, &name, "after an acquisition that was never polled").await
}

async fn release_that_is_dropped_still_releases(cx: &Context) -> Verdict {
    let (client, other, name) = (cx.client().await?, cx.client().await?, cx.name());
    for polls in 0..4 {
        let guard = client.take(&name, &cx.long_lease()).await?;
        drop(at_most(polls, guard.release()).await);
        let when = format!("a release dropped after {polls} polls");
        free_within(&other, &name, hand_over_bound(cx, &other), &when).await?;
    }
    Ok(())
}

/// The guard is dropped outside any runtime, released in another one, and then dropped inside one of a single thread, where a drop that waits would wait for itself.
/// There the store gives no answer meanwhile, where there is a network between.
async fn dropped_guard_is_released_soon_and_blocks_no_thread(cx: &Context) -> Verdict {
    let (client, other, name) = (cx.client().await?, cx.client().await?, cx.name());
    let bound = hand_over_bound(cx, &other);
    let guard = client.take(&name, &AcquireOptions::new()).await?;
    std::thread::spawn(move || drop(guard))
        .join()
        .map_err(|_| Stop::Failed("dropping a guard outside a runtime panicked".to_owned()))?;
    free_within(&other, &name, bound, "dropped outside any runtime").await?;
    let guard = client.take(&name, &AcquireOptions::new()).await?;
    on_own_runtime(async move { Ok(guard.release().await?) }).await?;
    ensure_free(&other, &name, "released by another thread").await?;

    let slack = cx.slack();
    let (proxy, client) = match optional(cx.store().proxied(cx.patience() / 4).await)? {
        Some((proxy, address)) => (Some(proxy), cx.client_at(&address).await?),
        None => (None, client),
    };
    on_own_runtime(async move {
        let guard = client.take(&name, &AcquireOptions::new()).await?;
        let set = |traffic| proxy.iter().for_each(|proxy| proxy.set(traffic));
        set(Traffic::HoldReplies);
        let start = Instant::now();
        drop(guard);
        let took = start.elapsed();
        set(Traffic::Pass);
        ensure_within!(took, slack, "a drop blocked its thread for {took:?}");
        free_within(&other, &name, bound, "dropped on a runtime of one thread").await
    })
    .await
}

/// A lease is renewed elsewhere, and a drop still releases it. Any other hold may end with a connection that the runtime drove;
/// its holder is then told.
async fn lease_outlives_the_runtime_of_its_acquisition(cx: &Context) -> Verdict {
    let (client, other, name, ttl) = (cx.client().await?, cx.client().await?, cx.name(), cx.ttl());
    // So long that a busy machine connects anew before it ends.
    let (wanted, options) = (name.clone(), cx.options().with_ttl(ttl * 2));
    let is_lease = client.semantics().hold == HoldKind::Lease;
    let guard = on_own_runtime(async move { client.take(&wanted, &options).await }).await?;
    let bound = hand_over_bound(cx, &other);
    if is_lease {
        tokio::time::sleep(ttl * 3).await;
        ensure_not_lost(&guard, "lost after its runtime ended")?;
        ensure_held(&other, &name, "after its runtime ended").await?;
        drop(guard);
        return free_within(&other, &name, bound, "dropped after its runtime ended").await;
    }
    // A request of a renewal may arrive without its runtime, and be answered: the loss comes when one is not.
    let told = async { tokio::time::timeout(cx.patience(), guard.lost()).await.map(|_| Instant::now()) };
    let free = async {
        let free = free_within(&other, &name, cx.patience(), "after its runtime ended").await;
        free.map(|_| (Instant::now(), guard.is_held()))
    };
    let (told_at, free) = tokio::join!(told, free);
    let (free_at, is_believed) = free?;
    ensure!(!is_believed, "the guard of an ended runtime was believed in when another had the lock");
    let told_at = told_at.map_err(|_| Stop::Late("no loss after its runtime ended".to_owned(), None))?;
    // The store ends it a lease after the last renewal that arrived.
    let after_loss = free_at.saturating_duration_since(told_at);
    let bound = (ttl * 3).max(cx.session_timeout()) + bound;
    ensure_within!(after_loss, bound, "lost after its runtime ended, and free {after_loss:?} later");
    Ok(())
}

async fn panic_in_the_critical_section_frees_the_lock(cx: &Context) -> Verdict {
    let (client, other, name) = (cx.client().await?, cx.client().await?, cx.name());
    let (wanted, options) = (name.clone(), cx.options());
    let task = tokio::spawn(async move {
        let _guard = client.take(&wanted, &options).await.map_err(|stop| format!("{stop:?}"))?;
        // Quietly: the default hook would print a panic that is part of the case.
        std::panic::resume_unwind(Box::new("the work went wrong"));
        #[expect(unreachable_code, reason = "it gives the block its type")]
        Ok::<(), String>(())
    });
    ensure!(task.await.is_err_and(|error| error.is_panic()), "the task did not panic");
    let bound = expiry_bound(cx, &other);
    free_within(&other, &name, bound, "after a panic in the critical section").await
}

/// The lease is much longer than the case may take: the lock is had because it is recognised, not because it ended. First nobody waits
/// for it, and then another client.
async fn grant_whose_reply_is_lost_is_recognised(cx: &Context) -> Verdict {
    let (bound, patience, long) = (cx.patience() / 5, cx.patience() / 20, cx.long_lease());
    let alone = cx.named("alone");
    let (proxy, _, attempt) = attempt_without_a_reply(cx, patience, &alone, &long).await?;
    let lost = token_in_the_store(cx, &alone).await?;
    // Its client may have given up its connection by itself.
    let _ = lose_connections(&proxy);
    let guard = granted_within(attempt, bound, "it waits for its own ghost: the client").await?;
    let token = guard.token()?;
    ensure!(lost.is_none_or(|lost| lost == token), "token {token} for the lost grant of {lost:?}");
    guard.release().await?;
    ensure_free(&cx.client().await?, &alone, "after the recognised grant was released").await?;

    let wanted = cx.named("wanted");
    let (proxy, _, attempt) = attempt_without_a_reply(cx, patience, &wanted, &long).await?;
    let waiter = waiter(cx, &wanted, LockMode::Exclusive).await?;
    let _ = lose_connections(&proxy);
    // A store that withdraws what was not answered may serve the waiter first.
    let served = async |task: TakeTask, who: &str| {
        Ok::<_, Stop>(granted_within(task, bound * 2, who).await?.release().await?)
    };
    let client = served(attempt, "beside a lost grant, the client");
    tokio::try_join!(client, served(waiter, "beside a lost grant, the waiter"))?;
    ensure_free(&cx.client().await?, &wanted, "after both were served").await
}

/// The token of the holder, where the store shows one and it is that of more than a connection: a hold that ends with its
/// connection is granted anew.
async fn token_in_the_store(cx: &Context, name: &LockName) -> Result<Option<FencingToken>, Stop> {
    let client = cx.client().await?;
    match client.admin() {
        Some(admin) if client.semantics().hold != HoldKind::Connection => {
            Ok(admin.inspect(name).await?.first().and_then(|status| status.token))
        }
        _ => Ok(None),
    }
}

async fn release_whose_reply_is_lost_is_a_success(cx: &Context) -> Verdict {
    let name = cx.name();
    let (proxy, client) = cx.client_behind_proxy(cx.patience()).await?;
    let guard = client.take(&name, &cx.long_lease()).await?;
    let release = release_without_a_reply(cx, (&proxy, &client), guard).await?;
    lose_connections(&proxy)?;
    release.await??;
    ensure_free(&cx.client().await?, &name, "after the release").await
}

/// The attempt may hold the lock. A client that is told of another holder, or that nothing was done, would leave it held.
async fn only_attempt_whose_reply_is_lost_is_indeterminate(cx: &Context) -> Verdict {
    let (name, other) = (cx.name(), cx.client().await?);
    let once = cx.long_lease().with_wait(Wait::No);
    let (proxy, _client, attempt) = attempt_without_a_reply(cx, cx.ttl(), &name, &once).await?;
    // By its own patience: after a connection that broke, a client may ask again over the next one.
    ensure_kind(attempt.await?, ErrorKind::Indeterminate, "the one attempt, without a reply")?;
    let _ = lose_connections(&proxy);
    let bound = withdrawn_within(cx, &other);
    free_within(&other, &name, bound, "after an attempt without a reply").await
}

/// The lease is much longer than the case may take: a release that is taken for done is found out.
async fn release_whose_request_is_lost_is_made_again(cx: &Context) -> Verdict {
    let (name, other, patience) = (cx.name(), cx.client().await?, cx.ttl() / 4);
    let (proxy, client) = cx.client_behind_proxy(patience).await?;
    let guard = client.take(&name, &cx.long_lease()).await?;
    let silent_since = Instant::now();
    proxy.set(Traffic::BlackHole);
    let before = proxy.request_bytes();
    let release = tokio::spawn(guard.release());
    ensure!(eventually(cx.patience(), || proxy.request_bytes() > before).await, "no release was sent");
    tokio::time::sleep(patience + cx.slack()).await;
    let is_held = other.poke(&name).await?.is_none();
    cx.ensure_session(silent_since)?;
    ensure_met!(is_held, "the release that is to be lost arrived: somebody else got the lock");
    lose_connections(&proxy)?;
    free_within(&other, &name, withdrawn_within(cx, &other), "after a release that was lost").await?;
    release.abort();
    Ok(())
}

/// The first reply is lost with its connection, and most of that lease is over when the attempt is made again. The hold is not
/// renewed.
async fn grant_recognised_late_lasts_a_whole_lease(cx: &Context) -> Verdict {
    let (name, other, ttl) = (cx.name(), cx.client().await?, cx.ttl());
    let (proxy, _client, attempt) = attempt_without_a_reply(cx, cx.patience(), &name, &cx.fixed()).await?;
    tokio::time::sleep(ttl * 3 / 5).await;
    lose_connections(&proxy)?;
    let guard = attempt.await??;
    // A backend that asks again by itself keeps the moment of its first question from the core: it is the store that counts.
    if other.admin().is_some() {
        let kept = ensure_kept(&other, &guard, "after a grant that was recognised late").await?;
        ensure!(kept > ttl / 2, "of a lease of {ttl:?} that was recognised late, {kept:?} are kept");
    }
    let successor = spawn_successor(cx, &other, &name);
    ensure_believed_before(&guard, successor, "after a grant that was recognised late").await?;
    ensure_free(&other, &name, "after the lease").await
}
