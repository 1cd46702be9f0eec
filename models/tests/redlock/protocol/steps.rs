//! The steps of clients, and what nodes do with what they are sent.

use super::node::{Node, Request};
use super::{Attempt, Protocol, State, Tokens};

impl<const NODES: usize> Protocol<NODES> {
    pub(super) fn begin(&self, state: &mut State<NODES>, attempt: usize, anew: bool) {
        let before = self.predecessor(attempt);
        let owner = match before {
            Some(before) if !anew => state.attempts[before].owner,
            _ => attempt as u8 + 1,
        };
        let floor = state.granted_to_others(owner);
        state.attempts[attempt] = Attempt { owner, open: true, floor, ..Attempt::default() };
        if let Some(before) = before {
            state.attempts[before].open = false;
        }
        for node in &mut state.nodes {
            node.claims[attempt] = Request::UnderWay;
            if let Some(before) = before {
                node.forget_answers(before);
            }
        }
    }

    /// A node holds the name for an attempt: it is free, or held for an earlier attempt of the same owner.
    pub(super) fn claim(&self, state: &mut State<NODES>, place: usize, attempt: usize, heard: bool) {
        let same_owner = state.nodes[place].holder(state) == Some(state.attempts[attempt].owner);
        let node = &mut state.nodes[place];
        if self.tokens == Tokens::MaximumOfCounts && !same_owner {
            node.last += 1;
        }
        node.took[attempt] = match same_owner {
            true => node.took[usize::from(node.lock) - 1],
            false => node.took.iter().max().unwrap() + 1,
        };
        node.lock = attempt as u8 + 1;
        node.claims[attempt] = Request::None;
        if heard {
            node.claims[attempt] = Request::Answered;
            node.told[attempt] = (node.last, node.record);
        }
    }

    /// A majority holds the name: one more than the largest token that it knows, sent to every node.
    pub(super) fn choose_token(&self, state: &mut State<NODES>, attempt: usize) {
        let majority: Vec<(u8, u8)> = state.answered(attempt).map(|node| node.told[attempt]).collect();
        let largest = majority.iter().map(|(last, _)| *last).max().unwrap_or_default();
        let own = majority.iter().map(|(_, own)| *own).filter(|own| {
            *own > 0 && majority.iter().filter(|(_, other)| other == own).count() >= Self::majority()
        });
        if let Some(own) = own.max() {
            // It was granted before, and the answer was lost.
            state.grant(attempt, own);
        } else if self.tokens == Tokens::MaximumOfCounts {
            state.attempts[attempt].floor = 0;
            state.grant(attempt, largest);
        } else {
            state.attempts[attempt].floor = state.granted_to_others(state.attempts[attempt].owner);
            state.attempts[attempt].token = largest + 1;
            state.nodes.iter_mut().for_each(|node| node.writes[attempt] = Request::UnderWay);
        }
        for node in &mut state.nodes {
            node.told[attempt] = (0, 0);
            if node.claims[attempt] == Request::Answered {
                node.claims[attempt] = Request::None;
            }
        }
    }

    pub(super) fn may_write(&self, node: &Node, attempt: usize, token: u8) -> bool {
        let is_mine = usize::from(node.lock) == attempt + 1;
        let is_larger = node.last < token;
        match self.tokens {
            Tokens::WrittenBack => is_mine && is_larger,
            Tokens::WithoutOwnerCheck => is_larger,
            Tokens::WithoutSmallerCheck => is_mine,
            Tokens::Unchecked => true,
            Tokens::MaximumOfCounts => false,
        }
    }

    pub(super) fn write(&self, state: &mut State<NODES>, place: usize, attempt: usize) {
        let token = state.attempts[attempt].token;
        let node = &mut state.nodes[place];
        node.writes[attempt] = Request::Answered;
        node.last = match self.tokens {
            Tokens::Unchecked => node.last.max(token),
            _ => token,
        };
        if usize::from(node.lock) == attempt + 1 {
            node.record = token;
        }
        let written = state.nodes.iter().filter(|node| node.writes[attempt] == Request::Answered).count();
        if state.attempts[attempt].open && written >= Self::majority() {
            state.grant(attempt, token);
        }
    }
}
