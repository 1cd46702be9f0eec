//! The protocol as a state machine: what a node does with a request, what a client does with an answer, and everything
//! that may happen in between.
//!
//! * A lease may end on any node at any moment: so no property that holds here rests on a clock. The taking back of a
//!   failed attempt, and a release, do nothing more than that, and need no steps of their own.
//! * A request may be carried out at any later moment, after any other, also after its client has gone on, or never.
//! * The answer to a claim may be lost. That to a write-back arrives: a client that knows less is granted less.
//! * A client may crash, or give up, at any moment: that is one that takes no further step, or begins its next attempt.
//! * A granted owner may repair any node that does not have its lock, at any moment: also much too late.
//!
//! Clocks are left out: that they only make tokens larger is a choice of larger numbers, of which this one is the least.

mod node;
mod steps;

use leasehold_models::{Explored, Machine};
use node::{Node, Request};
use stateright::Property;

/// Attempts in all, of all clients.
pub(crate) const ATTEMPTS: usize = 4;

/// How tokens are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tokens {
    /// As this library does.
    WrittenBack,
    /// Each node counts its grants; the token is the largest count of the majority, and nothing is written back.
    MaximumOfCounts,
    /// Written back to nodes that hold the name for anybody.
    WithoutOwnerCheck,
    /// Written back also where a token is known that is as large.
    WithoutSmallerCheck,
    /// Both checks left out: a node keeps the larger one, and always agrees.
    Unchecked,
}

/// What is explored.
#[derive(Clone, Debug)]
pub(crate) struct Protocol<const NODES: usize> {
    pub(crate) tokens: Tokens,
    /// How many attempts each client makes.
    pub(crate) attempts: [usize; 2],
    /// True if a client may ask again under the owner of its attempt before, as after a lost answer.
    pub(crate) retries: bool,
    /// True if granted owners repair nodes.
    pub(crate) repairs: bool,
    /// How many times a node may forget everything.
    pub(crate) wipes: u8,
}

/// An attempt, at its client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Attempt {
    /// The attempt with which its owner began, counted from 1; 0 if it has not begun.
    owner: u8,
    /// True while its client waits for answers.
    open: bool,
    /// The token that is being written back.
    token: u8,
    pub(crate) granted: u8,
    /// The largest token that was granted to others before it asked for its own.
    floor: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State<const NODES: usize> {
    nodes: [Node; NODES],
    pub(crate) attempts: [Attempt; ATTEMPTS],
    wipes: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Begin { attempt: usize, anew: bool },
    Claim { node: usize, attempt: usize, heard: bool },
    ChooseToken { attempt: usize },
    Write { node: usize, attempt: usize },
    Expire { node: usize },
    Repair { node: usize, attempt: usize },
    Wipe { node: usize },
}

impl<const NODES: usize> Machine for Protocol<NODES> {
    type State = State<NODES>;
    type Action = Action;

    fn bounds(&self) -> String {
        let Self { attempts: [one, other], wipes, .. } = self;
        let wiped = if *wipes > 0 { format!(", nodes wiped ≤ {wipes}") } else { String::new() };
        format!("{NODES} nodes, 2 clients with {one} and {other} attempts{wiped}")
    }

    fn begins(&self) -> Self::State {
        State { nodes: [Node::default(); NODES], attempts: Default::default(), wipes: 0 }
    }

    fn may_happen(&self, state: &Self::State, actions: &mut Vec<Action>) {
        for attempt in 0..self.attempts.iter().sum() {
            if state.attempts[attempt].owner == 0 {
                let follows = self.predecessor(attempt).map(|before| state.attempts[before].owner != 0);
                if follows != Some(false) {
                    actions.push(Action::Begin { attempt, anew: true });
                }
                if follows == Some(true) && self.retries {
                    actions.push(Action::Begin { attempt, anew: false });
                }
            } else if self.may_choose(state, attempt) {
                actions.push(Action::ChooseToken { attempt });
            }
        }
        for (place, node) in state.nodes.iter().enumerate() {
            self.actions_at(state, place, node, actions);
        }
    }

    fn happens(&self, state: &mut Self::State, action: Action) {
        match action {
            Action::Begin { attempt, anew } => self.begin(state, attempt, anew),
            Action::Claim { node, attempt, heard } => self.claim(state, node, attempt, heard),
            Action::ChooseToken { attempt } => self.choose_token(state, attempt),
            Action::Write { node, attempt } => self.write(state, node, attempt),
            Action::Expire { node } => state.nodes[node].free(),
            Action::Repair { node, attempt } => {
                let token = state.attempts[attempt].granted;
                let node = &mut state.nodes[node];
                (node.lock, node.record, node.last) = (attempt as u8 + 1, token, node.last.max(token));
            }
            Action::Wipe { node } => {
                state.nodes[node].free();
                state.nodes[node].last = 0;
                state.wipes += 1;
            }
        }
        self.normalize(state);
        state.nodes.sort_unstable();
    }

