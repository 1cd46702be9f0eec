//! Those of this process who wait for one name: who is woken, when, and when the row is looked at next.
//!
//! They stand in line. Whoever comes while others wait stands behind them, also one that has just given the lock up: it
//! would ask the store sooner than anybody who must first be woken, and have the lock again and again.

mod looks;

use super::line::{Line, Spot, Woken};
use super::rivals::Rivals;
use super::runs::{Runs, jittered};
use leasehold_core::OwnerId;
use std::task::Waker;
use std::time::Duration;
use tokio::time::Instant;

/// The shortest pause between two looks at one name.
pub(super) const SHORTEST: Duration = Duration::from_millis(1);

/// For how long a look is believed, a turn respected and a place kept, beyond the time at which news of it is due.
pub(super) const GRACE: Duration = Duration::from_millis(50);

/// How long a waiter that was woken may take to be granted the lock, before somebody looks what became of it. If it
/// gives up while it asks, that is heard at once.
pub(super) const PATIENCE: Duration = Duration::from_millis(10);

/// A lock that has been held for so long is looked at again after this part of it: the wait becomes longer by as little.
const PART_OF_HOLD: u32 = 16;

/// For how long a name that nobody waits for is kept in mind: about as long as rivals stay the same.
const FORGET_AFTER: Duration = Duration::from_secs(5);

/// Those who wait for one name. The first to come is the first to be woken, and is woken alone.
#[derive(Debug)]
pub(super) struct Room {
    /// The longest pause between two looks.
    longest: Duration,
    /// True if somebody rings when the lock is given up.
    has_bell: bool,
    line: Line,
    turn: Option<Turn>,
    runs: Runs,
    /// After a run of this process others are to look before it.
    stands_back_until: Instant,
    /// When the next look is sent.
    pub(super) due: Instant,
    looked_at: Instant,
    /// True while the last look has no answer.
    is_looking: bool,
    /// True if something has happened since the last look was sent: its answer may be old.
    is_old: bool,
    seen: Option<Seen>,
    /// How many looks in a row have found it free.
    free_looks: u32,
    /// Until then another one of this process asks, because a look is late.
    one_asks_until: Instant,
    /// True if the last look did not come about.
    looks_fail: bool,
    /// True if the last who asked had no answer.
    asks_fail: bool,
    pub(super) rivals: Rivals,
    /// True if it was given up without a word to others, for one of this process who has not taken it yet.
    owes_word: bool,
    last_use: Instant,
}

/// Who was woken last, and asks, or is about to.
#[derive(Clone, Copy, Debug)]
struct Turn {
    owner: OwnerId,
    /// Then the turn is over, whatever became of its owner.
    until: Instant,
}

/// What the last look has found: a holder.
#[derive(Debug)]
struct Seen {
    owner: Option<OwnerId>,
    believed_until: Instant,
}

impl Room {
    pub(super) fn new(now: Instant, longest: Duration, has_bell: bool) -> Self {
        Self {
            longest,
            has_bell,
            line: Line::default(),
            turn: None,
            runs: Runs::default(),
            stands_back_until: now,
            due: now,
            looked_at: now,
            is_looking: false,
            is_old: false,
            seen: None,
            free_looks: 0,
            one_asks_until: now,
            looks_fail: false,
            asks_fail: false,
            rivals: Rivals::default(),
            owes_word: false,
            last_use: now,
        }
    }

    /// True if there is a reason to look.
    pub(super) fn is_looked_at(&self) -> bool {
        !self.line.is_empty() || self.owes_word
    }

    pub(super) fn is_forgotten(&self, now: Instant) -> bool {
        !self.is_looked_at() && now >= self.last_use + FORGET_AFTER
    }

    /// Stands in line. One that had its turn, and did not get the lock, is the first of it.
    pub(super) fn enter(&mut self, owner: OwnerId, now: Instant) -> Spot {
        self.last_use = now;
        if self.has_turn(owner) {
            self.turn = None;
            // Where asking fails, nobody was quicker, and the next look is soon enough.
            if !self.asks_fail {
                self.rivals.was_quicker();
                self.look_by(now + jittered(self.rivals.spread()));
            }
            return self.line.enter_first(owner);
        }
        if self.line.is_empty() && !self.is_turn(now) && !self.is_believed_held(now) {
            // With a bell, a look is what says that somebody waits.
            let soon = if self.has_bell { Duration::ZERO } else { SHORTEST.max(self.rivals.spread()) };
            self.due = (now + soon).max(self.stands_back_until);
        }
        self.line.enter(owner, now)
    }

    /// From now on, whoever stands there is woken by this waker. Answers the one that it replaces, to be dropped
    /// without the lock of all rooms; an error if they were woken before.
    pub(super) fn listen(&mut self, spot: Spot, waker: &Waker) -> Result<Option<Waker>, Woken> {
        self.line.listen(spot, waker)
    }

    /// Somebody is not here any more. If they were woken, and are gone before they heard it, somebody else is to be
    /// woken. Answers their waker, to be dropped without the lock of all rooms.
    pub(super) fn leave(&mut self, spot: Spot, now: Instant) -> Result<Option<Waker>, Woken> {
        let left = self.line.leave(spot, now);
        if left.is_err() {
            self.look_by(now);
        }
        left
    }

    /// Who is to be woken as soon as the lock of all rooms is given back.
    pub(super) fn take_wakers(&mut self) -> Vec<Waker> {
        self.line.take_wakers()
    }

