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
use crate::locked;
use futures_util::future::Shared;
use leasehold_core::{ErrorKind, FencingToken, OwnerId, Result};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use tokio::sync::oneshot;

/// Goes on with a node that answers after an attempt was decided without it. `decided` is the token that was granted, if one was.
pub(super) async fn finish_late_claim(
    claim: Arc<NodeClaim>,
    request: BackgroundRequest,
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
    if request.load(Ordering::SeqCst) {
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
        if request.load(Ordering::SeqCst) {
            return;
        }
        let repaired = claim.repair(&node, &record).await;
        if request.load(Ordering::SeqCst) {
            let _ = Arc::clone(&claim).withdraw(node, Duration::ZERO).await;
        } else if let Ok(true) = repaired {
            tracing::info!(target: "leasehold", { node = %node.address }, "quorum_repaired");
        }
    }
}

/// The owners for which a request is still under way at a node, and no caller waits for it.
#[derive(Debug, Default)]
pub(super) struct BackgroundRequests(Mutex<HashMap<OwnerId, Weak<AtomicBool>>>);

/// A request under way for an owner. True once the owner was released: the release may have come to a node before the lock did.
pub(super) type BackgroundRequest = Arc<AtomicBool>;

impl BackgroundRequests {
    /// A request begins, and goes on until its value is dropped.
    pub(super) fn begin(&self, owner: OwnerId) -> BackgroundRequest {
        let mut owners = locked(&self.0);
        owners.retain(|_, request| request.strong_count() > 0);
        let known = owners.get(&owner).and_then(Weak::upgrade).unwrap_or_default();
        owners.insert(owner, Arc::downgrade(&known));
        known
    }

    /// The owner is being released.
    pub(super) fn end(&self, owner: OwnerId) {
        if let Some(request) = locked(&self.0).get(&owner).and_then(Weak::upgrade) {
            request.store(true, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn release_is_seen_by_all_that_is_under_way_for_its_owner() {
        let (all, is_ended) =
            (BackgroundRequests::default(), |it: &BackgroundRequest| it.load(Ordering::SeqCst));
        let (one, other) = (OwnerId::from_u128(1), OwnerId::from_u128(2));
        let (first, second, others) = (all.begin(one), all.begin(one), all.begin(other));
        all.end(one);
        assert!(is_ended(&first) && is_ended(&second) && !is_ended(&others));
        drop((first, second));
        assert!(!is_ended(&all.begin(one)), "what is over is forgotten");
        drop(others);
        let _next = all.begin(one);
        assert_eq!(locked(&all.0).len(), 1, "what is over leaves nothing");
    }
}
