//! What is known of one name: who of this process wants it, who has it, and what is still to be ended in the store.
//!
//! Pure: no clock, no I/O, no task, and every question is answered under one mutex.

use super::LocalQueue;
use super::turn::Turn;
use crate::{
    Attempt, Busy, Claim, Error, FencingToken, Grant, LossCause, Moment, OwnerId, Release, Renewal, Result,
};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

impl Standing {
    pub(super) fn asked(&self) -> Option<&Claim> {
        match self {
            Self::Known(_) => None,
            Self::Ask(claim, _) => Some(claim),
        }
    }
}

/// What every line goes by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) queue: LocalQueue,
    /// Who has not asked for so long is passed over: its future is not polled, and those behind it wait for nothing.
    pub(super) patience: Duration,
}

#[derive(Debug, Default)]
pub(super) struct Line {
    /// First come, first served. Whom the hold was passed to stays the first until it takes its grant.
    waiting: VecDeque<Waiter>,
    /// The claim with which the first asks the store.
    contender: Option<Contender>,
    turn: Option<Turn>,
    ending: Vec<Ending>,
}

#[derive(Debug)]
struct Waiter {
    claim: Claim,
    wake: Arc<Notify>,
    seen: Moment,
    /// True if it was told to wait, or does not know what became of its request: then its release will come.
    told: bool,
}

#[derive(Debug)]
struct Contender {
    claim: Claim,
    /// When it was last sent and answered "busy"; the first time, until it is. What the store hands over by itself, it
    /// granted later than that.
    waiting_since: Option<Moment>,
    /// True if the store may have something of it.
    left_something: bool,
}

/// A claim that is to be released in the store when `owner` is, or is asked for again.
#[derive(Debug)]
struct Ending {
    owner: OwnerId,
    claim: Claim,
    /// Nobody asks any more after this: its lease has ended.
    until: Moment,
    /// What the store said of it.
    lost: Option<LossCause>,
}

/// How an attempt goes on.
pub(super) enum Next {
    Answer(Attempt),
    /// Ask the store for this claim, and tell what it said.
    Ask(Claim),
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
    /// Renew this claim in the store, and tell what it said. With the first token of the turn, if it is one.
    Ask(Claim, Option<FencingToken>),
}

/// Where news for a waiter come from.
pub(super) struct News {
    pub(super) wake: Arc<Notify>,
    /// The store may have some, too, for this claim.
    pub(super) asks_with: Option<Claim>,
}

/// Acquiring.
impl Line {
    pub(super) fn next(&mut self, claim: &Claim, now: Moment, rules: &Rules) -> Next {
        if let Some(turn) = self.turn.as_ref().filter(|turn| turn.holder() == claim.owner()) {
            if let Some(place) = self.place_of(claim.owner()) {
                self.waiting.remove(place);
                return Next::Answer(Attempt::Granted(turn.grant()));
            }
            // It has its grant and wants it anew: whole, or because the answer was lost.
            return Next::Ask(turn.claim().clone());
        }
        self.end_turn_that_is_over(now);
        if !claim.waits() {
            // Nobody passes by those who wait.
            let free = self.turn.is_none() && self.waiting.is_empty();
            return if free { Next::Ask(claim.clone()) } else { Next::Answer(self.busy(now)) };
        }
        self.stand_in_line(claim, now);
        self.pass_over_the_absent(now, rules);
        let first = self.waiting.front().is_some_and(|first| first.claim.owner() == claim.owner());
        match &self.turn {
            Some(turn) if first && turn.holder() == claim.owner() => self.next(claim, now, rules),
            turn if first && (turn.is_none() || self.contender.is_some()) => {
                Next::Ask(self.contend(claim, now, rules))
            }
            _ => Next::Answer(self.tell_to_wait(claim.owner(), now)),
        }
    }

    /// The store was asked for `asked` on behalf of `claim`. What `claim` is told; `None` if the store granted what nobody
    /// here wants any more, which is to be given back at once, and when `claim` is released at the latest.
    pub(super) fn heard(
        &mut self,
        claim: &Claim,
        asked: &Claim,
        sent_at: Moment,
        now: Moment,
        answer: Result<Attempt>,
        rules: &Rules,
    ) -> Result<Option<Attempt>> {
        match answer {
            Ok(Attempt::Granted(grant)) => Ok(self.heard_granted(claim, asked, sent_at, now, &grant, rules)),
            Ok(Attempt::Busy(busy)) => Ok(Some(self.heard_busy(claim, asked, sent_at, busy))),
            Err(error) => {
                self.heard_nothing(claim, asked, now, &error);
                Err(error)
            }
        }
    }

