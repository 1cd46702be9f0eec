//! The requests of a client, and what it does with the replies.

use crate::client::{Client, Own, Phase};
use crate::ensemble::Node;
use crate::protocol::{Protocol, Recipe, State};

impl Protocol {
    /// True if the next request changes something.
    pub(crate) fn next_is_write(&self, this: &Client) -> bool {
        match &this.phase {
            Phase::Absent | Phase::Create | Phase::Discard { .. } => true,
            Phase::Leave { nodes } => nodes.is_some(),
            Phase::Rest => this.own == Own::Absent,
            _ => false,
        }
    }

    /// The first step of an attempt after a rest.
    pub(crate) fn begin_attempt(&self, this: &mut Client) {
        if this.phase == Phase::Rest {
            (this.is_told, this.retries, this.old_queue) = (false, false, None);
            this.phase = if this.own == Own::Absent { Phase::Create } else { Phase::List };
        }
    }

    pub(crate) fn step(&self, state: &mut State, client: usize) {
        let believes = matches!(self.recipe, Recipe::WatchesTheLowest | Recipe::BelievesTheWatch);
        let this = &mut state.clients[client];
        if believes
            && this.phase == Phase::Rest
            && this.is_told
            && let Some(node) = this.node()
        {
            return match state.ensemble.find(node) {
                Some(node) => state.grant(client, node, node.made),
                None => (this.own, this.phase) = (Own::Absent, Phase::Create),
            };
        }
        self.begin_attempt(this);
        match this.phase.clone() {
            Phase::Absent | Phase::Create => self.create(state, client),
            Phase::List => {
                let queue = state.ensemble.queue.clone();
                self.use_list(state, client, queue);
            }
            Phase::Check { blocker } => {
                this.phase = if state.ensemble.find(blocker).is_some() { Phase::Rest } else { Phase::List };
            }
            Phase::Find { queue, unread } => self.read_own(state, client, queue, unread),
            Phase::Discard { node, queue, unread } => {
                state.delete(node);
                self.find(state, client, queue, unread);
            }
            Phase::Watch { blocker } => self.watch(state, client, blocker),
            Phase::WatchOnly { blocker } => (this.phase, this.watch) = (Phase::Rest, Some(blocker)),
            Phase::Leave { nodes } => state.leave(client, nodes),
            Phase::Rest | Phase::Gone => {}
        }
    }

    /// A list from a server that is behind. It counts only if it shows no blocker.
    pub(crate) fn list_behind(&self, state: &mut State, client: usize) {
        let this = &mut state.clients[client];
        let queue = this.old_queue.take().unwrap_or_default();
        let own = this.node().and_then(|made| queue.iter().position(|node| node.made == made));
        let Some(index) = own.filter(|index| self.blocker(&queue, *index).is_none()) else { return };
        let lives = state.ensemble.has_session(this.id, this.session);
        if !lives && self.recipe != Recipe::CountsFromTheList {
            return this.fail();
        }
        let was_deleted_by_hand = lives && state.ensemble.find(queue[index].made).is_none();
        let in_order = state.is_out_of_order;
        state.grant(client, queue[index], queue[index].made);
        if was_deleted_by_hand {
            // In the order of the ensemble it held before the deletion, though its grant may come after a later one.
            (state.clients[client].deleted_by_hand, state.is_out_of_order) = (true, in_order);
        }
    }

    /// The reply to a create or a delete is lost.
    pub(crate) fn lose_reply(&self, state: &mut State, client: usize, applied: bool) {
        let this = &mut state.clients[client];
        self.begin_attempt(this);
        match &this.phase {
            Phase::Absent | Phase::Create => {
                (this.own, this.open_create) = (Own::Unknown, applied.then_some(this.session));
                this.phase = match self.recipe {
                    Recipe::CreatesAgain => Phase::Create,
                    _ => Phase::List,
                };
            }
            Phase::Discard { node, .. } => {
                let node = *node;
                this.fail();
                if applied {
                    state.delete(node);
                }
            }
            Phase::Leave { nodes } => {
                let node = nodes.as_ref().and_then(|nodes| nodes.last().copied());
                // The same delete is repeated, or a list finds out.
                if this.node().is_none() {
                    this.phase = Phase::Leave { nodes: None };
                }
                if let Some(node) = node.filter(|_| applied) {
                    state.delete(node);
                }
            }
            _ => {}
        }
    }

