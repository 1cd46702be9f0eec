use super::super::turn::Turn;
use super::{Contender, Line, Next, Question, Rules, Waiter};
use crate::{Attempt, Busy, Claim, Error, Grant, Moment, OwnerId, Result};

/// What is asked, and who asks.
impl Line {
    pub(in super::super) fn next(&mut self, claim: &Claim, now: Moment, rules: &Rules) -> Next {
        self.end_turn_that_is_over(claim.owner(), now);
        self.forget_what_has_ended(now, rules);
        if let Some(next) = self.by_turn(claim.owner(), now) {
            return next;
        }
        if !claim.waits() {
            self.take_out_if_gone(now, rules);
            // Nobody passes by those who wait; but who is not there waits for nothing.
            let is_free = self.first_present(now, rules).is_none() && self.turn.is_none();
            return if is_free {
                Next::Ask(Question::about(claim, now))
            } else {
                Next::Answer(self.busy(now))
            };
        }
        self.stand_in_line(claim, now);
        self.take_out_if_gone(now, rules);
        self.pass_over_the_absent(now, rules);
        if let Some(next) = self.by_turn(claim.owner(), now) {
            return next;
        }
        if let Some(until) = self.stands_back_until(claim.owner(), now) {
            self.mark_told(claim.owner());
            return Next::Answer(Attempt::Busy(Busy::new().with_end(until.since(now)).with_place_in_queue()));
        }
        let is_first = self.waiting.front().is_some_and(|first| first.owner == claim.owner());
        if is_first && (self.turn.is_none() || self.contender.is_some()) {
            return Next::Ask(self.contend(claim, now, rules));
        }
        Next::Answer(self.tell_to_wait(claim.owner(), now))
    }

    /// For the one whose turn it is. If it has its grant and asks again, the answer was lost, or it wants a whole lease.
    fn by_turn(&mut self, owner: OwnerId, now: Moment) -> Option<Next> {
        let turn = self.turn.as_ref().filter(|turn| turn.holder() == owner)?;
        let (grant, question) = (turn.grant(), Question::of_turn(turn, now));
        match self.step_out(owner) {
            Some(_) => Some(Next::Answer(self.tell(grant))),
            None => Some(Next::Ask(question)),
        }
    }

    /// As many tokens as are of use.
    fn contend(&mut self, first: &Claim, now: Moment, rules: &Rules) -> Question {
        let passes_on = self.waiting.get(1).is_some_and(|next| next.shares(first));
        let asks_as = self.waiting.front().map_or(first.owner(), |first| first.its.asks_as);
        // Who was passed over because it did not come may have been handed the lock since it asked last.
        let waiting_since = self.left_since(asks_as).unwrap_or(now);
        let contender = match self.contender.take() {
            Some(contender) => self.contender.insert(contender),
            None => self.begin_to_contend(first.clone().with_owner(asks_as), waiting_since, false),
        };
        contender.new_question(if passes_on { rules.queue.grants() } else { 1 }, now)
    }

    fn stand_in_line(&mut self, claim: &Claim, now: Moment) {
        match self.waiter(claim.owner()) {
            Some(waiter) => waiter.its.seen = now,
            None => {
                let waiter = self.newcomer(claim, now);
                self.waiting.push_back(waiter);
            }
        }
    }

    /// It may have been in line before, and what it asked as then may have been released meanwhile.
    fn newcomer(&self, claim: &Claim, now: Moment) -> Waiter {
        let owner = claim.owner();
        Waiter::new(claim, if self.has_retired { owner.anew(now) } else { owner }, now)
    }

    /// Its holder has not released, and its lease has ended: the name may be free, and who waits must ask.
    fn end_turn_that_is_over(&mut self, asking: OwnerId, now: Moment) {
        let Some(turn) = self.turn.take_if(|turn| turn.is_over(now) && turn.holder() != asking) else {
            return;
        };
        if self.place_of(turn.holder()).is_some() && self.contender.is_none() {
            // It was given to one who has not taken it: the line goes on with its claim, which the store may still have.
            self.begin_to_contend(turn.claim().clone(), turn.since(), true);
        } else {
            self.leave_turn_behind(&turn, now);
        }
    }
}

