//! A renewal that arrives late touches no successor, and brings no ended lease back.

use crate::cases::prelude::*;
use crate::lateness::Lateness;

pub(super) const CASES: CaseTable = cases![
    C04 stale_renewal_touches_no_successor,
    C05 late_renewal_revives_no_ended_lease = late_renewal(true),
    C14 late_renewal_revives_no_lease_that_ended_unnoticed if lease_only = late_renewal(false),
    C15 stranded_renewal_shortens_no_extension if lease_only,
];

/// A holder whose renewals are under way in the network while its lease ends.
pub(in crate::cases) async fn with_a_renewal_on_the_wire(
    cx: &Context,
    name: &LockName,
) -> Result<(Proxy, LockGuard), Stop> {
    let (proxy, client) = cx.client_behind_proxy(cx.patience()).await?;
    let guard = client.take(name, &cx.options()).await?;
    until_renewed(&guard, cx.ttl()).await?;
    // Read before: a renewal between the two lines may be held already, and the next is not read behind it.
    let before = proxy.request_bytes();
    proxy.set(Traffic::BlackHole);
    let sent = eventually(cx.ttl(), || proxy.request_bytes() > before).await;
    ensure_came!(sent, "no renewal was sent within a lease of {:?}", cx.ttl());
    loss_within(&guard, cx.ttl() + cx.slack()).await?;
    Ok((proxy, guard))
}

async fn stale_renewal_touches_no_successor(cx: &Context) -> Verdict {
    let name = cx.name();
    let (proxy, _stale) = with_a_renewal_on_the_wire(cx, &name).await?;
    let (second, third) = (cx.client().await?, cx.client().await?);
    // A successor whose lease is much longer than the one that the stale renewal would give it.
    let long = cx.fixed().with_ttl(cx.lease(cx.ttl()) * 6);
    let successor = second.take(&name, &long).await?;
    proxy.set(Traffic::Pass);
    tokio::time::sleep(cx.lease(cx.ttl()) + cx.ttl() / 2).await;
    ensure!(successor.is_held(), "the successor lost its lock");
    ensure_held(&third, &name, "after the stale renewal arrived").await?;
    Ok(successor.release().await?)
}

/// The store ends the lease a little after the holder does; only then may the late renewal arrive. An acquisition in between, by which the
/// end is noticed, may remove the record of the last hold.
async fn late_renewal(cx: &Context, is_noticed: bool) -> Verdict {
    let (client, name) = (cx.client().await?, cx.name());
    let (proxy, stale) = with_a_renewal_on_the_wire(cx, &name).await?;
    let rest = cx.lease(cx.ttl()) - cx.ttl() * 3 / 4;
    if is_noticed {
        free_within(&client, &name, rest + hand_over_bound(cx, &client), "after the lease ended").await?;
    } else {
        tokio::time::sleep(rest + cx.slack()).await;
    }
    proxy.set(Traffic::Pass);
    tokio::time::sleep(Duration::from_millis(200)).await;
    ensure!(!stale.is_held(), "a lost lock is held again");
    ensure_free(&client, &name, "after the late renewal arrived").await
}

/// The renewal is sent over a connection that its client has given up, and delivered when the lease has long been made longer over
/// another one.
async fn stranded_renewal_shortens_no_extension(cx: &Context) -> Verdict {
    let (name, other, ttl) = (cx.name(), cx.client().await?, cx.ttl() * 2);
    let (proxy, client) = cx.client_behind_proxy(ttl / 8).await?;
    let guard = client.take(&name, &cx.options().with_ttl(ttl)).await?;
    proxy.strand();
    let before = proxy.request_bytes();
    let sent = eventually(ttl, || proxy.request_bytes() > before).await;
    ensure_came!(sent, "no renewal was sent within a lease of {ttl:?}");
    // By then its client has given it up, and asked again over another connection.
    tokio::time::sleep(ttl / 4).await;
    let kept = cx.lease(ttl);
    extend_over_another_connection(&proxy, &guard, kept * 4).await?;
    proxy.deliver();
    let when = "after a renewal that was sent before the extension";
    if other.admin().is_some() {
        tokio::time::sleep(ttl / 10).await;
        ensure_kept(&other, &guard, when).await?;
    } else {
        // Before the next renewal, which comes after a third of the longer lease.
        tokio::time::sleep(kept * 7 / 6).await;
        ensure_held(&other, &name, when).await?;
    }
    ensure_not_lost(&guard, "lost to a renewal that came late")?;
    Ok(guard.release().await?)
}

async fn extend_over_another_connection(proxy: &Proxy, guard: &LockGuard, ttl: Duration) -> Verdict {
    let start = Instant::now();
    while let Err(error) = guard.extend(ttl).await {
        if error.kind() == ErrorKind::Lost {
            proxy.deliver();
            // On a late machine, the lease of any client may end before it has asked again.
            let late = Lateness::of_a_case(start.into_std());
            ensure_met!(late.is_on_time(), "the lease ended before it was extended");
            return Err(Stop::Skipped("its client keeps to a connection that does not answer".to_owned()));
        }
    }
    Ok(())
}
