//! Leases and keys of etcd as a state machine, while the leader changes. The clients implement `backend-etcd/src/recipe.rs`,
//! `Connection::prove`, and the loss rule of the core; the members implement etcd's `LeaseRenew`, its lessor, and raft.
//!
//! * A leader counts leases in memory. A new leader restarts all of them when it is elected.
//! * A leader that was paused or partitioned stays in its old term, and extends leases, until it learns the new term.
//! * A linearizable read, and a commit, need a majority in the term of the leader after they were sent. Nothing else does.
//! * An uncommitted entry of the log may be dropped by an election, or be committed in the next term.
//! * The term in a response header is that of the last entry which the member has applied. The header of an extension is filled
//!   before the lease is extended, and that of a transaction after it was executed.
//! * A member that does not lead forwards an extension to the leader.
//! * Every message, and every step of a member, may be delayed without limit. An answer may be lost, and its write executed later.
//! * A lease may be revoked at any moment after its end.
//!
//! The holder is one client, modelled in detail. The competitor stands for all other clients: it holds only while its key is the oldest
//! in the committed store. This covers every pair of holders: the store names only one of them, and the other one is the holder here.
//!
//! Not modelled: watches, because a claim may read at any moment; readers; keys deleted by hand; a released name that is used again;
//! a member that restarts; a second key of a claim that has lost its first; a waiter that gives up.

use crate::client::{Competitor, Holder, Phase, Request};
use crate::cluster::{Change, Cluster, FIRST, Key, LEASES, MEMBERS, SECOND, TTL};
use leasehold_models::{Protocol, ProtocolModel};
use stateright::Property;

/// The rules by which a client concludes from answers that it holds the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recipe {
    /// As implemented: a call proves the hold if its lease is extended, and a linearizable transaction in the same term shows the key. The
    /// hold counts from before both were sent.
    Implemented,
    /// A renewal needs only its extension.
    ExtensionOnly,
    /// A call needs only its transaction.
    TransactionOnly,
    /// The terms of the two answers are not compared.
    IgnoresTerms,
    /// A member answers a read from its own store, without asking a majority.
    NonLinearizableRead,
    /// A hold counts from the arrival of the answers.
    CountsFromAnswer,
    /// A call counts although its extension answers that the lease has ended.
    IgnoresExtensionResult,
    /// A grant counts although its lease may have ended, by the holder's clock, before the answers arrived.
    GrantsAfterLeaseEnd,
    /// A renewal counts although belief has ended.
    RenewsAfterBeliefEnd,
    /// After a move without an answer the holder reads its key, and accepts it on either lease.
    AcceptsAnyLease,
    /// After a move without an answer the holder reads its key, and accepts it on the first lease. `Implemented` repeats the move.
    ReadsAfterMove,
    /// The key is moved to a lease that may end earlier than its present one.
    MovesToShorterLease,
}

/// The variant to explore, and its bounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EtcdLease {
    pub(crate) recipe: Recipe,
    pub(crate) ticks: u8,
    /// Belief ends this many ticks before the lease.
    pub(crate) margin: u8,
    /// True if a call may send its extension and its transaction to different members.
    pub(crate) two_members: bool,
    /// True if a replaced leader still revokes leases, as before etcd 3.5.13 (issue 15247).
    pub(crate) replaced_leaders_revoke: bool,
    pub(crate) max_faults: Faults,
}

/// How often each fault may occur, or has occurred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Faults {
    pub(crate) elections: u8,
    pub(crate) lost_answers: u8,
    /// Keys that are moved to another lease; this is no fault, but bounded like one.
    pub(crate) moved_keys: u8,
    /// Ticks by which the clock of a leader runs ahead.
    pub(crate) gained_ticks: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) time: u8,
    pub(crate) cluster: Cluster,
    pub(crate) holder: Holder,
    pub(crate) competitor: Competitor,
    pub(crate) faults: Faults,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Tick,
    /// The clock of a leader runs ahead by a tick.
    GainTick {
        member: usize,
    },
    Elect {
        winner: usize,
        kept_entries: usize,
    },
    /// A member learns the current term.
    LearnTerm {
        member: usize,
    },
    Commit,
    Apply {
        member: usize,
    },
    /// A leader proposes the revocation of a lease.
    Revoke {
        member: usize,
        lease: usize,
    },
    SendCall {
        request: Request,
        extension_member: usize,
        transaction_member: usize,
    },
    /// The extension or the transaction of the call makes its next step at its member.
    AdvanceExtension,
    AdvanceTransaction,
    /// The holder receives the answers.
    CompleteCall,
    /// The call ends without its answers.
    AbandonCall,
    /// A write of an abandoned call, or the release, is proposed.
    LateCreate,
    LateMove,
    LateRelease,
    /// Belief ends before the release is sent.
    SendRelease,
    Competitor {
        next: Competitor,
    },
}