/// What the store said.
impl Line {
    /// What `claim` is told; `None` if the store granted what nobody here wants any more, which is to be given back at once,
    /// and when `claim` is released at the latest.
    pub(in super::super) fn heard(
        &mut self,
        claim: &Claim,
        asked: &Question,
        answer: Result<Attempt>,
        now: Moment,
        rules: &Rules,
    ) -> Result<Option<Attempt>> {
        if let Some(waiter) = self.waiter(claim.owner()) {
            // An answer that takes its time is no absence.
            waiter.its.seen = now;
        }
        // The numbers begin anew with each line, and it may be the answer to one of an earlier line.
        let of_contender =
            |it: &&mut Contender| asked.of_contender == Some(it.number) && asked.is_about(&it.claim);
        if let Some(contender) = self.contender.as_mut().filter(of_contender) {
            contender.unanswered = contender.unanswered.saturating_sub(1);
        }
        match answer {
            Ok(Attempt::Granted(grant)) => Ok(self.heard_granted(claim, asked, &grant, now, rules)),
            Ok(Attempt::Busy(busy)) => Ok(Some(self.heard_busy(claim, asked, busy, now))),
            Err(error) => {
                self.heard_nothing(claim, asked, &error, now, rules);
                Err(error)
            }
        }
    }

    fn heard_granted(
        &mut self,
        claim: &Claim,
        asked: &Question,
        grant: &Grant,
        now: Moment,
        rules: &Rules,
    ) -> Option<Attempt> {
        let begin = |holder, since| Turn::begin(asked.claim.clone(), holder, grant, since, now, rules.queue);
        if let Some(turn) = self.turn.as_mut().filter(|turn| asked.is_about(turn.claim())) {
            // An earlier one is over: the store has granted the claim again since. A smaller token, after it has lost
            // its data, is believed only in the answer to a question about this turn: any other question was asked
            // earlier, and its answer was long on its way.
            if grant.token > turn.first() || grant.token < turn.first() && asked.is_about_turn(turn) {
                *turn = begin(turn.holder(), asked.granted_since(grant));
            } else if grant.token == turn.first() && !grant.handed_over {
                turn.confirmed(asked.sent_at, grant.lease.unwrap_or(asked.claim.ttl()));
            }
        } else if self.told.is_some_and(|(owner, told)| asked.claim.owner() == owner && grant.token <= told) {
            // The store has kept an earlier turn, for longer than was counted on here. Of its tokens, some are used.
            self.contender.take_if(|it| asked.is_about(&it.claim));
            self.leave_behind(claim.owner(), &asked.claim, asked.sent_at, now);
            self.retire_owner(asked.claim.owner());
            return None;
        } else if let Some(first) = self.granted_to(asked, now, rules) {
            self.begin(begin(first, asked.granted_since(grant)), now, rules);
        } else if asked.is_about(claim) && !claim.waits() {
            self.begin(begin(claim.owner(), asked.sent_at), now, rules);
        } else {
            self.leave_behind(claim.owner(), &asked.claim, asked.sent_at, now);
            self.retire_owner(asked.claim.owner());
            return None;
        }
        let turn = self.turn.as_ref().filter(|turn| turn.holder() == claim.owner()).map(Turn::grant);
        Some(match turn {
            Some(grant) => {
                self.step_out(claim.owner());
                self.tell(grant)
            }
            None => self.tell_to_wait(claim.owner(), now),
        })
    }

    /// Who is to have what was granted to the contender, which asks no more.
    fn granted_to(&mut self, asked: &Question, now: Moment, rules: &Rules) -> Option<OwnerId> {
        if !self.contender.as_ref().is_some_and(|it| asked.is_about(&it.claim)) {
            return None;
        }
        // Whoever is first by now may want another hold than the one that was asked for.
        let first = self.first_present(now, rules).filter(|first| first.shares(&asked.claim));
        let first = first.map(|first| first.owner);
        self.tell_first();
        self.contender.take_if(|it| asked.is_about(&it.claim));
        first
    }

    fn begin(&mut self, turn: Turn, now: Moment, rules: &Rules) {
        if let Some(pause) = rules.stand_back {
            self.run.taken(now, pause);
        }
        if let Some(earlier) = self.turn.replace(turn) {
            self.leave_turn_behind(&earlier, now);
        }
    }

