//! The bell of a claim: what it has heard, to what it is known to listen, and who relies on hearing from it.

use crate::client::{Client, Phase, Standing};
use crate::follower::Hears;
use crate::protocol::{Protocol, Recipe, State};

/// To which node it listens, as far as others of its process know: as of the end of its last attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum ListensTo {
    /// To the one in front of its own, or to none.
    #[default]
    NotItself,
    /// To its own, when its turn is near.
    ItselfLater,
    Itself,
}

impl Protocol {
    /// Whoever follows it hears of what has become of it, after each step.
    pub(crate) fn stands(&self, state: &mut State, client: usize) {
        let this = &state.clients[client];
        match (&this.phase, this.standing) {
            (Phase::Rest, Standing::Known { node, .. }) if self.is_of_many(this) => {
                let leads_with = (this.ties.hears != Hears::Nothing).then_some(node);
                self.stands_at(state, client, leads_with);
            }
            (Phase::Rest, _) => state.leads_with(client, None),
            (Phase::Gone, _) => {
                state.forget(client);
                state.leads_with(client, None);
                if self.is_of_many(&state.clients[client]) {
                    state.clients[client].standing = Standing::Nowhere;
                    state.clients[client].hears_no_more();
                }
            }
            _ => {}
        }
    }

    /// Whoever has heard something and has not looked since leads nobody, and who followed is told: it may have been of its own
    /// node, and before it was known to listen to that.
    fn stands_at(&self, state: &mut State, client: usize, leads_with: Option<u8>) {
        let has_heard = state.clients[client].told;
        if has_heard && self.recipe != Recipe::KeepsToItselfWhatCameEarly {
            state.leads_with(client, None);
        }
        let leads_all_the_same = self.recipe == Recipe::LeadsBeforeItHasLooked;
        if state.clients[client].ties.leads_with != leads_with {
            state.leads_with(client, leads_with.filter(|_| !has_heard || leads_all_the_same));
        }
    }
}

impl State {
    /// Tells a claim that something has become of a node. Whoever is known to listen to its own tells whoever relies on it.
    pub(crate) fn rings(&mut self, client: usize, made: u8) {
        let is_gone = self.ensemble.find(made).is_none();
        let this = &mut self.clients[client];
        let was_listened_to = this.watch == Some(made) || this.ties.listens_to != ListensTo::NotItself;
        let is_own = was_listened_to && this.own_node() == Some(made);
        this.watch = this.watch.filter(|watched| *watched != made);
        this.told = true;
        this.seen = this.holds_by.is_none().then(|| self.ensemble.line.clone());
        this.knows_of_its_end |= is_gone && is_own && this.holds_by.is_none();
        if this.is_here() && this.ties.listens_to != ListensTo::NotItself {
            self.leads_with(client, None);
        }
    }

    /// From now on whoever stands behind this node may rely on the claim. Who relied on another is to look.
    pub(crate) fn leads_with(&mut self, client: usize, node: Option<u8>) {
        let ties = &mut self.clients[client].ties;
        if ties.leads_with == node {
            return;
        }
        ties.leads_with = node;
        let Some((follower, _)) = ties.follower.take() else { return };
        let follower = &mut self.clients[usize::from(follower)];
        if follower.is_waiting() {
            let is_at_rest = follower.phase == Phase::Rest;
            (follower.told, follower.seen) = (true, is_at_rest.then(|| self.ensemble.line.clone()));
        }
    }
}

impl Client {
    /// Its node, as far as it knows.
    fn own_node(&self) -> Option<u8> {
        match (&self.phase, self.standing) {
            (Phase::Listed(_, own) | Phase::Seen(_, own) | Phase::Follow(_, own), _) => own.node(),
            (Phase::Listens { node, .. }, _) => Some(*node),
            (_, Standing::Known { node, .. }) => Some(node),
            _ => None,
        }
    }
}
