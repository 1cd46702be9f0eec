//! The effects of the statements on the row, and of their replies on the clients.

use crate::protocol::{PURGE_DELAY, Phase, SqlLease, State, Statements, TTL};

/// The version of a new row is the clock times this factor, which is more than the changes of a row in one tick.
pub(crate) const VERSIONS_PER_TICK: u8 = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Row {
    /// The owner's number, counted from 1; 0 if the row is free.
    pub(crate) owner: u8,
    /// The token of the last grant.
    pub(crate) token: u8,
    pub(crate) ends_at: u8,
    pub(crate) version: u8,
}

/// The result of a read, for the write that follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ReadResult {
    /// The version that was read, and the token to write.
    Free {
        version: u8,
        token: u8,
    },
    OwnLease,
}

impl Row {
    const FREE: Self = Self { owner: 0, token: 0, ends_at: 0, version: 0 };

    /// The condition of `purge.sql`.
    pub(crate) fn is_idle(self, clock: u8) -> bool {
        self.ends_at + PURGE_DELAY <= clock && self.token + PURGE_DELAY <= clock
    }

    fn is_held_by(self, owner: usize, clock: u8) -> bool {
        usize::from(self.owner) == owner + 1 && self.ends_at > clock
    }
}

impl SqlLease {
    pub(crate) fn acquire(&self, state: &mut State, owner: usize, replied: bool) {
        let sent_at = match state.owners[owner].phase {
            Phase::Acquiring { sent_at } => sent_at,
            _ => state.time,
        };
        let granted = match self.statements {
            Statements::Optimistic | Statements::OptimisticFromZero | Statements::ReadThenWrite => {
                match state.owners[owner].read_result.take() {
                    // The write is still to follow.
                    None => match self.read(state, owner) {
                        Some(read_result) => return state.owners[owner].read_result = Some(read_result),
                        None => false,
                    },
                    Some(read_result) => self.replace(state, owner, read_result),
                }
            }
            _ => self.acquire_in_one_statement(state, owner),
        };
        let this = &mut state.owners[owner];
        this.pending_acquires -= 1;
        if granted && replied {
            this.phase = Phase::Holding { until: sent_at + TTL };
        }
    }

    fn acquire_in_one_statement(&self, state: &mut State, owner: usize) -> bool {
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

    /// `None` if another owner holds the lock.
    fn read(&self, state: &mut State, owner: usize) -> Option<ReadResult> {
        let version =
            if self.statements == Statements::Optimistic { state.clock * VERSIONS_PER_TICK } else { 0 };
        let row = *state.row.get_or_insert(Row { version, ..Row::FREE });
        if row.is_held_by(owner, state.clock) {
            return Some(ReadResult::OwnLease);
        }
        let token = self.next_token(row, state.clock);
        (row.ends_at <= state.clock).then_some(ReadResult::Free { version: row.version, token })
    }

    /// Writes the row if it is as it was read; `ReadThenWrite` does not check that.
    fn replace(&self, state: &mut State, owner: usize, read_result: ReadResult) -> bool {
        let Some(row) = state.row else { return false };
        match read_result {
            ReadResult::OwnLease => self.renew_row(state, owner),
            ReadResult::Free { version, token } => {
                let is_unchanged = match self.statements {
                    Statements::Optimistic | Statements::OptimisticFromZero => {
                        row.version == version && row.token < token && row.ends_at <= state.clock
                    }
                    _ => true,
                };
                if is_unchanged {
                    state.write(owner, token, row);
                }
                is_unchanged
            }
        }
    }

    pub(crate) fn renew(&self, state: &mut State, owner: usize, replied: bool) {
        let Some(sent_at) = state.owners[owner].renewal_sent_at.take() else { return };
        let renewed = self.renew_row(state, owner);
        let time = state.time;
        let this = &mut state.owners[owner];
        match &mut this.phase {
            // A reply after the end of belief does not restore it.
            Phase::Holding { until } if replied && *until > time => match renewed {
                true => *until = (*until).max(sent_at + TTL),
                false => *until = 0,
            },
            _ => {}
        }
    }

    pub(crate) fn renew_row(&self, state: &mut State, owner: usize) -> bool {
        let clock = state.clock;
        let Some(row) = &mut state.row else { return false };
        let is_mine = usize::from(row.owner) == owner + 1;
        let is_renewed = match self.statements {
            Statements::RenewWithoutOwnerCheck => row.ends_at > clock,
            Statements::RenewWithoutExpiryCheck => is_mine,
            _ => is_mine && row.ends_at > clock,
        };
        if is_renewed {
            row.ends_at = row.ends_at.max(clock + TTL);
            row.version += 1;
            let this = &mut state.owners[owner];
            state.history.is_revived |= this.lease_ends_at <= clock;
            this.lease_ends_at = row.ends_at;
        }
        is_renewed
    }

    pub(crate) fn release(&self, state: &mut State, owner: usize, replied: bool) {
        let clock = state.clock;
        if let Some(row) = &mut state.row {
            let is_mine = row.is_held_by(owner, clock);
            let is_freed = match self.statements {
                Statements::ReleaseWithoutOwnerCheck => row.ends_at > clock,
                _ => is_mine,
            };
            if is_freed {
                (row.owner, row.ends_at) = (0, 0);
                row.version += 1;
            }
            if is_mine {
                state.owners[owner].lease_ends_at = 0;
            }
        }
        let this = &mut state.owners[owner];
        this.pending_releases -= 1;
        if replied {
            this.phase = Phase::Done;
        }
    }
}

impl State {
    /// Writes a grant to the row, and records it in the history.
    fn write(&mut self, owner: usize, token: u8, row: Row) {
        let clock = self.clock;
        let is_held = self.owners[owner].lease_ends_at > clock && usize::from(row.owner) == owner + 1;
        let ends_at = match is_held {
            true => row.ends_at.max(clock + TTL),
            false => clock + TTL,
        };
        self.row = Some(Row { owner: owner as u8 + 1, token, ends_at, version: row.version + 1 });
        for (index, other) in self.owners.iter_mut().enumerate() {
            if index != owner {
                self.history.has_overlap |= other.lease_ends_at > clock;
                other.lease_ends_at = 0;
            }
        }
        let this = &mut self.owners[owner];
        if is_held {
            self.history.is_out_of_order |= token != this.token;
        } else {
            self.history.is_out_of_order |= token <= self.history.last_token;
            self.history.grants += 1;
        }
        (this.lease_ends_at, this.token) = (ends_at, token);
        self.history.last_token = self.history.last_token.max(token);
    }
}
