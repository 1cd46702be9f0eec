//! Servers that know nothing of each other, a majority of which decides.

use crate::cases::prelude::*;
use crate::subject::Members;
use std::ops::Range;

/// The servers, and one lock on them.
pub(super) struct IndependentNodes<'a> {
    pub(super) members: &'a dyn Members,
    pub(super) name: LockName,
}

impl<'a> IndependentNodes<'a> {
    /// Skips the case where the servers are not independent.
    pub(super) async fn new(cx: &'a Context) -> Result<Self, Stop> {
        let (members, name) = (cx.store().members()?, cx.name());
        members.holds(0, &name).await?;
        Ok(Self { members, name })
    }

    pub(super) fn count(&self) -> usize {
        self.members.count()
    }

    /// Has a client take and give back the lock on every node, so that it has a connection to each: a first use is over when
    /// a majority has answered, and what connects later does not get through to a node whose replies are held.
    pub(super) async fn warm_up(&self, cx: &Context, client: &Client) -> Verdict {
        let guard = client.take(&self.name, &cx.options()).await?;
        self.until_held(0..self.count(), true, cx.patience()).await?;
        guard.release().await?;
        self.until_held(0..self.count(), false, cx.patience()).await
    }

    pub(super) async fn end_leases(&self, nodes: Range<usize>) -> Verdict {
        for node in nodes {
            self.members.end_lease(node, &self.name).await?;
        }
        Ok(())
    }

    /// Waits until each of these nodes has the lock as taken, or as free.
    pub(super) async fn until_held(&self, nodes: Range<usize>, held: bool, bound: Duration) -> Verdict {
        for node in nodes {
            let (pause, ask) = (Duration::from_millis(2), || self.members.holds(node, &self.name));
            let is_held = last_answer_within(bound, pause, ask, |is_held| *is_held == held).await?;
            let what = if held { "free" } else { "taken" };
            ensure_came!(is_held == held, "node {node} still has the lock as {what} after {bound:?}");
        }
        Ok(())
    }
}

pub(super) fn set_all(proxies: &[Proxy], traffic: Traffic) {
    proxies.iter().for_each(|proxy| proxy.set(traffic));
}
