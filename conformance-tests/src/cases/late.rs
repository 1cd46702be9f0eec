//! Replies that come late, or never: from when belief is counted, and what is made again.

use super::lease::lease_only;
use super::network::attempt_without_a_reply;
use super::order::fifo_only;
use crate::cases::prelude::*;
use tokio::task::JoinHandle;
use tokio::time::Instant;

pub(super) const CASES: CaseTable = cases![
    C15 stranded_renewal_shortens_no_extension,
    C16 repeated_release_frees_no_successor,
    E13 late_reply_to_a_renewal_is_counted_from_its_request,
    G14 grant_recognised_late_lasts_a_whole_lease,
    H13 late_hand_over_is_counted_from_the_last_busy,
];

/// Takes the lock as soon as it can be had, and says when that was.
fn successor(
    cx: &Context,
    other: &Client,
    name: &LockName,
) -> JoinHandle<Result<(LockGuard, Instant), Stop>> {
    let (other, name, options) =
        (other.clone(), name.clone(), AcquireOptions::new().with_wait(cx.patience()));
    tokio::spawn(async move { Ok((other.take(&name, &options).await?, Instant::now())) })
}

/// Expects that a holder stops believing before another one has the lock.
async fn ensure_believed_before(
    guard: &LockGuard,
    successor: JoinHandle<Result<(LockGuard, Instant), Stop>>,
    when: &str,
) -> Verdict {
    let believed = believed_until(guard).await;
    let (successor, taken) = successor.await??;
    ensure!(
        believed < taken,
        "{when}: the holder believed for {:?} after another had got it",
        believed - taken
    );
    Ok(successor.release().await?)
}

/// Sent over a connection that its client has given up, and delivered when the lease has long been made longer over another one.
async fn stranded_renewal_shortens_no_extension(cx: &Context) -> Verdict {
    lease_only(cx).await?;
    let (name, other, ttl) = (cx.name(), cx.client().await?, cx.ttl() * 2);
    let (proxy, client) = cx.client_behind_proxy(ttl / 8).await?;
    cx.warm_up(&client).await?;
    let guard = client.take(&name, &cx.options().with_ttl(ttl)).await?;
    proxy.strand();
    let before = proxy.request_bytes();
    let sent = eventually(ttl, || proxy.request_bytes() > before).await;
    ensure!(sent, "no renewal was sent within a lease of {ttl:?}");
    // By then its client has given it up, and asked again over another connection.
    tokio::time::sleep(ttl / 4).await;
    extend_over_another_connection(&proxy, &guard, ttl * 4).await?;
    proxy.deliver();
    let when = "after a renewal that was sent before the extension";
    if other.admin().is_some() {
        tokio::time::sleep(ttl / 10).await;
        ensure_kept(&other, &guard, when).await?;
    } else {
        // Before the next renewal, which comes after a third of the longer lease.
        tokio::time::sleep(ttl * 7 / 6).await;
        ensure_held(&other, &name, when).await?;
    }
    ensure!(guard.is_held(), "lost to a renewal that came late: {:?}", guard.loss());
    Ok(guard.release().await?)
}

async fn extend_over_another_connection(proxy: &Proxy, guard: &LockGuard, ttl: Duration) -> Verdict {
    while let Err(error) = guard.extend(ttl).await {
        if error.kind() == ErrorKind::Lost {
            proxy.deliver();
            return Err(Stop::Skipped("its client keeps to a connection that does not answer".to_owned()));
        }
    }
    Ok(())
}

/// The first one was carried out, its reply is lost, and by the time of the second another one holds the lock: the second by the
/// core, or by the backend itself.
async fn repeated_release_frees_no_successor(cx: &Context) -> Verdict {
    let (name, direct) = (cx.name(), cx.client().await?);
    let (proxy, client) = cx.client_behind_proxy(cx.patience()).await?;
    let guard = client.take(&name, &cx.fixed()).await?;
    proxy.set(Traffic::HoldReplies);
    let before = proxy.reply_bytes();
    let release = tokio::spawn(guard.release());
    let answered = eventually(cx.ttl(), || proxy.reply_bytes() > before).await;
    ensure!(answered, "the store answered no release while the lease lasted");
    let successor = direct.take(&name, &AcquireOptions::new().with_wait(cx.patience())).await?;
    proxy.cut();
    proxy.set(Traffic::Pass);
    let end = Instant::now() + cx.ttl() / 2;
    while Instant::now() < end {
        ensure_held(&direct, &name, "after a release that was made again").await?;
        ensure!(successor.is_held(), "the successor lost its lock: {:?}", successor.loss());
        tokio::time::sleep(cx.ttl() / 20).await;
    }
    let _ = release.await?;
    Ok(successor.release().await?)
}

