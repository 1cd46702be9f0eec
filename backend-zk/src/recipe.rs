//! The lock recipe of ZooKeeper's documentation, with the three corrections that it needs.
//!
//! 1. Create an ephemeral sequential node, named after the owner and the mode.
//! 2. List the queue. If no other node blocks this one, its claim holds the lock.
//! 3. Else watch the blocker, and no other node: a release wakes one writer, or the readers up to the next writer.
//! 4. When the watch fires, list again: the blocker may have left without ever holding the lock.
//! 5. To release, delete the node.
//!
//! The corrections. Each of these faults was in a lock that people have used for years:
//!
//! * *The reply to the create is lost.* The node is found by its owner, and not created twice: [`own_node`].
//! * *The node belongs to an earlier session*, which the servers are about to end. Only a node of the present session counts
//!   (CURATOR-604, CURATOR-696: two owners).
//! * *The session has ended, and the client does not know.* A server that is cut off from its leader shows the old queue for as
//!   long as it likes (as in etcd #11456). So belief is counted from before the send of the last write that a majority of the
//!   servers has acknowledged in this session. If that is too old, a new proof of that kind is sent with the list of step 2.

use crate::acl::Access;
use crate::claims::{ClaimState, OwnNode};
use crate::notifier::{ClaimNotifier, Signal, TakenSignal};
use crate::own_node;
use crate::parents;
use crate::queue::{Queue, prefix_of};
use crate::session::{SessionCall, WatchTarget, ZkError, ZkResult};
use leasehold_core::{Attempt, Busy, Claim, Grant, Moment};
use std::sync::Arc;
use zookeeper_client::CreateMode;

/// After this many rounds the attempt answers Busy. A waiter asks again at once.
const MAX_ROUNDS: usize = 16;
/// A proof older than a tenth of the lease or ttl is repeated. Age is measured when the attempt began; a slow attempt shortens the lease that it grants.
const FRESH_PART: u32 = 10;

#[derive(Debug)]
pub(crate) struct Recipe<'a> {
    pub(crate) call: &'a SessionCall,
    pub(crate) access: Access,
    pub(crate) directory: &'a str,
    pub(crate) claim: &'a Claim,
    pub(crate) notifier: &'a Arc<ClaimNotifier>,
    pub(crate) before: TakenSignal,
    /// When the attempt began, before anything was sent.
    pub(crate) started_at: Moment,
}

