//! X: leader election.

use crate::cases::declared::{hand_over_bound, silent_bound};
use crate::cases::prelude::*;
use crate::cases::tasks::until_waiting;
use crate::worker::Request;
use futures_util::StreamExt;
use leasehold_core::{Election, Result};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::watch;

pub(super) const CASES: CaseTable = cases![
    X03 work_of_a_leader_that_is_cut_off_is_dropped_before_another_leads,
    X04 resignation_hands_on_within_the_wake_up_with_a_larger_term,
    X05 leader_that_was_stopped_does_not_go_on_with_its_work,
    X06 observer_costs_one_look_a_second,
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
    ensure!(
        eventually(cx.patience(), || works.receiver_count() > 0).await,
        "the first candidate does not lead"
    );
    let next = cx.candidate(&cx.client().await?)?;
    let next = tokio::spawn(async move {
        let leadership = next.campaign().await?;
        Ok::<_, Stop>((leadership, works.receiver_count() == 0))
    });
    proxy.set(Traffic::BlackHole);
    let start = Instant::now();
    let (leadership, was_dropped) = next.await??;
    ensure!(was_dropped, "the next leader led, and the work of the one before went on");
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
    ensure!(eventually(cx.patience(), || file.exists()).await, "the worker does not lead");
    worker.pause();
    let candidate = cx.candidate(&client)?;
    let leadership = tokio::time::timeout(silent_bound(cx).await?, candidate.campaign()).await;
    let late = |_| Stop::Failed("a leader that was stopped was not replaced".to_owned());
    let leadership = leadership.map_err(late)??;
    let (mut content, mut changes) = (read(&file), 0);
    worker.resume();
    let end = Instant::now() + cx.slack();
    while Instant::now() < end {
        let now = read(&file);
        changes += usize::from(now != content);
        content = now;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    ensure!(leadership.is_leader(), "the next leader lost the leadership: {:?}", leadership.loss());
    ensure!(changes <= 1, "a leader that was stopped, and replaced, did {changes} more steps of its work");
    Ok(leadership.resign().await?)
}

fn read(file: &Path) -> String {
    std::fs::read_to_string(file).unwrap_or_default()
}

/// The cost is counted in requests that one look takes, without those that keep a connection alive.
async fn observer_costs_one_look_a_second(cx: &Context) -> Verdict {
    const LOOKS: u32 = 3;
    // It leads for longer than a short session lasts on a busy machine.
    let leader = cx.client_at(&cx.store().address_for_holds_of(cx.patience())).await?;
    let leadership = cx.candidate(&leader)?.campaign().await?;
    let (proxy, observer) = cx.client_behind_proxy(cx.patience()).await?;
    cx.warm_up(&observer).await?;
    let requests_in = async |time| {
        let before = proxy.requests();
        tokio::time::sleep(time).await;
        proxy.requests() - before
    };
    let kept_alive = requests_in(INTERVAL * LOOKS).await;
    // At its first use after five seconds, a client of a database opens one connection more, to learn whether there is one to spare.
    tokio::time::sleep(INTERVAL * LOOKS).await;
    observer.looking()?.inspect(&cx.name()).await?;
    tokio::time::sleep(INTERVAL).await;
    let before = proxy.requests();
    observer.looking()?.inspect(&cx.name()).await?;
    let a_look = proxy.requests() - before;
    let mut leaders = cx.candidate(&observer)?.observe()?;
    let watching = tokio::spawn(async move { while leaders.next().await.is_some() {} });
    let asked = requests_in(INTERVAL * LOOKS).await.saturating_sub(kept_alive);
    watching.abort();
    let bound = a_look * u64::from(LOOKS + 1) + 4;
    ensure!(asked <= bound, "{asked} requests in {LOOKS} s, {a_look} for a look; bound {bound}");
    Ok(leadership.resign().await?)
}
