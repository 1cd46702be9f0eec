//! Only the owner releases.

use crate::cases::prelude::*;

pub(super) const CASES: CaseTable = cases![
    C02 late_release_frees_no_successor = late_release(false),
    C03 late_release_through_the_same_client_frees_no_successor = late_release(true),
    C11 interleaved_attempts_leave_one_holder_that_can_release,
    C12 release_delayed_on_the_wire_frees_no_successor = release_on_the_wire(false),
    C13 late_release_after_a_deletion_frees_no_successor,
    C16 repeated_release_frees_no_successor = release_on_the_wire(true),
];

/// The successor is of another client, or of the same.
async fn late_release(cx: &Context, by_same_client: bool) -> Verdict {
    let name = cx.name();
    let (network, client, late) = outlived(cx, &name).await?;
    let reach_the_store = || network.iter().for_each(|network| network.set(Traffic::Pass));
    let second = if by_same_client {
        reach_the_store();
        client
    } else {
        cx.client().await?
    };
    let successor = second.take(&name, &cx.options()).await?;
    reach_the_store();
    release_late(late, successor, &second).await
}

/// A holder whose hold is over in the store, or will be in a moment, and that still has its guard; and its network, where that was cut.
async fn outlived(cx: &Context, name: &LockName) -> Result<(Option<Proxy>, Client, LockGuard), Stop> {
    if cx.semantics().await?.hold == HoldKind::Lease {
        let client = cx.client().await?;
        let guard = client.take(name, &cx.fixed()).await?;
        tokio::time::sleep(cx.ttl() + Duration::from_millis(20)).await;
        return Ok((None, client, guard));
    }
    let (proxy, client) = cx.client_behind_proxy(cx.ttl() / 4).await?;
    let guard = client.take(name, &cx.options()).await?;
    proxy.set(Traffic::BlackHole);
    loss_within(&guard, cx.ttl() + cx.slack()).await?;
    let other = cx.client().await?;
    let bound = cx.ttl() + hand_over_bound(cx, &other);
    free_within(&other, name, bound, "whose holder is cut off").await?;
    Ok((Some(proxy), client, guard))
}

async fn release_late(late: LockGuard, successor: LockGuard, other: &Client) -> Verdict {
    ensure_kind(late.release().await, ErrorKind::Lost, "the late release")?;
    tokio::time::sleep(Duration::from_millis(100)).await;
    ensure_held(other, successor.name(), "after the late release").await?;
    Ok(successor.release().await?)
}

/// Two attempts at a lock whose lease has just ended, or that was just given back, one of them slow: its first reply is
/// held while the other finishes. The attempt that reports a grant must really hold the lock.
async fn interleaved_attempts_leave_one_holder_that_can_release(cx: &Context) -> Verdict {
    let (name, direct) = (cx.name(), cx.client().await?);
    let over = direct.take(&name, &cx.fixed()).await?;
    let (proxy, slow) = cx.client_behind_proxy(cx.patience()).await?;
    tokio::time::sleep(cx.ttl() + Duration::from_millis(20)).await;
    let _over = Context::let_go_unless_lease(&direct, over);

    // A store may round a lease up: then both are refused until it is over.
    let over_by = Instant::now() + cx.lease(cx.ttl()) - cx.ttl() + cx.slack();
    let holder = loop {
        let mut holders = interleaved(cx, (&proxy, &slow), &direct, &name).await?;
        ensure!(holders.len() < 2, "{} holders of one lock", holders.len());
        match holders.pop() {
            Some(holder) => break holder,
            None => ensure_came!(Instant::now() < over_by, "nobody got a lock whose lease is over"),
        }
    };
    let released = holder.release().await;
    ensure!(released.is_ok(), "the one holder could not release: another attempt overwrote it: {released:?}");
    ensure_free(&direct, &name, "after the one holder's release").await
}

/// The guards of two single attempts, one of which is answered only when the other has its answer.
async fn interleaved(
    cx: &Context,
    (proxy, slow): (&Proxy, &Client),
    fast: &Client,
    name: &LockName,
) -> Result<Vec<LockGuard>, Stop> {
    let (wanted, slow) = (name.clone(), slow.clone());
    let attempt = until_answer_is_held(cx, proxy, async move { slow.poke(&wanted).await }).await?;
    let fast = fast.poke(name).await?;
    proxy.set(Traffic::Pass);
    Ok(fast.into_iter().chain(attempt.await??).collect())
}

/// A release that was sent while its fixed lease lasted, and whose replies are held until another one has the lock: from the first on, and
/// then it goes on; or from that which says that it is done, and then they are lost, and the core or the backend makes the release again.
async fn release_on_the_wire(cx: &Context, is_done: bool) -> Verdict {
    let (name, direct) = (cx.name(), cx.client().await?);
    let (proxy, client) = cx.client_behind_proxy(cx.patience()).await?;
    let guard = client.take(&name, &cx.fixed()).await?;
    let release = match is_done {
        true => release_without_a_reply(cx, (&proxy, &client), guard).await?,
        false => until_answer_is_held(cx, &proxy, guard.release()).await?,
    };
    let successor = [direct.take(&name, &cx.long_lease().with_wait(cx.patience())).await?];
    let when = if is_done {
        lose_connections(&proxy)?;
        "after a release that was made again"
    } else {
        proxy.set(Traffic::Pass);
        "after the delayed release went on"
    };
    held_for(&direct, &successor, cx.ttl() / 2, when).await?;
    let _ = release.await?;
    ensure_held(&direct, &name, when).await?;
    release_all(successor).await
}

/// The next holder makes the deleted record anew. Where places have numbers, those begin anew, too: the successor's may be the late
/// holder's.
async fn late_release_after_a_deletion_frees_no_successor(cx: &Context) -> Verdict {
    let (holder, second, name) = (cx.client().await?, cx.client().await?, cx.name());
    let late = holder.take(&name, &cx.options()).await?;
    if optional(cx.store().delete_queue(&name).await)?.is_none() {
        cx.store().delete(&name).await?;
    }
    let successor = second.take(&name, &cx.options()).await?;
    release_late(late, successor, &second).await
}
