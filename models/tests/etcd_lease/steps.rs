//! The steps of a call at the members, and the conclusions of the holder from its answers.

use crate::client::{Call, Competitor, ExtensionState, Holder, Phase, Request, TransactionState};
use crate::cluster::{Change, Key, KeyStatus, SECOND, TTL};
use crate::protocol::{EtcdLease, Faults, Recipe, State};

impl State {
    pub(crate) fn send_call(&mut self, request: Request, extension_member: usize, transaction_member: usize) {
        let this = &mut self.holder;
        if this.phase == Phase::Idle {
            this.phase = Phase::Claiming { created: false };
        }
        this.is_moving |= request == Request::Move;
        this.call = Some(Call {
            sent_at: self.time,
            request,
            lease: if request == Request::Move { SECOND } else { this.lease },
            extension_member,
            transaction_member,
            extension: ExtensionState::Sent,
            transaction: TransactionState::Sent { index: self.cluster.committed },
        });
    }

    /// An extension waits while its lease has ended by the leader's clock, but is not revoked yet.
    pub(crate) fn may_advance_extension(&self) -> bool {
        let Some(call) = self.holder.call else { return false };
        match call.extension {
            ExtensionState::Sent => true,
            ExtensionState::Begun { .. } => {
                self.cluster.extending_leader(call.extension_member).is_some_and(|leader| {
                    let leader = &self.cluster.members[leader];
                    leader.store.ended[call.lease] || leader.remaining[call.lease] > 0
                })
            }
            ExtensionState::Answered { .. } => false,
        }
    }

    pub(crate) fn advance_extension(&mut self) {
        let Some(call) = &mut self.holder.call else { return };
        let members = &mut self.cluster.members;
        match call.extension {
            ExtensionState::Sent => {
                call.extension = ExtensionState::Begun { term: members[call.extension_member].store.term };
            }
            ExtensionState::Begun { term } => {
                let Some(leader) = self.cluster.extending_leader(call.extension_member) else { return };
                let leader = &mut self.cluster.members[leader];
                let is_alive = !leader.store.ended[call.lease];
                if is_alive {
                    leader.remaining[call.lease] = TTL;
                }
                call.extension = ExtensionState::Answered { term, is_alive };
            }
            ExtensionState::Answered { .. } => {}
        }
    }

    /// Applies the next entry at a member, which executes the transaction of a pending call there.
    pub(crate) fn apply(&mut self, member: usize) {
        let this = &mut self.cluster.members[member];
        let entry = self.cluster.log[this.applied];
        let status = this.store.apply(entry);
        this.applied += 1;
        let call =
            self.holder.call.as_mut().filter(|call| entry.is_awaited && call.transaction_member == member);
        if let Some(call) = call {
            call.transaction = TransactionState::Executed { status };
        }
    }

    pub(crate) fn abandon_call(&mut self) {
        self.holder.abandon_call();
        self.clear_awaited();
    }

    /// The call has ended: no entry in the log is answered any more.
    fn clear_awaited(&mut self) {
        self.cluster.log.iter_mut().for_each(|entry| entry.is_awaited = false);
    }

    pub(crate) fn late_create(&mut self) {
        self.holder.late_create = false;
        self.cluster.propose(Change::Create, false);
    }

    pub(crate) fn late_move(&mut self) {
        self.holder.late_move = false;
        self.cluster.propose(Change::Move, false);
    }

    pub(crate) fn send_release(&mut self) {
        self.abandon_call();
        let this = &mut self.holder;
        (this.phase, this.late_release) = (Phase::Done, true);
    }

    /// If a create may still be proposed, the lease is revoked, so that the create fails.
    pub(crate) fn late_release(&mut self) {
        let this = &mut self.holder;
        this.late_release = false;
        let change = match this.late_create {
            true => Change::Revoke { lease: this.lease },
            false => Change::Delete,
        };
        self.cluster.propose(change, false);
    }

    /// True once the holder cannot hold the lock any more.
    pub(crate) fn holder_has_ended(&self) -> bool {
        matches!(self.holder.phase, Phase::Lost | Phase::Done)
    }

    pub(crate) fn oldest_key(&self) -> Option<Key> {
        self.cluster.committed_store().keys.first().copied()
    }