    fn heard_granted(
        &mut self,
        claim: &Claim,
        asked: &Claim,
        sent_at: Moment,
        now: Moment,
        grant: &Grant,
        rules: &Rules,
    ) -> Option<Attempt> {
        if let Some(turn) = self.turn.as_mut().filter(|turn| turn.claim().owner() == asked.owner()) {
            if turn.first() != grant.token {
                *turn = Turn::begin(asked.clone(), turn.holder(), grant, sent_at, now, rules.queue);
            } else if !grant.handed_over {
                turn.confirmed(sent_at, grant.lease.unwrap_or(asked.ttl()));
            }
        } else if let Some(contender) = self.contender.take_if(|it| it.claim.owner() == asked.owner())
            && let Some(first) = self.waiting.front()
        {
            let waiting_since = contender.waiting_since.unwrap_or(sent_at);
            let since = if grant.handed_over { waiting_since } else { sent_at };
            let turn = Turn::begin(asked.clone(), first.claim.owner(), grant, since, now, rules.queue);
            if first.claim.owner() != claim.owner() {
                first.wake.notify_one();
            }
            self.begin(turn, now);
        } else if asked.owner() == claim.owner() && !claim.waits() {
            self.begin(Turn::begin(asked.clone(), claim.owner(), grant, sent_at, now, rules.queue), now);
        } else {
            self.mark_told(claim.owner());
            self.leave_behind(claim.owner(), asked.clone(), now);
            return None;
        }
        match &self.turn {
            Some(turn) if turn.holder() == claim.owner() => {
                let grant = turn.grant();
                self.step_out(claim.owner());
                Some(Attempt::Granted(grant))
            }
            _ => Some(self.tell_to_wait(claim.owner(), now)),
        }
    }

    fn heard_busy(&mut self, claim: &Claim, asked: &Claim, sent_at: Moment, busy: Busy) -> Attempt {
        if !claim.waits() {
            return Attempt::Busy(busy);
        }
        if self.turn.take_if(|turn| turn.claim().owner() == asked.owner()).is_some() {
            // The store took it before its new holder had begun: that one is the first to want it again.
            if self.place_of(claim.owner()).is_none() {
                self.waiting.push_front(Waiter::new(claim, sent_at));
            }
            self.contender = Some(Contender::new(asked.clone()));
        }
        if let Some(contender) = self.contender.as_mut().filter(|it| it.claim.owner() == asked.owner()) {
            contender.waiting_since = Some(sent_at);
            contender.left_something |= busy.queued;
        }
        self.mark_told(claim.owner());
        Attempt::Busy(busy.with_place_in_queue())
    }

    /// An unknown outcome is released by who has it. Who knows that nothing was done may go without a word.
    fn heard_nothing(&mut self, claim: &Claim, asked: &Claim, now: Moment, error: &Error) {
        if error.is_indeterminate() {
            if let Some(contender) = self.contender.as_mut().filter(|it| it.claim.owner() == asked.owner()) {
                contender.left_something = true;
            }
            return self.mark_told(claim.owner());
        }
        if let Some(place) = self.place_of(claim.owner())
            && self.waiting.get(place).is_some_and(|waiter| !waiter.told)
        {
            self.take_out(place, now);
        }
    }

    fn begin(&mut self, turn: Turn, now: Moment) {
        if let Some(earlier) = self.turn.replace(turn) {
            self.leave_behind(earlier.holder(), earlier.claim().clone(), now);
        }
    }

    /// The claim for the store: as many tokens as are of use.
    fn contend(&mut self, first: &Claim, now: Moment, rules: &Rules) -> Claim {
        let passes_on = self.waiting.get(1).is_some_and(|next| shares(&next.claim, first));
        let contender = self.contender.get_or_insert_with(|| Contender::new(first.clone()));
        contender.waiting_since.get_or_insert(now);
        contender.claim.clone().with_tokens(if passes_on { rules.queue.grants() } else { 1 })
    }

    fn stand_in_line(&mut self, claim: &Claim, now: Moment) {
        match self.waiting.iter_mut().find(|waiter| waiter.claim.owner() == claim.owner()) {
            Some(waiter) => waiter.seen = now,
            None => self.waiting.push_back(Waiter::new(claim, now)),
        }
    }

    /// Those who do not ask any more go to the end of the line, and the hold that one of them was given and did not take
    /// goes to the next.
    fn pass_over_the_absent(&mut self, now: Moment, rules: &Rules) {
        for _ in 1..self.waiting.len() {
            let is_absent = |first: &Waiter| now >= first.seen.plus(rules.patience);
            if !self.waiting.front().is_some_and(is_absent) {
                return;
            }
            self.waiting.rotate_left(1);
            let Some(absent) = self.waiting.back().map(|absent| absent.claim.owner()) else { return };
            if let Some(contender) = self.contender.take_if(|it| !next_shares(&self.waiting, &it.claim)) {
                self.leave_behind(absent, contender.claim, now);
            }
            if let Some(turn) = self.turn.take_if(|turn| turn.holder() == absent) {
                self.put_in_the_next(turn, now);
            }
        }
    }

