//! Redlock as a state machine: clients send claims and write-backs, and nodes execute them in any order.
//!
//! * A lease may end on any node at any moment, so the properties do not depend on clocks. A release, and the cleanup of a failed
//!   attempt, have the same effect, and are not modelled separately.
//! * A request may be executed at any later moment, in any order, also after its client has continued, or never.
//! * The reply to a claim may be lost. The reply to a write-back always arrives: a client with fewer replies is granted less often.
//! * A client may crash or give up at any moment: it takes no further step, or begins its next attempt.
//! * An owner that was granted the lock may at any moment repair a node whose lock is free, also after it has lost the lock itself.
//!
//! Not modelled: the clocks of the nodes, which only make tokens larger. The model chooses the smallest token that is allowed.

mod node;
mod steps;

use leasehold_models::{Protocol, ProtocolModel};
use node::{Node, Request};
use stateright::Property;

/// The number of attempts of all clients.
pub(crate) const ATTEMPTS: usize = 4;

/// How the token of a grant is chosen, and when a node accepts its write-back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenRule {
    /// As implemented: a node accepts the write-back if the attempt has its lock, and the node's last token is smaller.
    WrittenBack,
    /// Each node counts its grants, and the token is the largest count of the majority. It is not written back.
    MaxOfCounters,
    /// A node accepts the write-back also if another owner, or no owner, has its lock.
    WithoutOwnerCheck,
    /// A node accepts the write-back also if its last token is as large or larger.
    WithoutTokenComparison,
    /// A node accepts every write-back, and keeps the larger token.
    Unchecked,
}

/// The variant to explore, and its bounds.
#[derive(Clone, Debug)]
pub(crate) struct Redlock<const NODES: usize> {
    pub(crate) token_rule: TokenRule,
    /// The number of attempts of each client.
    pub(crate) attempts: [usize; 2],
    /// True if a client may repeat its attempt under the same owner, as after a lost reply.
    pub(crate) retries: bool,
    /// True if owners that were granted the lock repair nodes.
    pub(crate) repairs: bool,
    /// How often a node may lose its data.
    pub(crate) max_wipes: u8,
}

/// The state of an attempt at its client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Attempt {
    /// The first attempt of its owner, counted from 1; 0 before this attempt begins.
    owner: u8,
    /// True from the beginning of this attempt until the client begins its next one.
    is_waiting: bool,
    /// The token to write back, 0 before it is chosen.
    token: u8,
    /// The token of the grant, 0 if there is none.
    pub(crate) granted: u8,
    /// The largest token of other owners' grants when this attempt began, or when it chose its token.
    floor: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State<const NODES: usize> {
    nodes: [Node; NODES],
    pub(crate) attempts: [Attempt; ATTEMPTS],
    wipes: u8,
}

/// `new_owner` is false if the attempt is repeated under the same owner; `replied` is false if the reply is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Begin { attempt: usize, new_owner: bool },
    Claim { node: usize, attempt: usize, replied: bool },
    ChooseToken { attempt: usize },
    Write { node: usize, attempt: usize },
    Expire { node: usize },
    Repair { node: usize, attempt: usize },
    Wipe { node: usize },
}

impl<const NODES: usize> Protocol for Redlock<NODES> {
    type State = State<NODES>;
    type Action = Action;

    fn bounds(&self) -> String {
        let Self { attempts: [one, other], max_wipes, .. } = self;
        let wiped = if *max_wipes > 0 { format!(", nodes wiped ≤ {max_wipes}") } else { String::new() };
        format!("{NODES} nodes, 2 clients with {one} and {other} attempts{wiped}")
    }

    fn initial_state(&self) -> Self::State {
        State { nodes: [Node::default(); NODES], attempts: Default::default(), wipes: 0 }
    }

    fn enabled_actions(&self, state: &Self::State, actions: &mut Vec<Action>) {
        for attempt in 0..self.attempts.iter().sum() {
            if state.attempts[attempt].owner == 0 {
                let follows = self.predecessor(attempt).map(|before| state.attempts[before].owner != 0);
                if follows != Some(false) {
                    actions.push(Action::Begin { attempt, new_owner: true });
                }
                if follows == Some(true) && self.retries {
                    actions.push(Action::Begin { attempt, new_owner: false });
                }
            } else if self.may_choose_token(state, attempt) {
                actions.push(Action::ChooseToken { attempt });
            }
        }
        for (index, node) in state.nodes.iter().enumerate() {
            self.node_actions(state, index, node, actions);
        }
    }

    fn apply(&self, state: &mut Self::State, action: Action) {
        match action {
            Action::Begin { attempt, new_owner } => self.begin(state, attempt, new_owner),
            Action::Claim { node, attempt, replied } => self.claim(state, node, attempt, replied),
            Action::ChooseToken { attempt } => self.choose_token(state, attempt),
            Action::Write { node, attempt } => self.write(state, node, attempt),
            Action::Expire { node } => state.nodes[node].free(),
            Action::Repair { node, attempt } => {
                let token = state.attempts[attempt].granted;
                let node = &mut state.nodes[node];
                (node.lock, node.record, node.last_token) =
                    (attempt as u8 + 1, token, node.last_token.max(token));
            }
            Action::Wipe { node } => {
                state.nodes[node].free();
                state.nodes[node].last_token = 0;
                state.wipes += 1;
            }
        }
        self.normalize(state);
        state.nodes.sort_unstable();
    }

