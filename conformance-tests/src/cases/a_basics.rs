//! A: what a lock is.

use crate::cases::prelude::*;
use crate::cases::recorded_run::RecordedRun;
use crate::worker::Request;
use leasehold_core::{HolderInfo, WakeUp};
use std::sync::atomic::{AtomicU32, Ordering};

pub(super) const CASES: CaseTable = cases![
    A01 released_lock_can_be_had_again,
    A02 held_lock_refuses_a_second_holder_at_once,
    A03 two_names_are_two_locks,
    A04 hundred_tasks_are_never_two_at_once,
    A05 four_processes_are_never_two_at_once,
    A06 release_is_final_no_loss_and_frees_no_successor,
    A07 release_lets_a_waiter_in_within_its_bound,
    A08 thousand_cycles_leave_nothing_behind(Quarter),
    A09 lock_is_not_reentrant,
    A12 bad_arguments_are_refused_before_any_trace,
    A13 first_requests_of_a_client_may_come_at_once,
];

async fn released_lock_can_be_had_again(cx: &Context) -> Verdict {
    let (client, name) = (cx.client().await?, cx.name());
    for _ in 0..3 {
        client.take(&name, &cx.options()).await?.release().await?;
    }
    Ok(())
}

async fn held_lock_refuses_a_second_holder_at_once(cx: &Context) -> Verdict {
    let (first, second, name) = (cx.client().await?, cx.client().await?, cx.name());
    let guard = first.take(&name, &AcquireOptions::new()).await?;
    cx.warm_up(&second).await?;
    let start = Instant::now();
    ensure_held(&second, &name, "while it is held").await?;
    ensure_within!(start.elapsed(), cx.slack(), "the refusal took {:?}", start.elapsed());
    guard.release().await?;
    ensure_free(&second, &name, "after the refused attempt").await
}

async fn two_names_are_two_locks(cx: &Context) -> Verdict {
    let ttl = cx.patience();
    let client = cx.client_at(&cx.store().address_for_holds_of(ttl)).await?;
    let one = client.take(&cx.named("one"), &cx.options().with_ttl(ttl)).await?;
    let two = client.take(&cx.named("two"), &cx.options().with_ttl(ttl)).await?;
    ensure!(one.is_held() && two.is_held(), "one name took the lock of the other");
    one.release().await?;
    Ok(two.release().await?)
}