    fn put_in_the_next(&mut self, mut turn: Turn, now: Moment) {
        match self.waiting.front().filter(|next| shares(&next.claim, turn.claim())) {
            Some(next) => {
                turn.put_in(next.claim.owner());
                next.wake.notify_one();
                self.turn = Some(turn);
            }
            None => self.leave_behind(turn.holder(), turn.claim().clone(), now),
        }
    }

    /// Its holder has not released, and its lease has ended: it may be free, and who waits must ask.
    fn end_turn_that_is_over(&mut self, now: Moment) {
        let Some(turn) = self.turn.take_if(|turn| turn.is_over(now)) else { return };
        self.abandon(&turn, now);
    }

    /// Ends a turn that the store may not keep any more. Who was given it and has not taken it asks for it anew.
    fn abandon(&mut self, turn: &Turn, now: Moment) {
        let not_taken = self.place_of(turn.holder()).is_some();
        if not_taken && self.contender.is_none() {
            self.contender = Some(Contender { left_something: true, ..Contender::new(turn.claim().clone()) });
        } else {
            self.leave_behind(turn.holder(), turn.claim().clone(), now);
        }
    }
}

/// Leaving.
impl Line {
    pub(super) fn leave(&mut self, claim: &Claim, linger: Duration, now: Moment) -> Way {
        let owner = claim.owner();
        let waited = self.step_out_of_line(owner, now);
        if let Some(turn) = self.turn.take_if(|turn| turn.holder() == owner) {
            let Some(turn) = self.pass_on(turn, linger, now) else {
                return Way::Done(Release::Released);
            };
            self.leave_behind(owner, turn.claim().clone(), now);
        }
        if let Some(ending) = self.ending.iter_mut().find(|ending| ending.owner == owner) {
            ending.until = ending.until.max(now.plus(claim.ttl()));
            return Way::Release(ending.claim.clone());
        }
        // With the owner of one who has left, others may go on: nothing of theirs is released here.
        if waited || self.goes_on_with(owner) {
            return Way::Done(Release::NotHeld);
        }
        Way::Release(claim.clone())
    }

    /// The store was asked to release `asked`, for `owner`.
    pub(super) fn released(&mut self, owner: OwnerId, asked: &Claim, now: Moment, answer: &Result<Release>) {
        // After an outage the core asks again, until the lease must have ended.
        let asks_again = answer.as_ref().is_err_and(Error::is_outage);
        let is_it = |ending: &Ending| ending.owner == owner && ending.claim.owner() == asked.owner();
        self.ending.retain(|ending| !is_it(ending) || (asks_again && now < ending.until));
        self.wake_who_asks();
    }

    /// The turn, if nobody here can have it.
    fn pass_on(&mut self, mut turn: Turn, linger: Duration, now: Moment) -> Option<Turn> {
        if !linger.is_zero() || self.contender.is_some() || !turn.may_pass_on(now) {
            return Some(turn);
        }
        let Some(next) = self.waiting.front().filter(|next| shares(&next.claim, turn.claim())) else {
            return Some(turn);
        };
        turn.pass_to(next.claim.owner());
        next.wake.notify_one();
        self.turn = Some(turn);
        None
    }

    fn step_out_of_line(&mut self, owner: OwnerId, now: Moment) -> bool {
        let place = self.place_of(owner);
        if let Some(place) = place {
            self.take_out(place, now);
        }
        place.is_some()
    }

    /// Takes a waiter out. If it was the one who asked the store, the next goes on with its claim, or it is to be ended.
    fn take_out(&mut self, place: usize, now: Moment) {
        let Some(left) = self.waiting.remove(place) else { return };
        if place > 0 {
            return;
        }
        let nobodys = self.contender.take_if(|it| !next_shares(&self.waiting, &it.claim));
        if let Some(contender) = nobodys.filter(|contender| contender.left_something) {
            self.leave_behind(left.claim.owner(), contender.claim, now);
        }
        self.wake_who_asks();
    }

    fn leave_behind(&mut self, owner: OwnerId, claim: Claim, now: Moment) {
        let known = |ending: &Ending| ending.owner == owner && ending.claim.owner() == claim.owner();
        if !self.ending.iter().any(known) {
            let until = now.plus(claim.ttl());
            self.ending.push(Ending { owner, claim, until, lost: None });
        }
    }
}