    /// Creates the node, or the directory if it is missing.
    fn create(&self, state: &mut State, client: usize) {
        let this = &mut state.clients[client];
        match state.ensemble.create(this.id, this.session, this.is_reader) {
            Some(node) => {
                this.own = Own::Known { session: this.session, node: node.made };
                this.phase = Phase::List;
            }
            None => {
                state.ensemble.next_number = Some(0);
                this.phase = Phase::Create;
            }
        }
    }

    fn use_list(&self, state: &mut State, client: usize, queue: Vec<Node>) {
        let this = &state.clients[client];
        if this.node().is_some() {
            return self.decide(state, client, &queue);
        }
        let is_own = |node: &&Node| node.client == this.id && self.recipe != Recipe::CreatesAgain;
        let unread = queue.iter().filter(is_own).map(|node| node.made).collect();
        self.find(state, client, queue, unread);
    }

    /// Reads the nodes of the owner one after the other, and then decides.
    fn find(&self, state: &mut State, client: usize, queue: Vec<Node>, unread: Vec<u8>) {
        if unread.is_empty() {
            return self.decide(state, client, &queue);
        }
        state.clients[client].phase = Phase::Find { queue, unread };
    }

    fn read_own(&self, state: &mut State, client: usize, queue: Vec<Node>, mut unread: Vec<u8>) {
        let made = unread.remove(0);
        let read = state.ensemble.find(made);
        let this = &mut state.clients[client];
        let counts = |node: &Node| node.session == this.session || self.recipe == Recipe::AdoptsAnyNode;
        match read {
            Some(node) if this.node().is_none() && counts(&node) => {
                this.own = Own::Known { session: this.session, node: made };
            }
            Some(_) => {
                this.phase = Phase::Discard { node: made, queue, unread };
                return;
            }
            None => {}
        }
        self.find(state, client, queue, unread);
    }

    /// The list shows whether the claim holds, and otherwise what it waits for.
    fn decide(&self, state: &mut State, client: usize, queue: &[Node]) {
        let this = &mut state.clients[client];
        let own = this.node().and_then(|made| queue.iter().position(|node| node.made == made));
        let Some(index) = own else {
            (this.own, this.phase) = (Own::Absent, Phase::Create);
            return;
        };
        match self.blocker(queue, index) {
            Some(blocker) => this.phase = Phase::Watch { blocker },
            None => {
                let is_number = self.recipe == Recipe::NumberAsToken;
                let token = if is_number { queue[index].number + 1 } else { queue[index].made };
                state.grant(client, queue[index], token);
            }
        }
    }

    /// The node on which the one at `index` depends.
    fn blocker(&self, queue: &[Node], index: usize) -> Option<u8> {
        let own = &queue[index];
        let nearest = |blocks: &dyn Fn(&Node) -> bool| queue[..index].iter().rev().find(|node| blocks(node));
        let blocker = nearest(&|node| node.conflicts_with(own));
        let blocker = match self.recipe {
            Recipe::WatchesTheLowest => blocker.and(queue.first()),
            Recipe::WriterIgnoresReaders => nearest(&|node| !node.is_reader),
            Recipe::ReaderPassesWriters if own.is_reader => {
                queue[..index].first().filter(|node| !node.is_reader)
            }
            Recipe::ReaderWatchesTheNodeInFront => blocker.and(nearest(&|_| true)),
            _ => blocker,
        };
        blocker.map(|node| node.made)
    }

    fn watch(&self, state: &mut State, client: usize, blocker: u8) {
        let exists = state.ensemble.find(blocker).is_some();
        let this = &mut state.clients[client];
        match (exists, self.recipe) {
            (false, _) => this.phase = Phase::List,
            (true, Recipe::WatchesAfterTheRead) => this.phase = Phase::WatchOnly { blocker },
            (true, _) => (this.phase, this.watch) = (Phase::Rest, Some(blocker)),
        }
    }
}

impl State {
    /// Step 5: deletes the known node, or lists the nodes of the owner and deletes them from the back.
    fn leave(&mut self, client: usize, nodes: Option<Vec<u8>>) {
        let id = self.clients[client].id;
        let nodes: Vec<u8> = match nodes {
            None => {
                self.ensemble.queue.iter().filter(|node| node.client == id).map(|node| node.made).collect()
            }
            Some(mut nodes) => {
                if let Some(last) = nodes.pop() {
                    self.delete(last);
                }
                nodes
            }
        };
        let this = &mut self.clients[client];
        (this.phase, this.own) = match nodes.is_empty() {
            true => (Phase::Gone, Own::Absent),
            false => (Phase::Leave { nodes: Some(nodes) }, this.own),
        };
    }
}
