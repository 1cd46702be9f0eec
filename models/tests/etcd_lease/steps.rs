//! What the members do with a call, and what its client makes of the answers.

use crate::client::{Answer, Call, Extension, Holder, Phase, Request, Rival};
use crate::cluster::{Change, Found, Key, SECOND, TTL};
use crate::protocol::{Faults, Protocol, Recipe, State};

impl State {
    pub(crate) fn call(&mut self, request: Request, extended_at: usize, asked_at: usize) {
        let this = &mut self.holder;
        if this.phase == Phase::Absent {
            this.phase = Phase::Claiming { created: false };
        }
        this.is_moving |= request == Request::Move;
        this.call = Some(Call {
            sent_at: self.time,
            request,
            lease: if request == Request::Move { SECOND } else { this.lease },
            extended_at,
            asked_at,
            extension: Extension::Sent,
            answer: Answer::Sent { index: self.cluster.committed },
        });
    }

    /// An extension waits while its lease has ended by the leader's count, and is not yet revoked.
    pub(crate) fn may_extend(&self) -> bool {
        let Some(call) = self.holder.call else { return false };
        match call.extension {
            Extension::Sent => true,
            Extension::Begun { .. } => self.cluster.extender(call.extended_at).is_some_and(|leader| {
                let leader = &self.cluster.members[leader];
                leader.store.ended[call.lease] || leader.left[call.lease] > 0
            }),
            Extension::Answered { .. } => false,
        }
    }

    pub(crate) fn extend(&mut self) {
        let Some(call) = &mut self.holder.call else { return };
        let members = &mut self.cluster.members;
        match call.extension {
            Extension::Sent => {
                call.extension = Extension::Begun { term: members[call.extended_at].store.term };
            }
            Extension::Begun { term } => {
                let Some(leader) = self.cluster.extender(call.extended_at) else { return };
                let leader = &mut self.cluster.members[leader];
                let lives = !leader.store.ended[call.lease];
                if lives {
                    leader.left[call.lease] = TTL;
                }
                call.extension = Extension::Answered { term, lives };
            }
            Extension::Answered { .. } => {}
        }
    }

    /// Applies the next entry at a member. The call that waits for it there has its outcome.
    pub(crate) fn apply(&mut self, member: usize) {
        let this = &mut self.cluster.members[member];
        let entry = self.cluster.log[this.applied];
        let found = this.store.apply(entry);
        this.applied += 1;
        let call = self.holder.call.as_mut().filter(|call| entry.is_awaited && call.asked_at == member);
        if let Some(call) = call {
            call.answer = Answer::CarriedOut { found };
        }
    }

    pub(crate) fn abandon(&mut self) {
        self.holder.abandon();
        self.forget_caller();
    }

    /// What it has in the log tells it nothing any more.
    fn forget_caller(&mut self) {
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

    pub(crate) fn leave(&mut self) {
        self.abandon();
        let this = &mut self.holder;
        (this.phase, this.late_release) = (Phase::Gone, true);
    }

    /// If a create may still be carried out, the lease is revoked.
    pub(crate) fn release(&mut self) {
        let this = &mut self.holder;
        this.late_release = false;
        let change = match this.late_create {
            true => Change::Revoke { lease: this.lease },
            false => Change::Delete,
        };
        self.cluster.propose(change, false);
    }

    /// True once the holder can believe no more.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.holder.phase, Phase::Lost | Phase::Gone)
    }

    pub(crate) fn first(&self) -> Option<Key> {
        self.cluster.record().keys.first().copied()
    }

    /// The rival believes only what is recorded. Its key may end at any moment when it does not believe.
    pub(crate) fn next_of_rival(&self) -> &'static [Rival] {
        let is_first = self.first() == Some(Key::Rival);
        match (self.rival, self.cluster.is_committed()) {
            (Rival::Waiting, false) if is_first => &[Rival::Holding],
            (Rival::Waiting, true) if is_first => &[Rival::Holding, Rival::Gone],
            (Rival::Absent, true) => &[Rival::Waiting],
            (Rival::Waiting | Rival::Holding, true) => &[Rival::Gone],
            _ => &[],
        }
    }

    pub(crate) fn step_of_rival(&mut self, next: Rival) {
        self.rival = next;
        match next {
            Rival::Waiting => self.cluster.carry_out(Change::CreateRival),
            Rival::Gone => self.cluster.carry_out(Change::DeleteRival),
            Rival::Absent | Rival::Holding => {}
        }
    }

    /// After the holder has gone, no more matters than that the rival gets the lock.
    fn forget_time(&mut self) {
        let Self { cluster, holder, .. } = self;
        (self.time, self.faults) = (0, Faults::default());
        (holder.late_create, holder.late_move) = (false, false);
        cluster.settle();
    }
}

impl Protocol {
    pub(crate) fn tick(&self, state: &mut State) {
        state.time += 1;
        for this in &mut state.cluster.members {
            this.left = this.left.map(|left| left.saturating_sub(1));
        }
        let this = &mut state.holder;
        let is_over = match this.phase {
            Phase::Absent | Phase::Claiming { .. } => {
                this.lives_until <= state.time && !self.grants_without_a_lease()
            }
            Phase::Holding { until } => until <= state.time && self.recipe != Recipe::Revives,
            Phase::Lost | Phase::Gone => false,
        };
        if is_over {
            this.lose();
            state.forget_caller();
        }
    }

