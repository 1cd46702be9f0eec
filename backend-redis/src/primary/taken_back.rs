//! Grants that were to be taken back, with nobody knowing whether they were.
//!
//! The request may still be on its way: in a buffer of the server, or of a proxy, whose client has long gone. So a later
//! attempt of the same owner, which finds the grant still standing, must not believe in it. It takes it back once more, and
//! the next one gets a grant with a larger token, of which the late request knows nothing.

use leasehold_core::{FencingToken, OwnerId};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// For each owner that has such grants, the last one's token. Those before it are as little to be believed: a fail-over may
/// bring one back.
#[derive(Debug, Default)]
pub(super) struct TakenBack {
    tokens: Mutex<HashMap<OwnerId, FencingToken>>,
}

impl TakenBack {
    pub(super) fn add(&self, owner: OwnerId, token: FencingToken) {
        let mut tokens = self.tokens();
        let last = tokens.entry(owner).or_insert(token);
        *last = token.max(*last);
    }

    pub(super) fn includes(&self, owner: OwnerId, token: FencingToken) -> bool {
        self.tokens().get(&owner).is_some_and(|last| token <= *last)
    }

    /// The owner is being released, and will not ask again.
    pub(super) fn forget(&self, owner: OwnerId) {
        let mut tokens = self.tokens();
        // None, as a rule. A map digests what it is to remove, even if it has nothing.
        if !tokens.is_empty() {
            tokens.remove(&owner);
        }
    }

    fn tokens(&self) -> MutexGuard<'_, HashMap<OwnerId, FencingToken>> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_grant_up_to_the_last_one_is_believed_until_its_owner_is_released() {
        let (all, owner, other) = (TakenBack::default(), OwnerId::from_u128(1), OwnerId::from_u128(2));
        let includes = |owner, token| all.includes(owner, FencingToken::new(token));
        all.add(owner, FencingToken::new(7));
        all.add(owner, FencingToken::new(5));
        assert!(includes(owner, 5) && includes(owner, 7));
        assert!(!includes(owner, 8) && !includes(other, 7));
        all.forget(owner);
        assert!(!includes(owner, 7) && all.tokens().is_empty());
    }
}
