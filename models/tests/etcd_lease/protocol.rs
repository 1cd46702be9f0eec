//! A holder's belief over a change of leaders, as a state machine. What clients do is that of `backend-etcd/src/recipe.rs` and
//! `connection.rs`, and the loss rule of the core; what members do is that of etcd's `LeaseRenew`, its lessor, and raft.
//!
//! * A leader counts leases in its memory. A new one starts all of them anew when it is elected.
//! * A leader that was stopped, or cut off, goes on in its old term, and extends leases, until it hears of the new one.
//! * A read needs a majority in the term of its leader, after it was sent. So does a commit. Nothing else does.
//! * An entry that is in a log, and not committed, may be dropped by an election, or be committed in the next term.
//! * The term in a header is that of the last entry that the member has applied. That of an extension is filled before the lease is
//!   extended, that of a transaction after it was carried out.
//! * An extension at a member that does not lead, or no more, is forwarded to the leader.
//! * Every message and every step of a member takes as long as it likes. An answer may be lost, and its write come later.
//! * A lease may be ended at any moment from its end on.
//!
//! The holder is one client in every detail. The rival stands for all others: it believes once the record of the cluster says so,
//! and never longer. Each of two clients that believe is the holder of a history, and for one of them the record names another.
//!
//! Left out: watches, because a claim may ask at any moment; readers; a key deleted by hand; the name of a released key used again;
//! a member that restarts; a second key of a claim that has lost the first; a waiter that gives up.

use crate::client::{Holder, Phase, Request, Rival};
use crate::cluster::{Change, Cluster, FIRST, Key, LEASES, MEMBERS, SECOND, TTL};
use leasehold_models::{Explored, Machine};
use stateright::Property;

/// What an answer proves to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recipe {
    /// A call counts by an extension and a linearizable read, whose answers have one term, from before both were sent.
    Ours,
    /// A renewal counts by its extension, without a read.
    BelievesTheExtension,
    /// A call counts by its transaction, without an extension.
    BelievesTheRead,
    /// The terms of the two answers are not compared.
    AnyTerm,
    /// The read is not linearizable: the member answers from what it has applied.
    ReadsOneMember,
    /// An answer counts from when it came.
    CountsFromTheAnswer,
    /// A grant counts also if the extension says that its lease has ended.
    AnyExtension,
    /// A grant counts also if its lease may have ended, by the holder's clock, before the answer came.
    AnyGrant,
    /// A renewal counts also once belief has ended.
    Revives,
    /// After a move without an answer the holder looks, and a key on either lease counts.
    AnyLease,
    /// After a move without an answer the holder looks, and a key on the first lease counts. `Ours` repeats the move.
    LooksAfterAMove,
    /// The key is moved to a lease that may end earlier than the one that it leaves.
    MovesToAnyLease,
}

/// What is explored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Protocol {
    pub(crate) recipe: Recipe,
    pub(crate) ticks: u8,
    /// By how much earlier than the lease belief ends.
    pub(crate) margin: u8,
    /// True if a call may ask two members.
    pub(crate) two_members: bool,
    /// True if a leader that was replaced still ends leases, as before etcd 3.5.13 (issue 15247).
    pub(crate) replaced_revokes: bool,
    pub(crate) at_most: Faults,
}

/// How often each fault may happen, or has happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Faults {
    pub(crate) elections: u8,
    /// Answers that are lost.
    pub(crate) lost: u8,
    /// Keys that are put on another lease.
    pub(crate) moves: u8,
    /// Ticks by which the clock of a leader gains.
    pub(crate) gained: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) time: u8,
    pub(crate) cluster: Cluster,
    pub(crate) holder: Holder,
    pub(crate) rival: Rival,
    pub(crate) faults: Faults,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Tick,
    /// The clock of a leader gains a tick.
    Gain {
        member: usize,
    },
    Elect {
        winner: usize,
        kept: usize,
    },
    /// A member hears of the last term.
    Learn {
        member: usize,
    },
    Commit,
    Apply {
        member: usize,
    },
    /// A leader proposes to end a lease.
    Revoke {
        member: usize,
        lease: usize,
    },
    Call {
        request: Request,
        extended_at: usize,
        asked_at: usize,
    },
    /// The next step of a call's extension, and of its transaction, at the members.
    Extend,
    Answer,
    /// The client has both answers.
    Hear,
    /// The call ends without an answer.
    Abandon,
    /// A write whose answer was lost, and a release, come into the log.
    LateCreate,
    LateMove,
    Release,
    /// Belief ends before the release is sent.
    Leave,
    Rival {
        next: Rival,
    },
}