    fn promises(&self) -> Vec<Property<Explored<Self>>> {
        vec![
            Property::always(UNIQUE, |_, state: &State<NODES>| {
                state.pairs(|one, other, _, _| one.owner == other.owner || one.granted != other.granted)
            }),
            Property::always(GROWING, |_, state: &State<NODES>| {
                state.attempts.iter().all(|attempt| attempt.granted == 0 || attempt.granted > attempt.floor)
            }),
            Property::always(FENCING, |_, state: &State<NODES>| {
                state.pairs(|one, other, first, second| {
                    one.owner == other.owner
                        || state.nodes.iter().all(|node| {
                            // A resource that checks tokens lets in what is newer by the locks, and only that.
                            let both = node.wrote(first, one) && node.wrote(second, other);
                            !both || (node.took[first] < node.took[second]) == (one.granted < other.granted)
                        })
                })
            }),
        ]
    }

    fn is_done(&self, state: &State<NODES>) -> bool {
        !state.pairs(|one, other, _, _| one.owner == other.owner)
    }
}

/// No two owners are granted the same token.
pub(crate) const UNIQUE: &str = "unique";
/// An owner that writes its token back after another was granted the lock is granted a larger token.
pub(crate) const GROWING: &str = "growing";
/// Of two grants, the one that had the lock later on a node that both wrote to has the larger token.
pub(crate) const FENCING: &str = "fencing";

impl<const NODES: usize> Protocol<NODES> {
    /// The attempt before this one, of the same client.
    fn predecessor(&self, attempt: usize) -> Option<usize> {
        (attempt != 0 && attempt != self.attempts[0]).then(|| attempt - 1)
    }

    fn majority() -> usize {
        NODES / 2 + 1
    }

    fn may_choose(&self, state: &State<NODES>, attempt: usize) -> bool {
        let this = &state.attempts[attempt];
        this.open
            && this.token == 0
            && this.granted == 0
            && state.answered(attempt).count() >= Self::majority()
    }

    fn actions_at(&self, state: &State<NODES>, place: usize, node: &Node, actions: &mut Vec<Action>) {
        for (attempt, this) in state.attempts.iter().enumerate() {
            if node.claims[attempt] == Request::UnderWay && node.admits(state, attempt) {
                actions.push(Action::Claim { node: place, attempt, heard: false });
                if this.open {
                    actions.push(Action::Claim { node: place, attempt, heard: true });
                }
            }
            if node.writes[attempt] == Request::UnderWay && self.may_write(node, attempt, this.token) {
                actions.push(Action::Write { node: place, attempt });
            }
            if self.repairs && this.granted > 0 && node.lock == 0 {
                actions.push(Action::Repair { node: place, attempt });
            }
        }
        if node.lock != 0 {
            actions.push(Action::Expire { node: place });
        }
        if state.wipes < self.wipes {
            actions.push(Action::Wipe { node: place });
        }
    }

    /// Sets what no later step or property reads to one value, so that states which differ in nothing else are explored once.
    /// No history is left out.
    fn normalize(&self, state: &mut State<NODES>) {
        let owner_checked = matches!(self.tokens, Tokens::WrittenBack | Tokens::WithoutSmallerCheck);
        for (attempt, this) in state.attempts.iter_mut().enumerate() {
            let is_over = !this.open && this.granted == 0;
            if this.granted > this.floor || is_over {
                this.floor = 0;
            }
            for node in &mut state.nodes {
                if !self.retries {
                    node.record = 0;
                    node.told[attempt].1 = 0;
                }
                if is_over && node.writes[attempt] == Request::Answered {
                    node.writes[attempt] = Request::None;
                }
                let has_lock = usize::from(node.lock) == attempt + 1;
                let may_have = has_lock || node.claims[attempt] == Request::UnderWay || self.repairs;
                if owner_checked && !may_have && node.writes[attempt] == Request::UnderWay {
                    node.writes[attempt] = Request::None;
                }
                if !has_lock && (is_over || (owner_checked && node.writes[attempt] != Request::Answered)) {
                    node.took[attempt] = 0;
                }
            }
        }
        state.nodes.iter_mut().for_each(Node::renumber);
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

    /// True if it holds of any two attempts that were granted.
    fn pairs(&self, holds: impl Fn(&Attempt, &Attempt, usize, usize) -> bool) -> bool {
        let granted: Vec<(usize, &Attempt)> =
            self.attempts.iter().enumerate().filter(|(_, attempt)| attempt.granted > 0).collect();
        granted.iter().all(|(first, one)| {
            granted
                .iter()
                .filter(|(second, _)| second > first)
                .all(|(second, other)| holds(one, other, *first, *second))
        })
    }
}
