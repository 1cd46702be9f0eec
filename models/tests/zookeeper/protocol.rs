//! The lock recipe of ZooKeeper and its sessions as a state machine. Each step is one request of `backend-zk/src/recipe.rs` or
//! `own_node.rs`. The ensemble executes all requests in one order.
//!
//! * A session may expire at any moment, which deletes its nodes; its client learns of it at any later moment. A client may also
//!   abandon a session that has not expired.
//! * The reply to a create or a delete may be lost. Such a create may be executed until the next request in its session, because a
//!   session keeps the order of its requests, or never. In an abandoned session it may be executed until that session expires.
//! * A read may fail. It has no effect, and the client repeats its attempt.
//! * A node may be deleted or written to by hand. An empty directory may be deleted, which restarts the sequence numbers.
//! * A client whose watch has fired may list the queue at a server that is behind, which shows the queue at that moment. If its session
//!   has expired, so has its belief, which counts from an earlier proof. A stale list that shows a blocker has no effect here.
//! * A waiter repeats its attempt only if its watch has fired or its last attempt has failed; the fallback interval is not needed. A
//!   check of the blocker without a signal is bounded like a fault. A client may give up or release between any two attempts.
//!
//! Not modelled: reconnection. The client library sets the watches of a session again, and the server reports missed events, which is
//! the same as a watch that fires late.

use crate::client::{Client, OwnNode, Phase};
use crate::ensemble::{Ensemble, Node};
use leasehold_models::{Protocol, ProtocolModel};
use stateright::Property;

/// The recipe of `backend-zk`, or a variant of it with a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recipe {
    Implemented,
    /// The token is the sequence number of the node, not its czxid.
    SequenceAsToken,
    /// Every waiter watches the lowest node, and holds when it is deleted.
    WatchesLowestNode,
    /// A waiter whose watch has fired holds.
    WatchAsGrant,
    /// A waiter reads whether the blocker exists, and sets the watch with a second request.
    WatchesAfterRead,
    /// After a lost reply a second node is created, and the first one is never found.
    CreatesAgain,
    /// A node of the owner is accepted from any session.
    AdoptsAnyNode,
    /// A stale list grants the lock although the session has expired.
    CountsFromStaleList,
    /// A failed attempt is not repeated.
    NoRetry,
    /// A writer is blocked only by writers.
    WriterIgnoresReaders,
    /// A reader is blocked only by a writer at the front of the queue.
    ReaderPassesWriters,
    /// A blocked reader watches the node in front of it, which may be another reader.
    ReaderWatchesReader,
}

/// The variant to explore, and its bounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ZooKeeperQueue {
    pub(crate) recipe: Recipe,
    /// Each client acquires the lock once.
    pub(crate) writers: u8,
    pub(crate) readers: u8,
    pub(crate) max_faults: Faults,
}

/// How often each fault may occur, or has occurred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Faults {
    /// Lost replies and failed requests.
    pub(crate) lost_replies: u8,
    pub(crate) expired_sessions: u8,
    /// Sessions that their client abandons before they expire.
    pub(crate) abandoned_sessions: u8,
    /// Nodes deleted by hand.
    pub(crate) deleted_nodes: u8,
    /// Nodes written to by hand, which fires the watches on them.
    pub(crate) touched_nodes: u8,
    /// Checks of a blocker without a signal.
    pub(crate) rechecks: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) ensemble: Ensemble,
    pub(crate) clients: Vec<Client>,
    pub(crate) faults: Faults,
    /// History variables: the largest token of a writer and of a reader, the number of grants, and whether the token of a grant was not
    /// larger than that of an earlier grant that conflicts with it.
    pub(crate) last_tokens: [u8; 2],
    pub(crate) grants: u8,
    pub(crate) is_out_of_order: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// A client's next request is executed, and its reply arrives.
    Step {
        client: usize,
    },
    /// A client lists the queue at a server that is behind.
    ListStale {
        client: usize,
    },
    /// The reply to the next request is lost. With `applied` a delete is executed, and a create may be executed later.
    LoseReply {
        client: usize,
        applied: bool,
    },
    /// The next request fails without an effect.
    Fail {
        client: usize,
    },
    /// A create whose reply was lost is executed, or will never be.
    ResolveCreate {
        client: usize,
        applied: bool,
    },
    /// Gives up waiting, or releases.
    Release {
        client: usize,
    },
    /// Checks the blocker without a signal.
    Recheck {
        client: usize,
    },
    Expire {
        client: usize,
        session: u8,
    },
    /// A client learns that its session has expired.
    LearnExpiry {
        client: usize,
    },
    AbandonSession {
        client: usize,
    },
    DeleteNode {
        index: usize,
    },
    TouchNode {
        index: usize,
    },
    DeleteDirectory,
}

