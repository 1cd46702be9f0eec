//! Requests to nodes that go on after their caller has gone.
//!
//! A node that answers only after an attempt was decided without it gets the token as well, or is freed again. A node that has
//! come back empty, or was away when a lock was taken, is given the lock again.
//!
//! A lock that such a request sets comes too late if its owner was released meanwhile. A release is noted in
//! [`BackgroundRequests`] before it asks any node, and a request that has set a lock looks there afterwards: one of the two
//! sees the other.

use super::node_claim::NodeClaim;
use super::nodes::RedlockNode;
use super::reply::Claimed;
use crate::sync::locked;
use futures_util::future::Shared;
use leasehold_core::{ErrorKind, FencingToken, OwnerId, Result};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::oneshot;

/// Goes on with a node that answers after an attempt was decided without it. `decided` is the token that was granted, if one was.
pub(super) async fn finish_late_claim(
    claim: Arc<NodeClaim>,
    request: Arc<BackgroundRequest>,
    decided: Shared<oneshot::Receiver<Option<FencingToken>>>,
    node: Arc<RedlockNode>,
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
    if request.is_ended() {
        let _ = claim.withdraw(node, Duration::ZERO).await;
    }
}

/// Sets the lock on the nodes where it is gone, as `witness` has it.
///
/// Only after a majority has just extended the lease: then the lock is held, and no other owner can have it, so setting it
/// on one node more takes nothing from another; it makes it harder to lose. A lease that has ended on a majority is lost
/// and is never brought back by this. Should the request come late, after the hold has ended elsewhere, a node keeps others
/// out for one lease more: its owner is told of no renewal by that.
pub(super) async fn repair(
    claim: Arc<NodeClaim>,
    request: BackgroundRequest,
    witness: Arc<RedlockNode>,
    gone: Vec<Arc<RedlockNode>>,
) {
    // What fails here is found by the next renewal.
    let Some(record) = claim.record(&witness).await else { return };
    for node in gone {
        if request.is_ended() {
            return;
        }
        let repaired = claim.repair(&node, &record).await;
        if request.is_ended() {
            let _ = Arc::clone(&claim).withdraw(node, Duration::ZERO).await;
        } else if let Ok(true) = repaired {
            tracing::info!(target: "leasehold", { node = %node.address }, "quorum_repaired");
        }
    }
}

/// The owners for which a request is still under way at a node, and no caller waits for it.
#[derive(Debug, Default)]
pub(super) struct BackgroundRequests {
    owners: Mutex<HashMap<OwnerId, OwnerRequests>>,
}

#[derive(Debug, Default)]
struct OwnerRequests {
    under_way: usize,
    is_ended: bool,
}

/// A request under way for an owner; over when it is dropped.
#[derive(Debug)]
pub(super) struct BackgroundRequest {
    all: Arc<BackgroundRequests>,
    owner: OwnerId,
}

impl BackgroundRequests {
    pub(super) fn begin(self: &Arc<Self>, owner: OwnerId) -> BackgroundRequest {
        locked(&self.owners).entry(owner).or_default().under_way += 1;
        BackgroundRequest { all: Arc::clone(self), owner }
    }

    /// The owner is being released.
    pub(super) fn end(&self, owner: OwnerId) {
        if let Some(entry) = locked(&self.owners).get_mut(&owner) {
            entry.is_ended = true;
        }
    }
}

impl BackgroundRequest {
    /// True if the owner was released since this began: the release may have come to a node before the lock did.
    fn is_ended(&self) -> bool {
        locked(&self.all.owners).get(&self.owner).is_some_and(|entry| entry.is_ended)
    }
}

impl Drop for BackgroundRequest {
    fn drop(&mut self) {
        let mut owners = locked(&self.all.owners);
        if let Some(entry) = owners.get_mut(&self.owner) {
            entry.under_way -= 1;
            if entry.under_way == 0 {
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
        let all = Arc::<BackgroundRequests>::default();
        let (one, other) = (OwnerId::from_u128(1), OwnerId::from_u128(2));
        let (first, second, others) = (all.begin(one), all.begin(one), all.begin(other));
        all.end(one);
        assert!(first.is_ended() && second.is_ended() && !others.is_ended());
        drop((first, second, others));
        all.end(one);
        assert!(locked(&all.owners).is_empty(), "what is over leaves nothing");
    }
}