    fn properties(&self) -> Vec<Property<ProtocolModel<Self>>> {
        vec![
            Property::always(UNIQUE, |_, state: &State<NODES>| {
                state.all_granted_pairs(|one, other, _, _| {
                    one.owner == other.owner || one.granted != other.granted
                })
            }),
            Property::always(GROWING, |_, state: &State<NODES>| {
                state.attempts.iter().all(|attempt| attempt.granted == 0 || attempt.granted > attempt.floor)
            }),
            Property::always(FENCING, |_, state: &State<NODES>| {
                state.all_granted_pairs(|one, other, first, second| {
                    one.owner == other.owner
                        || state.nodes.iter().all(|node| {
                            // A resource that checks tokens must accept the later holder, and reject the earlier one.
                            let both = node.has_written(first, one) && node.has_written(second, other);
                            !both
                                || (node.locked_at[first] < node.locked_at[second])
                                    == (one.granted < other.granted)
                        })
                })
            }),
        ]
    }

    fn is_done(&self, state: &State<NODES>) -> bool {
        !state.all_granted_pairs(|one, other, _, _| one.owner == other.owner)
    }
}

/// Two owners are never granted the same token.
pub(crate) const UNIQUE: &str = "unique";
/// A token that is chosen after another owner was granted the lock is larger than the token of that grant.
pub(crate) const GROWING: &str = "growing";
/// If two owners have written their tokens to one node, the owner that had its lock later has the larger token.
pub(crate) const FENCING: &str = "fencing";

impl<const NODES: usize> Redlock<NODES> {
    /// The previous attempt of the same client.
    fn predecessor(&self, attempt: usize) -> Option<usize> {
        (attempt != 0 && attempt != self.attempts[0]).then(|| attempt - 1)
    }

    fn majority() -> usize {
        NODES / 2 + 1
    }

    fn may_choose_token(&self, state: &State<NODES>, attempt: usize) -> bool {
        let this = &state.attempts[attempt];
        this.is_waiting
            && this.token == 0
            && this.granted == 0
            && state.answered(attempt).count() >= Self::majority()
    }

    fn node_actions(&self, state: &State<NODES>, index: usize, node: &Node, actions: &mut Vec<Action>) {
        for (attempt, this) in state.attempts.iter().enumerate() {
            if node.claims[attempt] == Request::InFlight && node.accepts_claim(state, attempt) {
                actions.push(Action::Claim { node: index, attempt, replied: false });
                if this.is_waiting {
                    actions.push(Action::Claim { node: index, attempt, replied: true });
                }
            }
            if node.writes[attempt] == Request::InFlight && self.may_write(node, attempt, this.token) {
                actions.push(Action::Write { node: index, attempt });
            }
            if self.repairs && this.granted > 0 && node.lock == 0 {
                actions.push(Action::Repair { node: index, attempt });
            }
        }
        if node.lock != 0 {
            actions.push(Action::Expire { node: index });
        }
        if state.wipes < self.max_wipes {
            actions.push(Action::Wipe { node: index });
        }
    }

    /// Reduces the state space: resets values that no later action or property reads, so that equivalent states become equal.
    fn normalize(&self, state: &mut State<NODES>) {
        let owner_checked =
            matches!(self.token_rule, TokenRule::WrittenBack | TokenRule::WithoutTokenComparison);
        for (attempt, this) in state.attempts.iter_mut().enumerate() {
            let has_failed = !this.is_waiting && this.granted == 0;
            if this.granted > this.floor || has_failed {
                this.floor = 0;
            }
            for node in &mut state.nodes {
                if !self.retries {
                    node.record = 0;
                    node.replies[attempt].1 = 0;
                }
                if has_failed && node.writes[attempt] == Request::Answered {
                    node.writes[attempt] = Request::None;
                }
                let has_lock = usize::from(node.lock) == attempt + 1;
                let may_have_lock = has_lock || node.claims[attempt] == Request::InFlight || self.repairs;
                if owner_checked && !may_have_lock && node.writes[attempt] == Request::InFlight {
                    node.writes[attempt] = Request::None;
                }
                if !has_lock && (has_failed || (owner_checked && node.writes[attempt] != Request::Answered)) {
                    node.locked_at[attempt] = 0;
                }
            }
        }
        state.nodes.iter_mut().for_each(Node::normalize_lock_order);
    }
}

impl<const NODES: usize> State<NODES> {
    fn answered(&self, attempt: usize) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(move |node| node.claims[attempt] == Request::Answered)
    }

    fn granted_to_others(&self, owner: u8) -> u8 {
        let others = self.attempts.iter().filter(|attempt| attempt.owner != owner);
        others.map(|attempt| attempt.granted).max().unwrap_or_default()
    }

    fn grant(&mut self, attempt: usize, token: u8) {
        self.attempts[attempt].granted = token;
    }

    /// True if `condition` holds for all pairs of granted attempts.
    fn all_granted_pairs(&self, condition: impl Fn(&Attempt, &Attempt, usize, usize) -> bool) -> bool {
        let granted: Vec<(usize, &Attempt)> =
            self.attempts.iter().enumerate().filter(|(_, attempt)| attempt.granted > 0).collect();
        granted.iter().all(|(first, one)| {
            granted
                .iter()
                .filter(|(second, _)| second > first)
                .all(|(second, other)| condition(one, other, *first, *second))
        })
    }
}
