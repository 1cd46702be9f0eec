//! The loss rule: when a hold is over for its holder.
//!
//! 1. The local deadline decides. Once it has passed, the hold is lost, whatever is answered later: a renewal that is
//!    answered too late revives nothing.
//! 2. Until then three things end it: the store's answer (*gone*, *taken*, *session over*), its release, and the close of
//!    its client.
//! 3. No answer, or an error, ends nothing. The hold is at risk and goes on to its deadline.
//! 4. The deadline moves only when the store confirms a renewal, never past the limit (`max_hold`, or the end of a fixed lease),
//!    and is counted from before that renewal was sent.
//! 5. A hold that is over stays over, with its first cause.
//!
//! Pure: no clock, no I/O, no task. Its callers race, and call it under one mutex.

use crate::{Error, ErrorKind, Loss, LossCause, Moment, Renewal, Result};
use std::time::Duration;

/// When a lease of this length, asked for at `sent_at`, ends for its holder: 1 % and 2 ms before it may end in the store.
///
/// `sent_at` lies before the send, and the store starts its lease after it, so the holder's lease ends first as long as the
/// rates of the two clocks differ by less than 1 %. Redlock allows for the same (redis.io, *Distributed Locks with Redis*). No
/// difference in what the clocks *show* matters.
pub(crate) fn valid_until(sent_at: Moment, length: Duration) -> Moment {
    sent_at.plus((length / 1000 * 990).saturating_sub(Duration::from_millis(2)))
}

/// The state of one hold.
#[derive(Debug)]
pub(super) struct HoldState {
    pub(super) valid_until: Moment,
    /// The end that no renewal moves, and the cause of a loss there.
    limit: (Moment, LossCause),
    /// The failure of the last renewal, while the hold is at risk.
    pub(super) failure: Option<Error>,
    /// Renewals that were sent and not yet answered.
    unanswered: u32,
    end: Option<End>,
}

/// How a hold ended.
#[derive(Clone, Debug)]
pub(super) enum End {
    Lost(Loss),
    Released,
}

impl HoldState {
    /// A hold that was granted until `valid_until`. Renewals move its end up to `max_hold`, and to the end of a fixed lease.
    pub(super) fn granted(valid_until: Moment, max_hold: Moment, fixed_end: Moment) -> Self {
        let limit = match fixed_end < max_hold {
            true => (fixed_end, LossCause::Expired),
            false => (max_hold, LossCause::MaxHold),
        };
        Self { valid_until: valid_until.min(limit.0), limit, failure: None, unanswered: 0, end: None }
    }

    /// Ends it if its deadline has passed, and answers how it has ended, if it has. `answered` and `end` apply this first.
    pub(super) fn settle(&mut self, now: Moment) -> Option<&End> {
        if self.end.is_none() && now >= self.valid_until {
            self.end = Some(End::Lost(self.loss_by_deadline()));
        }
        self.end.as_ref()
    }

    /// The loss, if it is lost by now.
    pub(super) fn loss(&mut self, now: Moment) -> Option<Loss> {
        match self.settle(now)? {
            End::Lost(loss) => Some(loss.clone()),
            End::Released => None,
        }
    }

    /// The next renewal is due: one that has no answer by now counts as failed.
    pub(super) fn renewal_overdue(&mut self) {
        if self.unanswered > 0 {
            self.failure = Some(no_answer_yet());
        }
    }

    pub(super) fn renewal_sent(&mut self) {
        self.unanswered += 1;
    }

    /// The store answered a renewal. If confirmed, the lease lasts until `renewed_until`.
    pub(super) fn answered(&mut self, now: Moment, renewed_until: Moment, answer: Result<Renewal>) {
        if self.settle(now).is_some() {
            return;
        }
        self.unanswered = self.unanswered.saturating_sub(1);
        match answer {
            Ok(Renewal::Renewed) => {
                // Answers may come out of order: the deadline never moves back.
                self.valid_until = self.valid_until.max(renewed_until.min(self.limit.0));
                self.failure = None;
                // A renewal before it may have died with its task, and is never answered.
                self.unanswered = 0;
            }
            Ok(Renewal::Held) => self.failure = Some(not_extended()),
            Ok(Renewal::Lost(cause)) => self.end = Some(End::Lost(Loss::new(cause))),
            Err(error) => self.failure = Some(error),
        }
    }

    /// Ends it for its holder or its client. Without effect if it is over already.
    pub(super) fn end(&mut self, now: Moment, end: End) {
        if self.settle(now).is_none() {
            self.end = Some(end);
        }
    }

    /// True once no renewal can move the deadline.
    pub(super) fn at_limit(&self) -> bool {
        self.valid_until >= self.limit.0
    }

    fn loss_by_deadline(&mut self) -> Loss {
        if self.at_limit() {
            return Loss::new(self.limit.1);
        }
        match self.failure.take() {
            Some(error) => Loss::unreachable(error),
            None if self.unanswered > 0 => Loss::unreachable(no_answer_yet()),
            None => Loss::new(LossCause::Expired),
        }
    }
}

fn no_answer_yet() -> Error {
    Error::new(ErrorKind::Indeterminate, "the store has not answered a renewal")
}