async fn hundred_tasks_are_never_two_at_once(cx: &Context) -> Verdict {
    let (client, name) = (cx.client().await?, cx.name());
    let inside = Arc::new(AtomicU32::new(0));
    let options = AcquireOptions::new().with_wait(cx.patience() * 3);
    let mut tasks = JoinSet::new();
    for _ in 0..100 {
        let (client, name, options) = (client.clone(), name.clone(), options.clone());
        let inside = Arc::clone(&inside);
        tasks.spawn(async move {
            let guard = client.take(&name, &options).await?;
            let others = inside.fetch_add(1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            inside.fetch_sub(1, Ordering::SeqCst);
            guard.release().await?;
            Ok::<_, Stop>(others)
        });
    }
    let most = joined(tasks).await?.into_iter().max().unwrap_or_default();
    ensure!(most == 0, "{most} others held it at the same time");
    Ok(())
}

/// By their recorded history.
async fn four_processes_are_never_two_at_once(cx: &Context) -> Verdict {
    let run = RecordedRun::new(cx, cx.ttl())?;
    let mut workers = Vec::new();
    for _ in 0..4 {
        workers.push(cx.worker().await?);
    }
    for (number, worker) in (0..).zip(&mut workers) {
        worker.send(&Request::History(run.workload(number, cx.ttl() * 2))).await?;
    }
    for worker in &mut workers {
        worker.done().await?;
    }
    run.judge().await
}

/// A lease handle that the first holder keeps after its release does not affect the lock of the successor.
async fn release_is_final_no_loss_and_frees_no_successor(cx: &Context) -> Verdict {
    let (first, second, name) = (cx.client().await?, cx.client().await?, cx.name());
    let guard = first.take(&name, &cx.options()).await?;
    let lease = guard.lease();
    guard.release().await?;
    let successor = second.take(&name, &cx.options()).await?;
    ensure!(!lease.is_held(), "a released lease says that it is held");
    let told = tokio::time::timeout(cx.ttl() * 2, lease.lost()).await;
    ensure!(told.is_err(), "a release was reported as the loss {told:?}");
    drop(lease);
    ensure_not_lost(&successor, "the successor lost its lock")?;
    ensure_held(&first, &name, "after the first holder's release").await?;
    Ok(successor.release().await?)
}

/// The first waiter has asked again, in vain, when the release comes, and its client has whatever it hears by.
async fn release_lets_a_waiter_in_within_its_bound(cx: &Context) -> Verdict {
    let (first, second, name) = (cx.client().await?, cx.client().await?, cx.name());
    let (wake_up, bound) = (first.semantics().wake_up, hand_over_bound(cx, &first));
    let hand_over = async |mode, waits| {
        let guard = first.take(&name, &AcquireOptions::new().with_mode(mode)).await?;
        // A lease that outlasts whatever holds up a busy machine.
        let options = cx.long_lease().with_wait(cx.patience());
        let (second, waiting) = (second.clone(), name.clone());
        let waiter = tokio::spawn(async move {
            let guard = second.take(&waiting, &options).await?;
            Ok::<_, Stop>((guard, Instant::now()))
        });
        tokio::time::sleep(waits).await;
        ensure!(!waiter.is_finished(), "the waiter got a lock that is held");
        let released = Instant::now();
        guard.release().await?;
        let (guard, taken) = waiter.await??;
        guard.release().await?;
        Ok::<_, Stop>(taken.saturating_duration_since(released))
    };
    for mode in cx.modes_in_front() {
        let took = hand_over(*mode, bound).await?;
        ensure_within!(took, bound, "the hand-over took {took:?}, bound {bound:?}");
        let WakeUp::Push { fallback } = wake_up else { continue };
        // Long enough to have asked once, and long before anybody asks again without having been told.
        let soon = (fallback / 10).min(Duration::from_millis(100));
        let mut hand_overs = Vec::new();
        for _ in 0..9 {
            hand_overs.push(hand_over(*mode, soon).await?);
        }
        ensure_told(wake_up, hand_overs)?;
    }
    Ok(())
}

async fn thousand_cycles_leave_nothing_behind(cx: &Context) -> Verdict {
    let (client, name) = (cx.client().await?, cx.name());
    client.take(&name, &AcquireOptions::new()).await?.release().await?;
    let before = cx.store().records().await?;
    for _ in 0..1_000 {
        client.take(&name, &AcquireOptions::new()).await?.release().await?;
    }
    let after = cx.store().records().await?;
    ensure!(after <= before, "{before} records before, {after} after a thousand cycles on one name");
    Ok(())
}

async fn lock_is_not_reentrant(cx: &Context) -> Verdict {
    let (client, name) = (cx.client().await?, cx.name());
    let _guard = client.take(&name, &AcquireOptions::new()).await?;
    ensure_held(&client, &name, "acquired again by its own holder").await?;
    tokio::spawn(async move { ensure_held(&client, &name, "by another task").await }).await?
}

/// The second request is made while the first has no answer: both wait for whatever a client finds out once.
async fn first_requests_of_a_client_may_come_at_once(cx: &Context) -> Verdict {
    let (proxy, client) = cx.new_client_behind_proxy(cx.patience()).await?;
    let attempt = |name: &str| {
        let (client, name) = (client.clone(), cx.named(name));
        let once = cx.options().with_ttl(cx.patience()).with_wait(Wait::No);
        async move { client.acquire_with(&name, &once).await }
    };
    let first = until_answer_is_held(cx, &proxy, attempt("first")).await?;
    let mut second = tokio::spawn(attempt("second"));
    // A client that does not wait for the replies returns within this time.
    let early = tokio::time::timeout(cx.ttl() / 5, &mut second).await;
    proxy.set(Traffic::Pass);
    let second = match early {
        Ok(ended) => ended,
        Err(_) => second.await,
    };
    first.await??.release().await?;
    Ok(second??.release().await?)
}

async fn bad_arguments_are_refused_before_any_trace(cx: &Context) -> Verdict {
    let (client, name) = (cx.client().await?, cx.name());
    cx.warm_up(&client).await?;
    let before = optional(cx.store().records().await)?;
    let options = AcquireOptions::new();
    let bad = [
        ("a ttl of zero", options.clone().with_ttl(Duration::ZERO)),
        ("the shortest ttl", options.clone().with_ttl(Duration::from_nanos(1))),
        ("the longest ttl", options.clone().with_ttl(Duration::MAX)),
        ("a max_hold of zero", options.clone().with_max_hold(Duration::ZERO)),
        ("too much holder info", options.with_holder(&HolderInfo::default().with_doing("x".repeat(5_000)))),
    ];
    for (what, options) in bad {
        ensure_kind(client.acquire_with(&name, &options).await, ErrorKind::Invalid, what)?;
    }
    for text in ["", "a\0b", "a\nb", "\u{1b}[2J", &"x".repeat(513)] {
        ensure!(LockName::new(text).is_err(), "the name {text:?} was taken");
    }
    let after = optional(cx.store().records().await)?;
    ensure!(before == after, "{before:?} records before, {after:?} after refused calls");
    Ok(())
}
