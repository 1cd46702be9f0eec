//! E: the holder is told in time that it holds no longer.

use crate::cases::c_ownership::administration::crowds;
use crate::cases::prelude::*;
use futures_util::future::try_join_all;
use leasehold_core::{Fairness, Health, LossCause, LossSignal};

pub(super) const CASES: CaseTable = cases![
    E01 deleted_record_is_a_loss_within_its_bound,
    E02 unreachable_store_is_a_loss_by_the_deadline,
    E07 guard_ends_cleanly_while_it_is_being_renewed,
    E09 steady_holder_under_connection_resets_loses_nothing if outlives_its_connection,
    E10 lost_guard_says_so_in_each_way_and_for_good,
    E11 loss_carries_its_cause,
    E12 starved_executor_does_not_hide_the_deadline,
    E14 steady_holder_is_renewed_seldom_and_told_of_no_loss if lease_only,
    E13 late_reply_to_a_renewal_is_counted_from_its_request,
];

/// The lease is so long that the next renewal is far off: a holder that is told by that alone was not told by the store. The first one
/// may come early, and set up what tells.
async fn deleted_record_is_a_loss_within_its_bound(cx: &Context) -> Verdict {
    let (name, ttl) = (cx.name(), cx.ttl() * 8);
    let client = cx.client_at(&cx.store().address_for_holds_of(ttl)).await?;
    let guard = client.take(&name, &cx.options().with_ttl(ttl)).await?;
    until_renewed(&guard, ttl).await?;
    cx.store().delete(&name).await?;
    let bound = match client.semantics().loss_signal {
        LossSignal::Push => cx.slack() * 2,
        _ => ttl / 3 + cx.slack(),
    };
    let loss = loss_within(&guard, bound).await?;
    ensure!(loss.cause() == LossCause::Gone, "a deleted record was reported as {:?}", loss.cause());
    Ok(())
}

/// First nothing passes; then what the store says by itself still arrives, so the connection looks alive.
async fn unreachable_store_is_a_loss_by_the_deadline(cx: &Context) -> Verdict {
    let other = cx.client().await?;
    for traffic in [Traffic::BlackHole, Traffic::HoldRequests] {
        let name = cx.named(&format!("{traffic:?}"));
        let (proxy, client) = cx.client_behind_proxy(cx.ttl() / 4).await?;
        let guard = client.take(&name, &cx.options()).await?;
        proxy.set(traffic);
        let bound = cx.ttl() + cx.slack();
        let is_over = eventually(bound, || !guard.is_held()).await;
        ensure_came!(is_over, "still held after {bound:?} without the store");
        let cause = loss_within(&guard, cx.slack()).await?.cause();
        ensure!(cause == LossCause::Unreachable, "{traffic:?} was reported as {cause:?}");
        free_within(&other, &name, silent_bound(cx).await?, "whose holder does not reach the store").await?;
    }
    Ok(())
}

async fn guard_ends_cleanly_while_it_is_being_renewed(cx: &Context) -> Verdict {
    let client = cx.client().await?;
    let names: Vec<_> = (0..20).map(|n| cx.named(&n.to_string())).collect();
    let end = async |(n, name): (u32, &LockName)| {
        let guard = client.take(name, &cx.options()).await?;
        // Around the first renewal, at a third of the lease, a little earlier or later each.
        tokio::time::sleep(cx.ttl() / 3 - cx.ttl() / 60 + cx.ttl() / 600 * n).await;
        match n % 2 {
            0 => drop(guard),
            _ => guard.release().await?,
        }
        Ok::<_, Stop>(())
    };
    try_join_all((0..).zip(&names).map(end)).await?;
    tokio::time::sleep(cx.ttl() / 3).await;
    ensure_all_free(&client, &names, "after its end during a renewal").await
}

async fn steady_holder_under_connection_resets_loses_nothing(cx: &Context) -> Verdict {
    let (name, ttl) = (cx.name(), cx.ttl() * 2);
    let (proxy, client) = cx.client_behind_proxy(ttl / 10).await?;
    let guard = client.take(&name, &cx.options().with_ttl(ttl)).await?;
    let mut connections = 0;
    for _ in 0..12 {
        tokio::time::sleep(ttl / 4).await;
        connections += proxy.cut();
        ensure_not_lost(&guard, "lost although the store was there")?;
    }
    // Some clients connect anew only for their next renewal.
    ensure_met!(connections > 2, "twelve resets have met {connections} connections");
    Ok(guard.release().await?)
}

/// The lease is over before the first question. Each question is then answered at once, and always in the same way.
async fn lost_guard_says_so_in_each_way_and_for_good(cx: &Context) -> Verdict {
    let (client, name) = (cx.client().await?, cx.name());
    let guard = client.take(&name, &cx.fixed()).await?;
    guard.token()?;
    tokio::time::sleep(cx.ttl() + Duration::from_millis(50)).await;
    let start = Instant::now();
    loss_within(&guard, cx.slack()).await?;
    let lease = guard.lease();
    tokio::spawn(async move { lease.lost().await }).await?;
    let took = start.elapsed();
    ensure_within!(took, cx.slack(), "hearing of a loss that had happened took {took:?}");
    for _ in 0..20 {
        ensure!(guard.health() == Health::Ended, "a lost lock is {:?}", guard.health());
        tokio::time::sleep(cx.ttl() / 10).await;
    }
    ensure_kind(guard.token(), ErrorKind::Lost, "the token of a lost lock")?;
    ensure_kind(guard.extend(cx.ttl()).await, ErrorKind::Lost, "extending a lost lock")?;
    ensure_kind(guard.protect(async {}).await, ErrorKind::Lost, "work under a lost lock")?;
    ensure_kind(guard.release().await, ErrorKind::Lost, "releasing a lost lock")
}

