//! Only the owner releases.

use crate::cases::prelude::*;
use crate::cases::tasks::{cut, release_without_a_reply};
use leasehold_core::Error;
use tokio::task::JoinHandle;
use tokio::time::Instant;

pub(super) const CASES: CaseTable = cases![
    C02 late_release_frees_no_successor,
    C03 late_release_through_the_same_client_frees_no_successor,
    C11 interleaved_attempts_leave_one_holder_that_can_release,
    C12 release_delayed_on_the_wire_frees_no_successor,
    C13 late_release_after_a_deletion_frees_no_successor,
    C16 repeated_release_frees_no_successor,
];

async fn late_release_frees_no_successor(cx: &Context) -> Verdict {
    let (name, second) = (cx.name(), cx.client().await?);
    let late = cx.outlived(&name).await?;
    let successor = second.take(&name, &cx.options()).await?;
    late.reaches_the_store();
    release_late(late.guard, successor, &second).await
}

async fn late_release_through_the_same_client_frees_no_successor(cx: &Context) -> Verdict {
    let name = cx.name();
    let late = cx.outlived(&name).await?;
    late.reaches_the_store();
    let successor = late.client.take(&name, &cx.options()).await?;
    release_late(late.guard, successor, &late.client).await
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
    cx.warm_up(&slow).await?;
    tokio::time::sleep(cx.ttl() + Duration::from_millis(20)).await;
    let _over = Context::let_go_unless_lease(&direct, over);

    // A store may round a lease up: then both are refused until it is over.
    let over_by = Instant::now() + cx.lease(cx.ttl()) - cx.ttl() + cx.slack();
    let holder = loop {
        let mut holders = interleaved(cx, (&proxy, &slow), &direct, &name).await?;
        ensure!(holders.len() < 2, "{} holders of one lock", holders.len());
        match holders.pop() {
            Some(holder) => break holder,
            None => ensure!(Instant::now() < over_by, "nobody got a lock whose lease is over"),
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

/// A release that was sent while its fixed lease lasted, and whose replies are held until another one has the lock: from the first
/// on, or from that which says that it is done.
struct ReleaseOnTheWire {
    proxy: Proxy,
    release: JoinHandle<Result<(), Error>>,
    direct: Client,
    successor: LockGuard,
}

impl ReleaseOnTheWire {
    async fn new(cx: &Context, is_done: bool) -> Result<Self, Stop> {
        let (name, direct) = (cx.name(), cx.client().await?);
        let (proxy, client) = cx.client_behind_proxy(cx.patience()).await?;
        cx.warm_up(&client).await?;
        let guard = client.take(&name, &cx.fixed()).await?;
        let release = match is_done {
            true => release_without_a_reply(cx, (&proxy, &client), guard).await?,
            false => until_answer_is_held(cx, &proxy, guard.release()).await?,
        };
        let successor = direct.take(&name, &cx.long_lease().with_wait(cx.patience())).await?;
        Ok(Self { proxy, release, direct, successor })
    }
}

async fn release_delayed_on_the_wire_frees_no_successor(cx: &Context) -> Verdict {
    let ReleaseOnTheWire { proxy, release, direct, successor } = ReleaseOnTheWire::new(cx, false).await?;
    proxy.set(Traffic::Pass);
    let _ = release.await?;
    tokio::time::sleep(Duration::from_millis(100)).await;
    ensure_held(&direct, successor.name(), "after the delayed release went on").await?;
    Ok(successor.release().await?)
}

/// The first release was carried out, and its reply is lost. The second one, by the core or by the backend itself, comes when another
/// one holds the lock.
async fn repeated_release_frees_no_successor(cx: &Context) -> Verdict {
    let ReleaseOnTheWire { proxy, release, direct, successor } = ReleaseOnTheWire::new(cx, true).await?;
    cut(&proxy)?;
    proxy.set(Traffic::Pass);
    let end = Instant::now() + cx.ttl() / 2;
    while Instant::now() < end {
        ensure_held(&direct, successor.name(), "after a release that was made again").await?;
        ensure!(successor.is_held(), "the successor lost its lock: {:?}", successor.loss());
        tokio::time::sleep(cx.ttl() / 20).await;
    }
    let _ = release.await?;
    Ok(successor.release().await?)
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