/// No two clients believe that they hold.
pub(crate) const BELIEF: &str = "belief";
/// The key of a client that believes is the oldest in the record of the cluster.
pub(crate) const RECORDED: &str = "recorded";
/// A leader of a later term renews a hold, which goes on.
pub(crate) const CARRIED_OVER: &str = "carried over";
/// After an election a holder knows of its loss before the next one is granted the lock.
pub(crate) const TOLD: &str = "told";

impl Machine for Protocol {
    type State = State;
    type Action = Action;

    fn bounds(&self) -> String {
        let Faults { elections, lost, moves, gained } = self.at_most;
        let faults = [
            ("elections", elections),
            ("lost answers", lost),
            ("keys moved", moves),
            ("ticks gained by a leader", gained),
        ];
        let explored = faults.iter().filter(|(_, times)| *times > 0);
        let at_most: String = explored.map(|(fault, times)| format!(", {fault} ≤ {times}")).collect();
        let margin =
            if self.margin == 0 { String::new() } else { format!(" and a margin of {}", self.margin) };
        let two = if self.two_members { ", calls to two members" } else { "" };
        let revokes = if self.replaced_revokes { ", replaced leaders end leases" } else { "" };
        format!("leases of {TTL}{margin} in {} ticks{at_most}{two}{revokes}", self.ticks)
    }

    fn begins(&self) -> State {
        let mut ended = [false; LEASES];
        ended[SECOND] = self.at_most.moves == 0;
        let holder = Holder { lives_until: TTL, ..Holder::default() };
        let (cluster, rival, faults) = (Cluster::new(ended), Rival::Absent, Faults::default());
        State { time: 0, cluster, holder, rival, faults }
    }

    fn may_happen(&self, state: &State, actions: &mut Vec<Action>) {
        if state.time < self.ticks && !state.is_over() {
            actions.push(Action::Tick);
        }
        self.actions_of_cluster(state, actions);
        self.actions_of_holder(state, actions);
        actions.extend(state.next_of_rival().iter().map(|next| Action::Rival { next: *next }));
    }

    fn happens(&self, state: &mut State, action: Action) {
        let cluster = &mut state.cluster;
        match action {
            Action::Tick => self.tick(state),
            Action::Gain { member } => {
                state.faults.gained += 1;
                cluster.members[member].left =
                    cluster.members[member].left.map(|left| left.saturating_sub(1));
            }
            Action::Elect { winner, kept } => {
                state.faults.elections += 1;
                cluster.elect(winner, kept);
            }
            Action::Learn { member } => cluster.learn(member),
            Action::Commit => cluster.committed = cluster.next_commit().unwrap_or(cluster.committed),
            Action::Apply { member } => state.apply(member),
            Action::Revoke { lease, .. } => cluster.propose(Change::Revoke { lease }, false),
            Action::Call { request, extended_at, asked_at } => {
                state.faults.moves += u8::from(request == Request::Move && !state.holder.is_moving);
                state.call(request, extended_at, asked_at);
            }
            Action::Extend => state.extend(),
            Action::Answer => self.answer(state),
            Action::Hear => self.hear(state),
            Action::Abandon => {
                state.faults.lost += 1;
                state.abandon();
            }
            Action::LateCreate => state.late_create(),
            Action::LateMove => state.late_move(),
            Action::Release => state.release(),
            Action::Leave => state.leave(),
            Action::Rival { next } => state.step_of_rival(next),
        }
        self.normalize(state);
    }

