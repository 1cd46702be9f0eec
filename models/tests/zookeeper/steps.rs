//! The requests of a client, and its reactions to the replies.

use crate::client::{Client, OwnNode, Phase};
use crate::ensemble::Node;
use crate::protocol::{Recipe, State, ZooKeeperQueue};

impl ZooKeeperQueue {
    /// True if the next request creates or deletes a node.
    pub(crate) fn next_request_is_write(&self, this: &Client) -> bool {
        match &this.phase {
            Phase::NotStarted | Phase::Create | Phase::Discard { .. } => true,
            Phase::Release { nodes } => nodes.is_some(),
            Phase::Idle => this.own == OwnNode::Absent,
            _ => false,
        }
    }

    /// Leaves the idle phase for the first request of an attempt.
    pub(crate) fn begin_attempt(&self, this: &mut Client) {
        if this.phase == Phase::Idle {
            (this.is_notified, this.needs_retry, this.stale_queue) = (false, false, None);
            this.phase = if this.own == OwnNode::Absent { Phase::Create } else { Phase::List };
        }
    }

    pub(crate) fn step(&self, state: &mut State, client: usize) {
        let grants_by_watch = matches!(self.recipe, Recipe::WatchesLowestNode | Recipe::WatchAsGrant);
        let this = &mut state.clients[client];
        if grants_by_watch
            && this.phase == Phase::Idle
            && this.is_notified
            && let Some(node) = this.node()
        {
            return match state.ensemble.find(node) {
                Some(node) => state.grant(client, node, node.czxid),
                None => (this.own, this.phase) = (OwnNode::Absent, Phase::Create),
            };
        }
        self.begin_attempt(this);
        match this.phase.clone() {
            Phase::NotStarted | Phase::Create => self.create(state, client),
            Phase::List => {
                let queue = state.ensemble.queue.clone();
                self.handle_list(state, client, queue);
            }
            Phase::Check { blocker } => {
                this.phase = if state.ensemble.find(blocker).is_some() { Phase::Idle } else { Phase::List };
            }
            Phase::ReadOwn { queue, unread } => self.read_own(state, client, queue, unread),
            Phase::Discard { node, queue, unread } => {
                state.delete(node);
                self.read_next_or_decide(state, client, queue, unread);
            }
            Phase::Watch { blocker } => self.watch(state, client, blocker),
            Phase::WatchOnly { blocker } => (this.phase, this.watch) = (Phase::Idle, Some(blocker)),
            Phase::Release { nodes } => state.release(client, nodes),
            Phase::Idle | Phase::Done => {}
        }
    }

    /// A list from a server that is behind. It has an effect only if it shows no blocker.
    pub(crate) fn list_stale(&self, state: &mut State, client: usize) {
        let this = &mut state.clients[client];
        let queue = this.stale_queue.take().unwrap_or_default();
        let own = this.node().and_then(|czxid| queue.iter().position(|node| node.czxid == czxid));
        let Some(index) = own.filter(|index| self.blocker(&queue, *index).is_none()) else { return };
        let is_session_alive = state.ensemble.has_session(this.id, this.session);
        if !is_session_alive && self.recipe != Recipe::CountsFromStaleList {
            return this.fail();
        }
        let was_deleted_by_hand = is_session_alive && state.ensemble.find(queue[index].czxid).is_none();
        let was_out_of_order = state.is_out_of_order;
        state.grant(client, queue[index], queue[index].czxid);
        if was_deleted_by_hand {
            // In the order of the ensemble this grant precedes the deletion, although a later grant may have been recorded already.
            (state.clients[client].deleted_by_hand, state.is_out_of_order) = (true, was_out_of_order);
        }
    }

