//! G: dropped, cancelled, panicked: nothing stays behind.

use super::network::{attempt_without_a_reply, withdrawn_within};
use crate::cases::prelude::*;
use leasehold_core::FencingToken;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use tokio::time::Instant;

pub(super) const CASES: CaseTable = cases![
    G01 waiter_that_leaves_delays_nobody,
    G02 acquire_dropped_at_any_await_frees_the_lock,
    G03 acquire_dropped_between_grant_and_reply_is_undone,
    G04 acquire_that_is_never_polled_asks_nothing,
    G05 release_that_is_dropped_still_releases,
    G06 dropped_guard_is_released_soon_and_blocks_nobody,
    G07 lease_outlives_the_runtime_of_its_acquisition,
    G08 panic_in_the_critical_section_frees_the_lock,
    G09 grant_whose_reply_is_lost_is_recognised,
    G10 release_whose_reply_is_lost_is_a_success,
    G11 guard_may_be_released_by_another_thread,
    G15 fifty_refused_attempts_leave_nothing,
];

/// Polls a future `polls` times at most; `None` if it was not ready by then, and was dropped.
pub(super) async fn at_most<F: Future>(polls: usize, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut polled = 0;
    poll_fn(|cx| {
        if polled == polls {
            return Poll::Ready(None);
        }
        polled += 1;
        future.as_mut().poll(cx).map(Some)
    })
    .await
}

async fn waiter_that_leaves_delays_nobody(cx: &Context) -> Verdict {
    let (client, other, name) = (cx.client().await?, cx.client().await?, cx.name());
    cx.warm_up(&other).await?;
    let guard = client.take(&name, &AcquireOptions::new()).await?;
    let leaver = cx.client().await?;
    drop(tokio::time::timeout(Duration::from_millis(200), leaver.acquire_with(&name, &cx.options())).await);
    let before = optional(cx.store().records().await)?;
    guard.release().await?;
    let bound = client.semantics().wake_up.bound() + cx.slack();
    free_within(&other, &name, bound, "after a waiter left").await?;
    let after = optional(cx.store().records().await)?;
    ensure!(after <= before, "{before:?} records while a waiter had left, {after:?} later");
    Ok(())
}

