use super::super::turn::Turn;
use super::{Line, Question, Rules, Standing};
use crate::{Claim, LossCause, Moment, OwnerId, Renewal, Result};

impl Line {
    pub(in super::super) fn standing(&self, claim: &Claim, now: Moment) -> Standing {
        let owner = claim.owner();
        if let Some(turn) = self.turn.as_ref().filter(|turn| turn.holder() == owner) {
            let question = Question::of_turn(turn, now);
            return Standing::Ask(Question { claim: question.claim.with_ttl(claim.ttl()), ..question });
        }
        if let Some(cause) = self.ending.iter().find(|it| it.owner == owner).and_then(|it| it.lost) {
            return Standing::Known(Renewal::Lost(cause));
        }
        if self.goes_on_with(owner) {
            return Standing::Known(Renewal::Lost(LossCause::Gone));
        }
        Standing::Ask(Question::about(claim, now))
    }

    /// The store was asked to renew, for `owner`. The owner that must be told of a loss, if the hold has passed to another
    /// meanwhile.
    pub(in super::super) fn renewed(
        &mut self,
        owner: OwnerId,
        asked: &Question,
        answer: &Result<Renewal>,
        now: Moment,
        rules: &Rules,
    ) -> Option<OwnerId> {
        match answer {
            Ok(Renewal::Renewed) => {
                let turn = self.turn.as_mut().filter(|turn| asked.is_about_turn(turn))?;
                turn.confirmed(asked.sent_at, asked.claim.ttl());
                None
            }
            Ok(Renewal::Lost(cause)) => {
                let turn = self.turn.take_if(|turn| asked.is_about_turn(turn))?;
                self.lose(&turn, *cause, now, rules);
                (turn.holder() != owner).then_some(turn.holder())
            }
            Ok(Renewal::Held) | Err(_) => None,
        }
    }

    /// Who was given it and has not taken it asks for it anew. Whose grant it was releases it in the end, because a renewal
    /// may have come too late.
    fn lose(&mut self, turn: &Turn, cause: LossCause, now: Moment, rules: &Rules) {
        if self.place_of(turn.holder()).is_none() {
            self.leave_turn_behind(turn, now);
            for ending in self.ending.iter_mut().filter(|it| it.is(turn.holder(), turn.claim())) {
                ending.lost = Some(cause);
            }
        }
        self.wake_who_asks(now, rules);
    }

    /// Who holds what the store knows under this owner.
    pub(in super::super) fn holder_of(&self, owner: OwnerId) -> Option<OwnerId> {
        self.turn.as_ref().filter(|turn| turn.claim().owner() == owner).map(Turn::holder)
    }
}
