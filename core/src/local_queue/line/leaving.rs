use super::super::turn::Turn;
use super::{Ending, Line, Rules, Waiter, Way};
use crate::{Claim, Error, Moment, OwnerId, Release, Result};
use std::time::Duration;

impl Line {
    /// How the claim is ended; and what else is to be released in the store with it, that it had left behind. All of it is
    /// remembered until the store has [answered](Self::released): a release that is tried again tries all of it again.
    pub(in super::super) fn leave(
        &mut self,
        claim: &Claim,
        linger: Duration,
        now: Moment,
        rules: &Rules,
    ) -> (Way, Vec<Claim>) {
        self.forgo_what_is_in_use(claim.owner());
        let way = self.way_of(claim, linger, now, rules);
        self.take_out_if_gone(now, rules);
        let is_own = |ending: &Claim| matches!(&way, Way::Release(claim) if claim.owner() == ending.owner());
        let left = self.ending.iter_mut().filter(|it| it.owner == claim.owner() && !is_own(&it.claim));
        let leave = |ending: &mut Ending| {
            ending.leave(claim.ttl(), now);
            ending.claim.clone()
        };
        let left: Vec<Claim> = left.map(leave).collect();
        let own = match &way {
            Way::Release(claim) => Some(claim),
            Way::Done(_) => None,
        };
        left.iter().chain(own).for_each(|claim| self.retire_owner(claim.owner()));
        (way, left)
    }

    fn way_of(&mut self, claim: &Claim, linger: Duration, now: Moment, rules: &Rules) -> Way {
        let owner = claim.owner();
        let waited = self.step_out_of_line(owner, now, rules);
        if let Some(turn) = self.turn.take_if(|turn| turn.holder() == owner) {
            let Some(turn) = self.pass_on(turn, linger, now, rules) else {
                return Way::Done(Release::Released);
            };
            if let Some(pause) = rules.stand_back.filter(|_| !self.waiting.is_empty()) {
                self.run.given_up(now, pause);
            }
            self.leave_turn_behind(&turn, now);
            for ending in self.ending.iter_mut().filter(|it| it.is(owner, turn.claim())) {
                ending.leave(claim.ttl(), now);
            }
            return Way::Release(turn.claim().clone());
        }
        if let Some(ending) = self.ending.iter_mut().find(|ending| ending.owner == owner) {
            ending.leave(claim.ttl(), now);
            return Way::Release(ending.claim.clone());
        }
        // With the claim of one who has left, others may go on: nothing of theirs is released here.
        if waited || self.goes_on_with(owner) {
            return Way::Done(Release::NotHeld);
        }
        Way::Release(claim.clone())
    }

    /// What it had left behind is another's by now, who asked with the same claim again: that one ends it.
    fn forgo_what_is_in_use(&mut self, owner: OwnerId) {
        let mut ending = std::mem::take(&mut self.ending);
        ending.retain(|it| it.owner != owner || !self.is_in_use(it.claim.owner()));
        self.ending = ending;
    }

    /// The store was asked to release `asked`, for `owner`.
    pub(in super::super) fn released(
        &mut self,
        owner: OwnerId,
        asked: &Claim,
        answer: &Result<Release>,
        now: Moment,
        rules: &Rules,
    ) {
        // After an outage the core asks again, until the lease must have ended.
        let asks_again = answer.as_ref().is_err_and(Error::is_outage);
        self.ending.retain(|it| !it.is(owner, asked) || (asks_again && !it.is_over(now, rules)));
        self.wake_who_asks(now, rules);
    }

    /// Nobody has asked for long, perhaps: those whom the line knows may be gone, with the tasks that would have left.
    pub(in super::super) fn sweep(&mut self, now: Moment, rules: &Rules) {
        self.take_out_if_gone(now, rules);
        if let Some(turn) = self.turn.take_if(|turn| now >= turn.ends_at().plus(rules.gone_after)) {
            self.leave_turn_behind(&turn, now);
        }
        self.forget_what_has_ended(now, rules);
    }

    /// Not what one who waits goes on asking with: since when it has waited is known from here.
    pub(super) fn forget_what_has_ended(&mut self, now: Moment, rules: &Rules) {
        let waiting = &self.waiting;
        let is_asked_with = |claim: &Claim| waiting.iter().any(|it| it.its.asks_as == claim.owner());
        self.ending.retain(|it| !it.is_over(now, rules) || is_asked_with(&it.claim));
    }

    /// The turn, if nobody here can have it.
    fn pass_on(&mut self, mut turn: Turn, linger: Duration, now: Moment, rules: &Rules) -> Option<Turn> {
        if !linger.is_zero() || self.contender.is_some() || !turn.may_pass_on(now) {
            return Some(turn);
        }
        let next = self.first_present(now, rules).filter(|next| next.shares(turn.claim()));
        let Some(next) = next.map(|next| next.owner) else {
            return Some(turn);
        };
        turn.pass_to(next);
        self.tell_first();
        self.turn = Some(turn);
        None
    }

    /// Takes a waiter out for good. If it was the one who asks the store, the next goes on with its claim, or it is to be
    /// ended. True if it waited.
    pub(super) fn step_out_of_line(&mut self, owner: OwnerId, now: Moment, rules: &Rules) -> bool {
        let was_first = self.waiting.front().is_some_and(|first| first.owner == owner);
        let waited = self.step_out(owner).is_some();
        if was_first {
            self.drop_contender_unless_shared(owner, now);
            self.wake_who_asks(now, rules);
        }
        waited
    }

    pub(super) fn step_out(&mut self, owner: OwnerId) -> Option<Waiter> {
        self.place_of(owner).and_then(|place| self.waiting.remove(place))
    }

    /// `left` does not ask the store any more. Unless the first can go on with its claim, that is to be ended.
    pub(super) fn drop_contender_unless_shared(&mut self, left: OwnerId, now: Moment) {
        let Some(contender) = self.contender.take() else { return };
        if self.first_shares(&contender.claim) {
            self.contender = Some(contender);
        } else if contender.may_have_left_something() {
            self.leave_behind(left, &contender.claim, contender.waiting_since, now);
        }
    }
}