/// The holder is an owner, and then a reader and a writer where the store has them.
async fn loss_carries_its_cause(cx: &Context) -> Verdict {
    let (client, other) = (cx.client().await?, cx.client().await?);
    let operator = other.looking()?;
    for (mode, _) in crowds(&client) {
        let name = |cause: &str| cx.named(&format!("{cause}-{mode}"));
        let options = cx.options().with_mode(*mode);
        let late = client.take(&name("ended"), &options).await?;
        operator.force_release(late.name(), None).await?;
        let released = late.release().await;
        // A connection is ended by the store, and a release that comes meanwhile may be carried out.
        if client.semantics().hold == HoldKind::Lease {
            ensure_kind(released, ErrorKind::Lost, &format!("a {mode} lock, released after its end"))?;
        }
        let expired = client.take(&name("expired"), &options.clone().with_fixed_lease()).await?;
        let forced = client.take(&name("forced"), &options).await?;
        // Asked for again only when its successor is there, also on a busy machine.
        let taken = client.take(&name("taken"), &options.clone().with_ttl(cx.ttl() * 4)).await?;
        let limited = client.take(&name("limited"), &options.clone().with_max_hold(cx.ttl() / 2)).await?;
        operator.force_release(forced.name(), None).await?;
        // A store that tells of a deletion at once is quicker than a successor that comes after it, so this one waits already.
        let successor = spawn_take(&other, taken.name(), &cx.options());
        if other.semantics().fairness == Fairness::Fifo {
            until_queued(cx, &other, taken.name(), 1).await?;
        }
        operator.force_release(taken.name(), None).await?;
        let _successor = successor.await??;
        for (guard, expected) in [
            (&expired, LossCause::Expired),
            (&forced, LossCause::Gone),
            (&taken, LossCause::Taken),
            (&limited, LossCause::MaxHold),
        ] {
            let cause = loss_within(guard, cx.ttl() * 2 + cx.slack()).await?.cause();
            let words = format!("{} was reported as {cause:?}", guard.name());
            // A backend looks for the cause only so long.
            ensure_came!((expected, cause) != (LossCause::Taken, LossCause::Gone), "{words}");
            ensure!(cause == expected, "{words}");
        }
    }
    let closed = client.take(&cx.named("closed"), &cx.options()).await?;
    client.close().await?;
    let cause = closed.loss().map(|loss| loss.cause());
    ensure!(cause == Some(LossCause::Closed), "closing the client was reported as {cause:?}");
    Ok(())
}

/// The only thread of the runtime is blocked: no task runs, no timer fires, and the answer must be right all the same.
async fn starved_executor_does_not_hide_the_deadline(cx: &Context) -> Verdict {
    let (name, ttl) = (cx.name(), cx.ttl());
    let client = cx.client().await?;
    let options = cx.options();
    on_own_runtime(async move {
        let guard = client.take(&name, &options).await?;
        std::thread::sleep(ttl + Duration::from_millis(50));
        ensure!(!guard.is_held(), "a lease of {ttl:?} is believed in after a pause longer than that");
        Ok(())
    })
    .await
}

/// A lease is renewed three times, and four times as often at most, whatever the store hints at. Not counted is what keeps the
/// connection alive.
async fn steady_holder_is_renewed_seldom_and_told_of_no_loss(cx: &Context) -> Verdict {
    const LEASES: u32 = 2;
    let (requests, client) = Requests::of_client(cx).await?;
    let kept_alive = requests.during(cx.ttl() * LEASES).await?;
    let guard = client.take(&cx.name(), &cx.options()).await?;
    // The connections that a first renewal makes are there from now on.
    until_renewed(&guard, cx.ttl()).await?;
    let before = requests.so_far().await?;
    guard.extend(cx.ttl()).await?;
    let of_one = (requests.so_far().await? - before).max(1);
    let sent = requests.during(cx.ttl() * LEASES).await?.saturating_sub(kept_alive);
    let bound = of_one * u64::from(12 * LEASES + 3);
    let of_all = format!("{sent} requests of a holder in {LEASES} leases");
    ensure!(sent <= bound, "{of_all}, {of_one} for an extension; bound {bound}");
    ensure_not_lost(&guard, "told of a loss that there was not")?;
    Ok(guard.release().await?)
}

/// The store renewed in time, and its reply is on the way for most of the time that the holder has left; then the network is cut.
async fn late_reply_to_a_renewal_is_counted_from_its_request(cx: &Context) -> Verdict {
    let (name, other, ttl) = (cx.name(), cx.client().await?, cx.ttl() * 2);
    let (proxy, client) = cx.client_behind_proxy(cx.patience()).await?;
    let guard = client.take(&name, &cx.options().with_ttl(ttl)).await?;
    let successor = spawn_successor(cx, &other, &name);
    until_renewed_unheard(cx, &proxy, &guard, ttl).await?;
    proxy.set(Traffic::BlackHole);
    // A session may be shorter than a ttl.
    tokio::time::sleep(guard.remaining() / 2).await;
    ensure_met!(guard.is_held(), "the hold ended before the late reply");
    // The reply passes, and no other renewal does.
    proxy.set(Traffic::HoldRequests);
    ensure_believed_before(&guard, successor, "after a late reply to a renewal").await
}