/// Fifty that make one attempt, and fifty that wait in vain. What the first of each leaves, a name keeps for good.
async fn fifty_refused_attempts_leave_nothing(cx: &Context) -> Verdict {
    const TIMES: usize = 50;
    let (client, other, name) = (cx.client().await?, cx.client().await?, cx.name());
    let guard = client.take(&name, &AcquireOptions::new()).await?;
    let fail = async |times: usize| {
        let mut attempts = tokio::task::JoinSet::new();
        for number in 0..times * 2 {
            let wait = if number < times { Duration::ZERO } else { cx.slack() / 2 };
            let (other, name) = (other.clone(), name.clone());
            attempts.spawn(async move {
                other.acquire_with(&name, &AcquireOptions::new().with_wait(wait)).await.is_ok()
            });
        }
        ensure!(!attempts.join_all().await.contains(&true), "a lock that is held was granted again");
        Ok::<_, Stop>(())
    };
    fail(1).await?;
    tokio::time::sleep(cx.slack()).await;
    let before = cx.store().records().await?;
    fail(TIMES).await?;
    let start = Instant::now();
    loop {
        let after = cx.store().records().await?;
        if after <= before {
            break;
        }
        let bound = withdrawn_within(cx, &other);
        ensure!(
            start.elapsed() < bound,
            "{before} records before, {after} after {TIMES} refused attempts of each kind"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    guard.release().await?;
    // What had no answer yet when its time was over is taken back.
    free_within(&other, &name, withdrawn_within(cx, &other), "after refused attempts").await?;
    Ok(())
}

/// Long leases, so that nothing here is freed by one.
async fn acquire_dropped_at_any_await_frees_the_lock(cx: &Context) -> Verdict {
    let (client, other) = (cx.client().await?, cx.client().await?);
    for polls in 1..=200 {
        let name = cx.named(&format!("dropped-{polls}"));
        let outcome = at_most(polls, client.acquire_with(&name, &AcquireOptions::new())).await;
        let done = outcome.is_some();
        drop(outcome);
        let bound = other.semantics().wake_up.bound() + cx.slack() * 2;
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
        let (proxy, client) = cx.client_behind_proxy(cx.patience()).await?;
        let attempt = attempt_without_a_reply(cx, (&proxy, &client), &name, AcquireOptions::new()).await?;
        attempt.abort();
        let _ = attempt.await;
        let mut bound = other.semantics().wake_up.bound() + cx.slack() * 2;
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
    ensure!(
        before == after,
        "{before:?} records before, {after:?} after an acquisition that was never polled"
    );
    ensure_free(&other, &name, "after an acquisition that was never polled").await
}

async fn release_that_is_dropped_still_releases(cx: &Context) -> Verdict {
    let (client, other, name) = (cx.client().await?, cx.client().await?, cx.name());
    for polls in 0..4 {
        let guard = client.take(&name, &AcquireOptions::new()).await?;
        drop(at_most(polls, guard.release()).await);
        let bound = other.semantics().wake_up.bound() + cx.slack();
        free_within(&other, &name, bound, &format!("a release dropped after {polls} polls")).await?;
    }
    Ok(())
}

/// Outside any runtime; and inside one of a single thread, where a drop that waits would wait for itself. There the store
/// gives no answer meanwhile, where there is a network between.
async fn dropped_guard_is_released_soon_and_blocks_nobody(cx: &Context) -> Verdict {
    let (client, other, name) = (cx.client().await?, cx.client().await?, cx.name());
    let bound = other.semantics().wake_up.bound() + cx.slack();
    let guard = client.take(&name, &AcquireOptions::new()).await?;
    std::thread::spawn(move || drop(guard))
        .join()
        .map_err(|_| Stop::Failed("dropping a guard outside a runtime panicked".to_owned()))?;
    free_within(&other, &name, bound, "dropped outside any runtime").await?;

    let (wanted, slack) = (name.clone(), cx.slack());
    let (proxy, client) = match optional(cx.store().proxied(cx.patience() / 4).await)? {
        Some((proxy, address)) => (Some(proxy), cx.client_at(&address).await?),
        None => (None, client),
    };
    let inside = move || -> Verdict {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let guard = client.take(&wanted, &AcquireOptions::new()).await?;
            let let_pass = |traffic| proxy.iter().for_each(|proxy| proxy.set(traffic));
            let_pass(Traffic::HoldReplies);
            let start = Instant::now();
            drop(guard);
            let took = start.elapsed();
            let_pass(Traffic::Pass);
            ensure!(took < slack, "a drop blocked its thread for {took:?}");
            free_within(&other, &wanted, bound, "dropped on a runtime of one thread").await?;
            Ok(())
        })
    };
    tokio::task::spawn_blocking(inside).await?
}

/// A lease is renewed elsewhere, and a drop still releases it. Any other hold may end with a connection that the runtime drove;
/// its holder is then told.
async fn lease_outlives_the_runtime_of_its_acquisition(cx: &Context) -> Verdict {
    let (client, other, name, ttl) = (cx.client().await?, cx.client().await?, cx.name(), cx.ttl());
    // So long that a busy machine connects anew before it ends.
    let (wanted, options) = (name.clone(), cx.options().with_ttl(ttl * 2));
    let is_lease = client.semantics().hold == HoldKind::Lease;
    let ended = move || -> Result<LockGuard, Stop> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async { client.take(&wanted, &options).await })
    };
    let guard = tokio::task::spawn_blocking(ended).await??;
    let bound = other.semantics().wake_up.bound() + cx.slack();
    if is_lease {
        tokio::time::sleep(ttl * 3).await;
        ensure!(guard.is_held(), "lost after its runtime ended: {:?}", guard.loss());
        ensure_held(&other, &name, "after its runtime ended").await?;
        drop(guard);
        return free_within(&other, &name, bound, "dropped after its runtime ended").await.map(drop);
    }
    // What a renewal writes may arrive without its runtime, and be answered: the loss comes when one is not.
    let told = async { tokio::time::timeout(cx.patience(), guard.lost()).await.map(|_| Instant::now()) };
    let free = async {
        let free = free_within(&other, &name, cx.patience(), "after its runtime ended").await;
        free.map(|_| (Instant::now(), guard.is_held()))
    };
    let (told_at, free) = tokio::join!(told, free);
    let (free_at, is_believed) = free?;
    ensure!(!is_believed, "the guard of an ended runtime was believed in when another had the lock");
    let Ok(told_at) = told_at else { return Err(Stop::Failed("no loss after its runtime ended".to_owned())) };
    // The store ends it a lease after the last renewal that arrived.
    let after_loss = free_at.saturating_duration_since(told_at);
    ensure!(after_loss <= ttl * 3 + bound, "lost after its runtime ended, and free {after_loss:?} later");
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
    let bound = cx.ttl() + other.semantics().wake_up.bound() + cx.slack();
    free_within(&other, &name, bound, "after a panic in the critical section").await?;
    Ok(())
}

/// The lease is much longer than the case may take: the lock is had because it is recognised, not because it ended.
async fn grant_whose_reply_is_lost_is_recognised(cx: &Context) -> Verdict {
    let name = cx.name();
    let (proxy, client) = cx.client_behind_proxy(cx.patience() / 20).await?;
    let attempt = attempt_without_a_reply(cx, (&proxy, &client), &name, AcquireOptions::new()).await?;
    let lost = token_in_the_store(cx, &name).await?;
    proxy.cut();
    proxy.set(Traffic::Pass);
    let within = tokio::time::timeout(cx.patience() / 5, attempt).await;
    let Ok(guard) = within else {
        return Err(Stop::Failed(
            "it waits for its own ghost: the lost grant was not recognised as its own".to_owned(),
        ));
    };
    let guard = guard??;
    let token = guard.token()?;
    ensure!(lost.is_none_or(|lost| lost == token), "token {token} for the lost grant of {lost:?}");
    guard.release().await?;
    ensure_free(&cx.client().await?, &name, "after the recognised grant was released").await
}

/// The token of whoever holds it, where the store shows one and it is that of more than a connection: what ends with that is
/// granted anew.
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
    let guard = client.take(&name, &AcquireOptions::new()).await?;
    proxy.set(Traffic::HoldReplies);
    let before = proxy.reply_bytes();
    let release = tokio::spawn(guard.release());
    let applied = eventually(cx.patience(), || proxy.reply_bytes() > before).await;
    ensure!(applied, "the store never answered");
    proxy.cut();
    proxy.set(Traffic::Pass);
    release.await??;
    ensure_free(&cx.client().await?, &name, "after the release").await
}

async fn guard_may_be_released_by_another_thread(cx: &Context) -> Verdict {
    let (client, name) = (cx.client().await?, cx.name());
    let guard = client.take(&name, &cx.options()).await?;
    let elsewhere = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok::<_, Stop>(runtime.block_on(guard.release())?)
    });
    elsewhere.await??;
    ensure_free(&client, &name, "released by another thread").await
}