    fn promises(&self) -> Vec<Property<Explored<Self>>> {
        let mut promises = vec![
            Property::always(BELIEF, |_, state: &State| {
                !state.holder.believes(state.time) || state.rival != Rival::Holding
            }),
            Property::always(RECORDED, |_, state: &State| {
                !state.holder.believes(state.time) || matches!(state.first(), Some(Key::Holder { .. }))
            }),
        ];
        if self.at_most.elections > 0 {
            promises.push(Property::sometimes(CARRIED_OVER, |_, state: &State| {
                state.holder.is_carried_over && state.holder.believes(state.time)
            }));
            promises.push(Property::sometimes(TOLD, |_, state: &State| {
                state.cluster.term > 1 && state.holder.phase == Phase::Lost && state.rival == Rival::Holding
            }));
        }
        promises
    }

    fn is_done(&self, state: &State) -> bool {
        state.holder.granted_in > 0 && state.rival == Rival::Gone
    }
}

impl Protocol {
    fn actions_of_cluster(&self, state: &State, actions: &mut Vec<Action>) {
        let cluster = &state.cluster;
        if cluster.next_commit().is_some() {
            actions.push(Action::Commit);
        }
        for (member, this) in cluster.members.iter().enumerate() {
            if state.faults.elections < self.at_most.elections && !state.is_over() {
                let kept = cluster.least_kept(member)..=cluster.log.len() - cluster.committed;
                actions.extend(kept.map(|kept| Action::Elect { winner: member, kept }));
            }
            if this.term < cluster.term {
                actions.push(Action::Learn { member });
            }
            if cluster.may_apply(member) {
                actions.push(Action::Apply { member });
            }
            if this.leads && !state.is_over() && state.faults.gained < self.at_most.gained {
                actions.push(Action::Gain { member });
            }
            if this.term == cluster.term || self.replaced_revokes {
                let leases = (0..LEASES).filter(|lease| cluster.may_revoke(member, *lease));
                actions.extend(leases.map(|lease| Action::Revoke { member, lease }));
            }
        }
    }

    fn actions_of_holder(&self, state: &State, actions: &mut Vec<Action>) {
        let this = &state.holder;
        for (is_late, action) in [
            (this.late_create, Action::LateCreate),
            (this.late_move, Action::LateMove),
            (this.late_release, Action::Release),
        ] {
            if is_late {
                actions.push(action);
            }
        }
        if this.believes(state.time) {
            actions.push(Action::Leave);
        }
        if this.call.is_none() {
            return self.calls_of(state, actions);
        }
        if state.may_extend() {
            actions.push(Action::Extend);
        }
        if self.may_answer(state) {
            actions.push(Action::Answer);
        }
        if self.may_hear(state) {
            actions.push(Action::Hear);
        }
        if state.faults.lost < self.at_most.lost {
            actions.push(Action::Abandon);
        }
    }

    fn calls_of(&self, state: &State, actions: &mut Vec<Action>) {
        let this = &state.holder;
        let repeats = !matches!(self.recipe, Recipe::AnyLease | Recipe::LooksAfterAMove);
        let next = this.next_request();
        let next = next.map(|next| if this.is_moving && repeats { Request::Move } else { next });
        let requests = next.into_iter().chain(self.may_move(state).then_some(Request::Move));
        for request in requests {
            for asked_at in 0..MEMBERS {
                let members = if self.two_members { 0..MEMBERS } else { asked_at..asked_at + 1 };
                let call = |extended_at| Action::Call { request, extended_at, asked_at };
                actions.extend(members.map(call));
            }
        }
    }

    /// A key is moved to a lease that lives at least as long, by the holder's clock, as the one that it leaves.
    fn may_move(&self, state: &State) -> bool {
        let this = &state.holder;
        let lives = match self.recipe {
            Recipe::MovesToAnyLease => TTL > state.time,
            _ => TTL - self.margin >= this.lives_until,
        };
        let is_explored = state.faults.moves < self.at_most.moves && !this.is_moving;
        is_explored && lives && this.believes(state.time) && this.lease == FIRST
    }
}
