//! The claims of this process: what is known of the key of each.

use crate::leases::Lease;
use crate::locked;
use crate::watches::Watch;
use leasehold_core::OwnerId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::OwnedMutexGuard;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::sleep;

/// The pause before a waiter without a watch asks again, in milliseconds. It has jitter, because all waiters of a process lose
/// their member together.
const RETRY_MILLIS: std::ops::Range<u64> = 100..400;

/// The claims that have, or may have, a key.
#[derive(Debug)]
pub(crate) struct ClaimTable {
    claims: Mutex<HashMap<OwnerId, Arc<ClaimState>>>,
    /// Takes the owners of holds that may be over.
    pub(crate) suspect: UnboundedSender<OwnerId>,
    suspects: tokio::sync::Mutex<UnboundedReceiver<OwnerId>>,
}

/// Locked for the length of a call: the calls for one claim follow each other. `None`: the claim has no key.
pub(crate) type ClaimState = tokio::sync::Mutex<Option<OwnKey>>;

/// The key that a claim has, or may have.
#[derive(Debug, Default)]
pub(crate) struct OwnKey {
    pub(crate) key: Vec<u8>,
    /// The revision at which it was created. `None` while no answer to the write is seen.
    pub(crate) revision: Option<i64>,
    /// True if a write without an answer may still be carried out: its lease must be revoked, and is not used again.
    pub(crate) is_unsure: bool,
    pub(crate) lease: Lease,
    pub(crate) place: Place,
    /// True once the claim was granted: its lease is not shortened any more.
    pub(crate) is_granted: bool,
    /// On the key in front of a waiter, or on a holder's own.
    pub(crate) watch: Option<Watch>,
}

/// The place of a key in its queue.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum Place {
    #[default]
    Unknown,
    /// Behind the youngest of the keys that are older and conflict with it: that key, and the revision at which it was created.
    Behind(Vec<u8>, i64),
    /// No older key conflicts with it, and none can come: it holds the lock.
    First,
}

impl Default for ClaimTable {
    fn default() -> Self {
        let (suspect, suspects) = unbounded_channel();
        Self { claims: Mutex::default(), suspect, suspects: suspects.into() }
    }
}

impl ClaimTable {
    /// The state of a claim, new if there is none.
    pub(crate) async fn lock(&self, owner: OwnerId) -> OwnedMutexGuard<Option<OwnKey>> {
        loop {
            let state = Arc::clone(locked(&self.claims).entry(owner).or_default());
            let guard = Arc::clone(&state).lock_owned().await;
            // Another call may have removed the claim while this one waited for it.
            if self.get(owner).is_some_and(|current| Arc::ptr_eq(&current, &state)) {
                return guard;
            }
        }
    }

    pub(crate) fn get(&self, owner: OwnerId) -> Option<Arc<ClaimState>> {
        locked(&self.claims).get(&owner).cloned()
    }

    /// Forgets a claim that has no key. The caller has its state locked.
    pub(crate) fn remove_without_key(&self, owner: OwnerId, state: &Option<OwnKey>) {
        if state.is_none() {
            locked(&self.claims).remove(&owner);
        }
    }

    /// Waits until the watch of a claim fires; for a pause, if it has none.
    pub(crate) async fn changed(&self, owner: OwnerId) {
        let fired = match self.get(owner) {
            Some(state) => state.lock().await.as_ref().and_then(|own| Some(own.watch.as_ref()?.fired())),
            None => None,
        };
        match fired {
            Some(fired) => fired.await,
            None => sleep(Duration::from_millis(fastrand::u64(RETRY_MILLIS))).await,
        }
    }

    /// Waits until there are owners of holds that may be over, and takes them. Dropped, it has taken none.
    pub(crate) async fn suspects(&self) -> Vec<OwnerId> {
        let mut suspects = Vec::new();
        self.suspects.lock().await.recv_many(&mut suspects, usize::MAX).await;
        suspects
    }

    /// Forgets all claims, and ends their watches.
    pub(crate) fn clear(&self) {
        locked(&self.claims).clear();
    }
}
