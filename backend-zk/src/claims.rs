//! The claims of this process: what is known of the node of each.

use crate::locked;
use crate::notifier::ClaimNotifier;
use crate::session::{NodeWatch, Session, SessionEvent, ZkError, ZkResult};
use leasehold_core::{Error, ErrorKind, FencingToken, OwnerId, Suspects};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use tokio::sync::OwnedMutexGuard;
use zookeeper_client::Stat;

/// The claims that have, or may have, a node.
#[derive(Debug, Default)]
pub(crate) struct ClaimTable {
    entries: Mutex<HashMap<OwnerId, Arc<ClaimEntry>>>,
    /// The holds that may be over.
    pub(crate) suspects: Arc<Suspects>,
}

#[derive(Debug)]
pub(crate) struct ClaimEntry {
    /// Acquire and release lock it for the whole call. A renewal locks it only to read or to store.
    pub(crate) state: Arc<tokio::sync::Mutex<ClaimState>>,
    pub(crate) notifier: Arc<ClaimNotifier>,
}

/// The knowledge of the last call.
#[derive(Debug, Default)]
pub(crate) enum ClaimState {
    /// It has no node.
    #[default]
    Absent,
    /// It may have a node of `session`: a create is under way, or its reply was lost.
    Unknown { session: Arc<Session> },
    /// It has a node, and its place in the queue is not known.
    Created { node: OwnNode },
    /// It waits behind another node.
    Waiting { node: OwnNode, blocker: Box<str>, _watch: Option<NodeWatch> },
    /// It holds the lock. The watch is on its own node: none before the first renewal, and beyond the limit of watches.
    Holding { node: OwnNode, watch: Option<NodeWatch> },
}

#[derive(Clone, Debug)]
pub(crate) struct OwnNode {
    /// The session that made it, and with which it ends.
    pub(crate) session: Arc<Session>,
    pub(crate) name: Box<str>,
    /// The number of the transaction that made it.
    pub(crate) token: FencingToken,
}

impl OwnNode {
    pub(crate) fn new(session: &Arc<Session>, name: &str, stat: &Stat) -> Self {
        Self { session: Arc::clone(session), name: name.into(), token: token(stat) }
    }
}

/// The token of a grant by this node: the transaction that made it. The numbers of nodes begin again when their directory is made
/// again; the numbers of transactions do not.
pub(crate) fn token(stat: &Stat) -> FencingToken {
    FencingToken::new(stat.czxid.unsigned_abs())
}

impl ClaimTable {
    /// The entry of an owner, new if there is none, and its state.
    pub(crate) async fn lock(&self, owner: OwnerId) -> (Arc<ClaimEntry>, OwnedMutexGuard<ClaimState>) {
        loop {
            let new = || {
                let notifier = Arc::new(ClaimNotifier::new(owner, &self.suspects));
                Arc::new(ClaimEntry { state: Arc::default(), notifier })
            };
            let entry = Arc::clone(locked(&self.entries).entry(owner).or_insert_with(new));
            let state = Arc::clone(&entry.state).lock_owned().await;
            // Another call may have removed the entry while this one waited for it.
            if self.get(owner).is_some_and(|current| Arc::ptr_eq(&current, &entry)) {
                return (entry, state);
            }
        }
    }

    pub(crate) fn get(&self, owner: OwnerId) -> Option<Arc<ClaimEntry>> {
        locked(&self.entries).get(&owner).cloned()
    }

    /// Forgets a claim without a node. The caller has its state locked.
    pub(crate) fn remove(&self, owner: OwnerId) {
        locked(&self.entries).remove(&owner);
    }

    /// Holders are at risk while there is no connection. A session that has ended takes all nodes with it.
    pub(crate) fn session_event(&self, event: SessionEvent) {
        let entries: Vec<_> = locked(&self.entries).values().cloned().collect();
        let claims = entries.iter().map(|entry| &entry.notifier);
        match event {
            SessionEvent::Ended => claims.for_each(|claim| claim.fire()),
            SessionEvent::Connection => claims.for_each(|claim| claim.suspect()),
        }
    }
}

impl ClaimState {
    /// The node that it certainly had.
    pub(crate) fn node(&self) -> Option<&OwnNode> {
        match self {
            Self::Absent | Self::Unknown { .. } => None,
            Self::Created { node } | Self::Waiting { node, .. } | Self::Holding { node, .. } => Some(node),
        }
    }

    /// The session of the claim's node is not the present one: this attempt fails once. The next one deletes the old node, if it
    /// still exists, and queues at the end.
    pub(crate) fn check_session(&mut self, present: &Session, notifier: &ClaimNotifier) -> ZkResult<()> {
        let lost = self.node().filter(|node| node.session.id != present.id);
        let Some(OwnNode { session, .. }) = lost else { return Ok(()) };
        *self = Self::Unknown { session: Arc::clone(session) };
        notifier.fire();
        let message = "the session has ended with its place in the queue: this waiter goes on at the end";
        Err(ZkError::Refused(Error::new(ErrorKind::Unavailable, message)))
    }

    /// The session of the node that it has or may have.
    pub(crate) fn session(&self) -> Option<&Arc<Session>> {
        match self {
            Self::Unknown { session } => Some(session),
            state => state.node().map(|node| &node.session),
        }
    }
}