    pub(crate) fn lose_reply(&self, state: &mut State, client: usize, applied: bool) {
        let this = &mut state.clients[client];
        self.begin_attempt(this);
        match &this.phase {
            Phase::NotStarted | Phase::Create => {
                (this.own, this.pending_create) = (OwnNode::Unknown, applied.then_some(this.session));
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
            Phase::Release { nodes } => {
                let node = nodes.as_ref().and_then(|nodes| nodes.last().copied());
                // The same delete is repeated, unless a list must find the node first.
                if this.node().is_none() {
                    this.phase = Phase::Release { nodes: None };
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
                this.own = OwnNode::Known { session: this.session, node: node.czxid };
                this.phase = Phase::List;
            }
            None => {
                state.ensemble.next_sequence = Some(0);
                this.phase = Phase::Create;
            }
        }
    }

    fn handle_list(&self, state: &mut State, client: usize, queue: Vec<Node>) {
        let this = &state.clients[client];
        if this.node().is_some() {
            return self.decide(state, client, &queue);
        }
        let is_own = |node: &&Node| node.client == this.id && self.recipe != Recipe::CreatesAgain;
        let unread = queue.iter().filter(is_own).map(|node| node.czxid).collect();
        self.read_next_or_decide(state, client, queue, unread);
    }

    /// Reads the nodes of the owner one after the other, and then decides.
    fn read_next_or_decide(&self, state: &mut State, client: usize, queue: Vec<Node>, unread: Vec<u8>) {
        if unread.is_empty() {
            return self.decide(state, client, &queue);
        }
        state.clients[client].phase = Phase::ReadOwn { queue, unread };
    }

    fn read_own(&self, state: &mut State, client: usize, queue: Vec<Node>, mut unread: Vec<u8>) {
        let czxid = unread.remove(0);
        let read = state.ensemble.find(czxid);
        let this = &mut state.clients[client];
        let is_accepted = |node: &Node| node.session == this.session || self.recipe == Recipe::AdoptsAnyNode;
        match read {
            Some(node) if this.node().is_none() && is_accepted(&node) => {
                this.own = OwnNode::Known { session: this.session, node: czxid };
            }
            Some(_) => {
                this.phase = Phase::Discard { node: czxid, queue, unread };
                return;
            }
            None => {}
        }
        self.read_next_or_decide(state, client, queue, unread);
    }

    /// Takes the lock if the list shows no blocker, and otherwise watches the blocker.
    fn decide(&self, state: &mut State, client: usize, queue: &[Node]) {
        let this = &mut state.clients[client];
        let own = this.node().and_then(|czxid| queue.iter().position(|node| node.czxid == czxid));
        let Some(index) = own else {
            (this.own, this.phase) = (OwnNode::Absent, Phase::Create);
            return;
        };
        match self.blocker(queue, index) {
            Some(blocker) => this.phase = Phase::Watch { blocker },
            None => {
                let is_sequence = self.recipe == Recipe::SequenceAsToken;
                let token = if is_sequence { queue[index].sequence + 1 } else { queue[index].czxid };
                state.grant(client, queue[index], token);
            }
        }
    }

    /// The node to wait for before the one at `index` is granted the lock.
    fn blocker(&self, queue: &[Node], index: usize) -> Option<u8> {
        let own = &queue[index];
        let nearest = |blocks: &dyn Fn(&Node) -> bool| queue[..index].iter().rev().find(|node| blocks(node));
        let blocker = nearest(&|node| node.conflicts_with(own));
        let blocker = match self.recipe {
            Recipe::WatchesLowestNode => blocker.and(queue.first()),
            Recipe::WriterIgnoresReaders => nearest(&|node| !node.is_reader),
            Recipe::ReaderPassesWriters if own.is_reader => {
                queue[..index].first().filter(|node| !node.is_reader)
            }
            Recipe::ReaderWatchesReader => blocker.and(nearest(&|_| true)),
            _ => blocker,
        };
        blocker.map(|node| node.czxid)
    }

    fn watch(&self, state: &mut State, client: usize, blocker: u8) {
        let exists = state.ensemble.find(blocker).is_some();
        let this = &mut state.clients[client];
        match (exists, self.recipe) {
            (false, _) => this.phase = Phase::List,
            (true, Recipe::WatchesAfterRead) => this.phase = Phase::WatchOnly { blocker },
            (true, _) => (this.phase, this.watch) = (Phase::Idle, Some(blocker)),
        }
    }
}

impl State {
    /// Step 5 of the recipe: deletes the known node, or lists the owner's nodes and deletes the last one first.
    fn release(&mut self, client: usize, nodes: Option<Vec<u8>>) {
        let id = self.clients[client].id;
        let nodes: Vec<u8> = match nodes {
            None => {
                self.ensemble.queue.iter().filter(|node| node.client == id).map(|node| node.czxid).collect()
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
            true => (Phase::Done, OwnNode::Absent),
            false => (Phase::Release { nodes: Some(nodes) }, this.own),
        };
    }
}
