//! The claims of this process: what is known of the key of each.

use crate::leases::Lease;
use crate::notifier::{ClaimNotifier, Suspects};
use crate::watches::Watch;
use leasehold_core::{FencingToken, OwnerId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::OwnedMutexGuard;

/// The claims that have, or may have, a key.
#[derive(Debug, Default)]
pub(crate) struct ClaimTable {
    entries: Mutex<HashMap<OwnerId, Arc<ClaimEntry>>>,
    /// The holds that may be over.
    pub(crate) suspects: Arc<Suspects>,
}

/// One claim.
#[derive(Debug)]
pub(crate) struct ClaimEntry {
    /// Locked for the length of a call: the calls for one claim follow each other. `None`: it has no key.
    state: Arc<tokio::sync::Mutex<Option<OwnKey>>>,
    pub(crate) notifier: Arc<ClaimNotifier>,
}

pub(crate) type ClaimState = OwnedMutexGuard<Option<OwnKey>>;

/// The key that a claim has, or may have.
#[derive(Debug)]
pub(crate) struct OwnKey {
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
    /// The revision at which it was created. `None` while the answer to the write is not seen.
    pub(crate) revision: Option<i64>,
    /// The lease on which it lives.
    pub(crate) lease: Lease,
    /// Leases on which it lived before. The first may have given it its name, so none is used again before the key is deleted.
    pub(crate) left: Vec<Lease>,
    /// True if a write without an answer may still be carried out: its lease must end, and is not used again.
    pub(crate) is_unsure: bool,
    /// True once no older key conflicts with it: none can come.
    pub(crate) is_first: bool,
    /// True from the first grant on.
    pub(crate) holds: bool,
    /// A waiter's: the key in front.
    pub(crate) blocker: Vec<u8>,
    pub(crate) watch: Option<Watch>,
}

impl OwnKey {
    /// A key that is about to be written.
    pub(crate) fn new(key: Vec<u8>, value: Vec<u8>, lease: Lease) -> Self {
        Self {
            key,
            value,
            revision: None,
            lease,
            left: Vec::new(),
            is_unsure: false,
            is_first: false,
            holds: false,
            blocker: Vec::new(),
            watch: None,
        }
    }

    /// All leases that it has, or had.
    pub(crate) fn leases(&self) -> impl Iterator<Item = Lease> {
        self.left.iter().copied().chain([self.lease])
    }
}

/// The token of a grant: the revision of the whole store at which its key was created.
pub(crate) fn token(revision: i64) -> FencingToken {
    FencingToken::new(revision.unsigned_abs())
}

impl ClaimTable {
    /// The entry of an owner, new if there is none, and its state.
    pub(crate) async fn lock(&self, owner: OwnerId) -> (Arc<ClaimEntry>, ClaimState) {
        loop {
            let new = || {
                let notifier = Arc::new(ClaimNotifier::new(owner, &self.suspects));
                Arc::new(ClaimEntry { state: Arc::default(), notifier })
            };
            let entry = Arc::clone(self.entries().entry(owner).or_insert_with(new));
            let state = entry.lock().await;
            // Another call may have removed the entry while this one waited for it.
            if self.get(owner).is_some_and(|current| Arc::ptr_eq(&current, &entry)) {
                return (entry, state);
            }
        }
    }

    pub(crate) fn get(&self, owner: OwnerId) -> Option<Arc<ClaimEntry>> {
        self.entries().get(&owner).cloned()
    }

    /// Forgets a claim without a key. The caller has its state locked.
    pub(crate) fn remove(&self, owner: OwnerId) {
        self.entries().remove(&owner);
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<OwnerId, Arc<ClaimEntry>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClaimEntry {
    pub(crate) async fn lock(&self) -> ClaimState {
        Arc::clone(&self.state).lock_owned().await
    }
}
