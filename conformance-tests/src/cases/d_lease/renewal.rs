//! Renewal keeps a hold going, and ends with it.

use crate::cases::prelude::*;
use leasehold_core::Health;

pub(super) const CASES: CaseTable = cases![
    D02 renewed_lease_outlasts_five_ttls,
    D04 renewal_ends_with_the_guard if lease_only,
    D05 abandoned_acquire_leaves_no_renewal if lease_only,
    D06 one_failed_renewal_is_survived,
    D07 lost_reply_to_a_renewal_is_survived if outlives_its_connection,
    D10 name_lost_once_gets_a_working_renewal_again,
    D16 ten_thousand_holds_are_all_renewed(Quarter, Load) if outlives_its_connection,
];

/// One lease of the usual length, and one of half of that.
async fn renewed_lease_outlasts_five_ttls(cx: &Context) -> Verdict {
    let (client, other) = (cx.client().await?, cx.client().await?);
    let mut held = Vec::new();
    for ttl in [cx.ttl(), cx.ttl() / 2] {
        held.push(client.take(&cx.named(&format!("{ttl:?}")), &cx.options().with_ttl(ttl)).await?);
    }
    held_for(&other, &held, cx.ttl() * 5, "while it is renewed").await?;
    release_all(held).await
}

/// If anything still renewed the first holder's lease, the second one's would not end on time.
async fn ends_for_the_next_holder(cx: &Context, name: &LockName) -> Verdict {
    let (second, third) = (cx.client().await?, cx.client().await?);
    let _forgotten = second.take(name, &cx.fixed()).await?;
    free_within(&third, name, expiry_bound(cx, &third), "the lease after the renewed one").await
}

/// The guard is released after its first renewals, or dropped.
async fn renewal_ends_with_the_guard(cx: &Context) -> Verdict {
    let (client, name, released) = (cx.client().await?, cx.name(), cx.named("released"));
    let guard = client.take(&released, &cx.options()).await?;
    tokio::time::sleep(cx.ttl()).await;
    guard.release().await?;
    drop(client.take(&name, &cx.options()).await?);
    tokio::try_join!(ends_for_the_next_holder(cx, &released), ends_for_the_next_holder(cx, &name)).map(drop)
}

/// Dropped after one poll, two polls, and so on: on whichever side of the grant the drop falls, nothing renews it.
async fn abandoned_acquire_leaves_no_renewal(cx: &Context) -> Verdict {
    let client = cx.client().await?;
    cx.warm_up(&client).await?;
    let mut names = Vec::new();
    for polls in 1..=12 {
        let name = cx.named(&format!("dropped-{polls}"));
        drop(at_most(polls, client.acquire_with(&name, &cx.options())).await);
        names.push(name);
    }
    tokio::time::sleep(cx.lease(cx.ttl()) + cx.ttl()).await;
    ensure_all_free(&client, &names, "two leases after its acquisition was dropped").await
}

async fn one_failed_renewal_is_survived(cx: &Context) -> Verdict {
    let (name, ttl) = (cx.name(), cx.ttl() * 3);
    let (proxy, client) = cx.client_behind_proxy(ttl / 10).await?;
    let guard = client.take(&name, &cx.options().with_ttl(ttl)).await?;
    proxy.set(Traffic::BlackHole);
    let at_risk = eventually(ttl, || guard.health() == Health::AtRisk).await;
    ensure!(at_risk && guard.is_held(), "a renewal failed, and the holder was not told that it is at risk");
    proxy.set(Traffic::Pass);
    let well = eventually(ttl, || guard.health() != Health::AtRisk).await;
    ensure!(well && guard.is_held(), "the lock was lost by one failed renewal: {:?}", guard.loss());
    tokio::time::sleep(ttl).await;
    ensure_not_lost(&guard, "lost after the network was well again")?;
    Ok(guard.release().await?)
}

async fn lost_reply_to_a_renewal_is_survived(cx: &Context) -> Verdict {
    let (name, ttl) = (cx.name(), cx.ttl() * 3);
    let (proxy, client) = cx.client_behind_proxy(ttl / 10).await?;
    let guard = client.take(&name, &cx.options().with_ttl(ttl)).await?;
    let token = guard.token()?;
    until_renewed_unheard(cx, &proxy, &guard, ttl).await?;
    lose_connections(&proxy)?;
    tokio::time::sleep(ttl * 3 / 2).await;
    ensure_not_lost(&guard, "the lock was lost by one lost reply")?;
    ensure!(guard.token()? == token, "a renewal changed the token");
    Ok(guard.release().await?)
}

async fn name_lost_once_gets_a_working_renewal_again(cx: &Context) -> Verdict {
    let (client, name) = (cx.client().await?, cx.name());
    let first = client.take(&name, &cx.options()).await?;
    client.looking()?.force_release(&name, None).await?;
    loss_within(&first, cx.ttl() + cx.slack()).await?;
    let second = client.take(&name, &cx.options()).await?;
    drop(first);
    tokio::time::sleep(cx.ttl() * 2).await;
    ensure_not_lost(&second, "not renewed after an earlier loss of the name")?;
    Ok(second.release().await?)
}

async fn ten_thousand_holds_are_all_renewed(cx: &Context) -> Verdict {
    let ttl = cx.ttl() * 8;
    let guards = ten_thousand_holds(cx, ttl).await?;
    // Past the end of the lease that was granted last: what is held now was renewed.
    tokio::time::sleep(ttl + cx.ttl()).await;
    let lost = guards.iter().filter(|guard| !guard.is_held()).count();
    let words = format!("{lost} of {} holds were lost", guards.len());
    let stops = guards.iter().filter_map(|guard| ensure_not_lost(guard, &words).err());
    // A loss that the machine cannot explain counts before those that it can.
    stops.max_by_key(|stop| matches!(stop, Stop::Failed(_))).map_or(Ok(()), Err)
}

/// Ten thousand locks of one client, or as many as it is granted within half a lease. A slow store could not renew more in time, and no
/// field declares how fast a store is.
async fn ten_thousand_holds(cx: &Context, ttl: Duration) -> Result<Vec<LockGuard>, Stop> {
    const HOLDS: usize = 10_000;
    const AT_ONCE: usize = 64;
    let until = Instant::now() + ttl / 2;
    let client = cx.client_at(&cx.store().address_for_holds_of(ttl)).await?;
    let options = Arc::new(cx.options().with_ttl(ttl));
    let mut tasks = JoinSet::new();
    for task in 0..AT_ONCE {
        let (client, options) = (client.clone(), Arc::clone(&options));
        let names = (task..HOLDS).step_by(AT_ONCE);
        let names: Vec<_> = names.map(|n| cx.named(&n.to_string())).collect();
        tasks.spawn(async move {
            let mut guards = Vec::new();
            for name in names.iter().take_while(|_| Instant::now() < until) {
                guards.push(client.take(name, &options).await?);
            }
            Ok::<_, Stop>(guards)
        });
    }
    Ok(joined(tasks).await?.into_iter().flatten().collect())
}
