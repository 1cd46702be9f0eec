//! The state of a node, with the requests to it and its replies.

use super::{ATTEMPTS, Attempt, State};

/// The progress of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Request {
    #[default]
    None,
    InFlight,
    /// Executed, and the client has the reply.
    Answered,
}

/// Nodes are interchangeable: each action sorts them, so that permutations are one state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Node {
    /// The attempt that has the lock, counted from 1; 0 if it is free.
    pub(super) lock: u8,
    /// The token in the record of the holder, 0 if there is none.
    pub(super) record: u8,
    /// The last token that was written here; with `MaxOfCounters`, the number of grants.
    pub(super) last_token: u8,
    pub(super) claims: [Request; ATTEMPTS],
    /// The reply to each claim: the last token, and the token in the record.
    pub(super) replies: [(u8, u8); ATTEMPTS],
    pub(super) writes: [Request; ATTEMPTS],
    /// Read by properties only: the order in which the owners of the attempts got this lock, 0 if never.
    pub(super) locked_at: [u8; ATTEMPTS],
}

impl Node {
    pub(super) fn free(&mut self) {
        (self.lock, self.record) = (0, 0);
    }

    pub(super) fn holder<const NODES: usize>(&self, state: &State<NODES>) -> Option<u8> {
        let holder = usize::from(self.lock).checked_sub(1)?;
        Some(state.attempts[holder].owner)
    }

    /// True if the lock is free, or an earlier attempt of the same owner has it.
    pub(super) fn accepts_claim<const NODES: usize>(&self, state: &State<NODES>, attempt: usize) -> bool {
        match self.holder(state) {
            None => true,
            Some(owner) => owner == state.attempts[attempt].owner && usize::from(self.lock) <= attempt,
        }
    }

    /// Replaces the values of `locked_at` by their ranks: only their order is read.
    pub(super) fn normalize_lock_order(&mut self) {
        let mut times = self.locked_at;
        times.sort_unstable();
        let mut rank = 0;
        for (index, time) in times.into_iter().enumerate() {
            if time > 0 && (index == 0 || times[index - 1] != time) {
                rank += 1;
                self.locked_at.iter_mut().filter(|at| **at == time).for_each(|at| *at = rank);
            }
        }
    }

    /// The client has begun its next attempt, and ignores replies to this one.
    pub(super) fn discard_replies(&mut self, attempt: usize) {
        if self.claims[attempt] == Request::Answered {
            self.claims[attempt] = Request::None;
        }
        self.replies[attempt] = (0, 0);
    }

    /// True if this attempt wrote the token of its grant here. Its grant may have the token of an earlier attempt of its owner instead.
    pub(super) fn has_written(&self, index: usize, attempt: &Attempt) -> bool {
        self.writes[index] == Request::Answered && attempt.token == attempt.granted
    }
}
