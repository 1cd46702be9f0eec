//! Owners for whom something is still under way at a node that nobody waits for.
//!
//! A lock that such a request sets comes too late if its owner was released meanwhile. A release is noted here before it asks
//! any node, and a request that has set a lock looks here afterwards: one of the two sees the other.

use leasehold_core::OwnerId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
pub(super) struct Unfinished {
    owners: Mutex<HashMap<OwnerId, Entry>>,
}

#[derive(Debug, Default)]
struct Entry {
    requests: usize,
    ended: bool,
}

/// Something under way for an owner; over when it is dropped.
#[derive(Debug)]
pub(super) struct Underway {
    all: Arc<Unfinished>,
    owner: OwnerId,
}

impl Unfinished {
    pub(super) fn begin(self: &Arc<Self>, owner: OwnerId) -> Underway {
        self.owners().entry(owner).or_default().requests += 1;
        Underway { all: Arc::clone(self), owner }
    }

    /// The owner is being released.
    pub(super) fn end(&self, owner: OwnerId) {
        if let Some(entry) = self.owners().get_mut(&owner) {
            entry.ended = true;
        }
    }

    fn owners(&self) -> MutexGuard<'_, HashMap<OwnerId, Entry>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Underway {
    /// True if the owner was released since this began.
    pub(super) fn is_ended(&self) -> bool {
        self.all.owners().get(&self.owner).is_some_and(|entry| entry.ended)
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        let mut owners = self.all.owners();
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
    fn a_release_is_seen_by_all_that_is_under_way_for_its_owner() {
        let all = Arc::<Unfinished>::default();
        let (one, other) = (OwnerId::from_u128(1), OwnerId::from_u128(2));
        let (first, second, others) = (all.begin(one), all.begin(one), all.begin(other));
        all.end(one);
        assert!(first.is_ended() && second.is_ended() && !others.is_ended());
        drop((first, second, others));
        all.end(one);
        assert!(all.owners().is_empty(), "what is over leaves nothing");
    }
}
