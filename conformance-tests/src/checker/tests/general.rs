//! A general search for linearizability, after Wing and Gong: every order of the operations is tried, with unknown
//! outcomes that may or may not have had an effect, and a lease that may end from its time on. It knows nothing of the
//! order that tokens give, and it needs exponential time.
//!
//! No library's search is used here because none has an effect that becomes possible with time.

use super::super::model::Model;
use crate::history::{Acquisition, Answer, History, Outcome};
use std::collections::HashSet;

/// One operation, and when it can have had its effect.
struct Op {
    effect: Effect,
    from: u64,
    to: u64,
    /// False if it may as well have had none.
    certain: bool,
}

enum Effect {
    Grant {
        hold: usize,
        token: u64,
        ttl: u64,
        until: u64,
    },
    /// A grant that nobody has heard of, and that is withdrawn at any time.
    Ghost,
    Renew {
        hold: usize,
        ttl: u64,
        until: u64,
    },
    Release {
        hold: usize,
    },
    /// It was refused because of a holder.
    Refuse,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct State {
    owner: Option<Owner>,
    token: u64,
    now: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Owner {
    /// `None` for a ghost.
    hold: Option<usize>,
    ttl: u64,
    /// The first moment at which it can have ended by itself.
    ends: u64,
}

/// True if the operations on the first name can be put in an order in which a lock would have answered as it did.
pub(super) fn linearizable(history: &History, model: &Model) -> bool {
    let ops: Vec<Op> =
        history.acquisitions.iter().enumerate().flat_map(|(hold, one)| operations(hold, one)).collect();
    assert!(ops.len() <= 64, "too long for a search");
    let start = State { owner: None, token: 0, now: 0 };
    Search { ops, model, dead: HashSet::new() }.goes_on(0, start)
}

fn operations(hold: usize, one: &Acquisition) -> Vec<Op> {
    let (from, by) = (one.asked_at, one.answered_by());
    let certain = |effect| vec![Op { effect, from, to: by, certain: true }];
    let grant = match &one.outcome {
        Outcome::Granted(grant) => grant,
        Outcome::Contended => return certain(Effect::Refuse),
        Outcome::Unknown => {
            return vec![Op { effect: Effect::Ghost, from, to: u64::MAX, certain: false }];
        }
        Outcome::Failed => return Vec::new(),
    };
    let mut ops = certain(Effect::Grant { hold, token: grant.token, ttl: one.ttl, until: grant.until });
    for renewal in grant.renewals.iter().filter(|renewal| renewal.call.answer == Answer::Ok) {
        let (from, to) = (renewal.call.asked_at, renewal.call.answered_at.unwrap());
        let until = renewal.until.unwrap();
        ops.push(Op { effect: Effect::Renew { hold, ttl: renewal.ttl, until }, from, to, certain: true });
    }
    if let Some(release) = &grant.release {
        let certain = release.answer == Answer::Ok;
        let to = if certain { release.answered_at.unwrap() } else { u64::MAX };
        ops.push(Op { effect: Effect::Release { hold }, from: release.asked_at, to, certain });
    }
    ops
}

struct Search<'a> {
    ops: Vec<Op>,
    model: &'a Model,
    /// From where it is known not to go on.
    dead: HashSet<(u64, State)>,
}

impl Search<'_> {
    fn goes_on(&mut self, done: u64, state: State) -> bool {
        let open = |index: &usize| done & (1 << index) == 0;
        if (0..self.ops.len()).filter(open).all(|index| !self.ops[index].certain) {
            return true;
        }
        if !self.dead.insert((done, state)) {
            return false;
        }
        (0..self.ops.len()).filter(open).any(|index| match self.after(&self.ops[index], state) {
            Some(next) if self.in_time(done | 1 << index, next.now) => self.goes_on(done | 1 << index, next),
            _ => false,
        })
    }

    /// True if nothing that is left should have come before.
    fn in_time(&self, done: u64, now: u64) -> bool {
        let left = self.ops.iter().enumerate().filter(|(index, _)| done & (1 << index) == 0);
        left.into_iter().all(|(_, op)| !op.certain || op.to >= now)
    }

    /// The state after this operation, at the first moment at which it can be; `None` if it cannot be the next.
    fn after(&self, op: &Op, state: State) -> Option<State> {
        let at = state.now.max(op.from);
        let owner = |hold: Option<usize>, at, ttl, until| Owner {
            hold,
            ttl,
            ends: self.model.earliest_end(at, ttl, until),
        };
        let mine = |hold| state.owner.is_some_and(|owner| owner.hold == Some(hold));
        let free_at = at.max(state.owner.map_or(0, |owner| owner.ends));
        let next = match op.effect {
            Effect::Grant { hold, token, ttl, until } if token > state.token => {
                State { owner: Some(owner(Some(hold), free_at, ttl, until)), token, now: free_at }
            }
            Effect::Ghost => State {
                owner: Some(Owner { hold: None, ttl: 0, ends: free_at }),
                token: state.token,
                now: free_at,
            },
            Effect::Renew { hold, ttl, until } if mine(hold) => {
                let ttl = ttl.max(state.owner?.ttl);
                State { owner: Some(owner(Some(hold), at, ttl, until)), now: at, ..state }
            }
            Effect::Release { hold } if mine(hold) => State { owner: None, now: at, ..state },
            Effect::Refuse if state.owner.is_some() => State { now: at, ..state },
            _ => return None,
        };
        (next.now <= op.to).then_some(next)
    }
}
