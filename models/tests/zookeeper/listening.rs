//! Who has whom listen to its own node, and when: for claims of one process, which [follow](crate::follower) each other.

use crate::bell::ListensTo;
use crate::client::{Own, Phase, Standing};
use crate::follower::{Hears, Ties};
use crate::protocol::{Protocol, Recipe, State};

impl Protocol {
    /// Reads its own node and watches it, as one that follows another.
    pub(crate) fn watch_itself(&self, state: &mut State, client: usize, node: u8) {
        let is_there = state.ensemble.find(node).is_some();
        let this = &mut state.clients[client];
        let Phase::Follow(line, own) = std::mem::take(&mut this.phase) else { return };
        let mine = line.iter().position(|other| other.made == node);
        this.knows_of_its_end |= !is_there;
        let (true, Some(mine @ 1..=usize::MAX)) = (is_there, mine) else {
            (this.phase, this.watch) = match self.recipe {
                Recipe::WaitsWithoutANode => (Phase::Seen(line, own), this.watch),
                _ => (Phase::Look(Own::Unknown), None),
            };
            return;
        };
        let before = line[mine - 1].made;
        if self.recipe == Recipe::DoesNotWatchItself {
            return this.follows(node, before);
        }
        (this.phase, this.watch) = (Phase::Listens { node, before }, Some(node));
    }

    /// Makes known that it listens to its own node, which may have gone meanwhile.
    pub(crate) fn is_known_to_listen(&self, state: &mut State, client: usize, node: u8, before: u8) {
        let this = &mut state.clients[client];
        let watch = this.watch;
        this.follows(node, before);
        (this.watch, this.ties.listens_to) = (watch, ListensTo::Itself);
    }

    /// Reads whether the node of who follows is there.
    pub(crate) fn see_follower(&self, state: &mut State, client: usize) {
        let this = &mut state.clients[client];
        let (Phase::Sees(holds_next), Some((next, node))) = (&this.phase, this.ties.listens_for) else {
            return;
        };
        let holds_next = *holds_next && state.ensemble.find(node).is_some();
        this.phase = Phase::Left(holds_next);
        if !holds_next {
            this.ties.listens_for = None;
        }
        state.rings_if_gone(usize::from(next), node);
    }
}

impl State {
    /// Has a claim listen to the node by which it stands, unless it stands elsewhere or is about to find out where.
    pub(crate) fn listens(&mut self, client: usize, node: u8) -> bool {
        let is_there = self.ensemble.find(node).is_some();
        let this = &mut self.clients[client];
        let stands_there = matches!(this.standing, Standing::Known { node: own, .. } if own == node);
        let listens = this.phase == Phase::Rest && this.ties.hears == Hears::OfThatClaim && stands_there;
        if listens {
            // One that is gone by now has rung.
            (this.watch, this.ties.listens_to) = (is_there.then_some(node), ListensTo::Itself);
        }
        listens
    }

    /// Reads whether the node is there of who is next now, and has it listen.
    pub(crate) fn see_further(&mut self, client: usize) {
        let this = &mut self.clients[client];
        this.phase = Phase::Gone;
        let Some((next, node)) = this.ties.listens_further.take() else { return };
        if self.ensemble.find(node).is_some() {
            self.listens(usize::from(next), node);
        }
        self.rings_if_gone(usize::from(next), node);
    }

    fn rings_if_gone(&mut self, client: usize, node: u8) {
        if self.ensemble.find(node).is_none() && self.clients[client].is_here() {
            self.rings(client, node);
        }
    }

    /// A holder before has asked for it to listen to its node.
    pub(crate) fn is_asked_for(&self, next: (u8, u8)) -> bool {
        self.clients.iter().any(|client| client.ties.listens_further == Some(next))
    }

    pub(crate) fn listens_already(&self, (client, _): (u8, u8)) -> bool {
        self.clients[usize::from(client)].ties.listens_to == ListensTo::Itself
    }
}

impl Ties {
    pub(crate) fn listens_for_nobody(&mut self) {
        (self.listens_for, self.listens_soon, self.listens_further) = (None, None, None);
    }
}