    fn heard_busy(&mut self, claim: &Claim, asked: &Question, busy: Busy, now: Moment) -> Attempt {
        self.run.refused();
        if self.turn.take_if(|turn| asked.is_about_turn(turn)).is_some() && claim.waits() {
            // The store took it before its new holder had begun: that one is the first to want it again.
            if self.place_of(claim.owner()).is_none() {
                let waiter = self.newcomer(claim, asked.sent_at);
                self.waiting.push_front(waiter);
            }
            self.begin_to_contend(asked.claim.clone(), asked.sent_at, false);
        }
        if let Some(contender) = self.contender.as_mut().filter(|it| asked.is_about(&it.claim)) {
            contender.waiting_since = contender.waiting_since.max(asked.sent_at);
            contender.left_something |= busy.queued;
        } else if busy.queued {
            self.leave_behind_unless_in_use(claim, asked, now);
        }
        match self.mark_told(claim.owner()) {
            true => Attempt::Busy(busy.with_place_in_queue()),
            false => Attempt::Busy(busy),
        }
    }

    /// After an unknown outcome the asker will release, as the store may have something of it. After a refusal there is
    /// nothing to release, and it may go without a word.
    fn heard_nothing(&mut self, claim: &Claim, asked: &Question, error: &Error, now: Moment, rules: &Rules) {
        if error.is_indeterminate() {
            if let Some(contender) = self.contender.as_mut().filter(|it| asked.is_about(&it.claim)) {
                contender.left_something = true;
            } else {
                self.leave_behind_unless_in_use(claim, asked, now);
            }
            self.mark_told(claim.owner());
        } else if self
            .place_of(claim.owner())
            .and_then(|place| self.waiting.get(place))
            .is_some_and(|it| !it.its.told)
        {
            // It may come again with its claim: nobody else goes on with that.
            self.contender.take_if(|it| asked.is_about(&it.claim) && !it.may_have_left_something());
            self.step_out_of_line(claim.owner(), now, rules);
            // Another's answer may have given it the hold meanwhile: it will not come for it.
            self.take_back_from(claim.owner(), now);
            self.orphan_what_is_left_of(claim.owner());
        }
    }

    /// The answer took so long that the asker was passed over, or taken out: the store may have something of it, with
    /// which nobody goes on.
    fn leave_behind_unless_in_use(&mut self, claim: &Claim, asked: &Question, now: Moment) {
        if claim.waits() && !self.is_in_use(asked.claim.owner()) {
            self.leave_behind(claim.owner(), &asked.claim, asked.sent_at, now);
        }
    }

    /// True if it waits here.
    fn mark_told(&mut self, owner: OwnerId) -> bool {
        self.waiter(owner).map(|waiter| waiter.its.told = true).is_some()
    }

    fn tell(&mut self, grant: Grant) -> Attempt {
        self.told = self.turn.as_ref().map(|turn| (turn.claim().owner(), grant.token));
        Attempt::Granted(grant)
    }

    fn tell_to_wait(&mut self, owner: OwnerId, now: Moment) -> Attempt {
        self.mark_told(owner);
        match self.busy(now) {
            Attempt::Busy(busy) => Attempt::Busy(busy.with_place_in_queue()),
            granted @ Attempt::Granted(_) => granted,
        }
    }

    fn busy(&self, now: Moment) -> Attempt {
        Attempt::Busy(match &self.turn {
            Some(turn) => Busy::new().with_end(turn.ends_at().since(now)),
            None => Busy::new(),
        })
    }
}

impl Contender {
    fn new_question(&mut self, tokens: u32, now: Moment) -> Question {
        self.unanswered += 1;
        let (of_contender, waiting_since) = (Some(self.number), self.waiting_since);
        Question {
            of_contender,
            waiting_since,
            ..Question::about(&self.claim.clone().with_tokens(tokens), now)
        }
    }
}

impl Question {
    pub(super) fn about(claim: &Claim, now: Moment) -> Self {
        Self { claim: claim.clone(), of_turn: None, of_contender: None, sent_at: now, waiting_since: now }
    }

    /// Until the last proof that the store keeps the turn, it has handed nothing over.
    pub(super) fn of_turn(turn: &Turn, now: Moment) -> Self {
        Self { of_turn: Some(turn.first()), waiting_since: turn.since(), ..Self::about(turn.claim(), now) }
    }

    /// A moment before the store made this grant, which answers the question.
    fn granted_since(&self, grant: &Grant) -> Moment {
        if grant.handed_over { self.waiting_since } else { self.sent_at }
    }

    fn is_about(&self, claim: &Claim) -> bool {
        self.claim.owner() == claim.owner()
    }

    /// True if it was asked during this very turn: of an earlier one, the answer is that of the past.
    pub(super) fn is_about_turn(&self, turn: &Turn) -> bool {
        self.is_about(turn.claim()) && self.of_turn == Some(turn.first())
    }
}
