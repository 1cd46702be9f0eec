//! What a request does, and what its client makes of the reply.

use crate::bell::ListensTo;
use crate::client::{Client, Own, Phase, Standing};
use crate::follower::Hears;
use crate::protocol::{Protocol, Recipe, State};
use crate::requests::Next;

impl Protocol {
    pub(crate) fn step(&self, state: &mut State, client: usize) {
        let next = self.next(&state.clients[client]);
        if state.clients[client].phase == Phase::Rest {
            self.begin(&mut state.clients[client], &next);
        }
        let this = &mut state.clients[client];
        match next {
            Next::Create => self.create(state, client),
            Next::List(own) => self.list(state, client, own),
            Next::Read { node, is_first } => self.read(state, client, node, is_first),
            Next::Watch { node, before } => self.watch(state, client, node, before),
            Next::ReadOnly { node, before } => {
                this.phase = match state.ensemble.find(before) {
                    Some(_) => Phase::Watch { node, before },
                    None => Phase::Look(Own::Sure(node)),
                };
            }
            Next::WatchBlindly { node, before } => this.wait(node, before),
            Next::WatchItself(node) => self.watch_itself(state, client, node),
            Next::SeeFollower if this.phase == Phase::SeesFurther => state.see_further(client),
            Next::SeeFollower => self.see_follower(state, client),
            Next::Delete(node) => self.delete(state, client, node),
            Next::Tell(hands_over) => self.tell(state, client, hands_over),
            Next::Believe { node } => self.grant_node(state, client, node),
            Next::WatchAgain { node, before } => self.watch_again(state, client, node, before),
            Next::GoOn => self.go_on(state, client),
        }
        self.stands(state, client);
    }

    /// Makes something of an answer, and of what was heard since.
    fn go_on(&self, state: &mut State, client: usize) {
        match state.clients[client].phase.clone() {
            Phase::Rechecked(is_there) => self.has_rechecked(state, client, is_there),
            Phase::Listed(line, own) => self.has_listed(state, client, line, own),
            Phase::Listens { node, before } => self.is_known_to_listen(state, client, node, before),
            _ => {}
        }
    }

    /// An attempt fails, and has changed nothing.
    pub(crate) fn fail(&self, state: &mut State, client: usize) {
        // The delete has not failed.
        match state.clients[client].phase {
            Phase::Sees(_) => return state.clients[client].phase = Phase::Left(false),
            Phase::SeesFurther => {
                let this = &mut state.clients[client];
                (this.phase, this.ties.listens_further) = (Phase::Gone, None);
                return self.stands(state, client);
            }
            Phase::Recheck | Phase::Rechecked(_) => {
                state.clients[client].fails_to_ask(self.recipe);
                return self.stands(state, client);
            }
            _ => {}
        }
        let next = self.next(&state.clients[client]);
        if state.clients[client].phase == Phase::Rest {
            self.begin(&mut state.clients[client], &next);
        }
        self.has_failed(state, client);
    }

    /// The reply to a create or a delete is lost.
    pub(crate) fn lose(&self, state: &mut State, client: usize, applied: bool) {
        let next = self.next(&state.clients[client]);
        if let Next::Delete(node) = next {
            if applied {
                state.delete(node);
            }
            return self.has_failed(state, client);
        }
        state.leads_with(client, None);
        let this = &mut state.clients[client];
        (this.told, this.asks_again, this.seen, this.knows_of_its_end) = (false, false, None, false);
        (this.standing, this.doubts) = (Standing::Unsure, true);
        this.open = applied.then_some(this.session);
        this.phase = match self.recipe {
            Recipe::StandsAgain => Phase::Stand,
            _ => Phase::Look(Own::Unknown),
        };
    }

    /// Stands in line. Without a directory it makes one, and tries again.
    fn create(&self, state: &mut State, client: usize) {
        let session = state.clients[client].session;
        state.leads_with(client, None);
        let Some(node) = state.create(client, session) else {
            state.ensemble.next_number = Some(0);
            state.clients[client].phase = Phase::Stand;
            return;
        };
        (state.clients[client].standing, state.clients[client].knows_of_its_end) = (Standing::Unsure, false);
        match state.last.filter(|last| self.is_next(state, *last, node)) {
            Some(last) => self.has_seen(state, client, vec![last, node], Own::Made(node.made)),
            None => state.clients[client].phase = Phase::Look(Own::Made(node.made)),
        }
    }