    /// True if the store need not be asked: a look has found the lock held by another, or others are before this owner
    /// in line. Not for longer than until the next look; if that is late, one of them asks now and then, and not all:
    /// thousands who ask because their process has no time for a look leave it even less. Not where looks or questions
    /// fail: then each waiter asks for itself, and hears why.
    pub(super) fn keeps_waiting(&mut self, owner: OwnerId, now: Instant) -> bool {
        let is_his = self.has_turn(owner) || self.seen.as_ref().is_some_and(|seen| seen.owner == Some(owner));
        // A look that has no answer is not waited for any longer than one that is due.
        let news_by = if self.is_looking { self.looked_at } else { self.due };
        let is_in_line = self.is_turn(now) || (!self.line.is_empty() && now < news_by + GRACE);
        let another_asks = !self.line.is_empty() && now < self.one_asks_until;
        let stands_back = now < self.stands_back_until;
        let fails = self.looks_fail || self.asks_fail;
        let keeps = self.is_believed_held(now) || (!fails && (is_in_line || another_asks || stands_back));
        if !keeps {
            self.one_asks_until = now + GRACE;
        }
        keeps && !is_his
    }

    /// What came of asking: whether it was granted to this owner, who is of this process, or no answer.
    pub(super) fn asked(&mut self, owner: OwnerId, granted: Option<bool>, now: Instant) {
        self.asks_fail = granted.is_none();
        if granted != Some(true) {
            return;
        }
        self.turn = self.turn.filter(|turn| turn.owner != owner);
        self.runs.taken(owner, now);
        self.rivals.won();
        (self.is_old, self.owes_word, self.free_looks) = (true, false, 0);
        // Whoever gives it up says so.
        self.due = self.looked_at + self.longest;
    }

    /// True if what this owner gives up is for the next of this process, so that nobody else need be told.
    pub(super) fn hands_on(&self, owner: OwnerId, now: Instant) -> bool {
        self.has_bell && !self.line.is_empty() && self.runs.goes_on(owner, now)
    }

    /// Given up by one of this process: the next of them has its turn, or, after a while, whoever is the first to look.
    /// In silence if nobody else was told, because it [hands on](Self::hands_on).
    pub(super) fn given_up(&mut self, owner: OwnerId, now: Instant, in_silence: bool) {
        if self.runs.has_it() && !self.runs.is_own(Some(owner)) {
            // The store was quicker than its answer: somebody of this process has it again.
            return;
        }
        (self.is_old, self.seen, self.owes_word) = (true, None, in_silence);
        let (own, run_goes_on) = self.runs.given_up(owner, now, in_silence);
        if run_goes_on {
            return self.wake_first(now);
        }
        let back = own.stand_back();
        self.stands_back_until = now + back;
        // It rings here as it does for others; without a bell, they look no sooner than this.
        if !self.has_bell || !back.is_zero() {
            let others = if self.has_bell { Duration::ZERO } else { self.pause_after(now - own.since) };
            self.look_by(now + back.max(others));
        }
    }

    /// What this owner gave up, or takes back, it did not have.
    pub(super) fn not_held(&mut self, owner: OwnerId, now: Instant) {
        self.seen = None;
        // Asked for the second time: the first may have been done in silence.
        if self.runs.is_over(owner) {
            self.owes_word |= self.has_bell;
            self.look_by(now);
        }
        self.runs.end(owner);
        if self.has_turn(owner) {
            self.turn = None;
            self.look_by(now);
        }
    }

    /// Whether this owner's lock was given up is not known. If it was in silence, nobody has heard of it.
    pub(super) fn given_up_perhaps(&mut self, owner: OwnerId, now: Instant, in_silence: bool) {
        (self.is_old, self.seen) = (true, None);
        self.runs.end_perhaps(owner, now);
        self.owes_word |= in_silence;
        self.look_by(now);
    }

    /// Something was done to the lock from outside.
    pub(super) fn changed(&mut self, now: Instant) {
        (self.is_old, self.seen) = (true, None);
        self.look_by(now);
    }

    /// To be looked at then, if not sooner.
    pub(super) fn look_by(&mut self, at: Instant) {
        self.due = self.due.min(at).max(self.stands_back_until);
    }

    fn wake_first(&mut self, now: Instant) {
        self.turn = None;
        let Some(owner) = self.line.wake_first() else {
            // If others have not been told, a look shows whether they have to be.
            return self.look_by(now);
        };
        let patience = PATIENCE.max(self.rivals.spread()) * 2_u32.pow(self.free_looks.min(5));
        self.due = now + patience.min(self.longest);
        self.turn = Some(Turn { owner, until: self.due + GRACE });
        self.free_looks += 1;
    }

    fn has_turn(&self, owner: OwnerId) -> bool {
        self.turn.is_some_and(|turn| turn.owner == owner)
    }

    fn is_turn(&self, now: Instant) -> bool {
        self.turn.is_some_and(|turn| now < turn.until)
    }

    /// One of this process has it, as far as is known here, or is about to.
    fn is_ours(&self, now: Instant) -> bool {
        self.runs.has_it() || self.is_turn(now)
    }

    fn is_believed_held(&self, now: Instant) -> bool {
        self.seen.as_ref().is_some_and(|seen| now < seen.believed_until)
    }

    fn pause_after(&self, held_for: Duration) -> Duration {
        (held_for / PART_OF_HOLD).max(jittered(self.rivals.spread())).max(SHORTEST)
    }
}
