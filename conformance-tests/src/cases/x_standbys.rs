//! X: candidates that wait, and observers of an election.

use crate::cases::declared::hand_over_bound;
use crate::cases::prelude::*;
use async_trait::async_trait;
use futures_util::StreamExt;
use leasehold_core::{DistributedLock, LockAdmin, Result, Semantics};
use std::sync::Arc;

pub(super) const CASES: CaseTable = cases![
    X07 campaign_that_begins_in_an_outage_leads_after_it,
    X08 standby_outlasts_the_wait_of_its_client,
    X09 observer_tells_of_a_time_without_a_leader,
];

async fn campaign_that_begins_in_an_outage_leads_after_it(cx: &Context) -> Verdict {
    let patience = cx.ttl() / 4;
    let (proxy, client) = cx.client_behind_proxy(patience).await?;
    proxy.set(Traffic::BlackHole);
    let election = client.elect(cx.name())?;
    let campaign = tokio::spawn(async move { election.campaign().await });
    // Long enough for a connection to time out, and for a second one.
    tokio::time::sleep(patience * 8).await;
    let gave_up = campaign.is_finished();
    proxy.set(Traffic::Pass);
    ensure!(!gave_up, "a candidate gave up in an outage: {:?}", campaign.await?.map(drop));
    let (leadership, took) = timed(campaign).await;
    let bound = hand_over_bound(cx, &client) + patience * 2 + Duration::from_secs(1);
    ensure_within!(took, bound, "a candidate leads {took:?} after the outage, bound {bound:?}");
    Ok(leadership??.resign().await?)
}

/// A client whose locks are waited for briefly.
#[derive(Debug)]
struct BriefWait {
    locks: Client,
    defaults: AcquireOptions,
}

#[async_trait]
impl DistributedLock for BriefWait {
    fn semantics(&self) -> &Semantics {
        self.locks.semantics()
    }

    fn defaults(&self) -> &AcquireOptions {
        &self.defaults
    }

    async fn acquire_named(&self, name: &LockName, options: &AcquireOptions) -> Result<LockGuard> {
        self.locks.acquire_named(name, options).await
    }

    fn handle(&self) -> Arc<dyn DistributedLock> {
        Arc::new(Self { locks: self.locks.handle(), defaults: self.defaults.clone() })
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        self.locks.admin()
    }

    async fn close(&self) -> Result<()> {
        self.locks.close().await
    }
}

/// A service is configured with a wait for its locks. Its standby waits for as long as another leads all the same.
async fn standby_outlasts_the_wait_of_its_client(cx: &Context) -> Verdict {
    let (leader, locks) = (cx.client().await?, cx.client().await?);
    let wait = Duration::from_millis(500);
    let standby = BriefWait { locks, defaults: cx.options().with_wait(wait) };
    let leadership = leader.elect(cx.name())?.campaign().await?;
    let election = standby.elect(cx.name())?;
    let campaign = tokio::spawn(async move { election.campaign().await });
    tokio::time::sleep(wait * 3).await;
    ensure!(!campaign.is_finished(), "a standby ended while another led: {:?}", campaign.await?.map(drop));
    let term = leadership.term();
    leadership.resign().await?;
    let next = campaign.await??;
    ensure!(next.term() > term, "term {} after {term}", next.term());
    Ok(next.resign().await?)
}

async fn observer_tells_of_a_time_without_a_leader(cx: &Context) -> Verdict {
    let client = cx.client().await?;
    client.looking()?;
    let election = client.elect(cx.name())?;
    let mut items = election.observe()?;
    // An observer looks once a second.
    let bound = Duration::from_secs(1) + cx.slack();
    for round in 0..2 {
        let (item, took) = timed(items.next()).await;
        let leader = item.transpose()?.flatten();
        ensure!(leader.is_none(), "round {round}: {leader:?} leads, and nobody does");
        ensure_within!(took, bound, "round {round}: shown after {took:?} that nobody leads");
        let leadership = election.campaign().await?;
        let (item, took) = timed(items.next()).await;
        let term = item.transpose()?.flatten().map(|leader| leader.term);
        ensure!(
            term == Some(leadership.term()),
            "round {round}: {term:?} is shown, {} leads",
            leadership.term()
        );
        ensure_within!(took, bound, "round {round}: a leader was shown after {took:?}");
        leadership.resign().await?;
    }
    Ok(())
}