fn not_extended() -> Error {
    Error::new(ErrorKind::Unavailable, "the store has the lock as ours but did not extend it")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::since_origin(Duration::from_secs(seconds))
    }

    fn granted() -> HoldState {
        HoldState::granted(at(10), Moment::NEVER, Moment::NEVER)
    }

    fn cause(state: &mut HoldState, now: Moment) -> Option<LossCause> {
        state.loss(now).map(|loss| loss.cause())
    }

    fn unknown() -> Result<Renewal> {
        Err(Error::new(ErrorKind::Indeterminate, "no reply"))
    }

    #[test]
    fn holder_counts_a_shorter_lease_than_the_store() {
        let end = |length| valid_until(Moment::ORIGIN, length).since(Moment::ORIGIN);
        assert_eq!(end(Duration::from_secs(10)), Duration::from_millis(9_898));
        assert_eq!(end(Duration::from_millis(50)), Duration::from_micros(47_500));
        assert_eq!(end(Duration::from_millis(1)), Duration::ZERO);
    }

    #[test]
    fn deadline_ends_the_hold() {
        let mut state = granted();
        assert_eq!(cause(&mut state, at(9)), None);
        assert_eq!(cause(&mut state, at(10)), Some(LossCause::Expired));
    }

    #[test]
    fn late_confirmation_revives_nothing() {
        let mut state = granted();
        state.answered(at(10), at(20), Ok(Renewal::Renewed));
        assert_eq!(cause(&mut state, at(10)), Some(LossCause::Expired));
    }

    #[test]
    fn confirmed_renewal_moves_the_deadline_and_never_back() {
        let mut state = granted();
        state.answered(at(5), at(15), Ok(Renewal::Renewed));
        state.answered(at(6), at(13), Ok(Renewal::Renewed));
        assert_eq!(state.valid_until, at(15));
    }

    #[test]
    fn unknown_outcome_puts_at_risk_until_a_confirmation() {
        let mut state = granted();
        state.answered(at(3), at(13), unknown());
        assert!(state.failure.is_some());
        assert_eq!(state.valid_until, at(10));
        state.answered(at(4), at(14), Ok(Renewal::Renewed));
        assert!(state.failure.is_none());
    }

    #[test]
    fn held_but_not_extended_moves_no_deadline() {
        let mut state = granted();
        state.answered(at(3), at(13), Ok(Renewal::Held));
        assert!(state.failure.is_some());
        assert_eq!(state.valid_until, at(10));
    }

    #[test]
    fn unknown_outcome_until_the_deadline_is_unreachable() {
        let mut state = granted();
        state.answered(at(3), at(13), unknown());
        assert_eq!(cause(&mut state, at(10)), Some(LossCause::Unreachable));
    }

    #[test]
    fn first_renewal_without_answer_until_the_deadline_is_unreachable() {
        let mut state = granted();
        state.renewal_sent();
        assert!(state.failure.is_none(), "the answer may be on its way");
        state.answered(at(10), at(19), Ok(Renewal::Renewed));
        assert_eq!(cause(&mut state, at(10)), Some(LossCause::Unreachable));
    }

    #[test]
    fn renewal_that_died_with_its_task_is_forgotten_at_the_next_confirmation() {
        let mut state = granted();
        state.renewal_sent();
        state.renewal_sent();
        state.answered(at(6), at(16), Ok(Renewal::Renewed));
        state.renewal_overdue();
        assert!(state.failure.is_none());
        assert_eq!(cause(&mut state, at(16)), Some(LossCause::Expired));
    }

    #[test]
    fn unanswered_renewal_puts_at_risk_when_the_next_is_due() {
        let mut state = granted();
        state.renewal_overdue();
        state.renewal_sent();
        assert!(state.failure.is_none());
        state.renewal_overdue();
        state.renewal_sent();
        assert!(state.failure.is_some());
        state.answered(at(4), at(13), Ok(Renewal::Renewed));
        assert!(state.failure.is_none());
        state.answered(at(5), at(14), Ok(Renewal::Renewed));
        assert_eq!(cause(&mut state, at(14)), Some(LossCause::Expired));
    }

    #[test]
    fn lost_answer_ends_the_hold_before_its_deadline() {
        let mut state = granted();
        state.answered(at(3), at(13), Ok(Renewal::Lost(LossCause::Taken)));
        assert_eq!(cause(&mut state, at(3)), Some(LossCause::Taken));
    }

    #[test]
    fn first_cause_stays() {
        let mut state = granted();
        state.answered(at(3), at(13), Ok(Renewal::Lost(LossCause::Gone)));
        state.answered(at(4), at(14), Ok(Renewal::Renewed));
        state.end(at(5), End::Released);
        assert_eq!(cause(&mut state, at(99)), Some(LossCause::Gone));
    }

    #[test]
    fn renewal_moves_the_deadline_to_the_limit_at_most() {
        let mut state = HoldState::granted(at(10), at(12), Moment::NEVER);
        assert!(!state.at_limit());
        state.answered(at(5), at(15), Ok(Renewal::Renewed));
        assert!(state.at_limit());
        assert_eq!(cause(&mut state, at(12)), Some(LossCause::MaxHold));
    }

    #[test]
    fn fixed_lease_that_is_renewed_expires_at_its_end() {
        let mut state = HoldState::granted(at(10), Moment::NEVER, at(15));
        state.answered(at(8), at(18), Ok(Renewal::Renewed));
        assert!(state.at_limit());
        assert_eq!(cause(&mut state, at(14)), None);
        assert_eq!(cause(&mut state, at(15)), Some(LossCause::Expired));
    }

    #[test]
    fn max_hold_is_the_cause_if_both_limits_are_equal() {
        let cause_of = |max_hold| cause(&mut HoldState::granted(at(20), at(max_hold), at(15)), at(15));
        assert_eq!(cause_of(15), Some(LossCause::MaxHold));
        assert_eq!(cause_of(16), Some(LossCause::Expired));
    }

    #[test]
    fn released_hold_is_not_lost_later() {
        let mut state = granted();
        state.end(at(5), End::Released);
        assert_eq!(cause(&mut state, at(99)), None);
        assert!(matches!(state.settle(at(99)), Some(End::Released)));
    }
}
