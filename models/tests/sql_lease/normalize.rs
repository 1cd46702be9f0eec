//! State space reduction.

use crate::protocol::{Phase, SqlLease, State, Statements, TTL};

impl SqlLease {
    /// Resets values that no later action or property reads, so that equivalent states become equal.
    pub(crate) fn normalize(&self, state: &mut State) {
        let (time, clock) = (state.time, state.clock);
        // The clock cannot be set back any more.
        let has_ended_for_good = |ends_at: u8| state.back == self.max_back && ends_at <= clock;
        for owner in &mut state.owners {
            // A request older than a lease yields no belief, whatever its age.
            let oldest = time.saturating_sub(TTL);
            match &mut owner.phase {
                Phase::Acquiring { sent_at } => *sent_at = oldest.max(*sent_at),
                Phase::Holding { until } if *until <= time => *until = 0,
                _ => {}
            }
            owner.renewal_sent_at = owner.renewal_sent_at.map(|sent_at| oldest.max(sent_at));
            if has_ended_for_good(owner.lease_ends_at) {
                (owner.lease_ends_at, owner.token) = (0, 0);
            }
        }
        state.history.grants = state.history.grants.min(self.owners as u8);
        if let Some(row) = &mut state.row {
            if has_ended_for_good(row.ends_at) && self.statements != Statements::RenewWithoutExpiryCheck {
                row.owner = 0;
            }
            if !self.compares_versions() {
                row.version = 0;
            }
        }
    }

    fn compares_versions(&self) -> bool {
        matches!(self.statements, Statements::Optimistic | Statements::OptimisticFromZero)
    }
}
