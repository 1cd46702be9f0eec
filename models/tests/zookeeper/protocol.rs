//! The recipe and the session as a state machine. What is done is that of `backend-zk/src/recipe/`: each step here is one
//! request, carried out by the ensemble in the order of all requests.
//!
//! * A session may end at any moment, with its nodes; its client learns of it at any later one. A client may also give
//!   its session up while the ensemble still has it.
//! * The reply to a create or a delete may be lost with the connection. A create may then be carried out at any moment
//!   until the client asks the next thing of that session, or never: the requests of a session are carried out in their
//!   order. In a session that was given up there is no next thing, and it may be carried out as long as that lasts.
//! * Any other request may fail, and the attempt with it. It has changed nothing, and the client asks again.
//! * Anybody may delete a node by hand, or the directory when it is empty, which begins the numbers anew.
//! * Who was told that the node in front is gone may list the line at a server that is behind: as it was when that node
//!   went, or as it is. Of a session that is over by then, belief is over too: it is counted from before the wait. The
//!   step looks no further than to what it knows for certain, its own node in front of all others; else it is as if it
//!   had not been made.
//! * Who waits asks again if it was told to, or if its last attempt failed: nothing here rests on the fallback. How often one
//!   asks without news is bounded like a fault. A client may give up, or release, between any two attempts.
//! * The clients of a process have one session, and all of them learn at once that it is over. Whoever stands behind another
//!   of its process hears of that one as in [`follower`](crate::follower).
//!
//! Connections that break and come back are left out: the library sets a session's watches again, and what was missed
//! is told then, which is no more than a watch that fires late.

use crate::client::Client;
use crate::ensemble::{Ensemble, Node};
use leasehold_models::{Explored, Machine};
use stateright::Property;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recipe {
    /// As in this library.
    Ours,
    /// The number that the server gave to the node is the token.
    NumberAsToken,
    /// Everybody watches the lowest node, and holds when that goes.
    WatchesTheLowest,
    /// The predecessor is watched, and who stood behind it holds when it goes.
    BelievesTheWatch,
    /// Reads that the predecessor is there, and sets the watch afterwards.
    WatchesAfterTheRead,
    /// Stands in line once more after a lost reply; knows its node by the reply alone.
    StandsAgain,
    /// Takes any node of its owner for its own.
    AdoptsAnyNode,
    /// Counts a hold from the look at a server that is behind, and not from before the wait.
    CountsFromTheLook,
    /// Whoever leaves hands over to the one of its process that stands behind it, held or not.
    HandsOverUnheld,
    /// Whoever leaves without having held tells nobody of its process.
    LeavesWithoutAWord,
    /// Who is told by another of its process listens to nothing, and that one does not look after it.
    DoesNotWatchItself,
    /// Who comes to follow one that leaves relies on that one to have looked.
    ReliesOnWhoLeaves,
    /// Takes a word for any of its nodes for one of this.
    BelievesAnyWord,
    /// Was told to look, and waits on to be told when its attempt has failed.
    ForgetsThatItWasTold,
    /// Who is about to listen, by what the holder before has asked for, counts as one that listens.
    TrustsWhatWasAsked,
    /// The holder before has asked for the next one to listen, so it is to tell that one too.
    LeavesItToWhoHasAsked,
    /// The next number is that of the one behind, though its directory may be another.
    CountsAcrossDirectories,
    /// May be relied on at the end of each attempt, though it has heard something since it has looked.
    LeadsBeforeItHasLooked,
    /// Tells nobody what it has heard of its own node before it was known to listen to that.
    KeepsToItselfWhatCameEarly,
    /// Begins to listen anew with each request of a look, and forgets what it has heard since the one before.
    ForgetsWhatItHeardMeanwhile,
    /// Waits on when a look at the node in front has failed that was made without news.
    RestsAfterALookThatFailed,
    /// Watches the node in front when it finds its own one gone, to which it was to listen.
    WaitsWithoutANode,
}

/// What is explored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Protocol {
    pub(crate) recipe: Recipe,
    /// Each wants the lock once.
    pub(crate) clients: u8,
    /// How many of them, from the first on, are of one process. Each of the others has one of its own.
    pub(crate) of_one_process: u8,
    /// True if those come first, one after the other, and the others behind them.
    pub(crate) come_first: bool,
    /// How often each of these may happen, in all.
    pub(crate) at_most: Faults,
}

/// What goes wrong, and how often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Faults {
    /// Replies that are lost, and requests that fail.
    pub(crate) lost: u8,
    /// Sessions that the ensemble ends.
    pub(crate) expiries: u8,
    /// Sessions that their client gives up.
    pub(crate) given_up: u8,
    /// Nodes that are deleted by hand.
    pub(crate) deletions: u8,
    /// Nodes that are written to by hand, which fires their watches.
    pub(crate) touches: u8,
    /// Waiters that ask again without news.
    pub(crate) unasked: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) ensemble: Ensemble,
    pub(crate) clients: Vec<Client>,
    /// The node of who came last of the one process, and has not left.
    pub(crate) last: Option<Node>,
    pub(crate) faults: Faults,
    /// Not of the protocol, but to judge it: the largest token so far, how many were granted, and whether one was no larger
    /// than those before it.
    pub(crate) last_token: u8,
    pub(crate) grants: u8,
    pub(crate) out_of_order: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// The next request of a client, and its reply.
    Step {
        client: usize,
    },
    /// Lists the line at a server that is behind.
    LookBehind {
        client: usize,
    },
    /// The next request of a client is carried out, and its reply is lost.
    Lose {
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
    /// Gives up waiting, or gives the lock back.
    Leave {
        client: usize,
    },
    /// Asks again, though it was told nothing.
    Ask {
        client: usize,
        ahead: bool,
    },
    Expire {
        process: u8,
        session: u8,
    },
    /// The clients of a process are told that its session is over.
    Learn {
        process: u8,
    },
    GiveUpSession {
        process: u8,
    },
    Delete {
        place: usize,
    },
    Touch {
        place: usize,
    },
    DeleteDirectory,
}

