//! A general search for linearizability, after Wing and Gong: every order of the operations is tried, with unknown
//! outcomes that may or may not have had an effect, and a lease that may end from its time on. It knows nothing of the
//! order that tokens give, and it needs exponential time.
//!
//! No library's search is used here because none has an effect that becomes possible with time.

use super::super::model::Model;
use crate::history::{AcquireOutcome, Acquisition, Answer, History};
use leasehold_core::LockMode;
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
        owner: Owner,
        token: u64,
        until: u64,
    },
    /// A possible grant of an acquisition without an answer, withdrawn at any time. In a semaphore, it may be in any slot.
    Ghost {
        owner: Owner,
    },
    Renew {
        hold: usize,
        ttl: u64,
        until: u64,
    },
    Release {
        hold: usize,
    },
    /// It was refused because of a holder of the slot.
    Refuse {
        slot: u32,
        mode: LockMode,
    },
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct State {
    owners: Vec<Owner>,
    /// The last one of each slot. A lock is one slot.
    tokens: Vec<u64>,
    now: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Owner {
    /// `None` for a ghost.
    hold: Option<usize>,
    slot: u32,
    mode: LockMode,
    ttl: u64,
    /// The first moment at which it can have ended by itself.
    ends: u64,
}

/// True if the operations on the first name can be put in an order in which a lock, or a semaphore, would have answered as it did.
pub(super) fn linearizable(history: &History, model: &Model) -> bool {
    let ops: Vec<Op> =
        history.acquisitions.iter().enumerate().flat_map(|(hold, one)| operations(hold, one)).collect();
    assert!(ops.len() <= 64, "too long for a search");
    let slots = history.acquisitions.iter().map(|one| one.permits.unwrap_or(1)).max().unwrap_or(1);
    let start = State { owners: Vec::new(), tokens: vec![0; slots as usize], now: 0 };
    Search { ops, model, dead: HashSet::new() }.goes_on(0, &start)
}

fn operations(hold: usize, one: &Acquisition) -> Vec<Op> {
    let (from, by) = (one.asked_at, one.answered_by());
    let mode = one.mode;
    let slots = 0..one.permits.unwrap_or(1);
    let grant = match one.outcome {
        AcquireOutcome::Granted => &one.hold,
        AcquireOutcome::Contended => {
            let refuse = |slot| Op { effect: Effect::Refuse { slot, mode }, from, to: by, certain: true };
            return slots.map(refuse).collect();
        }
        AcquireOutcome::Unknown => {
            let ghost = |slot| {
                let owner = Owner { hold: None, slot, mode, ttl: 0, ends: 0 };
                Op { effect: Effect::Ghost { owner }, from, to: u64::MAX, certain: false }
            };
            return slots.map(ghost).collect();
        }
        AcquireOutcome::Failed => return Vec::new(),
    };
    let owner = Owner { hold: Some(hold), slot: grant.slot.unwrap_or(0), mode, ttl: one.ttl, ends: 0 };
    let effect = Effect::Grant { owner, token: grant.token, until: grant.until };
    let mut ops = vec![Op { effect, from, to: by, certain: true }];
    for renewal in grant.renewals.iter().filter(|renewal| renewal.answer == Answer::Ok) {
        let (from, to) = (renewal.asked_at, renewal.answered_at.unwrap());
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
    fn goes_on(&mut self, done: u64, state: &State) -> bool {
        let open = |index: &usize| done & (1 << index) == 0;
        if (0..self.ops.len()).filter(open).all(|index| !self.ops[index].certain) {
            return true;
        }
        if !self.dead.insert((done, state.clone())) {
            return false;
        }
        (0..self.ops.len()).filter(open).any(|index| match self.after(&self.ops[index], state) {
            Some(next) if self.in_time(done | 1 << index, next.now) => self.goes_on(done | 1 << index, &next),
            _ => false,
        })
    }

    /// True if nothing that is left should have come before.
    fn in_time(&self, done: u64, now: u64) -> bool {
        let left = self.ops.iter().enumerate().filter(|(index, _)| done & (1 << index) == 0);
        left.into_iter().all(|(_, op)| !op.certain || op.to >= now)
    }

    /// The state after this operation, at the first moment at which it can be; `None` if it cannot be the next.
    fn after(&self, op: &Op, state: &State) -> Option<State> {
        let mut next = state.clone();
        next.now = state.now.max(op.from);
        let mine = |hold| state.owners.iter().position(|owner| owner.hold == Some(hold));
        match op.effect {
            Effect::Grant { owner, token, until } => {
                let last = next.tokens.get_mut(owner.slot as usize)?;
                if token <= std::mem::replace(last, token) {
                    return None;
                }
                next.end_all_against(&owner);
                next.owners
                    .push(Owner { ends: self.model.earliest_end(next.now, owner.ttl, until), ..owner });
            }
            Effect::Ghost { owner } => {
                next.end_all_against(&owner);
                next.owners.push(Owner { ends: next.now, ..owner });
            }
            Effect::Renew { hold, ttl, until } => {
                let owner = &mut next.owners[mine(hold)?];
                owner.ttl = owner.ttl.max(ttl);
                owner.ends = self.model.earliest_end(next.now, owner.ttl, until);
            }
            Effect::Release { hold } => {
                next.owners.remove(mine(hold)?);
            }
            Effect::Refuse { slot, mode } => {
                let holds = |owner: &Owner| owner.slot == slot && owner.mode.conflicts_with(mode);
                state.owners.iter().any(holds).then_some(())?;
            }
        }
        (next.now <= op.to).then_some(next)
    }
}

impl State {
    /// Later, when those that conflict with a new owner can have ended, and without them.
    fn end_all_against(&mut self, new: &Owner) {
        let conflicts = |owner: &Owner| owner.slot == new.slot && owner.mode.conflicts_with(new.mode);
        let ends = self.owners.iter().filter(|owner| conflicts(owner)).map(|owner| owner.ends);
        self.now = ends.fold(self.now, u64::max);
        self.owners.retain(|owner| !conflicts(owner));
    }
}