/// The store renewed in time, and its reply is on the way for half a lease; then the network is cut.
async fn late_reply_to_a_renewal_is_counted_from_its_request(cx: &Context) -> Verdict {
    let (name, other, ttl) = (cx.name(), cx.client().await?, cx.ttl());
    let (proxy, client) = cx.client_behind_proxy(cx.patience()).await?;
    cx.warm_up(&client).await?;
    let guard = client.take(&name, &cx.options()).await?;
    let successor = successor(cx, &other, &name);
    tokio::time::sleep(ttl / 4).await;
    proxy.set(Traffic::HoldReplies);
    let before = proxy.reply_bytes();
    let renewed = eventually(ttl / 2, || proxy.reply_bytes() > before).await;
    ensure!(renewed, "no renewal within half a lease of {ttl:?}");
    proxy.set(Traffic::BlackHole);
    tokio::time::sleep(ttl / 2).await;
    // The reply passes, and no other renewal does.
    proxy.set(Traffic::HoldRequests);
    ensure_believed_before(&guard, successor, "after a late reply to a renewal").await
}

/// Its first reply is lost with its connection, and most of that lease is over when the attempt is made again. It is not renewed.
async fn grant_recognised_late_lasts_a_whole_lease(cx: &Context) -> Verdict {
    lease_only(cx).await?;
    let (name, other, ttl) = (cx.name(), cx.client().await?, cx.ttl());
    let (proxy, client) = cx.client_behind_proxy(cx.patience()).await?;
    let attempt = attempt_without_a_reply(cx, (&proxy, &client), &name, cx.fixed()).await?;
    tokio::time::sleep(ttl * 3 / 5).await;
    proxy.cut();
    proxy.set(Traffic::Pass);
    let guard = attempt.await??;
    // A backend that asks again by itself keeps the moment of its first question from the core: it is the store that counts.
    if other.admin().is_some() {
        let kept = ensure_kept(&other, &guard, "after a grant that was recognised late").await?;
        ensure!(
            kept > ttl / 2,
            "of a lease of {ttl:?} that was recognised late, the store keeps only {kept:?}"
        );
    }
    let successor = successor(cx, &other, &name);
    ensure_believed_before(&guard, successor, "after a grant that was recognised late").await?;
    ensure_free(&other, &name, "after the lease").await
}

/// The store has handed the lock over to a waiter, which hears of it when most of that lease is over.
async fn late_hand_over_is_counted_from_the_last_busy(cx: &Context) -> Verdict {
    lease_only(cx).await?;
    let (client, other, name) = (cx.client().await?, cx.client().await?, cx.name());
    fifo_only(&client)?;
    let guard = client.take(&name, &AcquireOptions::new()).await?;
    // So short that it asks again while it hears nothing: that it asked before the hand-over would not be seen.
    let (proxy, waiting) = cx.client_behind_proxy(cx.ttl() / 5).await?;
    cx.warm_up(&waiting).await?;
    let (wanted, options) = (name.clone(), cx.fixed());
    let waiter = tokio::spawn(async move { waiting.acquire_with(&wanted, &options).await });
    until_queued(cx, &client, &name, 1).await?;
    proxy.set(Traffic::BlackHole);
    guard.release().await?;
    tokio::time::sleep(cx.ttl() * 3 / 5).await;
    let successor = successor(cx, &other, &name);
    proxy.set(Traffic::Pass);
    eventually(cx.patience(), || waiter.is_finished() || successor.is_finished()).await;
    if !waiter.is_finished() {
        // The lease was over before its waiter could ask: it has believed nothing.
        successor.await??.0.release().await?;
        return Ok(waiter.await??.release().await?);
    }
    let guard = waiter.await??;
    ensure_believed_before(&guard, successor, "after a hand-over that was heard of late").await
}
