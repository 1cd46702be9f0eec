//! A waiter that asks again without news; and what is heard during a look: after an answer, and before the next request.

use crate::bell::ListensTo;
use crate::client::{Client, Own, Phase, Standing};
use crate::ensemble::Node;
use crate::follower::Hears;
use crate::protocol::{Action, Protocol, Recipe, State};

impl Protocol {
    /// Nothing rests on it, and it may happen.
    pub(crate) fn asks_without_news(&self, state: &State, client: usize, actions: &mut Vec<Action>) {
        let this = &state.clients[client];
        let waits = this.phase == Phase::Rest && this.holds_by.is_none() && !this.has_step();
        let stands = matches!(this.standing, Standing::Known { session, .. } if session == this.session);
        if state.faults.unasked == self.at_most.unasked || !waits || !stands {
            return;
        }
        actions.push(Action::Ask { client, ahead: true });
        if this.ties.hears == Hears::OfThatClaim && this.ties.listens_to != ListensTo::Itself {
            actions.push(Action::Ask { client, ahead: false });
        }
    }

    /// Who watches the node in front begins to watch it anew. Who is told by the claim in front looks at that node, or at its own:
    /// at that if it listens to its own, and else by turns.
    pub(crate) fn ask(&self, state: &mut State, client: usize, ahead: bool) {
        let Standing::Known { node, watched, .. } = state.clients[client].standing else { return };
        state.clients[client].phase = match state.clients[client].ties.hears {
            Hears::OfThatClaim => {
                let looked_at = if ahead { watched } else { node };
                Phase::Rechecked(state.ensemble.find(looked_at).is_some())
            }
            _ => Phase::Recheck,
        };
    }

    /// Watches the node in front anew.
    pub(crate) fn watch_again(&self, state: &mut State, client: usize, node: u8, before: u8) {
        let is_there = state.ensemble.find(before).is_some();
        let is_of_many = self.is_of_many(&state.clients[client]);
        let this = &mut state.clients[client];
        if is_there {
            return this.wait(node, before);
        }
        (this.told, this.seen) = (false, None);
        self.begin_to_look(this);
        this.phase = Phase::Look(if is_of_many { Own::Read(node) } else { Own::Sure(node) });
    }

    /// If it has heard something meanwhile, it looks on. That is not needed for anything that is promised: who answers that it
    /// waits asks again at once, as what it has heard stays heard, and leads nobody until then.
    pub(crate) fn has_rechecked(&self, state: &mut State, client: usize, is_there: bool) {
        let this = &mut state.clients[client];
        let Standing::Known { node, .. } = this.standing else { return };
        this.phase = Phase::Rest;
        if !is_there || this.told {
            self.begin_to_look(this);
            this.phase = Phase::Look(Own::Read(node));
        }
    }

    /// Has the line, and has listened to its own node since.
    pub(crate) fn has_listed(&self, state: &mut State, client: usize, line: Vec<Node>, own: Own) {
        let this = &mut state.clients[client];
        if this.told {
            this.phase = Phase::Look(own);
            return;
        }
        self.has_seen(state, client, line, own);
    }

    /// Whoever listens since it has read its own node does not begin anew, and forget what it has heard, to listen to another.
    pub(crate) fn listens_on(&self, own: Own) -> bool {
        matches!(own, Own::Read(_)) && self.recipe != Recipe::ForgetsWhatItHeardMeanwhile
    }
}

impl Client {
    /// An attempt without news has failed.
    pub(crate) fn fails_to_ask(&mut self, recipe: Recipe) {
        if self.phase == Phase::Recheck {
            (self.told, self.seen) = (false, None);
            // What has come just before it began to listen anew is forgotten, and nobody says it again.
            self.asks_again = recipe != Recipe::RestsAfterALookThatFailed;
        }
        self.phase = Phase::Rest;
    }
}
