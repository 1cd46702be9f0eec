//! The state of each claim of this client.
//!
//! Several calls for one claim may run at once: `LockBackend` allows a call to be repeated while an earlier one runs. So a call
//! removes an entry only if it is still the entry that the call has read.

use super::hold::Hold;
use super::wait::Waiting;
use super::{HeldRow, busy};
use leasehold_core::{Attempt, Claim, FencingToken, LockName, OwnerId};
use std::collections::HashMap;
use std::collections::hash_map::Entry::Occupied;
use std::sync::{Arc, MutexGuard, PoisonError};

/// The state of a claim.
#[derive(Clone, Debug)]
pub(super) enum Entry {
    Held(Arc<Hold>),
    Waiting(Arc<Waiting>),
    /// Another owner held the lock at the last attempt.
    Refused,
    /// It held the lock; the outcome of its release is unknown.
    Unsettled {
        hold: Arc<Hold>,
        /// True if no other owner was entered before its release began: it held the lock to the end.
        held_to_its_end: bool,
    },
}

impl Entry {
    /// True if both are the same hold, the same wait or the same state.
    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Held(one), Self::Held(other)) => Arc::ptr_eq(one, other),
            (Self::Waiting(one), Self::Waiting(other)) => Arc::ptr_eq(one, other),
            (Self::Refused, Self::Refused) => true,
            (Self::Unsettled { hold: one, .. }, Self::Unsettled { hold: other, .. }) => {
                Arc::ptr_eq(one, other)
            }
            _ => false,
        }
    }
}

impl HeldRow {
    /// Enters that another owner holds the row. An entry of the claim stays: the row may be locked by another call for the
    /// same claim.
    ///
    /// A writer that waits for readers leaves a mark, and does not wait in the server: MySQL and MariaDB let no reader pass a request
    /// in their queue, and do not notice that the caller has gone.
    pub(super) async fn refused(&self, claim: &Claim) -> Attempt {
        if !self.leave_mark(claim).await {
            self.entries().entry(claim.owner()).or_insert(Entry::Refused);
        }
        busy()
    }

    /// Forgets a hold that is ended from outside.
    pub(super) fn forget_grant(&self, name: &LockName, token: FencingToken) {
        let ended = |entry: &Entry| matches!(entry, Entry::Held(hold) if hold.name() == name && hold.token() == token);
        self.entries().retain(|_, entry| !ended(entry));
    }

    pub(super) fn entry(&self, owner: OwnerId) -> Option<Entry> {
        self.entries().get(&owner).cloned()
    }

    /// Removes the entry if it is still the one that was seen: another call for the claim may have replaced it.
    pub(super) fn forget_seen(&self, owner: OwnerId, seen: Option<&Entry>) {
        let Some(seen) = seen else { return };
        // Dropped when the others can be looked at again: that closes a connection.
        let forgotten = match self.entries().entry(owner) {
            Occupied(entry) if entry.get().is(seen) => Some(entry.remove()),
            _ => None,
        };
        drop(forgotten);
    }

    /// Removes the entry, whatever its state.
    pub(super) fn forget(&self, owner: OwnerId) {
        let forgotten = self.entries().remove(&owner);
        drop(forgotten);
    }

    pub(super) fn entries(&self) -> MutexGuard<'_, HashMap<OwnerId, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
