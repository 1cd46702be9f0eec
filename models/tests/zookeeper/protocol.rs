//! The recipe and the session as a state machine. Each step is one request of `backend-zk/src/recipe.rs` or `own_node.rs`, carried
//! out by the ensemble in the order of all requests.
//!
//! * A session may end at any moment, with its nodes; its client learns of it at any later one. A client may also give up a
//!   session that the ensemble still has.
//! * The reply to a create or a delete may be lost. The create may then be carried out until the client asks the next thing of
//!   that session, or never: the requests of a session keep their order. Once the session is given up there is no next request, and
//!   the create may be carried out as long as the session lasts.
//! * Any other request may fail, and the attempt with it. It has changed nothing, and the client asks again.
//! * A node may be deleted or written to by hand, and an empty directory deleted, which restarts the numbers.
//! * A client whose watch has fired may list the queue at a server that is behind: as it was when the watch fired. If the session
//!   has ended, belief has ended too: it is counted from a proof before that. A list that shows a blocker changes nothing here.
//! * A waiter asks again if its watch fired or its last attempt failed: nothing rests on the fallback interval. A check of the
//!   blocker without a signal is bounded like a fault. A client may give up, or release, between any two attempts.
//!
//! Connections that break and come back are left out: the library sets the watches of a session again, and the server then tells
//! of what was missed. That is a watch that fires late.

