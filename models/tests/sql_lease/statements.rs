//! What the statements do to the row, and what their clients make of the answers.

use crate::protocol::{IDLE, Phase, Protocol, State, Statements, TTL};

/// More than a row is changed in a tick.
pub(crate) const CHANGES: u8 = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Row {
    /// 0 if nobody has it.
    pub(crate) owner: u8,
    /// The token of the last grant.
    pub(crate) token: u8,
    pub(crate) ends_at: u8,
    pub(crate) version: u8,
}

/// The row as it was read, for a write that comes later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Seen {
    Free { version: u8, token: u8 },
    Mine,
}

impl Row {
    const FREE: Self = Self { owner: 0, token: 0, ends_at: 0, version: 0 };

    /// See `purge.sql`.
    pub(crate) fn is_idle(self, clock: u8) -> bool {
        self.ends_at + IDLE <= clock && self.token + IDLE <= clock
    }

    fn is_held_by(self, owner: usize, clock: u8) -> bool {
        usize::from(self.owner) == owner + 1 && self.ends_at > clock
    }
}

impl Protocol {
    pub(crate) fn acquire(&self, state: &mut State, owner: usize, heard: bool) {
        let sent_at = match state.owners[owner].phase {
            Phase::Asking { sent_at } => sent_at,
            _ => state.time,
        };
        let granted = match self.statements {
            Statements::Optimistic | Statements::OptimisticFromZero | Statements::ReadThenWrite => {
                match state.owners[owner].seen.take() {
                    // Its answer is not the last one.
                    None => match self.read(state, owner) {
                        Some(seen) => return state.owners[owner].seen = Some(seen),
                        None => false,
                    },
                    Some(seen) => self.take(state, owner, seen),
                }
            }
            _ => self.acquire_at_once(state, owner),
        };
        let this = &mut state.owners[owner];
        this.acquires -= 1;
        if granted && heard {
            this.phase = Phase::Holding { until: sent_at + TTL };
        }
    }

    fn acquire_at_once(&self, state: &mut State, owner: usize) -> bool {
        let row = state.row.unwrap_or(Row::FREE);
        if row.is_held_by(owner, state.clock) {
            state.write(owner, row.token, row);
            return true;
        }
        if row.ends_at > state.clock {
            return false;
        }
        state.write(owner, self.next_token(row, state.clock), row);
        true
    }

    fn next_token(&self, row: Row, clock: u8) -> u8 {
        let clock = if self.statements == Statements::TokenWithoutClock { 0 } else { clock };
        clock.max(row.token + 1)
    }

    /// What is to be written; `None` if it is held by another.
    fn read(&self, state: &mut State, owner: usize) -> Option<Seen> {
        let version = if self.statements == Statements::Optimistic { state.clock * CHANGES } else { 0 };
        let row = *state.row.get_or_insert(Row { version, ..Row::FREE });
        if row.is_held_by(owner, state.clock) {
            return Some(Seen::Mine);
        }
        let token = self.next_token(row, state.clock);
        (row.ends_at <= state.clock).then_some(Seen::Free { version: row.version, token })
    }

    fn take(&self, state: &mut State, owner: usize, seen: Seen) -> bool {
        let Some(row) = state.row else { return false };
        match seen {
            Seen::Mine => self.carry_out_renewal(state, owner),
            Seen::Free { version, token } => {
                let is_as_read = match self.statements {
                    Statements::Optimistic | Statements::OptimisticFromZero => {
                        row.version == version && row.token < token && row.ends_at <= state.clock
                    }
                    _ => true,
                };
                if is_as_read {
                    state.write(owner, token, row);
                }
                is_as_read
            }
        }
    }

    pub(crate) fn renew(&self, state: &mut State, owner: usize, heard: bool) {
        let Some(sent_at) = state.owners[owner].renews.take() else { return };
        let renewed = self.carry_out_renewal(state, owner);
        let time = state.time;
        let this = &mut state.owners[owner];
        match &mut this.phase {
            // What is answered too late revives nothing.
            Phase::Holding { until } if heard && *until > time => match renewed {
                true => *until = (*until).max(sent_at + TTL),
                false => *until = 0,
            },
            _ => {}
        }
    }

    pub(crate) fn carry_out_renewal(&self, state: &mut State, owner: usize) -> bool {
        let clock = state.clock;
        let Some(row) = &mut state.row else { return false };
        let is_mine = usize::from(row.owner) == owner + 1;
        let is_renewed = match self.statements {
            Statements::RenewWithoutOwner => row.ends_at > clock,
            Statements::RenewRevives => is_mine,
            _ => is_mine && row.ends_at > clock,
        };
        if is_renewed {
            row.ends_at = row.ends_at.max(clock + TTL);
            row.version += 1;
            let this = &mut state.owners[owner];
            state.judge.revived |= this.keeps <= clock;
            this.keeps = row.ends_at;
        }
        is_renewed
    }

    pub(crate) fn release(&self, state: &mut State, owner: usize, heard: bool) {
        let clock = state.clock;
        if let Some(row) = &mut state.row {
            let is_mine = row.is_held_by(owner, clock);
            let is_freed = match self.statements {
                Statements::ReleaseWithoutOwner => row.ends_at > clock,
                _ => is_mine,
            };
            if is_freed {
                (row.owner, row.ends_at) = (0, 0);
                row.version += 1;
            }
            if is_mine {
                state.owners[owner].keeps = 0;
            }
        }
        let this = &mut state.owners[owner];
        this.releases -= 1;
        if heard {
            this.phase = Phase::Gone;
        }
    }
}

impl State {
    /// Writes a grant into the row, and judges it.
    fn write(&mut self, owner: usize, token: u8, row: Row) {
        let clock = self.clock;
        let goes_on = self.owners[owner].keeps > clock && usize::from(row.owner) == owner + 1;
        let ends_at = match goes_on {
            true => row.ends_at.max(clock + TTL),
            false => clock + TTL,
        };
        self.row = Some(Row { owner: owner as u8 + 1, token, ends_at, version: row.version + 1 });
        for (place, other) in self.owners.iter_mut().enumerate() {
            if place != owner {
                self.judge.two |= other.keeps > clock;
                other.keeps = 0;
            }
        }
        let this = &mut self.owners[owner];
        if goes_on {
            self.judge.out_of_order |= token != this.token;
        } else {
            self.judge.out_of_order |= token <= self.judge.last;
            self.judge.granted += 1;
        }
        (this.keeps, this.token) = (ends_at, token);
        self.judge.last = self.judge.last.max(token);
    }
}