/// Clients that believe to hold the lock do not conflict.
pub(crate) const EXCLUSIVE: &str = "exclusive";
/// The token of a grant is larger than those of earlier grants that conflict with it.
pub(crate) const GROWING: &str = "growing";
/// No lost wakeup: the client of a node without a blocker holds the lock, or has a next step.
pub(crate) const WOKEN: &str = "woken";
/// After its release a client has no node in its present session, and no pending create.
pub(crate) const CLEAN: &str = "clean";

impl Protocol for ZooKeeperQueue {
    type State = State;
    type Action = Action;

    fn bounds(&self) -> String {
        let Faults {
            lost_replies,
            expired_sessions,
            abandoned_sessions,
            deleted_nodes,
            touched_nodes,
            rechecks,
        } = self.max_faults;
        let faults = [
            ("lost replies", lost_replies),
            ("sessions ended", expired_sessions),
            ("sessions given up", abandoned_sessions),
            ("nodes deleted by hand", deleted_nodes),
            ("nodes touched by hand", touched_nodes),
            ("checks without a signal", rechecks),
        ];
        let explored = faults.iter().filter(|(_, times)| *times > 0);
        let limits: String = explored.map(|(fault, times)| format!(", {fault} ≤ {times}")).collect();
        let readers = if self.readers == 0 { String::new() } else { format!(", {} readers", self.readers) };
        let s = if self.writers == 1 { "" } else { "s" };
        format!("{} writer{s}{readers}{limits}", self.writers)
    }

    fn initial_state(&self) -> State {
        let client = |id| Client { id, is_reader: id >= self.writers, ..Client::default() };
        State {
            ensemble: Ensemble::default(),
            clients: (0..self.writers + self.readers).map(client).collect(),
            faults: Faults::default(),
            last_tokens: [0; 2],
            grants: 0,
            is_out_of_order: false,
        }
    }

    fn enabled_actions(&self, state: &State, actions: &mut Vec<Action>) {
        for client in 0..state.clients.len() {
            self.client_actions(state, client, actions);
        }
        let nodes = 0..state.ensemble.queue.len();
        if state.faults.deleted_nodes < self.max_faults.deleted_nodes {
            actions.extend(nodes.clone().map(|index| Action::DeleteNode { index }));
        }
        if state.faults.touched_nodes < self.max_faults.touched_nodes {
            actions.extend(nodes.map(|index| Action::TouchNode { index }));
        }
        if state.ensemble.next_sequence.is_some_and(|next| next > 0) && state.ensemble.queue.is_empty() {
            actions.push(Action::DeleteDirectory);
        }
    }

