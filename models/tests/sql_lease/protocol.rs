//! The row of one name as a state machine. What the statements do is that of `backend-sql/src/*/acquire.sql`,
//! `acquire_one.sql`, `renew.sql`, `release.sql`, `release_one.sql`, `purge.sql` and `optimistic/take.sql`; each is one step,
//! because the row is locked for as long.
//!
//! * A statement may be carried out at any moment after it was sent, also after its client has gone on or its connection
//!   was ended, or never; and its reply may be lost.
//! * A client asks again under the same owner, also while its first question is still under way; it may give up, or
//!   release, at any moment. A client that crashes takes no further step.
//! * The database's clock runs as fast as time does. It may be set back, by so much in all, and forward if that is explored.
//! * A row that nobody has used for long may be purged at any moment.
//!
//! Left out: linger, which is a lease that nobody renews; what only makes waiting shorter; and that a statement may look at the
//! clock several times.

use crate::statements::{CHANGES, Row, Seen};
use leasehold_models::{Explored, Machine};
use stateright::Property;

pub(crate) const OWNERS: usize = 3;
/// The lease, in ticks.
pub(crate) const TTL: u8 = 2;
/// How long a row has been idle that is purged.
pub(crate) const IDLE: u8 = 2;
/// How often a row is changed, where versions are compared.
const EXPLORED_CHANGES: u8 = 4;
/// What the clock shows in the beginning.
const START: u8 = 3;

/// What the statements do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Statements {
    /// As in the strategy of leases.
    Ours,
    /// As in the strategy of optimistic versions.
    Optimistic,
    /// As `Optimistic`, but the version of a row that is made anew begins anew.
    OptimisticFromZero,
    /// Reads that the row is free, then writes it.
    ReadThenWrite,
    /// The token follows the last one in the row, and no clock.
    TokenWithoutClock,
    /// Renews whatever lease is in the row.
    RenewWithoutOwner,
    /// Renews also what is over.
    RenewRevives,
    /// Releases whatever lease is in the row.
    ReleaseWithoutOwner,
}

/// What is explored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Protocol {
    pub(crate) statements: Statements,
    /// How many owners want the lock once.
    pub(crate) owners: usize,
    /// How many ticks pass.
    pub(crate) ticks: u8,
    /// By how many ticks in all the clock is set back, and forward.
    pub(crate) back: u8,
    pub(crate) forward: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) time: u8,
    /// What the database's clock shows.
    pub(crate) clock: u8,
    pub(crate) back: u8,
    forward: u8,
    pub(crate) row: Option<Row>,
    pub(crate) owners: [Owner; OWNERS],
    pub(crate) judge: Judge,
}

/// For the properties alone, not in the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Judge {
    /// The largest token that was granted.
    pub(crate) last: u8,
    pub(crate) granted: u8,
    /// Granted while another's lease went on.
    pub(crate) two: bool,
    /// Granted with a token that is not larger than all before it, or another one than the grant had.
    pub(crate) out_of_order: bool,
    /// Renewed though it was over, or another's.
    pub(crate) revived: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Owner {
    pub(crate) phase: Phase,
    /// Statements under way.
    pub(crate) acquires: u8,
    pub(crate) seen: Option<Seen>,
    /// When the renewal was sent that is under way.
    pub(crate) renews: Option<u8>,
    pub(crate) releases: u8,
    /// For the properties alone, not in the protocol: when the database's clock ends its lease, 0 if it has none; its token.
    pub(crate) keeps: u8,
    pub(crate) token: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    #[default]
    Absent,
    Asking {
        sent_at: u8,
    },
    /// Believes so long, by its own clock.
    Holding {
        until: u8,
    },
    Leaving,
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Ask { owner: usize },
    Acquire { owner: usize, heard: bool },
    AskToRenew { owner: usize },
    Renew { owner: usize, heard: bool },
    Leave { owner: usize },
    Release { owner: usize, heard: bool },
    Tick,
    SetBack,
    SetForward,
    Purge,
}

/// No owner is granted the lock while the lease of another goes on by the database's clock.
pub(crate) const EXCLUSIVE: &str = "exclusive";
/// At most one owner believes that it holds.
pub(crate) const BELIEF: &str = "belief";
/// Every token is larger than all that were granted before it, and stays what it is while the grant lasts.
pub(crate) const GROWING: &str = "growing";
/// A renewal extends a lease of its own owner that goes on, and no other.
pub(crate) const RENEWED: &str = "renewed";

impl Machine for Protocol {
    type State = State;
    type Action = Action;

