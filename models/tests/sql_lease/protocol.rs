//! The row of one lock as a state machine. The statements are those of `backend-sql/src/*/acquire.sql` and of `renew.sql`, `release.sql`,
//! `replace.sql` and `purge.sql` in `backend-sql/src/lease/` and `sqlite/`. Each is one action, because it locks the row.
//!
//! * A statement may be executed at any moment after it was sent, also after its client has continued or its connection has
//!   closed, or never. Its reply may be lost.
//! * A client may repeat a request under the same owner while the first one is pending, and may give up or release at any moment. A
//!   client that crashes takes no further step.
//! * The database's clock runs at the rate of time. It may be set back or forward by a bounded number of ticks.
//! * A row that has been idle for long enough may be purged at any moment.
//!
//! Not modelled: linger, which is a lease without renewals; notifications, which only shorten waiting; and a statement that reads the
//! clock more than once.

use crate::statements::{ReadResult, Row, VERSIONS_PER_TICK};
use leasehold_models::{Protocol, ProtocolModel};
use stateright::Property;

pub(crate) const OWNERS: usize = 3;
/// The duration of a lease, in ticks.
pub(crate) const TTL: u8 = 2;
/// A row that was idle for this many ticks may be purged.
pub(crate) const PURGE_DELAY: u8 = 2;
/// The most changes to one row that are explored in the optimistic mode.
const MAX_CHANGES: u8 = 4;
/// The database's clock in the initial state.
const INITIAL_CLOCK: u8 = 3;

/// The statements of a mode, or a variant of them with a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Statements {
    /// The lease mode: one statement acquires.
    Lease,
    /// The optimistic mode: one statement reads the row, and another writes it if its version is unchanged.
    Optimistic,
    /// As `Optimistic`, but the version restarts at 0 when the row is created again.
    OptimisticFromZero,
    /// One statement reads that the row is free, and another writes it without a check.
    ReadThenWrite,
    /// A token is one more than the last one in the row, and does not follow the clock.
    TokenWithoutClock,
    /// A renewal extends the lease of any owner.
    RenewWithoutOwnerCheck,
    /// A renewal also extends a lease that has ended.
    RenewWithoutExpiryCheck,
    /// A release ends the lease of any owner.
    ReleaseWithoutOwnerCheck,
}

/// The variant to explore, and its bounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SqlLease {
    pub(crate) statements: Statements,
    /// The number of owners; each acquires the lock once.
    pub(crate) owners: usize,
    pub(crate) ticks: u8,
    /// The total number of ticks by which the clock may be set back, and forward.
    pub(crate) max_back: u8,
    pub(crate) max_forward: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) time: u8,
    /// The database's clock.
    pub(crate) clock: u8,
    pub(crate) back: u8,
    forward: u8,
    pub(crate) row: Option<Row>,
    pub(crate) owners: [Owner; OWNERS],
    pub(crate) history: History,
}

/// History variables, which only the properties read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct History {
    /// The largest granted token.
    pub(crate) last_token: u8,
    pub(crate) grants: u8,
    /// A grant was made during the lease of another owner.
    pub(crate) has_overlap: bool,
    /// A grant had no larger token than an earlier one, or changed its own token.
    pub(crate) is_out_of_order: bool,
    /// A renewal extended a lease that had ended, or the lease of another owner.
    pub(crate) is_revived: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Owner {
    pub(crate) phase: Phase,
    pub(crate) pending_acquires: u8,
    /// The result of the first of two statements that acquire.
    pub(crate) read_result: Option<ReadResult>,
    /// The time at which the pending renewal was sent.
    pub(crate) renewal_sent_at: Option<u8>,
    pub(crate) pending_releases: u8,
    /// History variables: the end of its lease by the database's clock, 0 if it has none, and its token.
    pub(crate) lease_ends_at: u8,
    pub(crate) token: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    #[default]
    Idle,
    Acquiring {
        sent_at: u8,
    },
    /// Believes to hold the lock until then, by its own clock.
    Holding {
        until: u8,
    },
    Releasing,
    Done,
}

/// `replied` is false if the reply is lost, or its client has continued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    SendAcquire { owner: usize },
    ExecuteAcquire { owner: usize, replied: bool },
    SendRenew { owner: usize },
    ExecuteRenew { owner: usize, replied: bool },
    SendRelease { owner: usize },
    ExecuteRelease { owner: usize, replied: bool },
    Tick,
    SetBack,
    SetForward,
    Purge,
}

/// The lock is never granted before the lease of another owner has ended by the database's clock.
pub(crate) const EXCLUSIVE: &str = "exclusive";
/// At most one owner believes to hold the lock.
pub(crate) const BELIEF: &str = "belief";
/// Every token is larger than all earlier ones, and does not change during its grant.
pub(crate) const GROWING: &str = "growing";
/// A renewal extends only a lease of its own owner, and only before that has ended.
pub(crate) const RENEWED: &str = "renewed";

