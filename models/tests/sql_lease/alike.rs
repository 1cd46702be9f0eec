//! Which states are alike.

use crate::protocol::{Phase, Protocol, State, Statements, TTL};

impl Protocol {
    /// Sets what no later step or property reads to one value, so that states which differ in nothing else are explored once.
    /// No history is left out.
    pub(crate) fn normalize(&self, state: &mut State) {
        let (time, clock) = (state.time, state.clock);
        let is_over_for_good = |ends_at: u8| state.back == self.back && ends_at <= clock;
        for owner in &mut state.owners {
            // Older than a lease is as good as never.
            let oldest = time.saturating_sub(TTL);
            match &mut owner.phase {
                Phase::Asking { sent_at } => *sent_at = oldest.max(*sent_at),
                Phase::Holding { until } if *until <= time => *until = 0,
                _ => {}
            }
            owner.renews = owner.renews.map(|sent_at| oldest.max(sent_at));
            if is_over_for_good(owner.keeps) {
                (owner.keeps, owner.token) = (0, 0);
            }
        }
        state.judge.granted = state.judge.granted.min(self.owners as u8);
        if let Some(row) = &mut state.row {
            if is_over_for_good(row.ends_at) && self.statements != Statements::RenewRevives {
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