    fn apply(&self, state: &mut State, action: Action) {
        match action {
            Action::Step { client } => self.step(state, client),
            Action::ListStale { client } => self.list_stale(state, client),
            Action::LoseReply { client, applied } => {
                state.faults.lost_replies += 1;
                self.lose_reply(state, client, applied);
            }
            Action::Fail { client } => {
                state.faults.lost_replies += 1;
                self.begin_attempt(&mut state.clients[client]);
                state.clients[client].fail();
                state.clients[client].needs_retry &= self.recipe != Recipe::NoRetry;
            }
            Action::ResolveCreate { client, applied } => state.resolve_create(client, applied),
            Action::Release { client } => state.clients[client].release(),
            Action::Recheck { client } => {
                state.faults.rechecks += 1;
                let this = &mut state.clients[client];
                this.phase = Phase::Check { blocker: this.watch.unwrap_or_default() };
            }
            Action::Expire { client, session } => {
                state.faults.expired_sessions += 1;
                state.expire(client, session);
            }
            Action::LearnExpiry { client } => state.clients[client].start_session(),
            Action::AbandonSession { client } => {
                state.faults.abandoned_sessions += 1;
                state.clients[client].start_session();
            }
            Action::DeleteNode { index } => {
                state.faults.deleted_nodes += 1;
                state.delete_by_hand(index);
            }
            Action::TouchNode { index } => {
                state.faults.touched_nodes += 1;
                state.fire_watches(state.ensemble.queue[index].czxid);
            }
            Action::DeleteDirectory => state.ensemble.next_sequence = None,
        }
    }

    fn properties(&self) -> Vec<Property<ProtocolModel<Self>>> {
        vec![
            Property::always(EXCLUSIVE, |_, state: &State| {
                let holders: Vec<&Client> =
                    state.clients.iter().filter(|client| state.believes(client)).collect();
                holders.len() <= 1 || holders.iter().all(|client| client.is_reader)
            }),
            Property::always(GROWING, |_, state: &State| !state.is_out_of_order),
            Property::always(WOKEN, |_, state: &State| {
                (0..state.ensemble.queue.len()).all(|index| state.is_blocked_or_active(index))
            }),
            Property::always(CLEAN, |_, state: &State| {
                state.clients.iter().all(|client| state.is_clean(client))
            }),
        ]
    }

    fn is_done(&self, state: &State) -> bool {
        usize::from(state.grants) == state.clients.len()
    }
}

impl ZooKeeperQueue {
    fn client_actions(&self, state: &State, client: usize, actions: &mut Vec<Action>) {
        let this = &state.clients[client];
        if let Some(session) = this.pending_create {
            if state.ensemble.has_session(this.id, session) {
                actions.push(Action::ResolveCreate { client, applied: true });
            }
            actions.push(Action::ResolveCreate { client, applied: false });
        }
        self.session_actions(state, client, actions);
        // Also in an expired session: a partitioned client does not know of it.
        if matches!(self.recipe, Recipe::Implemented | Recipe::CountsFromStaleList) && this.may_list_stale() {
            actions.push(Action::ListStale { client });
        }
        if !state.ensemble.has_session(this.id, this.session) || state.must_start_later(this) {
            return;
        }
        if this.phase == Phase::Idle {
            actions.push(Action::Release { client });
            let is_waiting = this.holding_session.is_none() && !this.has_next_step() && this.watch.is_some();
            if is_waiting && state.faults.rechecks < self.max_faults.rechecks {
                actions.push(Action::Recheck { client });
            }
        }
        if !this.has_next_step() || this.pending_create == Some(this.session) {
            return;
        }
        actions.push(Action::Step { client });
        if state.faults.lost_replies < self.max_faults.lost_replies {
            if self.next_request_is_write(this) {
                actions.push(Action::LoseReply { client, applied: true });
                actions.push(Action::LoseReply { client, applied: false });
            } else {
                actions.push(Action::Fail { client });
            }
        }
    }

    fn session_actions(&self, state: &State, client: usize, actions: &mut Vec<Action>) {
        let this = &state.clients[client];
        if this.phase == Phase::NotStarted {
            return;
        }
        for session in 0..=this.session {
            let matters = session == this.session || state.ensemble.has_node_of(this.id, session);
            let may_end = matters && state.ensemble.has_session(this.id, session);
            if may_end && state.faults.expired_sessions < self.max_faults.expired_sessions {
                actions.push(Action::Expire { client, session });
            }
        }
        if !state.ensemble.has_session(this.id, this.session) {
            actions.push(Action::LearnExpiry { client });
        } else if state.faults.abandoned_sessions < self.max_faults.abandoned_sessions
            && this.phase != Phase::Done
        {
            actions.push(Action::AbandonSession { client });
        }
    }
}