    /// The competitor starts to hold only if its key is the oldest in the committed store, and stops before that key is deleted.
    pub(crate) fn competitor_steps(&self) -> &'static [Competitor] {
        let is_first = self.oldest_key() == Some(Key::Competitor);
        match (self.competitor, self.cluster.is_committed()) {
            (Competitor::Waiting, false) if is_first => &[Competitor::Holding],
            (Competitor::Waiting, true) if is_first => &[Competitor::Holding, Competitor::Done],
            (Competitor::Idle, true) => &[Competitor::Waiting],
            (Competitor::Waiting | Competitor::Holding, true) => &[Competitor::Done],
            _ => &[],
        }
    }

    pub(crate) fn apply_competitor_step(&mut self, next: Competitor) {
        self.competitor = next;
        match next {
            Competitor::Waiting => self.cluster.propose_and_commit(Change::CreateCompetitor),
            Competitor::Done => self.cluster.propose_and_commit(Change::DeleteCompetitor),
            Competitor::Idle | Competitor::Holding => {}
        }
    }

    /// After the end of the holder, the only remaining question is whether the competitor gets the lock.
    fn reset_after_end(&mut self) {
        let Self { cluster, holder, .. } = self;
        (self.time, self.faults) = (0, Faults::default());
        (holder.late_create, holder.late_move) = (false, false);
        cluster.apply_and_expire_all();
    }
}

impl EtcdLease {
    pub(crate) fn tick(&self, state: &mut State) {
        state.time += 1;
        for this in &mut state.cluster.members {
            this.remaining = this.remaining.map(|remaining| remaining.saturating_sub(1));
        }
        let this = &mut state.holder;
        let has_expired = match this.phase {
            Phase::Idle | Phase::Claiming { .. } => {
                this.lease_valid_until <= state.time && !self.ignores_lease_end()
            }
            Phase::Holding { until } => until <= state.time && self.recipe != Recipe::RenewsAfterBeliefEnd,
            Phase::Lost | Phase::Done => false,
        };
        if has_expired {
            this.lose();
            state.clear_awaited();
        }
    }

    pub(crate) fn may_advance_transaction(&self, state: &State) -> bool {
        let Some(call) = state.holder.call else { return false };
        let (cluster, member) = (&state.cluster, &state.cluster.members[call.transaction_member]);
        let is_write = call.request != Request::Read;
        let has_leader = member.term == cluster.term;
        match call.transaction {
            TransactionState::Sent { .. } if is_write => has_leader,
            TransactionState::Sent { index } => {
                let is_served = has_leader && cluster.read_index(index).is_some();
                is_served || self.recipe == Recipe::NonLinearizableRead
            }
            TransactionState::Confirmed { index } => index <= member.applied,
            TransactionState::Executed { .. } => true,
            TransactionState::Proposed | TransactionState::Answered { .. } => false,
        }
    }

    pub(crate) fn advance_transaction(&self, state: &mut State) {
        let Some(call) = &mut state.holder.call else { return };
        let cluster = &mut state.cluster;
        let store = &cluster.members[call.transaction_member].store;
        let change = match call.request {
            Request::Read => None,
            Request::Create => Some(Change::Create),
            Request::Move => Some(Change::Move),
        };
        call.transaction = match (call.transaction, change) {
            (TransactionState::Sent { .. }, Some(change)) => {
                cluster.propose(change, true);
                TransactionState::Proposed
            }
            (TransactionState::Sent { .. }, None) if self.recipe == Recipe::NonLinearizableRead => {
                TransactionState::Executed { status: store.find() }
            }
            (TransactionState::Sent { index }, None) => {
                TransactionState::Confirmed { index: cluster.read_index(index).unwrap_or_default() }
            }
            (TransactionState::Confirmed { .. }, _) => TransactionState::Executed { status: store.find() },
            (TransactionState::Executed { status }, _) => {
                TransactionState::Answered { term: store.term, status }
            }
            (answer, _) => answer,
        };
    }

    pub(crate) fn may_complete_call(&self, state: &State) -> bool {
        let this = &state.holder;
        let Some(call) = &this.call else { return false };
        let is_extended = matches!(call.extension, ExtensionState::Answered { .. });
        let is_answered = matches!(call.transaction, TransactionState::Answered { .. });
        match self.recipe {
            Recipe::ExtensionOnly if this.believes(state.time) => is_extended,
            Recipe::TransactionOnly => is_answered,
            _ => is_extended && is_answered,
        }
    }