    fn bounds(&self) -> String {
        let Self { owners, ticks, back, forward, .. } = self;
        let steps = [("back", back), ("forward", forward)].into_iter().filter(|(_, by)| **by > 0);
        let steps: String = steps.map(|(way, by)| format!(", clock {way} ≤ {by}")).collect();
        format!("{owners} owners, leases of {TTL} in {ticks} ticks, purged after {IDLE}{steps}")
    }

    fn begins(&self) -> State {
        State {
            time: 0,
            clock: START,
            back: 0,
            forward: 0,
            row: None,
            owners: Default::default(),
            judge: Judge::default(),
        }
    }

    fn may_happen(&self, state: &State, actions: &mut Vec<Action>) {
        for owner in 0..self.owners {
            self.actions_of(state, owner, actions);
        }
        if state.time < self.ticks {
            actions.push(Action::Tick);
        }
        if state.back < self.back {
            actions.push(Action::SetBack);
        }
        if state.forward < self.forward {
            actions.push(Action::SetForward);
        }
        if state.row.is_some_and(|row| row.is_idle(state.clock)) {
            actions.push(Action::Purge);
        }
    }

    fn happens(&self, state: &mut State, action: Action) {
        match action {
            Action::Ask { owner } => {
                state.owners[owner].phase = Phase::Asking { sent_at: state.time };
                state.owners[owner].acquires += 1;
            }
            Action::Acquire { owner, heard } => self.acquire(state, owner, heard),
            Action::AskToRenew { owner } => {
                state.owners[owner].renews = Some(state.time);
            }
            Action::Renew { owner, heard } => self.renew(state, owner, heard),
            Action::Leave { owner } => {
                state.owners[owner].phase = Phase::Leaving;
                state.owners[owner].releases += 1;
            }
            Action::Release { owner, heard } => self.release(state, owner, heard),
            Action::Tick => {
                state.time += 1;
                state.clock += 1;
            }
            Action::SetBack => {
                state.back += 1;
                state.clock -= 1;
            }
            Action::SetForward => {
                state.forward += 1;
                state.clock += 1;
            }
            Action::Purge => state.row = None,
        }
        self.normalize(state);
    }

    /// Without a bound, renewals could change a row for ever in one tick.
    fn is_explored(&self, state: &State) -> bool {
        state.row.is_none_or(|row| row.version % CHANGES <= EXPLORED_CHANGES)
    }

    fn promises(&self) -> Vec<Property<Explored<Self>>> {
        vec![
            Property::always(EXCLUSIVE, |_, state: &State| !state.judge.two),
            Property::always(BELIEF, |_, state: &State| {
                state.owners.iter().filter(|owner| owner.believes(state.time)).count() <= 1
            }),
            Property::always(GROWING, |_, state: &State| !state.judge.out_of_order),
            Property::always(RENEWED, |_, state: &State| !state.judge.revived),
        ]
    }

    fn is_done(&self, state: &State) -> bool {
        usize::from(state.judge.granted) >= self.owners
    }
}

impl Protocol {
    fn actions_of(&self, state: &State, owner: usize, actions: &mut Vec<Action>) {
        let this = &state.owners[owner];
        match this.phase {
            // They are alike, so they may as well come in one order.
            Phase::Absent if owner == 0 || state.owners[owner - 1].phase != Phase::Absent => {
                actions.push(Action::Ask { owner });
            }
            Phase::Asking { sent_at } => {
                if this.acquires == 0 || (this.acquires == 1 && sent_at < state.time) {
                    actions.push(Action::Ask { owner });
                }
                actions.push(Action::Leave { owner });
            }
            Phase::Holding { .. } => {
                if this.believes(state.time) && this.renews.is_none() {
                    actions.push(Action::AskToRenew { owner });
                }
                actions.push(Action::Leave { owner });
            }
            Phase::Leaving if this.releases == 0 => actions.push(Action::Leave { owner }),
            _ => {}
        }
        let waits = matches!(this.phase, Phase::Asking { .. });
        let holds = matches!(this.phase, Phase::Holding { .. });
        let leaves = this.phase == Phase::Leaving;
        let mut carry_out = |can: bool, listens: bool, action: &dyn Fn(bool) -> Action| {
            if can {
                actions.push(action(false));
            }
            if can && listens {
                actions.push(action(true));
            }
        };
        carry_out(this.acquires > 0, waits, &|heard| Action::Acquire { owner, heard });
        carry_out(this.renews.is_some(), holds, &|heard| Action::Renew { owner, heard });
        carry_out(this.releases > 0, leaves, &|heard| Action::Release { owner, heard });
    }
}

impl Owner {
    pub(crate) fn believes(&self, time: u8) -> bool {
        matches!(self.phase, Phase::Holding { until } if time < until)
    }
}