use crate::client::{Client, Own, Phase};
use crate::ensemble::{Ensemble, Node};
use leasehold_models::{Explored, Machine};
use stateright::Property;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recipe {
    Ours,
    /// The number that the server gave to the node is the token.
    NumberAsToken,
    /// Every waiter watches the lowest node, and holds when that goes.
    WatchesTheLowest,
    /// A waiter whose watch has fired holds.
    BelievesTheWatch,
    /// A waiter reads whether the blocker exists, and sets the watch afterwards.
    WatchesAfterTheRead,
    /// A second node is created after a lost reply, and the first one is never recognised.
    CreatesAgain,
    /// Any node of the owner counts, of whichever session.
    AdoptsAnyNode,
    /// A hold is counted from a list of a server that is behind.
    CountsFromTheList,
    /// A failed attempt is not repeated.
    ForgetsAFailure,
    /// A writer depends on the nearest writer in front.
    WriterIgnoresReaders,
    /// A reader depends on the first node only.
    ReaderPassesWriters,
    /// A reader that is blocked watches the node in front.
    ReaderWatchesTheNodeInFront,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Protocol {
    pub(crate) recipe: Recipe,
    /// Each client wants the lock once.
    pub(crate) writers: u8,
    pub(crate) readers: u8,
    pub(crate) at_most: Faults,
}

/// How often each fault may happen, or has happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Faults {
    /// Lost replies and failed requests.
    pub(crate) lost: u8,
    /// Sessions that the ensemble ends.
    pub(crate) expiries: u8,
    /// Sessions that their client gives up.
    pub(crate) given_up: u8,
    /// Nodes deleted by hand.
    pub(crate) deletions: u8,
    /// Nodes written to by hand, which fires their watches.
    pub(crate) touches: u8,
    /// Waiters that check their blocker without a signal.
    pub(crate) rechecks: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) ensemble: Ensemble,
    pub(crate) clients: Vec<Client>,
    pub(crate) faults: Faults,
    /// No part of the protocol: the largest token of a writer and of a reader, the number of grants, and whether a grant had no
    /// larger token than an earlier one that conflicts with it.
    pub(crate) last_tokens: [u8; 2],
    pub(crate) grants: u8,
    pub(crate) is_out_of_order: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// The next request of a client, and its reply.
    Step {
        client: usize,
    },
    /// The same, and the list comes from a server that is behind.
    ListBehind {
        client: usize,
    },
    /// The reply to the next request is lost. A create may still be carried out; a delete is, or is not.
    LoseReply {
        client: usize,
        applied: bool,
    },
    /// The next request fails, and has changed nothing.
    Fail {
        client: usize,
    },
    /// A create whose reply was lost is carried out, or never will be.
    Settle {
        client: usize,
        applied: bool,
    },
    /// Gives up waiting, or releases.
    Leave {
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
    /// A client learns that its session has ended.
    Learn {
        client: usize,
    },
    GiveUpSession {
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

/// No two clients believe in holds that conflict.
pub(crate) const EXCLUSIVE: &str = "exclusive";
/// Every token is larger than those of earlier grants that conflict.
pub(crate) const GROWING: &str = "growing";
/// A contender without a blocker holds, or has something to do.
pub(crate) const WOKEN: &str = "woken";
/// A client that has left has no node, and no request that could make one, in its present session.
pub(crate) const CLEAN: &str = "clean";

impl Machine for Protocol {
    type State = State;
    type Action = Action;

    fn bounds(&self) -> String {
        let Faults { lost, expiries, given_up, deletions, touches, rechecks } = self.at_most;
        let faults = [
            ("lost replies", lost),
            ("sessions ended", expiries),
            ("sessions given up", given_up),
            ("nodes deleted by hand", deletions),
            ("nodes touched by hand", touches),
            ("checks without a signal", rechecks),
        ];
        let explored = faults.iter().filter(|(_, times)| *times > 0);
        let at_most: String = explored.map(|(fault, times)| format!(", {fault} ≤ {times}")).collect();
        let readers = if self.readers == 0 { String::new() } else { format!(", {} readers", self.readers) };
        let s = if self.writers == 1 { "" } else { "s" };
        format!("{} writer{s}{readers}{at_most}", self.writers)
    }

    fn begins(&self) -> State {
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

    fn may_happen(&self, state: &State, actions: &mut Vec<Action>) {
        for client in 0..state.clients.len() {
            self.actions_of(state, client, actions);
        }
        let nodes = 0..state.ensemble.queue.len();
        if state.faults.deletions < self.at_most.deletions {
            actions.extend(nodes.clone().map(|index| Action::DeleteNode { index }));
        }
        if state.faults.touches < self.at_most.touches {
            actions.extend(nodes.map(|index| Action::TouchNode { index }));
        }
        if state.ensemble.next_number.is_some_and(|next| next > 0) && state.ensemble.queue.is_empty() {
            actions.push(Action::DeleteDirectory);
        }
    }

    fn happens(&self, state: &mut State, action: Action) {
        match action {
            Action::Step { client } => self.step(state, client),
            Action::ListBehind { client } => self.list_behind(state, client),
            Action::LoseReply { client, applied } => {
                state.faults.lost += 1;
                self.lose_reply(state, client, applied);
            }
            Action::Fail { client } => {
                state.faults.lost += 1;
                self.begin_attempt(&mut state.clients[client]);
                state.clients[client].fail();
                state.clients[client].retries &= self.recipe != Recipe::ForgetsAFailure;
            }
            Action::Settle { client, applied } => state.settle(client, applied),
            Action::Leave { client } => state.clients[client].leave(),
            Action::Recheck { client } => {
                state.faults.rechecks += 1;
                let this = &mut state.clients[client];
                this.phase = Phase::Check { blocker: this.watch.unwrap_or_default() };
            }
            Action::Expire { client, session } => {
                state.faults.expiries += 1;
                state.expire(client, session);
            }
            Action::Learn { client } => state.clients[client].begin_session(),
            Action::GiveUpSession { client } => {
                state.faults.given_up += 1;
                state.clients[client].begin_session();
            }
            Action::DeleteNode { index } => {
                state.faults.deletions += 1;
                state.delete_by_hand(index);
            }
            Action::TouchNode { index } => {
                state.faults.touches += 1;
                state.fire(state.ensemble.queue[index].made);
            }
            Action::DeleteDirectory => state.ensemble.next_number = None,
        }
    }

    fn promises(&self) -> Vec<Property<Explored<Self>>> {
        vec![
            Property::always(EXCLUSIVE, |_, state: &State| {
                let holders: Vec<&Client> =
                    state.clients.iter().filter(|client| state.believes(client)).collect();
                holders.len() <= 1 || holders.iter().all(|client| client.is_reader)
            }),
            Property::always(GROWING, |_, state: &State| !state.is_out_of_order),
            Property::always(WOKEN, |_, state: &State| {
                (0..state.ensemble.queue.len()).all(|index| state.is_awake(index))
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

impl Protocol {
    fn actions_of(&self, state: &State, client: usize, actions: &mut Vec<Action>) {
        let this = &state.clients[client];
        if let Some(session) = this.open_create {
            if state.ensemble.has_session(this.id, session) {
                actions.push(Action::Settle { client, applied: true });
            }
            actions.push(Action::Settle { client, applied: false });
        }
        self.ends_of_sessions(state, client, actions);
        // Also in a session that has ended: a client that is cut off does not know.
        if matches!(self.recipe, Recipe::Ours | Recipe::CountsFromTheList) && this.may_list_behind() {
            actions.push(Action::ListBehind { client });
        }
        if !state.ensemble.has_session(this.id, this.session) || state.comes_too_early(this) {
            return;
        }
        if this.phase == Phase::Rest {
            actions.push(Action::Leave { client });
            let waits = this.holds_by.is_none() && !this.has_step() && this.watch.is_some();
            if waits && state.faults.rechecks < self.at_most.rechecks {
                actions.push(Action::Recheck { client });
            }
        }
        if !this.has_step() || this.open_create == Some(this.session) {
            return;
        }
        actions.push(Action::Step { client });
        if state.faults.lost < self.at_most.lost {
            if self.next_is_write(this) {
                actions.push(Action::LoseReply { client, applied: true });
                actions.push(Action::LoseReply { client, applied: false });
            } else {
                actions.push(Action::Fail { client });
            }
        }
    }

    fn ends_of_sessions(&self, state: &State, client: usize, actions: &mut Vec<Action>) {
        let this = &state.clients[client];
        if this.phase == Phase::Absent {
            return;
        }
        for session in 0..=this.session {
            let matters = session == this.session || state.ensemble.has_node_of(this.id, session);
            let may_end = matters && state.ensemble.has_session(this.id, session);
            if may_end && state.faults.expiries < self.at_most.expiries {
                actions.push(Action::Expire { client, session });
            }
        }
        if !state.ensemble.has_session(this.id, this.session) {
            actions.push(Action::Learn { client });
        } else if state.faults.given_up < self.at_most.given_up && this.phase != Phase::Gone {
            actions.push(Action::GiveUpSession { client });
        }
    }
}

impl State {
    /// Clients of one kind are alike, so they may as well come in one order.
    fn comes_too_early(&self, this: &Client) -> bool {
        let before = self.clients.iter().take(usize::from(this.id));
        this.phase == Phase::Absent
            && before
                .filter(|other| other.is_reader == this.is_reader)
                .any(|other| other.phase == Phase::Absent)
    }

    /// True if it believes that it holds. A deletion of its node by hand could not have been told yet.
    fn believes(&self, this: &Client) -> bool {
        this.holds_by == Some(this.session)
            && !this.deleted_by_hand
            && self.ensemble.has_session(this.id, this.session)
    }

    /// True of a contender that has a blocker, holds, or has something to do. A node of an earlier session ends with that session.
    fn is_awake(&self, index: usize) -> bool {
        let queue = &self.ensemble.queue;
        let this = &self.clients[usize::from(queue[index].client)];
        queue[..index].iter().any(|other| other.conflicts_with(&queue[index]))
            || queue[index].session != this.session
            || this.holds_by.is_some()
            || this.has_step()
            || this.phase == Phase::Gone
    }

    fn is_clean(&self, this: &Client) -> bool {
        this.phase != Phase::Gone
            || (this.open_create != Some(this.session) && !self.ensemble.has_node_of(this.id, this.session))
    }

    pub(crate) fn grant(&mut self, client: usize, node: Node, token: u8) {
        let this = &mut self.clients[client];
        (this.holds_by, this.phase) = (Some(this.session), Phase::Rest);
        (this.is_told, this.retries, this.old_queue, this.watch) = (false, false, None, None);
        this.own = Own::Known { session: this.session, node: node.made };
        let [of_writers, of_readers] = self.last_tokens;
        self.is_out_of_order |= token <= of_writers || (!this.is_reader && token <= of_readers);
        let last = &mut self.last_tokens[usize::from(this.is_reader)];
        *last = token.max(*last);
        self.grants += 1;
    }

    /// Fires the watches of a node.
    pub(crate) fn fire(&mut self, made: u8) {
        for this in self.clients.iter_mut().filter(|this| this.watch == Some(made)) {
            (this.watch, this.is_told) = (None, true);
            this.old_queue = Some(self.ensemble.queue.clone());
        }
    }

    pub(crate) fn delete(&mut self, made: u8) {
        self.ensemble.queue.retain(|node| node.made != made);
        self.fire(made);
    }

    fn delete_by_hand(&mut self, index: usize) {
        let node = self.ensemble.queue[index];
        let owner = &mut self.clients[usize::from(node.client)];
        owner.deleted_by_hand |= owner.holds_by.is_some() && owner.node() == Some(node.made);
        self.delete(node.made);
    }

    fn expire(&mut self, client: usize, session: u8) {
        let this = &mut self.clients[client];
        let id = this.id;
        if this.session == session {
            this.watch = None;
        }
        self.ensemble.end_session(id, session);
        let ends = |node: &&Node| node.client == id && node.session == session;
        let nodes: Vec<u8> = self.ensemble.queue.iter().filter(ends).map(|node| node.made).collect();
        nodes.into_iter().for_each(|made| self.delete(made));
    }

    /// A create whose reply was lost is carried out, or never will be.
    fn settle(&mut self, client: usize, applied: bool) {
        let this = &mut self.clients[client];
        if let Some(session) = this.open_create.take().filter(|_| applied) {
            self.ensemble.create(this.id, session, this.is_reader);
        }
    }
}