/// At most one client believes that it holds, of those whom no word could have reached that says otherwise.
pub(crate) const EXCLUSIVE: &str = "exclusive";
/// Every token is larger than all that were granted before it.
pub(crate) const GROWING: &str = "growing";
/// Who has come to stand first holds, or has something to do, or was told to look.
pub(crate) const WOKEN: &str = "woken";
/// Who has heard that its node is gone has something to do, until it stands in line again.
pub(crate) const PLACED: &str = "placed";
/// Who has left has no node, and no request that could make one, in the session that it keeps.
pub(crate) const CLEAN: &str = "clean";

impl Machine for Protocol {
    type State = State;
    type Action = Action;

    fn bounds(&self) -> String {
        let Faults { lost, expiries, given_up, deletions, touches, unasked } = self.at_most;
        let faults = [
            ("lost replies", lost),
            ("sessions ended", expiries),
            ("sessions given up", given_up),
            ("nodes deleted by hand", deletions),
            ("nodes touched by hand", touches),
            ("asked without news", unasked),
        ];
        let explored = faults.iter().filter(|(_, times)| *times > 0);
        let at_most: String = explored.map(|(fault, times)| format!(", {fault} ≤ {times}")).collect();
        let of_one = match self.of_one_process {
            0 => String::new(),
            all if all == self.clients => " of one process".to_owned(),
            some => format!(", {some} of one process"),
        };
        let first = if self.come_first { " in front" } else { "" };
        format!("{} clients{of_one}{first}{at_most}", self.clients)
    }

    fn begins(&self) -> State {
        let process = |id| if id < self.of_one_process { 0 } else { id };
        let client = |id| Client { id, process: process(id), ..Client::default() };
        State {
            ensemble: Ensemble::default(),
            clients: (0..self.clients).map(client).collect(),
            last: None,
            faults: Faults::default(),
            last_token: 0,
            grants: 0,
            out_of_order: false,
        }
    }

    fn may_happen(&self, state: &State, actions: &mut Vec<Action>) {
        for client in 0..state.clients.len() {
            self.actions_of(state, client, actions);
        }
        if state.faults.deletions < self.at_most.deletions {
            actions.extend((0..state.ensemble.line.len()).map(|place| Action::Delete { place }));
        }
        if state.faults.touches < self.at_most.touches {
            actions.extend((0..state.ensemble.line.len()).map(|place| Action::Touch { place }));
        }
        if state.ensemble.next_number.is_some_and(|next| next > 0) && state.ensemble.line.is_empty() {
            actions.push(Action::DeleteDirectory);
        }
    }

    fn happens(&self, state: &mut State, action: Action) {
        match action {
            Action::Step { client } => self.step(state, client),
            Action::LookBehind { client } => self.look_behind(state, client),
            Action::Lose { client, applied } => {
                state.faults.lost += 1;
                self.lose(state, client, applied);
            }
            Action::Fail { client } => {
                state.faults.lost += 1;
                self.fail(state, client);
            }
            Action::Settle { client, applied } => state.settle(client, applied),
            Action::Leave { client } => self.leave(state, client),
            Action::Ask { client, ahead } => {
                state.faults.unasked += 1;
                self.ask(state, client, ahead);
            }
            Action::Expire { process, session } => {
                state.faults.expiries += 1;
                state.expire(process, session);
            }
            Action::Learn { process } => self.begin_session(state, process),
            Action::GiveUpSession { process } => {
                state.faults.given_up += 1;
                self.begin_session(state, process);
            }
            Action::Delete { place } => {
                state.faults.deletions += 1;
                state.delete_by_hand(place);
            }
            Action::Touch { place } => {
                state.faults.touches += 1;
                state.fire(state.ensemble.line[place].made);
            }
            Action::DeleteDirectory => state.ensemble.next_number = None,
        }
    }

    fn promises(&self) -> Vec<Property<Explored<Self>>> {
        vec![
            Property::always(EXCLUSIVE, |_, state: &State| {
                (0..state.clients.len()).filter(|client| state.believes(*client)).count() <= 1
            }),
            Property::always(GROWING, |_, state: &State| !state.out_of_order),
            Property::always(WOKEN, |_, state: &State| state.first_is_awake()),
            Property::always(PLACED, |_, state: &State| {
                (0..state.clients.len()).all(|client| state.goes_on(client))
            }),
            Property::always(CLEAN, |_, state: &State| {
                (0..state.clients.len()).all(|client| state.is_clean(client))
            }),
        ]
    }

    fn is_done(&self, state: &State) -> bool {
        state.grants == self.clients
    }
}