impl Protocol for SqlLease {
    type State = State;
    type Action = Action;

    fn bounds(&self) -> String {
        let Self { owners, ticks, max_back, max_forward, .. } = self;
        let steps = [("back", max_back), ("forward", max_forward)].into_iter().filter(|(_, max)| **max > 0);
        let steps: String = steps.map(|(direction, max)| format!(", clock {direction} ≤ {max}")).collect();
        format!("{owners} owners, leases of {TTL} in {ticks} ticks, purged after {PURGE_DELAY}{steps}")
    }

    fn initial_state(&self) -> State {
        State {
            time: 0,
            clock: INITIAL_CLOCK,
            back: 0,
            forward: 0,
            row: None,
            owners: Default::default(),
            history: History::default(),
        }
    }

    fn enabled_actions(&self, state: &State, actions: &mut Vec<Action>) {
        for owner in 0..self.owners {
            self.owner_actions(state, owner, actions);
        }
        if state.time < self.ticks {
            actions.push(Action::Tick);
        }
        if state.back < self.max_back {
            actions.push(Action::SetBack);
        }
        if state.forward < self.max_forward {
            actions.push(Action::SetForward);
        }
        if state.row.is_some_and(|row| row.is_idle(state.clock)) {
            actions.push(Action::Purge);
        }
    }

    fn apply(&self, state: &mut State, action: Action) {
        match action {
            Action::SendAcquire { owner } => {
                state.owners[owner].phase = Phase::Acquiring { sent_at: state.time };
                state.owners[owner].pending_acquires += 1;
            }
            Action::ExecuteAcquire { owner, replied } => self.acquire(state, owner, replied),
            Action::SendRenew { owner } => {
                state.owners[owner].renewal_sent_at = Some(state.time);
            }
            Action::ExecuteRenew { owner, replied } => self.renew(state, owner, replied),
            Action::SendRelease { owner } => {
                state.owners[owner].phase = Phase::Releasing;
                state.owners[owner].pending_releases += 1;
            }
            Action::ExecuteRelease { owner, replied } => self.release(state, owner, replied),
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

    /// In the optimistic mode every renewal makes a new version, so that the state space would be infinite.
    fn is_within_bounds(&self, state: &State) -> bool {
        state.row.is_none_or(|row| row.version % VERSIONS_PER_TICK <= MAX_CHANGES)
    }

    fn properties(&self) -> Vec<Property<ProtocolModel<Self>>> {
        vec![
            Property::always(EXCLUSIVE, |_, state: &State| !state.history.has_overlap),
            Property::always(BELIEF, |_, state: &State| {
                state.owners.iter().filter(|owner| owner.believes(state.time)).count() <= 1
            }),
            Property::always(GROWING, |_, state: &State| !state.history.is_out_of_order),
            Property::always(RENEWED, |_, state: &State| !state.history.is_revived),
        ]
    }

    fn is_done(&self, state: &State) -> bool {
        usize::from(state.history.grants) >= self.owners
    }
}

impl SqlLease {
    fn owner_actions(&self, state: &State, owner: usize, actions: &mut Vec<Action>) {
        let this = &state.owners[owner];
        match this.phase {
            // Symmetry reduction: owners are interchangeable, and begin in the order of their numbers.
            Phase::Idle if owner == 0 || state.owners[owner - 1].phase != Phase::Idle => {
                actions.push(Action::SendAcquire { owner });
            }
            Phase::Acquiring { sent_at } => {
                if this.pending_acquires == 0 || (this.pending_acquires == 1 && sent_at < state.time) {
                    actions.push(Action::SendAcquire { owner });
                }
                actions.push(Action::SendRelease { owner });
            }
            Phase::Holding { .. } => {
                if this.believes(state.time) && this.renewal_sent_at.is_none() {
                    actions.push(Action::SendRenew { owner });
                }
                actions.push(Action::SendRelease { owner });
            }
            Phase::Releasing if this.pending_releases == 0 => actions.push(Action::SendRelease { owner }),
            _ => {}
        }
        let is_acquiring = matches!(this.phase, Phase::Acquiring { .. });
        let is_holding = matches!(this.phase, Phase::Holding { .. });
        let is_releasing = this.phase == Phase::Releasing;
        let mut push = |is_pending: bool, awaits_reply: bool, action: &dyn Fn(bool) -> Action| {
            if is_pending {
                actions.push(action(false));
            }
            if is_pending && awaits_reply {
                actions.push(action(true));
            }
        };
        push(this.pending_acquires > 0, is_acquiring, &|replied| Action::ExecuteAcquire { owner, replied });
        push(this.renewal_sent_at.is_some(), is_holding, &|replied| Action::ExecuteRenew { owner, replied });
        push(this.pending_releases > 0, is_releasing, &|replied| Action::ExecuteRelease { owner, replied });
    }
}

impl Owner {
    pub(crate) fn believes(&self, time: u8) -> bool {
        matches!(self.phase, Phase::Holding { until } if time < until)
    }
}
