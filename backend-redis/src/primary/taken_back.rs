//! Grants that are not to be believed any more, and those that somebody believes in.
//!
//! Several calls for one claim may be under way at once, and are granted the same token. What one of them is about to take back,
//! another must not believe in; and what another was told of is not taken back. So each says which it is going to do before it
//! does it, as long as it is under way.
//!
//! If nobody knows whether a grant was taken back, it stands here until its owner is released: the request may still be on its
//! way, in a buffer of the server, or of a proxy, whose client has long gone. A later attempt of the same owner, which finds the
//! grant still standing, takes it back once more, and the next one gets a grant with a larger token, of which the late request
//! knows nothing.

use leasehold_core::{FencingToken, OwnerId};
use std::collections::HashMap;
use std::collections::hash_map::Entry::Occupied;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
pub(super) struct TakenBack {
    owners: Mutex<HashMap<OwnerId, OfOwner>>,
}

/// What is known of the grants of an owner, by the last one's token. Those before it are as little to be believed: a fail-over
/// may bring one back.
#[derive(Debug, Default)]
struct OfOwner {
    calls: usize,
    believed: Option<FencingToken>,
    taken_back: Option<FencingToken>,
    /// True if it is not known whether that has come through.
    is_unknown: bool,
}

/// A call for an owner; over when it is dropped.
#[derive(Debug)]
pub(super) struct Underway {
    all: Arc<TakenBack>,
    owner: OwnerId,
}

impl TakenBack {
    pub(super) fn begin(self: &Arc<Self>, owner: OwnerId) -> Underway {
        self.owners().entry(owner).or_default().calls += 1;
        Underway { all: Arc::clone(self), owner }
    }

    /// Says that this grant is going to be believed; false if it is taken back.
    pub(super) fn believe(&self, owner: OwnerId, token: FencingToken) -> bool {
        let mut owners = self.owners();
        let its = owners.entry(owner).or_default();
        let believes = its.taken_back.is_none_or(|last| token > last);
        if believes {
            its.believed = its.believed.max(Some(token));
        }
        believes
    }

    /// Says that this grant is going to be taken back; false if somebody believes in it.
    pub(super) fn take_back(&self, owner: OwnerId, token: FencingToken) -> bool {
        let mut owners = self.owners();
        let its = owners.entry(owner).or_default();
        let takes_back = its.believed.is_none_or(|last| token > last);
        if takes_back {
            its.taken_back = its.taken_back.max(Some(token));
        }
        takes_back
    }

    /// Nobody knows whether what was to be taken back of this owner has been.
    pub(super) fn leave_unknown(&self, owner: OwnerId) {
        self.owners().entry(owner).or_default().is_unknown = true;
    }

    /// The owner is being released, and will not ask again.
    pub(super) fn forget(&self, owner: OwnerId) {
        let mut owners = self.owners();
        // None, as a rule. A map digests what it is to remove, even if it has nothing.
        if !owners.is_empty()
            && let Occupied(mut entry) = owners.entry(owner)
        {
            let its = entry.get_mut();
            its.is_unknown = false;
            // Whoever is still asking with it comes too late.
            its.taken_back = its.taken_back.max(its.believed.take());
            if its.calls == 0 {
                entry.remove();
            }
        }
    }

    fn owners(&self) -> MutexGuard<'_, HashMap<OwnerId, OfOwner>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        if let Occupied(mut entry) = self.all.owners().entry(self.owner) {
            let its = entry.get_mut();
            its.calls = its.calls.saturating_sub(1);
            if its.calls == 0 && !its.is_unknown {
                entry.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: OwnerId = OwnerId::from_u128(1);

    fn token(token: u64) -> FencingToken {
        FencingToken::new(token)
    }

    #[test]
    fn no_grant_up_to_the_last_one_is_believed_until_its_owner_is_released() {
        let all = Arc::<TakenBack>::default();
        let call = all.begin(OWNER);
        assert!(all.take_back(OWNER, token(7)) && all.take_back(OWNER, token(5)));
        all.leave_unknown(OWNER);
        drop(call);
        let later = all.begin(OWNER);
        assert!(!all.believe(OWNER, token(5)) && !all.believe(OWNER, token(7)));
        assert!(all.believe(OWNER, token(8)) && all.believe(OwnerId::from_u128(2), token(7)));
        drop(later);
        all.forget(OWNER);
        assert!(all.believe(OWNER, token(7)));
    }

    #[test]
    fn of_two_calls_with_one_grant_the_first_one_decides() {
        let all = Arc::<TakenBack>::default();
        let calls = (all.begin(OWNER), all.begin(OWNER));
        assert!(all.believe(OWNER, token(7)));
        assert!(!all.take_back(OWNER, token(7)), "the other was told of it");
        assert!(all.take_back(OWNER, token(8)));
        assert!(!all.believe(OWNER, token(8)), "it is on its way back");
        drop(calls.0);
        assert!(!all.take_back(OWNER, token(7)));
        drop(calls.1);
        assert!(all.owners().is_empty(), "what is over leaves nothing");
    }

    #[test]
    fn what_was_released_is_believed_by_nobody_who_was_still_asking() {
        let all = Arc::<TakenBack>::default();
        let _slow = all.begin(OWNER);
        assert!(all.believe(OWNER, token(7)));
        all.forget(OWNER);
        assert!(!all.believe(OWNER, token(7)) && all.take_back(OWNER, token(7)));
    }

    #[test]
    fn a_release_forgets_no_more_than_who_is_still_asking_needs() {
        let all = Arc::<TakenBack>::default();
        let call = all.begin(OWNER);
        assert!(all.take_back(OWNER, token(7)));
        all.leave_unknown(OWNER);
        all.forget(OWNER);
        assert!(!all.believe(OWNER, token(7)));
        drop(call);
        assert!(all.owners().is_empty());
    }
}
