//! The steps of the clients, and the execution of their requests by the nodes.

use super::node::{Node, Request};
use super::{Attempt, Redlock, State, TokenRule};

impl<const NODES: usize> Redlock<NODES> {
    pub(super) fn begin(&self, state: &mut State<NODES>, attempt: usize, new_owner: bool) {
        let before = self.predecessor(attempt);
        let owner = match before {
            Some(before) if !new_owner => state.attempts[before].owner,
            _ => attempt as u8 + 1,
        };
        let floor = state.granted_to_others(owner);
        state.attempts[attempt] = Attempt { owner, is_waiting: true, floor, ..Attempt::default() };
        if let Some(before) = before {
            state.attempts[before].is_waiting = false;
        }
        for node in &mut state.nodes {
            node.claims[attempt] = Request::InFlight;
            if let Some(before) = before {
                node.discard_replies(before);
            }
        }
    }

    /// Executes a claim that the node accepts.
    pub(super) fn claim(&self, state: &mut State<NODES>, index: usize, attempt: usize, replied: bool) {
        let same_owner = state.nodes[index].holder(state) == Some(state.attempts[attempt].owner);
        let node = &mut state.nodes[index];
        if self.token_rule == TokenRule::MaxOfCounters && !same_owner {
            node.last_token += 1;
        }
        node.locked_at[attempt] = match same_owner {
            true => node.locked_at[usize::from(node.lock) - 1],
            false => node.locked_at.iter().max().unwrap() + 1,
        };
        node.lock = attempt as u8 + 1;
        node.claims[attempt] = Request::None;
        if replied {
            node.claims[attempt] = Request::Answered;
            node.replies[attempt] = (node.last_token, node.record);
        }
    }

    /// Chooses a token after a majority has granted the claim: one more than the largest of their last tokens. It is sent to every node.
    pub(super) fn choose_token(&self, state: &mut State<NODES>, attempt: usize) {
        let majority: Vec<(u8, u8)> = state.answered(attempt).map(|node| node.replies[attempt]).collect();
        let largest = majority.iter().map(|(last, _)| *last).max().unwrap_or_default();
        let own = majority.iter().map(|(_, own)| *own).filter(|own| {
            *own > 0 && majority.iter().filter(|(_, other)| other == own).count() >= Self::majority()
        });
        if let Some(own) = own.max() {
            // An earlier attempt of this owner was granted, and the reply was lost.
            state.grant(attempt, own);
        } else if self.token_rule == TokenRule::MaxOfCounters {
            state.attempts[attempt].floor = 0;
            state.grant(attempt, largest);
        } else {
            state.attempts[attempt].floor = state.granted_to_others(state.attempts[attempt].owner);
            state.attempts[attempt].token = largest + 1;
            state.nodes.iter_mut().for_each(|node| node.writes[attempt] = Request::InFlight);
        }
        for node in &mut state.nodes {
            node.replies[attempt] = (0, 0);
            if node.claims[attempt] == Request::Answered {
                node.claims[attempt] = Request::None;
            }
        }
    }

    pub(super) fn may_write(&self, node: &Node, attempt: usize, token: u8) -> bool {
        let is_mine = usize::from(node.lock) == attempt + 1;
        let is_larger = node.last_token < token;
        match self.token_rule {
            TokenRule::WrittenBack => is_mine && is_larger,
            TokenRule::WithoutOwnerCheck => is_larger,
            TokenRule::WithoutTokenComparison => is_mine,
            TokenRule::Unchecked => true,
            TokenRule::MaxOfCounters => false,
        }
    }

    pub(super) fn write(&self, state: &mut State<NODES>, index: usize, attempt: usize) {
        let token = state.attempts[attempt].token;
        let node = &mut state.nodes[index];
        node.writes[attempt] = Request::Answered;
        node.last_token = match self.token_rule {
            TokenRule::Unchecked => node.last_token.max(token),
            _ => token,
        };
        if usize::from(node.lock) == attempt + 1 {
            node.record = token;
        }
        let written = state.nodes.iter().filter(|node| node.writes[attempt] == Request::Answered).count();
        if state.attempts[attempt].is_waiting && written >= Self::majority() {
            state.grant(attempt, token);
        }
    }
}
