//! What is known of one name: who of this process wants it, who has it, and what is still to be ended in the store.
//!
//! Pure: no clock, no I/O, no task, and every question is answered under one mutex. Questions to the store overtake each
//! other; so does what it says. Each answer is held against what was asked, and one that is about the past changes nothing.

mod absent;
mod acquiring;
mod leaving;
mod renewing;
mod run;
#[cfg(test)]
mod tests;
mod waiter;

use super::LocalQueue;
use super::turn::Turn;
use crate::{Attempt, Claim, FencingToken, HoldKind, LossCause, Moment, OwnerId, Release, Renewal};
use run::Run;
use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use waiter::Waiter;

/// What every line goes by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) queue: LocalQueue,
    /// Who has not asked for so long is passed over: its future is not polled, and those behind it wait for nothing.
    pub(super) patience: Duration,
    /// Who has not asked for so long is taken out of the line: its runtime may be gone, and with it the task that would
    /// leave in its name.
    pub(super) gone_after: Duration,
    /// What ends a hold that nobody releases.
    pub(super) hold: HoldKind,
    /// For how long to stand back after a run, where the store arranges no order.
    pub(super) stand_back: Option<Duration>,
}

#[derive(Debug, Default)]
pub(super) struct Line {
    /// First come, first served. Whom the hold was passed to stays in it until it takes its grant.
    waiting: VecDeque<Waiter>,
    /// The claim with which the first asks the store.
    contender: Option<Contender>,
    /// How many there have been.
    contenders: u32,
    turn: Option<Turn>,
    run: Run,
    /// The last token that somebody was told here, and the owner under which the store had granted it.
    told: Option<(OwnerId, FencingToken)>,
    ending: Vec<Ending>,
    /// True if somebody was taken out of this line, or of one of its shard, or had to ask as another: as whom that one has asked
    /// is forgotten when it leaves the line, and it may come back.
    has_retired: bool,
    /// The place of whoever was last looked at, whether it is gone.
    looked_at: usize,
    to_wake: Vec<Waker>,
}

#[derive(Debug)]
struct Contender {
    claim: Claim,
    /// Tells it from an earlier one with the same claim.
    number: u32,
    /// How many of its questions have no answer: what the store has of these is not known yet, and will not be if the
    /// runtime ends that waits for it.
    unanswered: u32,
    /// When the last question was sent that was answered "busy"; the first one, until one is. What the store hands over by
    /// itself, it granted later than that.
    waiting_since: Moment,
    /// True if an answer has shown that the store may have something of it.
    left_something: bool,
}

/// A claim that is to be released in the store when its owner here is.
#[derive(Debug)]
struct Ending {
    owner: OwnerId,
    claim: Claim,
    /// The lease is counted from this moment if somebody goes on with the claim and learns that the store has handed it
    /// the lock, perhaps long ago.
    since: Moment,
    /// After this its lease has ended, if it is one.
    until: Moment,
    /// True once its owner has asked for the release: from then on `until` is counted, however often that is tried again.
    is_leaving: bool,
    /// What the store said of it.
    lost: Option<LossCause>,
    /// True if its owner was taken out of the line: whoever comes by releases it.
    is_orphan: bool,
}

/// A question to the store.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) claim: Claim,
    /// The turn that it is about, by its first token; `None` if it was none when it was asked.
    of_turn: Option<FencingToken>,
    /// The contender whose question it is, by its number.
    of_contender: Option<u32>,
    /// A moment before it is sent.
    sent_at: Moment,
    /// A moment before whatever the store may have handed over by itself until it answers, as this was known when it was
    /// asked: what is heard of the claim meanwhile is of later questions.
    waiting_since: Moment,
}

/// How an attempt goes on.
pub(super) enum Next {
    Answer(Attempt),
    /// Ask the store to acquire, and tell what it said.
    Ask(Question),
}

/// How a release goes on.
pub(super) enum Way {
    Done(Release),
    /// Release this claim in the store, and tell what it said.
    Release(Claim),
}

/// How a renewal goes on.
pub(super) enum Standing {
    Known(Renewal),
    /// Ask the store to renew, and tell what it said.
    Ask(Question),
}

/// Where news for a claim come from.
pub(super) enum News {
    /// From the store alone: it does not wait here.
    Store,
    /// From the line.
    Line,
    /// From the line, and then it is time to ask.
    LineUntil(Moment),
    /// From the line, and from the store for this claim.
    Both(Claim),
}

impl Line {
    /// A line of a client that has perhaps taken somebody out of one.
    pub(super) fn after(has_retired: bool) -> Self {
        Self { has_retired, ..Self::default() }
    }

    /// True if it has forgotten, or will, as whom somebody has asked who may come back.
    pub(super) fn has_retired(&self) -> bool {
        self.has_retired
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.contender.is_none() && self.turn.is_none() && self.ending.is_empty()
    }

    pub(super) fn news(&self, owner: OwnerId, now: Moment) -> News {
        if let Some(until) = self.stands_back_until(owner, now) {
            return News::LineUntil(until);
        }
        match (self.place_of(owner), &self.contender) {
            (None, _) => News::Store,
            (Some(0), Some(contender)) => News::Both(contender.claim.clone()),
            // It was told to stand back, and the time for that is over by now: nobody else would tell it to ask.
            (Some(0), None) if self.turn.is_none() => News::LineUntil(now),
            (Some(_), _) => News::Line,
        }
    }

