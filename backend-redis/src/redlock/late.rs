//! What nodes do after their caller has gone.
//!
//! A node that answers only after an attempt was decided without it gets the token as well, or is freed again. A node that has
//! come back empty, or was away when a lock was taken, is given the lock again.
//!
//! A lock that such a request sets comes too late if its owner was released meanwhile. A release is noted in [`Unfinished`] before
//! it asks any node, and a request that has set a lock looks there afterwards: one of the two sees the other.

use super::nodes::Node;
use super::reply::Claimed;
use super::{NodeClaim, RedlockBackend};
use crate::locked;
use futures_util::future::Shared;
use leasehold_core::{Claim, ErrorKind, FencingToken, OwnerId, Result};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::oneshot;

/// Goes on with a node that answers after an attempt was decided without it. `decided` is the token that was granted, if one was.
pub(super) async fn follow(
    claim: Arc<NodeClaim>,
    underway: Arc<Underway>,
    decided: Shared<oneshot::Receiver<Option<FencingToken>>>,
    node: Arc<Node>,
    answer: Result<Claimed>,
) {
    let holds = matches!(answer, Ok(Claimed::Mine(_)));
    let unknown = answer.is_err_and(|error| error.kind() == ErrorKind::Indeterminate);
    if !holds && !unknown {
        return;
    }
    // What a node does not answer here ends with its lease.
    let Ok(Some(token)) = decided.await else {
        let _ = claim.take_back(node).await;
        return;
    };
    if holds {
        let _ = Arc::clone(&claim).write_token(Arc::clone(&node), token).await;
    }
    if underway.is_ended() {
        let _ = claim.withdraw(node, Duration::ZERO).await;
    }
}

impl RedlockBackend {
    /// Sets the lock on the nodes where it is gone, as `witness` has it. No caller waits for it.
    ///
    /// Only after a majority has just extended the lease: then the lock is held, and no other owner can have it, so setting it
    /// on one node more takes nothing from another; it makes it harder to lose. A lease that has ended on a majority is lost
    /// and is never brought back by this. Should the request come late, after the hold has ended elsewhere, a node keeps others
    /// out for one lease more: its owner is told of no renewal by that.
    pub(super) fn repair(&self, claim: &Claim, witness: Option<usize>, gone: &[usize]) {
        let Some(witness) = witness.and_then(|place| self.nodes.at(place)) else { return };
        let gone: Vec<Arc<Node>> = gone.iter().filter_map(|place| self.nodes.at(*place)).collect();
        let underway = self.unfinished.begin(claim.owner());
        let claim = Arc::new(NodeClaim::new(claim, &self.keys, 0));
        tokio::spawn(async move {
            // What fails here is found by the next renewal.
            let Some(record) = claim.record(&witness).await else { return };
            for node in gone {
                if underway.is_ended() {
                    return;
                }
                let repaired = claim.repair(&node, &record).await;
                if underway.is_ended() {
                    let _ = Arc::clone(&claim).withdraw(node, Duration::ZERO).await;
                } else if let Ok(true) = repaired {
                    tracing::info!(target: "leasehold", { node = %node.address }, "quorum_repaired");
                }
            }
        });
    }
}

/// Owners for which something is still under way at a node, and no caller waits for it.
#[derive(Debug, Default)]
pub(super) struct Unfinished {
    owners: Mutex<HashMap<OwnerId, Entry>>,
}

#[derive(Debug, Default)]
struct Entry {
    requests: usize,
    is_ended: bool,
}

/// Something under way for an owner; over when it is dropped.
#[derive(Debug)]
pub(super) struct Underway {
    all: Arc<Unfinished>,
    owner: OwnerId,
}

impl Unfinished {
    pub(super) fn begin(self: &Arc<Self>, owner: OwnerId) -> Underway {
        locked(&self.owners).entry(owner).or_default().requests += 1;
        Underway { all: Arc::clone(self), owner }
    }

    /// The owner is being released.
    pub(super) fn end(&self, owner: OwnerId) {
        if let Some(entry) = locked(&self.owners).get_mut(&owner) {
            entry.is_ended = true;
        }
    }
}

impl Underway {
    /// True if the owner was released since this began: the release may have come to a node before the lock did.
    fn is_ended(&self) -> bool {
        locked(&self.all.owners).get(&self.owner).is_some_and(|entry| entry.is_ended)
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        let mut owners = locked(&self.all.owners);
        if let Some(entry) = owners.get_mut(&self.owner) {
            entry.requests -= 1;
            if entry.requests == 0 {
                owners.remove(&self.owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn release_is_seen_by_all_that_is_under_way_for_its_owner() {
        let all = Arc::<Unfinished>::default();
        let (one, other) = (OwnerId::from_u128(1), OwnerId::from_u128(2));
        let (first, second, others) = (all.begin(one), all.begin(one), all.begin(other));
        all.end(one);
        assert!(first.is_ended() && second.is_ended() && !others.is_ended());
        drop((first, second, others));
        all.end(one);
        assert!(locked(&all.owners).is_empty(), "what is over leaves nothing");
    }
}