impl Recipe<'_> {
    /// Makes one attempt. At every await, `state` covers each node that the store may have, so a release finds it.
    pub(crate) async fn attempt(&self, state: &mut ClaimState) -> ZkResult<Attempt> {
        state.check_session(self.call.session(), self.notifier)?;
        // The fallback question of a waiter: it may have no watch, because the session has too many.
        if let ClaimState::Waiting { blocker, .. } = state
            && self.before.signal == Signal::Watched
        {
            let blocker_exists = self.call.exists(&self.path(blocker)).await;
            if !matches!(blocker_exists, Ok(false)) {
                self.notifier.set(self.before, Signal::Watched);
                return blocker_exists.map(|_| busy());
            }
        }
        let mut queue = match state {
            ClaimState::Absent => self.create(state).await?,
            // A server that is behind may not show the node yet. A proof makes it current.
            ClaimState::Unknown { .. } => Queue::of(self.call.prove_and_list(self.directory).await?),
            _ => self.list().await?,
        };
        for _ in 0..MAX_ROUNDS {
            let Some((node, index)) = self.settle_node(&queue, state).await? else {
                queue = self.create(state).await?;
                continue;
            };
            let Some(blocker) = queue.blocker(index) else { return Ok(self.grant(state, node)) };
            if !self.claim.waits() {
                return self.leave(state, &node).await;
            }
            if self.watch(state, node, &blocker.node).await? {
                return Ok(busy());
            }
            queue = self.list().await?;
        }
        self.notifier.fire();
        Ok(busy())
    }

    /// Step 1, and the list of step 2 in the same round trip. Tried again once: after the missing directory is made, or after a
    /// create without an answer that was not carried out.
    async fn create(&self, state: &mut ClaimState) -> ZkResult<Queue> {
        let prefix = prefix_of(self.claim.owner(), self.claim.mode()).map_err(ZkError::Refused)?;
        let (session, acls) = (self.call.session(), self.access.of_contenders());
        let mut failure = ZkError::NoNode;
        for _ in 0..2 {
            *state = ClaimState::Unknown { session: Arc::clone(session) };
            let data = self.claim.holder().as_bytes();
            let (creation, children) = self.call.create_and_list(self.directory, &prefix, data, acls).await;
            match creation {
                Ok((name, stat)) => {
                    *state = ClaimState::Created { node: OwnNode::new(session, &name, &stat) };
                    return children.map(Queue::of);
                }
                Err(ZkError::NoNode) => {
                    *state = ClaimState::Absent;
                    parents::make(self.call, self.access, self.directory, CreateMode::Container).await?;
                }
                // Carried out or not: the list shows it, if there is a connection again.
                Err(unknown @ ZkError::Unknown(_)) if self.call.has_time() => {
                    match self.call.prove_and_list(self.directory).await.map(Queue::of) {
                        Err(_) => return Err(unknown),
                        Ok(queue) if !queue.indices_of(self.claim.owner()).is_empty() => return Ok(queue),
                        Ok(_) => failure = unknown,
                    }
                }
                Err(unknown @ ZkError::Unknown(_)) => return Err(unknown),
                Err(refused) => {
                    *state = ClaimState::Absent;
                    return Err(refused);
                }
            }
        }
        Err(failure)
    }

    /// Step 2: the list, and a proof of the session if the last one is old.
    async fn list(&self) -> ZkResult<Queue> {
        let session = self.call.session();
        let fresh = session.lease().min(self.claim.ttl()) / FRESH_PART;
        let children = if self.started_at.since(session.proved_at()) < fresh {
            self.call.list(self.directory).await
        } else {
            self.call.prove_and_list(self.directory).await
        };
        children.map(Queue::of)
    }

    /// Finds the claim's node of this session, and its index in the queue. Deletes surplus nodes of the owner, and its own node
    /// if the number may repeat. Ends the watch on the old blocker.
    async fn settle_node(&self, queue: &Queue, state: &mut ClaimState) -> ZkResult<Option<(OwnNode, usize)>> {
        let indices = queue.indices_of(self.claim.owner());
        let node = match state.node() {
            // With several nodes, those of earlier sessions must be deleted.
            Some(node) if indices.len() <= 1 => Some(node.clone()),
            _ => own_node::keep_first(self.call, self.directory, queue, &indices).await?,
        };
        let index = |node: &OwnNode| queue.contenders().iter().position(|it| *it.node == *node.name);
        let position = node.and_then(|node| index(&node).map(|index| (node, index)));
        let Some((node, index)) = position else { return Ok(None) };
        if !matches!(state, ClaimState::Holding { .. }) {
            *state = ClaimState::Created { node: node.clone() };
        }
        if let Some(number) = queue.contenders()[index].repeatable_number() {
            self.call.delete(&self.path(&node.name)).await?;
            *state = ClaimState::Absent;
            return Err(ZkError::numbers_used_up(self.directory, number));
        }
        Ok(Some((node, index)))
    }

    /// Step 2: nothing blocks the node. Belief is counted from the proof of the session.
    fn grant(&self, state: &mut ClaimState, node: OwnNode) -> Attempt {
        let proof_age = self.started_at.since(node.session.proved_at());
        let lease = node.session.lease().saturating_sub(proof_age);
        // The first renewal sets the watch on the node.
        let grant = Grant::new(node.token).with_lease(lease).with_renewal_soon();
        if !matches!(state, ClaimState::Holding { .. }) {
            *state = ClaimState::Holding { node, watch: None };
            self.notifier.begin_hold();
        }
        Attempt::Granted(grant)
    }

    /// A claim that does not wait deletes its node before it is answered: from then on it blocks no other claim. A delete
    /// without an answer is left to the release.
    async fn leave(&self, state: &mut ClaimState, node: &OwnNode) -> ZkResult<Attempt> {
        match self.call.delete(&self.path(&node.name)).await {
            Ok(_) => *state = ClaimState::Absent,
            Err(ZkError::Unknown(_)) => return Ok(busy()),
            Err(refused) => return Err(refused),
        }
        Ok(Attempt::Busy(Busy::new()))
    }

    /// Step 3. False if the blocker has gone.
    async fn watch(&self, state: &mut ClaimState, node: OwnNode, blocker: &str) -> ZkResult<bool> {
        let (path, waker) = (self.path(blocker), self.notifier.waker());
        let Some((_, watch)) = self.call.watch(&path, WatchTarget::Blocker, &waker).await? else {
            return Ok(false);
        };
        *state = ClaimState::Waiting { node, blocker: blocker.into(), _watch: watch };
        self.notifier.set(self.before, Signal::Watched);
        Ok(true)
    }

    fn path(&self, node: &str) -> String {
        [self.directory, "/", node].concat()
    }
}

fn busy() -> Attempt {
    Attempt::Busy(Busy::new().with_place_in_queue())
}