    pub(crate) fn may_answer(&self, state: &State) -> bool {
        let Some(call) = state.holder.call else { return false };
        let (cluster, member) = (&state.cluster, &state.cluster.members[call.asked_at]);
        let is_write = call.request != Request::Look;
        let has_leader = member.term == cluster.term;
        match call.answer {
            Answer::Sent { .. } if is_write => has_leader,
            Answer::Sent { index } => {
                let is_served = has_leader && cluster.read_index(index).is_some();
                is_served || self.recipe == Recipe::ReadsOneMember
            }
            Answer::Confirmed { index } => index <= member.applied,
            Answer::CarriedOut { .. } => true,
            Answer::Proposed | Answer::Answered { .. } => false,
        }
    }

    pub(crate) fn answer(&self, state: &mut State) {
        let Some(call) = &mut state.holder.call else { return };
        let cluster = &mut state.cluster;
        let store = &cluster.members[call.asked_at].store;
        let change = match call.request {
            Request::Look => None,
            Request::Create => Some(Change::Create),
            Request::Move => Some(Change::Move),
        };
        call.answer = match (call.answer, change) {
            (Answer::Sent { .. }, Some(change)) => {
                cluster.propose(change, true);
                Answer::Proposed
            }
            (Answer::Sent { .. }, None) if self.recipe == Recipe::ReadsOneMember => {
                Answer::CarriedOut { found: store.find() }
            }
            (Answer::Sent { index }, None) => {
                Answer::Confirmed { index: cluster.read_index(index).unwrap_or_default() }
            }
            (Answer::Confirmed { .. }, _) => Answer::CarriedOut { found: store.find() },
            (Answer::CarriedOut { found }, _) => Answer::Answered { term: store.term, found },
            (answer, _) => answer,
        };
    }

    pub(crate) fn may_hear(&self, state: &State) -> bool {
        let this = &state.holder;
        let Some(call) = &this.call else { return false };
        let is_extended = matches!(call.extension, Extension::Answered { .. });
        let is_answered = matches!(call.answer, Answer::Answered { .. });
        match self.recipe {
            Recipe::BelievesTheExtension if this.believes(state.time) => is_extended,
            Recipe::BelievesTheRead => is_answered,
            _ => is_extended && is_answered,
        }
    }

    /// See `EtcdBackend::look` and `conclude`.
    pub(crate) fn hear(&self, state: &mut State) {
        let Some(call) = state.holder.call else { return };
        state.forget_caller();
        let this = &mut state.holder;
        // Only in a broken recipe there is one without the other.
        let (answered_in, found) = match call.answer {
            Answer::Answered { term, found } => (Some(term), found),
            _ => (None, Found::First { lease: call.lease }),
        };
        if found == Found::Nothing {
            return this.lose();
        }
        this.call = None;
        if let Phase::Claiming { created } = &mut this.phase {
            *created = true;
        }
        if call.request == Request::Move {
            this.is_moving = false;
            if found == (Found::First { lease: SECOND }) {
                (this.lease, this.lives_until) = (SECOND, TTL - self.margin);
            }
        }
        match found {
            Found::First { lease } if lease != call.lease && self.recipe != Recipe::AnyLease => {
                return this.lose();
            }
            Found::Other => return,
            _ => {}
        }
        let (extended_in, lives) = match call.extension {
            Extension::Answered { term, lives } => (Some(term), lives),
            _ => (None, true),
        };
        let both = answered_in.zip(extended_in);
        if self.recipe != Recipe::AnyTerm && both.is_some_and(|(one, other)| one != other) {
            return;
        }
        if !lives && self.recipe != Recipe::AnyExtension {
            return this.lose();
        }
        let is_claim = matches!(this.phase, Phase::Claiming { .. });
        if is_claim && this.lives_until <= state.time && !self.grants_without_a_lease() {
            // The end of the lease may be in the log of a leader that an election has replaced.
            return;
        }
        let counts_from = match self.recipe {
            Recipe::CountsFromTheAnswer => state.time,
            _ => call.sent_at,
        };
        let until = counts_from + TTL - self.margin;
        this.lives_until = until;
        if found != Found::Behind {
            self.believe(state, until, answered_in.max(extended_in).unwrap_or_default());
        }
    }

    fn believe(&self, state: &mut State, until: u8, term: u8) {
        let this = &mut state.holder;
        match &mut this.phase {
            Phase::Holding { until: end } => {
                *end = until.max(*end);
                this.is_carried_over |= term > this.granted_in;
            }
            phase if until > state.time => {
                *phase = Phase::Holding { until };
                this.granted_in = term;
            }
            _ => {}
        }
    }

    /// Takes two states for one that differ in nothing that any step or property will look at.
    pub(crate) fn normalize(&self, state: &mut State) {
        if state.is_over() {
            state.forget_time();
        }
        let dropped = state.cluster.forget();
        let this = &mut state.holder;
        if this.lives_until <= state.time || !self.asks_whether_it_lives(this) {
            this.lives_until = 0;
        }
        if matches!(this.phase, Phase::Lost | Phase::Gone) {
            (this.granted_in, this.is_carried_over) = (this.granted_in.min(1), false);
        }
        let Some(call) = &mut this.call else { return };
        // Older than a lease is as good as never.
        call.sent_at = call.sent_at.max(state.time.saturating_sub(TTL));
        if let Answer::Sent { index } | Answer::Confirmed { index } = &mut call.answer {
            *index = index.saturating_sub(dropped);
        }
    }

    fn grants_without_a_lease(&self) -> bool {
        matches!(self.recipe, Recipe::AnyExtension | Recipe::AnyGrant)
    }

    fn asks_whether_it_lives(&self, this: &Holder) -> bool {
        match this.phase {
            Phase::Absent | Phase::Claiming { .. } => true,
            Phase::Holding { .. } => self.at_most.moves > 0,
            Phase::Lost | Phase::Gone => false,
        }
    }
}