/// Renewing.
impl Line {
    pub(super) fn standing(&self, claim: &Claim) -> Standing {
        let owner = claim.owner();
        if let Some(turn) = self.turn.as_ref().filter(|turn| turn.holder() == owner) {
            return Standing::Ask(turn.claim().clone().with_ttl(claim.ttl()), Some(turn.first()));
        }
        if let Some(cause) = self.ending.iter().find(|it| it.owner == owner).and_then(|it| it.lost) {
            return Standing::Known(Renewal::Lost(cause));
        }
        if self.goes_on_with(owner) {
            return Standing::Known(Renewal::Lost(LossCause::Gone));
        }
        Standing::Ask(claim.clone(), None)
    }

    /// The store was asked to renew `asked`. The owner that must be told, if the hold has passed to another meanwhile.
    pub(super) fn renewed(
        &mut self,
        claim: &Claim,
        asked: &Claim,
        first: FencingToken,
        sent_at: Moment,
        now: Moment,
        answer: &Result<Renewal>,
    ) -> Option<OwnerId> {
        let is_it = |turn: &Turn| turn.claim().owner() == asked.owner() && turn.first() == first;
        match answer {
            Ok(Renewal::Renewed) => {
                self.turn.as_mut().filter(|turn| is_it(turn))?.confirmed(sent_at, asked.ttl());
                None
            }
            Ok(Renewal::Lost(cause)) => {
                let turn = self.turn.take_if(|turn| is_it(turn))?;
                let holder = turn.holder();
                self.abandon(&turn, now);
                for ending in self.ending.iter_mut().filter(|ending| ending.owner == holder) {
                    ending.lost = Some(*cause);
                }
                self.wake_who_asks();
                (holder != claim.owner()).then_some(holder)
            }
            Ok(Renewal::Held) | Err(_) => None,
        }
    }

    /// Who holds what the store knows under this owner.
    pub(super) fn holder_of(&self, owner: OwnerId) -> Option<OwnerId> {
        self.turn.as_ref().filter(|turn| turn.claim().owner() == owner).map(Turn::holder)
    }
}

impl Line {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.contender.is_none() && self.turn.is_none() && self.ending.is_empty()
    }

    /// `None` for one who does not wait here.
    pub(super) fn news(&self, owner: OwnerId) -> Option<News> {
        let place = self.place_of(owner)?;
        let wake = Arc::clone(&self.waiting.get(place)?.wake);
        let asks_with = self.contender.as_ref().filter(|_| place == 0).map(|it| it.claim.clone());
        Some(News { wake, asks_with })
    }

    fn place_of(&self, owner: OwnerId) -> Option<usize> {
        self.waiting.iter().position(|waiter| waiter.claim.owner() == owner)
    }

    fn step_out(&mut self, owner: OwnerId) {
        if let Some(place) = self.place_of(owner) {
            self.waiting.remove(place);
        }
    }

    /// The first in the line had better ask the store, or again.
    fn wake_who_asks(&self) {
        if let Some(first) = self.waiting.front().filter(|_| self.turn.is_none()) {
            first.wake.notify_one();
        }
    }

    /// True if others go on with the claim of this owner.
    fn goes_on_with(&self, owner: OwnerId) -> bool {
        let of_turn = self.turn.as_ref().map(Turn::claim);
        let of_contender = self.contender.as_ref().map(|contender| &contender.claim);
        let ending = self.ending.iter().map(|ending| &ending.claim);
        of_turn.into_iter().chain(of_contender).chain(ending).any(|claim| claim.owner() == owner)
    }

    fn mark_told(&mut self, owner: OwnerId) {
        if let Some(waiter) = self.waiting.iter_mut().find(|waiter| waiter.claim.owner() == owner) {
            waiter.told = true;
        }
    }

    fn tell_to_wait(&mut self, owner: OwnerId, now: Moment) -> Attempt {
        self.mark_told(owner);
        match self.busy(now) {
            Attempt::Busy(busy) => Attempt::Busy(busy.with_place_in_queue()),
            granted @ Attempt::Granted(_) => granted,
        }
    }

    fn busy(&self, now: Moment) -> Attempt {
        let busy = Busy::new();
        Attempt::Busy(match &self.turn {
            Some(turn) => busy.with_end(turn.ends_at().since(now)),
            None => busy,
        })
    }
}

impl Waiter {
    fn new(claim: &Claim, now: Moment) -> Self {
        Self { claim: claim.clone(), wake: Arc::default(), seen: now, told: false }
    }
}

impl Contender {
    fn new(claim: Claim) -> Self {
        Self { claim, waiting_since: None, left_something: false }
    }
}

/// True if the first in the line can go on with this claim.
fn next_shares(waiting: &VecDeque<Waiter>, claim: &Claim) -> bool {
    waiting.front().is_some_and(|next| shares(&next.claim, claim))
}

/// True if what the store keeps for the one is what the other asks for, and what it shows is true of both.
fn shares(one: &Claim, other: &Claim) -> bool {
    one.ttl() == other.ttl() && one.mode() == other.mode() && one.holder() == other.holder()
}