impl State {
    /// Symmetry reduction: clients of one kind are interchangeable, and start in the order of their ids.
    fn must_start_later(&self, this: &Client) -> bool {
        let before = self.clients.iter().take(usize::from(this.id));
        this.phase == Phase::NotStarted
            && before
                .filter(|other| other.is_reader == this.is_reader)
                .any(|other| other.phase == Phase::NotStarted)
    }

    /// True if the client believes to hold the lock. A hold whose node was deleted by hand is excluded: no client can notice that at once.
    fn believes(&self, this: &Client) -> bool {
        this.holding_session == Some(this.session)
            && !this.deleted_by_hand
            && self.ensemble.has_session(this.id, this.session)
    }

    /// The property `WOKEN` of one node. A node of an earlier session is excluded: it is deleted with that session.
    fn is_blocked_or_active(&self, index: usize) -> bool {
        let queue = &self.ensemble.queue;
        let this = &self.clients[usize::from(queue[index].client)];
        queue[..index].iter().any(|other| other.conflicts_with(&queue[index]))
            || queue[index].session != this.session
            || this.holding_session.is_some()
            || this.has_next_step()
            || this.phase == Phase::Done
    }

    /// The property `CLEAN` of one client.
    fn is_clean(&self, this: &Client) -> bool {
        this.phase != Phase::Done
            || (this.pending_create != Some(this.session)
                && !self.ensemble.has_node_of(this.id, this.session))
    }

    pub(crate) fn grant(&mut self, client: usize, node: Node, token: u8) {
        let this = &mut self.clients[client];
        (this.holding_session, this.phase) = (Some(this.session), Phase::Idle);
        (this.is_notified, this.needs_retry, this.stale_queue, this.watch) = (false, false, None, None);
        this.own = OwnNode::Known { session: this.session, node: node.czxid };
        let [last_of_writers, last_of_readers] = self.last_tokens;
        self.is_out_of_order |= token <= last_of_writers || (!this.is_reader && token <= last_of_readers);
        let last = &mut self.last_tokens[usize::from(this.is_reader)];
        *last = token.max(*last);
        self.grants += 1;
    }

    pub(crate) fn fire_watches(&mut self, czxid: u8) {
        for this in self.clients.iter_mut().filter(|this| this.watch == Some(czxid)) {
            (this.watch, this.is_notified) = (None, true);
            this.stale_queue = Some(self.ensemble.queue.clone());
        }
    }

    pub(crate) fn delete(&mut self, czxid: u8) {
        self.ensemble.queue.retain(|node| node.czxid != czxid);
        self.fire_watches(czxid);
    }

    fn delete_by_hand(&mut self, index: usize) {
        let node = self.ensemble.queue[index];
        let owner = &mut self.clients[usize::from(node.client)];
        owner.deleted_by_hand |= owner.holding_session.is_some() && owner.node() == Some(node.czxid);
        self.delete(node.czxid);
    }

    fn expire(&mut self, client: usize, session: u8) {
        let this = &mut self.clients[client];
        let id = this.id;
        if this.session == session {
            this.watch = None;
        }
        self.ensemble.end_session(id, session);
        let is_in_session = |node: &&Node| node.client == id && node.session == session;
        let nodes: Vec<u8> =
            self.ensemble.queue.iter().filter(is_in_session).map(|node| node.czxid).collect();
        nodes.into_iter().for_each(|czxid| self.delete(czxid));
    }

    fn resolve_create(&mut self, client: usize, applied: bool) {
        let this = &mut self.clients[client];
        if let Some(session) = this.pending_create.take().filter(|_| applied) {
            self.ensemble.create(this.id, session, this.is_reader);
        }
    }
}