    fn list(&self, state: &mut State, client: usize, own: Own) {
        let (line, this) = (state.ensemble.line.clone(), &mut state.clients[client]);
        if matches!(this.phase, Phase::Leave(_)) {
            let mine = line.iter().filter(|node| node.client == this.id).map(|node| node.made);
            return this.go_on_leaving(mine.collect());
        }
        match this.places(self.recipe, &line, own) {
            // Made by this very attempt: nothing more is asked.
            (places, Own::Made(node)) if places == [0] => self.grant_node(state, client, node),
            (places, Own::Read(node)) if matches!(*places, [1..=usize::MAX]) => {
                let line = line[places[0] - 1..=places[0]].to_vec();
                (this.told, this.seen, this.watch) = (false, None, Some(node));
                this.phase = Phase::Listed(line, own);
            }
            _ => self.has_seen(state, client, line, own),
        }
    }

    fn read(&self, state: &mut State, client: usize, node: u8, is_first: bool) {
        let found = state.ensemble.find(node);
        let this = &mut state.clients[client];
        match found {
            None => this.phase = Phase::Look(Own::Unknown),
            Some(found) if found.session != this.session && self.recipe != Recipe::AdoptsAnyNode => {
                this.phase = Phase::Discard(node);
            }
            Some(_) if is_first => self.grant_node(state, client, node),
            Some(_) => {
                if let Phase::Seen(_, own) = &mut this.phase {
                    *own = Own::Sure(node);
                }
            }
        }
    }

    fn watch(&self, state: &mut State, client: usize, node: u8, before: u8) {
        let is_there = state.ensemble.find(before).is_some();
        let this = &mut state.clients[client];
        let listens_on = matches!(this.phase, Phase::Seen(_, own) if self.listens_on(own));
        let told = this.told && listens_on;
        match is_there {
            true => this.wait(node, before),
            false => (this.phase, this.watch) = (Phase::Look(Own::Sure(node)), None),
        }
        this.told = told;
    }

    /// The line as a server that is behind shows it to who was told by it that its turn may have come.
    pub(crate) fn look_behind(&self, state: &mut State, client: usize) {
        let this = &mut state.clients[client];
        let (line, session) = (this.seen.take().unwrap_or_default(), this.session);
        let Standing::Known { session: stands_by, node, .. } = this.standing else { return };
        let (places, own) = this.places(self.recipe, &line, Own::Sure(node));
        if places != [0] || own != Own::Sure(node) || stands_by != session {
            return;
        }
        let lives = state.ensemble.has_session(this.process, session);
        if !lives && self.recipe != Recipe::CountsFromTheLook {
            return self.has_failed(state, client);
        }
        let in_order = state.out_of_order;
        let by_hand = state.ensemble.find(node).is_none() && lives;
        state.clients[client].told = false;
        self.grant_node(state, client, node);
        self.stands(state, client);
        if by_hand {
            // As if it had held already: in the ensemble's order its turn came before that, though it may be told of
            // its token after another of a larger one.
            (state.clients[client].deleted_by_hand, state.out_of_order) = (true, in_order);
            // Its watch finds nothing.
            state.leads_with(client, None);
        }
    }

    fn grant_node(&self, state: &mut State, client: usize, node: u8) {
        let token = match self.recipe {
            Recipe::NumberAsToken => state.ensemble.find(node).map_or(0, |node| node.number + 1),
            _ => node,
        };
        let is_of_many = self.is_of_many(&state.clients[client]);
        let this = &mut state.clients[client];
        this.watch = Some(node);
        if is_of_many {
            this.ties.listens_to = ListensTo::Itself;
        }
        state.grant(client, node, token);
    }
}

impl Client {
    pub(crate) fn wait(&mut self, node: u8, before: u8) {
        self.standing = Standing::Known { session: self.session, node, watched: before };
        (self.phase, self.watch, self.told) = (Phase::Rest, Some(before), false);
        (self.ties.hears, self.ties.listens_to) = (Hears::Itself, ListensTo::NotItself);
    }

    pub(crate) fn deleted(&mut self, node: u8) {
        match std::mem::take(&mut self.phase) {
            Phase::Leave(left) => {
                let left = left.unwrap_or_default().into_iter().filter(|other| *other != node);
                self.go_on_leaving(left.collect());
            }
            _ => self.phase = Phase::Look(Own::Unknown),
        }
    }

    /// From the back, so that none of them comes to hold by this.
    fn go_on_leaving(&mut self, left: Vec<u8>) {
        self.phase = if left.is_empty() { Phase::Gone } else { Phase::Leave(Some(left)) };
    }
}
