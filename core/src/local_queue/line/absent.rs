use super::super::turn::Turn;
use super::{Line, Rules, Waiter};
use crate::{Claim, Moment, OwnerId};

/// Those who wait in line and do not ask any more: their futures are not polled, or went with their runtime.
impl Line {
    /// The first in the line, unless it is absent: nothing is given to one who may not come for it.
    pub(super) fn first_present(&mut self, now: Moment, rules: &Rules) -> Option<&Waiter> {
        self.pass_over_the_absent(now, rules);
        self.waiting.front().filter(|first| !first.is_away_for(rules.patience, now))
    }

    /// Those who do not ask any more go to the end of the line, and the hold that one of them was given and did not take
    /// goes to the next. If all are absent, they stay in their order.
    pub(super) fn pass_over_the_absent(&mut self, now: Moment, rules: &Rules) {
        for _ in 0..self.waiting.len() {
            if !self.waiting.front().is_some_and(|first| first.is_away_for(rules.patience, now)) {
                return;
            }
            self.waiting.rotate_left(1);
            let Some(absent) = self.waiting.back().map(|absent| absent.owner) else { return };
            self.drop_contender_unless_shared(absent, now);
            self.take_back_from(absent, now);
        }
    }

    /// Looks at one of those who wait, at the next with each call, and takes it out of the line if it is away for too long.
    pub(super) fn take_out_if_gone(&mut self, now: Moment, rules: &Rules) {
        self.looked_at = (self.looked_at + 1).checked_rem(self.waiting.len()).unwrap_or(0);
        let looked_at = self.waiting.get(self.looked_at);
        let gone = looked_at.filter(|it| it.is_away_for(rules.gone_after, now)).map(|it| it.owner);
        let Some(gone) = gone else { return };
        self.has_retired = true;
        self.step_out_of_line(gone, now, rules);
        self.take_back_from(gone, now);
        self.orphan_what_is_left_of(gone);
    }

    /// Its owner may never come to release it. If it does come back, it asks as another.
    pub(super) fn orphan_what_is_left_of(&mut self, owner: OwnerId) {
        for ending in self.ending.iter_mut().filter(|it| it.owner == owner) {
            ending.is_orphan = true;
            self.has_retired = true;
        }
    }

    /// What is to be released in the store for those who were taken out of the line, unless others go on with it: under
    /// whose name, and the claim. Told once; who comes back releases it, too.
    pub(in super::super) fn take_orphans(&mut self) -> Vec<(OwnerId, Claim)> {
        if !self.ending.iter().any(|ending| ending.is_orphan) {
            return Vec::new();
        }
        let mut ending = std::mem::take(&mut self.ending);
        ending.retain(|it| !it.is_orphan || !self.is_in_use(it.claim.owner()));
        let orphans = ending
            .iter_mut()
            .filter_map(|it| std::mem::take(&mut it.is_orphan).then(|| (it.owner, it.claim.clone())));
        let orphans: Vec<_> = orphans.collect();
        self.ending = ending;
        orphans.iter().for_each(|(_, claim)| self.retire_owner(claim.owner()));
        orphans
    }

    /// Nobody has heard whether the store has released it: whoever comes by next tries it again.
    pub(in super::super) fn orphan_again(&mut self, owner: OwnerId, claim: &Claim) {
        for ending in self.ending.iter_mut().filter(|it| it.is(owner, claim)) {
            ending.is_orphan = true;
        }
    }

    /// It was given the hold, and does not take it.
    pub(super) fn take_back_from(&mut self, absent: OwnerId, now: Moment) {
        if let Some(turn) = self.turn.take_if(|turn| turn.holder() == absent) {
            self.put_in_the_first(turn, now);
        }
    }

    fn put_in_the_first(&mut self, mut turn: Turn, now: Moment) {
        match self.waiting.front_mut().filter(|first| first.shares(turn.claim())) {
            Some(first) => {
                turn.put_in(first.owner);
                self.to_wake.extend(first.tell());
                self.turn = Some(turn);
            }
            None => self.leave_turn_behind(&turn, now),
        }
    }
}
