//! X: leader election: leaders, candidates that wait, and observers.

use crate::cases::prelude::*;
use crate::worker::Request;
use async_trait::async_trait;
use futures_util::StreamExt;
use leasehold_core::{DistributedLock, Election, LockAdmin, Result, Semantics};
use tokio::sync::watch;

pub(super) const CASES: CaseTable = cases![
    X03 work_of_a_leader_that_is_cut_off_is_dropped_before_another_leads,
    X04 resignation_hands_on_within_the_wake_up_with_a_larger_term,
    X05 leader_that_was_stopped_does_not_go_on_with_its_work,
    X06 observer_costs_one_look_a_second,
    X07 campaign_that_begins_in_an_outage_leads_after_it,
    X08 standby_outlasts_the_wait_of_its_client,
    X09 observer_tells_of_a_time_without_a_leader,
];

/// How often an observer looks.
const INTERVAL: Duration = Duration::from_secs(1);

impl Context {
    fn candidate(&self, client: &Client) -> Result<Election> {
        Ok(client.elect(self.name())?.with_options(self.options()))
    }
}

async fn work_of_a_leader_that_is_cut_off_is_dropped_before_another_leads(cx: &Context) -> Verdict {
    let (proxy, cut_off) = cx.client_behind_proxy(cx.ttl() / 4).await?;
    // The work has a receiver of it for as long as it lives.
    let works = Arc::new(watch::Sender::new(()));
    let (election, seen_by_work) = (cx.candidate(&cut_off)?, Arc::clone(&works));
    let leading = tokio::spawn(async move {
        let work = |_| {
            let receiver = seen_by_work.subscribe();
            async move {
                let _lives = receiver;
                std::future::pending::<()>().await;
            }
        };
        election.lead(work).await
    });
    let leads = eventually(cx.patience(), || works.receiver_count() > 0).await;
    ensure_came!(leads, "the first candidate does not lead");
    let next = cx.candidate(&cx.client().await?)?;
    let next = tokio::spawn(async move {
        let leadership = next.campaign().await?;
        Ok::<_, Stop>((leadership, works.receiver_count() == 0))
    });
    proxy.set(Traffic::BlackHole);
    let start = Instant::now();
    let (leadership, was_dropped) = next.await??;
    ensure_came!(was_dropped, "the next leader led, and the work of the one before went on");
    let (took, bound) = (start.elapsed(), silent_bound(cx).await?);
    ensure_within!(took, bound, "a leader that was cut off was replaced after {took:?}, bound {bound:?}");
    leading.abort();
    Ok(leadership.resign().await?)
}

async fn resignation_hands_on_within_the_wake_up_with_a_larger_term(cx: &Context) -> Verdict {
    let clients = [cx.client().await?, cx.client().await?];
    let mut leadership = cx.candidate(&clients[0])?.campaign().await?;
    for round in 1..4 {
        let candidate = cx.candidate(&clients[round % 2])?;
        let next = tokio::spawn(async move { candidate.campaign().await });
        until_waiting(&clients[0], cx, &cx.name(), 1).await?;
        let term = leadership.term();
        leadership.resign().await?;
        let start = Instant::now();
        leadership = next.await??;
        ensure!(leadership.term() > term, "term {} after {term}", leadership.term());
        let (took, bound) = (start.elapsed(), hand_over_bound(cx, &clients[0]));
        ensure_within!(took, bound, "the next candidate led {took:?} after the resignation, bound {bound:?}");
    }
    Ok(leadership.resign().await?)
}

/// The work of the leader changes a file all the time. The step in which it was stopped may still be done.
async fn leader_that_was_stopped_does_not_go_on_with_its_work(cx: &Context) -> Verdict {
    let (directory, client, mut worker) = (tempfile::tempdir()?, cx.client().await?, cx.worker().await?);
    let file = directory.path().join("work");
    worker.send(&Request::Lead(cx.name(), cx.ttl(), file.clone())).await?;
    ensure_came!(eventually(cx.patience(), || file.exists()).await, "the worker does not lead");
    worker.pause();
    let candidate = cx.candidate(&client)?;
    let leadership = tokio::time::timeout(silent_bound(cx).await?, candidate.campaign()).await;
    let late = |_| Stop::Late("a leader that was stopped was not replaced".to_owned(), None);
    let leadership = leadership.map_err(late)??;
    let read = || std::fs::read_to_string(&file).unwrap_or_default();
    let (mut content, mut changes) = (read(), 0);
    worker.resume();
    let end = Instant::now() + cx.slack();
    while Instant::now() < end {
        let now = read();
        changes += usize::from(now != content);
        content = now;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    ensure!(leadership.is_leader(), "the next leader lost the leadership: {:?}", leadership.loss());
    ensure!(changes <= 1, "a leader that was stopped, and replaced, did {changes} more steps of its work");
    Ok(leadership.resign().await?)
}

/// The cost is counted in requests that one look takes, without those that keep a connection alive.
async fn observer_costs_one_look_a_second(cx: &Context) -> Verdict {
    const LOOKS: u32 = 3;
    // It leads for longer than a short session lasts on a busy machine.
    let leader = cx.client_at(&cx.store().address_for_holds_of(cx.patience())).await?;
    let leadership = cx.candidate(&leader)?.campaign().await?;
    let (requests, observer) = Requests::of_client(cx).await?;
    let kept_alive = requests.during(INTERVAL * LOOKS).await?;
    // At its first use after five seconds, a client of a database opens one connection more, to learn whether there is one to spare.
    tokio::time::sleep(INTERVAL * LOOKS).await;
    observer.looking()?.inspect(&cx.name()).await?;
    tokio::time::sleep(INTERVAL).await;
    let before = requests.so_far().await?;
    observer.looking()?.inspect(&cx.name()).await?;
    let a_look = requests.so_far().await? - before;
    let mut leaders = cx.candidate(&observer)?.observe()?;
    let watching = tokio::spawn(async move { while leaders.next().await.is_some() {} });
    let asked = requests.during(INTERVAL * LOOKS).await?.saturating_sub(kept_alive);
    watching.abort();
    let bound = a_look * u64::from(LOOKS + 1) + 4;
    ensure!(asked <= bound, "{asked} requests in {LOOKS} s, {a_look} for a look; bound {bound}");
    Ok(leadership.resign().await?)
}

async fn campaign_that_begins_in_an_outage_leads_after_it(cx: &Context) -> Verdict {
    let patience = cx.ttl() / 4;
    let (proxy, client) = cx.new_client_behind_proxy(patience).await?;
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
        let leading = leadership.term();
        ensure!(term == Some(leading), "round {round}: {term:?} is shown, {leading} leads");
        ensure_within!(took, bound, "round {round}: a leader was shown after {took:?}");
        leadership.resign().await?;
    }
    Ok(())
}
