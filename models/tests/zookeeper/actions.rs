//! What may happen next.

use crate::client::{Client, Phase, Standing};
use crate::protocol::{Action, Protocol, Recipe, State};

impl Protocol {
    pub(crate) fn actions_of(&self, state: &State, client: usize, actions: &mut Vec<Action>) {
        let this = &state.clients[client];
        let lives = state.ensemble.has_session(this.process, this.session);
        if let Some(session) = this.open {
            if state.ensemble.has_session(this.process, session) {
                actions.push(Action::Settle { client, applied: true });
            }
            actions.push(Action::Settle { client, applied: false });
        }
        if client == usize::from(this.process) {
            self.ends_of_sessions(state, this.process, actions);
        }
        // Also in a session that is over: who is cut off from the leader does not know.
        if matches!(self.recipe, Recipe::Ours | Recipe::CountsFromTheLook) && this.may_look_behind() {
            actions.push(Action::LookBehind { client });
        }
        if !lives || self.comes_too_early(state, this) {
            return;
        }
        if matches!(this.phase, Phase::Rest) {
            actions.push(Action::Leave { client });
        }
        self.asks_without_news(state, client, actions);
        if this.has_step() && !state.has_open_create(this.process, this.session) {
            self.steps_of(state, client, actions);
        }
    }

    fn steps_of(&self, state: &State, client: usize, actions: &mut Vec<Action>) {
        let this = &state.clients[client];
        actions.push(Action::Step { client });
        if state.faults.lost == self.at_most.lost || !self.asks(this) {
            return;
        }
        if self.writes(this) {
            actions.push(Action::Lose { client, applied: true });
            actions.push(Action::Lose { client, applied: false });
        } else if this.phase != Phase::Rest || self.is_of_many(this) {
            actions.push(Action::Fail { client });
        }
    }

    /// A session is that of all clients of a process.
    fn ends_of_sessions(&self, state: &State, process: u8, actions: &mut Vec<Action>) {
        let those = state.of_process(process);
        let present = those.iter().any(|client| state.clients[*client].phase != Phase::Absent);
        let current = state.clients[usize::from(process)].session;
        for session in 0..=current {
            let has_nodes = || those.iter().any(|client| state.ensemble.has_node_of(*client, session));
            if (session == current || has_nodes())
                && present
                && state.ensemble.has_session(process, session)
                && state.faults.expiries < self.at_most.expiries
            {
                actions.push(Action::Expire { process, session });
            }
        }
        let is_at_work = those.iter().any(|client| state.clients[*client].is_at_work());
        if !state.ensemble.has_session(process, current) {
            actions.push(Action::Learn { process });
        } else if state.faults.given_up < self.at_most.given_up && is_at_work {
            actions.push(Action::GiveUpSession { process });
        }
    }

    /// Those of one process are alike, and so are those that are alone: they may as well come in one order. All of them do if
    /// some are to come first.
    fn comes_too_early(&self, state: &State, this: &Client) -> bool {
        let before = this.id.checked_sub(1).map(|before| &state.clients[usize::from(before)]);
        let is_alike = |before: &&Client| self.come_first || self.is_of_many(before) == self.is_of_many(this);
        let is_absent = |client: &Client| client.phase == Phase::Absent;
        let is_to_wait = |before: &Client| {
            is_absent(before)
                || self.come_first && before.standing == Standing::Nowhere && before.phase != Phase::Gone
        };
        is_absent(this) && before.filter(is_alike).is_some_and(is_to_wait)
    }
}
