//! What a node knows, and what is on its way to and from it.

use super::{ATTEMPTS, Attempt, State};

/// Where a request is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Request {
    #[default]
    None,
    UnderWay,
    /// Carried out, and the client knows the answer.
    Answered,
}

/// A node, with what is on its way to and from it. Nodes have no names: those that are alike may change places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Node {
    /// The attempt that has the lock, counted from 1; 0 if it is free.
    pub(super) lock: u8,
    /// The token in the holder record, 0 if there is none.
    pub(super) record: u8,
    /// The last token.
    pub(super) last: u8,
    pub(super) claims: [Request; ATTEMPTS],
    /// The last token that a claim was told, and the token of its owner's own record.
    pub(super) told: [(u8, u8); ATTEMPTS],
    pub(super) writes: [Request; ATTEMPTS],
    /// For the properties alone, not in the protocol: when each attempt's owner got the lock here, 0 if never.
    pub(super) took: [u8; ATTEMPTS],
}

impl Node {
    pub(super) fn free(&mut self) {
        (self.lock, self.record) = (0, 0);
    }

    pub(super) fn holder<const NODES: usize>(&self, state: &State<NODES>) -> Option<u8> {
        let holder = usize::from(self.lock).checked_sub(1)?;
        Some(state.attempts[holder].owner)
    }

    /// Free, or held for an earlier attempt of this owner.
    pub(super) fn admits<const NODES: usize>(&self, state: &State<NODES>, attempt: usize) -> bool {
        match self.holder(state) {
            None => true,
            Some(owner) => owner == state.attempts[attempt].owner && usize::from(self.lock) <= attempt,
        }
    }

    /// Only the order counts in which they had the lock.
    pub(super) fn renumber(&mut self) {
        let mut times = self.took;
        times.sort_unstable();
        let mut rank = 0;
        for (place, time) in times.into_iter().enumerate() {
            if time > 0 && (place == 0 || times[place - 1] != time) {
                rank += 1;
                self.took.iter_mut().filter(|took| **took == time).for_each(|took| *took = rank);
            }
        }
    }

    /// The client has gone on: what it was told counts no longer.
    pub(super) fn forget_answers(&mut self, attempt: usize) {
        if self.claims[attempt] == Request::Answered {
            self.claims[attempt] = Request::None;
        }
        self.told[attempt] = (0, 0);
    }

    /// True if the grant's own token was written here, and not only that of its owner's earlier attempt.
    pub(super) fn wrote(&self, place: usize, attempt: &Attempt) -> bool {
        self.writes[place] == Request::Answered && attempt.token == attempt.granted
    }
}
