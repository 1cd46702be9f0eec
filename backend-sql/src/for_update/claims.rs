//! The state of each claim of this client.
//!
//! Several calls for one claim may run at once: `LockBackend` allows a call to be repeated while an earlier one runs. So a call
//! other than a release forgets a claim only if its state is still the one that the call has read.

use super::hold::TransactionHold;
use super::wait::RowWait;
use crate::lock_mutex;
use leasehold_core::{FencingToken, LockName, OwnerId};
use std::collections::HashMap;
use std::collections::hash_map::Entry::Occupied;
use std::sync::{Arc, Mutex};

#[derive(Clone, Debug)]
pub(super) enum ClaimState {
    Held(Arc<TransactionHold>),
    Waiting(Arc<RowWait>),
    /// Another owner held the lock at the last attempt.
    Refused,
    /// It held the lock; the outcome of its release is unknown.
    Unsettled(UnsettledRelease),
}

/// A release that has begun, without its connection: the calls that run own it, and when they are dropped, as by the end of their runtime, it
/// is closed. So the lock is free as soon as after a crash.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnsettledRelease {
    pub(super) token: FencingToken,
    /// The server's number of the connection.
    pub(super) number: i64,
    /// True if no owner that it excludes was entered when the release failed: it held the lock to the end.
    pub(super) held_to_its_end: bool,
}

impl ClaimState {
    /// True if both are the same hold, the same wait or the same state.
    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Held(one), Self::Held(other)) => Arc::ptr_eq(one, other),
            (Self::Unsettled(one), Self::Unsettled(other)) => one.token == other.token,
            (Self::Waiting(one), Self::Waiting(other)) => Arc::ptr_eq(one, other),
            (Self::Refused, Self::Refused) => true,
            _ => false,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Claims(pub(super) Mutex<HashMap<OwnerId, ClaimState>>);

impl Claims {
    pub(super) fn get(&self, owner: OwnerId) -> Option<ClaimState> {
        lock_mutex(&self.0).get(&owner).cloned()
    }

    /// Notes that another owner holds the row. A state of the claim stays: the row may be locked by another call for the same claim.
    pub(super) fn note_refusal(&self, owner: OwnerId) {
        lock_mutex(&self.0).entry(owner).or_insert(ClaimState::Refused);
    }

    /// Forgets a hold that an operator has ended.
    pub(super) fn forget_grant(&self, name: &LockName, token: FencingToken) {
        let ended = |state: &ClaimState| matches!(state, ClaimState::Held(hold) if hold.name == *name && hold.token == token);
        lock_mutex(&self.0).retain(|_, state| !ended(state));
    }

    /// Forgets the claim if its state is still the one that was seen: another call for the claim may have replaced it.
    pub(super) fn forget_seen(&self, owner: OwnerId, seen: Option<&ClaimState>) {
        let Some(seen) = seen else { return };
        // Dropped after the map is unlocked: that closes a connection.
        let forgotten = match lock_mutex(&self.0).entry(owner) {
            Occupied(entry) if entry.get().is(seen) => Some(entry.remove()),
            _ => None,
        };
        drop(forgotten);
    }

    pub(super) fn forget(&self, owner: OwnerId) {
        let forgotten = lock_mutex(&self.0).remove(&owner);
        drop(forgotten);
    }
}