    /// As `EtcdBackend::look` and `conclude`.
    pub(crate) fn complete_call(&self, state: &mut State) {
        let Some(call) = state.holder.call else { return };
        state.clear_awaited();
        let this = &mut state.holder;
        // Only a faulty recipe concludes from one answer.
        let (transaction_term, status) = match call.transaction {
            TransactionState::Answered { term, status } => (Some(term), status),
            _ => (None, KeyStatus::Oldest { lease: call.lease }),
        };
        if status == KeyStatus::Missing {
            return this.lose();
        }
        this.call = None;
        if let Phase::Claiming { created } = &mut this.phase {
            *created = true;
        }
        if call.request == Request::Move {
            this.is_moving = false;
            if status == (KeyStatus::Oldest { lease: SECOND }) {
                (this.lease, this.lease_valid_until) = (SECOND, TTL - self.margin);
            }
        }
        match status {
            KeyStatus::Oldest { lease } if lease != call.lease && self.recipe != Recipe::AcceptsAnyLease => {
                return this.lose();
            }
            KeyStatus::CompareFailed => return,
            _ => {}
        }
        let (extension_term, is_alive) = match call.extension {
            ExtensionState::Answered { term, is_alive } => (Some(term), is_alive),
            _ => (None, true),
        };
        let terms = transaction_term.zip(extension_term);
        if self.recipe != Recipe::IgnoresTerms && terms.is_some_and(|(one, other)| one != other) {
            return;
        }
        if !is_alive && self.recipe != Recipe::IgnoresExtensionResult {
            return this.lose();
        }
        let is_claim = matches!(this.phase, Phase::Claiming { .. });
        if is_claim && this.lease_valid_until <= state.time && !self.ignores_lease_end() {
            // A replaced leader may have proposed the revocation of the lease.
            return;
        }
        let counts_from = match self.recipe {
            Recipe::CountsFromAnswer => state.time,
            _ => call.sent_at,
        };
        let until = counts_from + TTL - self.margin;
        this.lease_valid_until = until;
        if status != KeyStatus::Queued {
            self.extend_belief(state, until, transaction_term.max(extension_term).unwrap_or_default());
        }
    }

    fn extend_belief(&self, state: &mut State, until: u8, term: u8) {
        let this = &mut state.holder;
        match &mut this.phase {
            Phase::Holding { until: end } => {
                *end = until.max(*end);
                this.is_carried_over |= term > this.granted_term;
            }
            phase if until > state.time => {
                *phase = Phase::Holding { until };
                this.granted_term = term;
            }
            _ => {}
        }
    }

    /// Reduces the state space: resets values that no later action or property reads, so that equivalent states become equal.
    pub(crate) fn normalize(&self, state: &mut State) {
        if state.holder_has_ended() {
            state.reset_after_end();
        }
        let dropped = state.cluster.compact();
        let this = &mut state.holder;
        if this.lease_valid_until <= state.time || !self.reads_lease_end(this) {
            this.lease_valid_until = 0;
        }
        if matches!(this.phase, Phase::Lost | Phase::Done) {
            (this.granted_term, this.is_carried_over) = (this.granted_term.min(1), false);
        }
        let Some(call) = &mut this.call else { return };
        // A call older than a lease yields no belief, whatever its age.
        call.sent_at = call.sent_at.max(state.time.saturating_sub(TTL));
        if let TransactionState::Sent { index } | TransactionState::Confirmed { index } =
            &mut call.transaction
        {
            *index = index.saturating_sub(dropped);
        }
    }

    fn ignores_lease_end(&self) -> bool {
        matches!(self.recipe, Recipe::IgnoresExtensionResult | Recipe::GrantsAfterLeaseEnd)
    }

    fn reads_lease_end(&self, this: &Holder) -> bool {
        match this.phase {
            Phase::Idle | Phase::Claiming { .. } => true,
            Phase::Holding { .. } => self.max_faults.moved_keys > 0,
            Phase::Lost | Phase::Done => false,
        }
    }
}