    /// Ready when there was news for one who waits here; also if it does not any more, which is news.
    pub(super) fn poll_news(&mut self, owner: OwnerId, cx: &mut Context<'_>) -> Poll<()> {
        self.waiter(owner).map_or(Poll::Ready(()), |waiter| waiter.poll_news(cx))
    }

    /// Those for whom there is news: to be woken as soon as the mutex is given back, since a waker may do whatever it likes.
    pub(super) fn take_wakers(&mut self) -> Vec<Waker> {
        std::mem::take(&mut self.to_wake)
    }

    fn place_of(&self, owner: OwnerId) -> Option<usize> {
        self.waiting.iter().position(|waiter| waiter.owner == owner)
    }

    fn waiter(&mut self, owner: OwnerId) -> Option<&mut Waiter> {
        self.waiting.iter_mut().find(|waiter| waiter.owner == owner)
    }

    /// The first in the line had better ask the store; not one who would not hear of it.
    fn wake_who_asks(&mut self, now: Moment, rules: &Rules) {
        if self.turn.is_none() {
            self.pass_over_the_absent(now, rules);
            self.tell_first();
        }
    }

    fn tell_first(&mut self) {
        if let Some(first) = self.waiting.front_mut() {
            self.to_wake.extend(first.tell());
        }
    }

    /// Until when the first in the line leaves it to other processes to ask.
    fn stands_back_until(&self, owner: OwnerId, now: Moment) -> Option<Moment> {
        let asks = self.turn.is_none() && self.waiting.front().is_some_and(|first| first.owner == owner);
        self.run.stands_back_until(now).filter(|_| asks)
    }

    /// True if the first in the line can go on with this claim.
    fn first_shares(&self, claim: &Claim) -> bool {
        self.waiting.front().is_some_and(|first| first.shares(claim))
    }

    /// True if others go on with the claim of this owner.
    fn goes_on_with(&self, owner: OwnerId) -> bool {
        self.is_in_use(owner) || self.ending.iter().any(|ending| ending.claim.owner() == owner)
    }

    fn begin_to_contend(
        &mut self,
        claim: Claim,
        waiting_since: Moment,
        left_something: bool,
    ) -> &mut Contender {
        self.contenders = self.contenders.wrapping_add(1);
        let number = self.contenders;
        self.contender.insert(Contender { claim, number, unanswered: 0, waiting_since, left_something })
    }

    /// True if the claim of this owner has the hold, or asks for it.
    fn is_in_use(&self, owner: OwnerId) -> bool {
        let of_turn = self.turn.as_ref().map(Turn::claim);
        let of_contender = self.contender.as_ref().map(|contender| &contender.claim);
        of_turn.into_iter().chain(of_contender).any(|claim| claim.owner() == owner)
    }

    /// Makes those who wait with this owner ask as another. The word is sent to the store that releases what it has of it; that
    /// may be carried out late, and what is asked for from now on must not be ended by it.
    fn retire_owner(&mut self, owner: OwnerId) {
        for waiter in self.waiting.iter_mut().filter(|waiter| waiter.its.asks_as == owner) {
            waiter.its.asks_as = owner.next();
            self.has_retired = true;
        }
    }

    /// Remembers what is to be released in the store when `owner` is.
    fn leave_behind(&mut self, owner: OwnerId, claim: &Claim, since: Moment, now: Moment) {
        if !self.ending.iter().any(|ending| ending.is(owner, claim)) {
            let until = now.plus(claim.ttl());
            self.ending.push(Ending {
                owner,
                claim: claim.clone(),
                since,
                until,
                is_leaving: false,
                lost: None,
                is_orphan: false,
            });
        }
    }

    fn leave_turn_behind(&mut self, turn: &Turn, now: Moment) {
        self.leave_behind(turn.holder(), turn.claim(), turn.since(), now);
        for ending in self.ending.iter_mut().filter(|it| it.is(turn.holder(), turn.claim())) {
            // It may have been extended.
            ending.until = ending.until.max(turn.ends_at());
        }
    }

    /// A moment before the store can have granted what was left behind of this owner's claim.
    fn left_since(&self, owner: OwnerId) -> Option<Moment> {
        let left = self.ending.iter().filter(|ending| ending.claim.owner() == owner);
        left.map(|ending| ending.since).min()
    }
}

impl Contender {
    /// True if the store may have something of it.
    fn may_have_left_something(&self) -> bool {
        self.left_something || self.unanswered > 0
    }
}

impl Ending {
    fn is(&self, owner: OwnerId, claim: &Claim) -> bool {
        self.owner == owner && self.claim.owner() == claim.owner()
    }

    /// True if the store need not have it any more, released or not. What is no lease stays until it is released.
    fn is_over(&self, now: Moment, rules: &Rules) -> bool {
        rules.hold == HoldKind::Lease && now >= self.until
    }

    /// Its owner asks for the release, perhaps again, and goes on asking for one ttl.
    fn leave(&mut self, ttl: Duration, now: Moment) {
        if !std::mem::replace(&mut self.is_leaving, true) {
            self.until = self.until.max(now.plus(ttl));
        }
    }
}

impl Standing {
    pub(super) fn question(&self) -> Option<&Question> {
        match self {
            Self::Known(_) => None,
            Self::Ask(question) => Some(question),
        }
    }
}