/// The holder and the competitor never believe to hold the lock at the same time.
pub(crate) const BELIEF: &str = "belief";
/// While the holder believes to hold the lock, its key is the oldest one in the committed store.
pub(crate) const RECORDED: &str = "recorded";
/// Reachable: the hold is renewed by a leader of a later term than the one that granted it.
pub(crate) const CARRIED_OVER: &str = "carried over";
/// Reachable: after an election the holder knows of its loss, and the competitor holds the lock.
pub(crate) const LOSS_KNOWN: &str = "loss known";

impl Protocol for EtcdLease {
    type State = State;
    type Action = Action;

    fn bounds(&self) -> String {
        let Faults { elections, lost_answers, moved_keys, gained_ticks } = self.max_faults;
        let faults = [
            ("elections", elections),
            ("lost answers", lost_answers),
            ("keys moved", moved_keys),
            ("ticks gained by a leader", gained_ticks),
        ];
        let explored = faults.iter().filter(|(_, times)| *times > 0);
        let limits: String = explored.map(|(fault, times)| format!(", {fault} ≤ {times}")).collect();
        let margin =
            if self.margin == 0 { String::new() } else { format!(" and a margin of {}", self.margin) };
        let two = if self.two_members { ", calls to two members" } else { "" };
        let revokes = if self.replaced_leaders_revoke { ", replaced leaders end leases" } else { "" };
        format!("leases of {TTL}{margin} in {} ticks{limits}{two}{revokes}", self.ticks)
    }

    fn initial_state(&self) -> State {
        let mut ended = [false; LEASES];
        ended[SECOND] = self.max_faults.moved_keys == 0;
        let holder = Holder { lease_valid_until: TTL, ..Holder::default() };
        let (cluster, competitor, faults) = (Cluster::new(ended), Competitor::Idle, Faults::default());
        State { time: 0, cluster, holder, competitor, faults }
    }

    fn enabled_actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.time < self.ticks && !state.holder_has_ended() {
            actions.push(Action::Tick);
        }
        self.cluster_actions(state, actions);
        self.holder_actions(state, actions);
        actions.extend(state.competitor_steps().iter().map(|next| Action::Competitor { next: *next }));
    }

    fn apply(&self, state: &mut State, action: Action) {
        let cluster = &mut state.cluster;
        match action {
            Action::Tick => self.tick(state),
            Action::GainTick { member } => {
                state.faults.gained_ticks += 1;
                cluster.members[member].remaining =
                    cluster.members[member].remaining.map(|remaining| remaining.saturating_sub(1));
            }
            Action::Elect { winner, kept_entries } => {
                state.faults.elections += 1;
                cluster.elect(winner, kept_entries);
            }
            Action::LearnTerm { member } => cluster.learn_term(member),
            Action::Commit => cluster.committed = cluster.next_commit().unwrap_or(cluster.committed),
            Action::Apply { member } => state.apply(member),
            Action::Revoke { lease, .. } => cluster.propose(Change::Revoke { lease }, false),
            Action::SendCall { request, extension_member, transaction_member } => {
                state.faults.moved_keys += u8::from(request == Request::Move && !state.holder.is_moving);
                state.send_call(request, extension_member, transaction_member);
            }
            Action::AdvanceExtension => state.advance_extension(),
            Action::AdvanceTransaction => self.advance_transaction(state),
            Action::CompleteCall => self.complete_call(state),
            Action::AbandonCall => {
                state.faults.lost_answers += 1;
                state.abandon_call();
            }
            Action::LateCreate => state.late_create(),
            Action::LateMove => state.late_move(),
            Action::LateRelease => state.late_release(),
            Action::SendRelease => state.send_release(),
            Action::Competitor { next } => state.apply_competitor_step(next),
        }
        self.normalize(state);
    }

    fn properties(&self) -> Vec<Property<ProtocolModel<Self>>> {
        let mut properties = vec![
            Property::always(BELIEF, |_, state: &State| {
                !state.holder.believes(state.time) || state.competitor != Competitor::Holding
            }),
            Property::always(RECORDED, |_, state: &State| {
                !state.holder.believes(state.time) || matches!(state.oldest_key(), Some(Key::Holder { .. }))
            }),
        ];
        if self.max_faults.elections > 0 {
            properties.push(Property::sometimes(CARRIED_OVER, |_, state: &State| {
                state.holder.is_carried_over && state.holder.believes(state.time)
            }));
            properties.push(Property::sometimes(LOSS_KNOWN, |_, state: &State| {
                state.cluster.term > 1
                    && state.holder.phase == Phase::Lost
                    && state.competitor == Competitor::Holding
            }));
        }
        properties
    }

    fn is_done(&self, state: &State) -> bool {
        state.holder.granted_term > 0 && state.competitor == Competitor::Done
    }
}

impl EtcdLease {
    fn cluster_actions(&self, state: &State, actions: &mut Vec<Action>) {
        let cluster = &state.cluster;
        if cluster.next_commit().is_some() {
            actions.push(Action::Commit);
        }
        for (member, this) in cluster.members.iter().enumerate() {
            if state.faults.elections < self.max_faults.elections && !state.holder_has_ended() {
                let kept_entries = cluster.min_kept_entries(member)..=cluster.log.len() - cluster.committed;
                actions
                    .extend(kept_entries.map(|kept_entries| Action::Elect { winner: member, kept_entries }));
            }
            if this.term < cluster.term {
                actions.push(Action::LearnTerm { member });
            }
            if cluster.may_apply(member) {
                actions.push(Action::Apply { member });
            }
            if this.leads
                && !state.holder_has_ended()
                && state.faults.gained_ticks < self.max_faults.gained_ticks
            {
                actions.push(Action::GainTick { member });
            }
            if this.term == cluster.term || self.replaced_leaders_revoke {
                let leases = (0..LEASES).filter(|lease| cluster.may_revoke(member, *lease));
                actions.extend(leases.map(|lease| Action::Revoke { member, lease }));
            }
        }
    }

    fn holder_actions(&self, state: &State, actions: &mut Vec<Action>) {
        let this = &state.holder;
        for (is_late, action) in [
            (this.late_create, Action::LateCreate),
            (this.late_move, Action::LateMove),
            (this.late_release, Action::LateRelease),
        ] {
            if is_late {
                actions.push(action);
            }
        }
        if this.believes(state.time) {
            actions.push(Action::SendRelease);
        }
        if this.call.is_none() {
            return self.call_actions(state, actions);
        }
        if state.may_advance_extension() {
            actions.push(Action::AdvanceExtension);
        }
        if self.may_advance_transaction(state) {
            actions.push(Action::AdvanceTransaction);
        }
        if self.may_complete_call(state) {
            actions.push(Action::CompleteCall);
        }
        if state.faults.lost_answers < self.max_faults.lost_answers {
            actions.push(Action::AbandonCall);
        }
    }

    fn call_actions(&self, state: &State, actions: &mut Vec<Action>) {
        let this = &state.holder;
        let repeats = !matches!(self.recipe, Recipe::AcceptsAnyLease | Recipe::ReadsAfterMove);
        let next = this.next_request();
        let next = next.map(|next| if this.is_moving && repeats { Request::Move } else { next });
        let requests = next.into_iter().chain(self.may_move(state).then_some(Request::Move));
        for request in requests {
            for transaction_member in 0..MEMBERS {
                let members =
                    if self.two_members { 0..MEMBERS } else { transaction_member..transaction_member + 1 };
                let call =
                    |extension_member| Action::SendCall { request, extension_member, transaction_member };
                actions.extend(members.map(call));
            }
        }
    }

    /// Invariant: by the holder's clock, the new lease lasts at least as long as the present one.
    fn may_move(&self, state: &State) -> bool {
        let this = &state.holder;
        let is_long_enough = match self.recipe {
            Recipe::MovesToShorterLease => TTL > state.time,
            _ => TTL - self.margin >= this.lease_valid_until,
        };
        let is_allowed = state.faults.moved_keys < self.max_faults.moved_keys && !this.is_moving;
        is_allowed && is_long_enough && this.believes(state.time) && this.lease == FIRST
    }
}
