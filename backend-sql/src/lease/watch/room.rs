//! Those of this process who wait for one name: who is woken, when, and when the row is looked at next.
//!
//! They stand in line. Who comes while others wait stands behind them, also who has just given the lock up: he would ask
//! the store sooner than anybody who must first be woken, and have it again and again.

use super::rooms::Held;
use super::runs::{FORGET_AFTER, Runs, jittered};
use leasehold_core::OwnerId;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// The shortest pause between two looks at one name.
pub(super) const SHORTEST: Duration = Duration::from_millis(1);

/// How far processes that compete for one name keep apart at most.
pub(super) const WIDEST: Duration = Duration::from_millis(16);

/// For how long a look is believed beyond the time at which the next one is due.
pub(super) const GRACE: Duration = Duration::from_millis(50);

/// A lock that has been held for so long is looked at again after this part of it: the wait becomes longer by as little.
const PART_OF_HOLD: u32 = 16;

/// How long who was woken may take to be granted the lock, before somebody looks what became of it. If he gives up, that is
/// heard at once.
pub(super) const PATIENCE: Duration = Duration::from_millis(10);

/// What rings while this process has the lock is most likely the echo of what it gave up itself.
const ECHO: Duration = Duration::from_millis(10);

/// Those who wait for one name. The first to come is the first to be woken, and nobody is woken with him.
#[derive(Debug)]
pub(super) struct Room {
    /// The longest pause between two looks.
    longest: Duration,
    /// True if somebody rings when the lock is given up.
    has_bell: bool,
    waiting: VecDeque<Waiter>,
    /// Who was woken last, and asks, or is about to.
    turn: Option<OwnerId>,
    runs: Runs,
    /// After a run of this process others are to look before it.
    stands_back_until: Instant,
    pub(super) due: Instant,
    /// When the last look was sent.
    looked_at: Instant,
    seen: Option<Seen>,
    /// Over what time the looks of competing processes are to be spread. Grows when somebody else was quicker, shrinks
    /// when nobody was: so the looks at one name are a few for each hand-over, whatever the number of processes.
    pub(super) spread: Duration,
    /// True if it was given up without a word to others, for one of this process who has not taken it yet.
    owes_word: bool,
    /// True if it rang since the last look was sent.
    rang: bool,
    /// True if the last look did not come about: everybody asks for himself, and hears why.
    blind: bool,
    /// How many looks in a row have found it free.
    free_looks: u32,
    pub(super) last_use: Instant,
}

#[derive(Debug)]
struct Waiter {
    owner: OwnerId,
    wake: oneshot::Sender<()>,
    /// Since when he is not here: he asks for himself, and will be back in a moment, or he has given up.
    away: Option<Instant>,
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
            waiting: VecDeque::new(),
            turn: None,
            runs: Runs::default(),
            stands_back_until: now,
            due: now,
            looked_at: now,
            seen: None,
            spread: Duration::ZERO,
            owes_word: false,
            rang: false,
            blind: false,
            free_looks: 0,
            last_use: now,
        }
    }

    /// True if there is a reason to look.
    pub(super) fn is_looked_at(&self) -> bool {
        self.is_waited_for() || self.owes_word
    }

    fn is_waited_for(&self) -> bool {
        self.waiting.iter().any(|waiter| waiter.away.is_none())
    }

    pub(super) fn is_forgotten(&self, now: Instant) -> bool {
        !self.is_looked_at() && now >= self.last_use + FORGET_AFTER
    }

    /// Stands in line. Who was in it a moment ago has his place still; who had his turn, and did not get the lock, the first.
    pub(super) fn enter(&mut self, owner: OwnerId, now: Instant) -> oneshot::Receiver<()> {
        let (wake, woken) = oneshot::channel();
        let waiter = Waiter { owner, wake, away: None };
        self.last_use = now;
        if self.turn == Some(owner) {
            self.turn = None;
            self.keep_apart();
            self.due = self.due.min(now + jittered(self.spread));
            self.waiting.push_front(waiter);
            return woken;
        }
        if !self.is_waited_for() && !self.is_believed_held(now) {
            // With a bell, a look is what says that somebody waits.
            let soon = if self.has_bell { Duration::ZERO } else { SHORTEST.max(self.spread) };
            self.due = (now + soon).max(self.stands_back_until);
        }
        self.waiting.retain(|waiter| waiter.away.is_none_or(|since| now < since + GRACE));
        match self.waiting.iter_mut().find(|waiter| waiter.owner == owner) {
            Some(place) => *place = waiter,
            None => self.waiting.push_back(waiter),
        }
        woken
    }

    /// Somebody is not here any more. `unheard` if he was woken, and gone before he heard it: somebody else is to be.
    pub(super) fn leave(&mut self, unheard: bool, now: Instant) {
        let left = self.waiting.iter_mut().filter(|waiter| waiter.away.is_none() && waiter.wake.is_closed());
        left.for_each(|waiter| waiter.away = Some(now));
        if unheard {
            self.due = now;
        }
    }

    /// True if the store need not be asked: a look has found the lock held by another, or others are before him in line;
    /// and the next look is not overdue.
    pub(super) fn keeps_waiting(&self, owner: OwnerId, now: Instant) -> bool {
        let is_his =
            self.turn == Some(owner) || self.seen.as_ref().is_some_and(|seen| seen.owner == Some(owner));
        let is_in_line = (self.turn.is_some() || self.is_waited_for()) && now < self.due + GRACE;
        let stands_back = now < self.stands_back_until;
        !is_his && (self.is_believed_held(now) || (!self.blind && (is_in_line || stands_back)))
    }

    pub(super) fn is_believed_held(&self, now: Instant) -> bool {
        self.seen.as_ref().is_some_and(|seen| now < seen.believed_until)
    }

    /// Granted to one of this process.
    pub(super) fn taken(&mut self, owner: OwnerId, now: Instant) {
        self.turn = self.turn.filter(|turn| *turn != owner);
        self.runs.taken(owner, now);
        (self.owes_word, self.free_looks) = (false, 0);
        // Whoever gives it up says so.
        self.due = self.looked_at + self.longest;
    }

    /// True if what this owner gives up is for the next of this process, so that nobody else need be told.
    pub(super) fn hands_on(&self, owner: OwnerId, now: Instant) -> bool {
        self.has_bell && self.is_waited_for() && self.runs.goes_on(owner, now)
    }

    /// Given up by one of this process: the next of them has his turn, or, after a while, whoever is the first to look.
    /// In silence if nobody else was told, because it [hands on](Self::hands_on).
    pub(super) fn given_up(&mut self, owner: OwnerId, now: Instant, in_silence: bool) {
        if self.runs.has_it() && !self.runs.is_own(Some(owner)) {
            // The store was quicker than its answer: somebody of this process has it again.
            return;
        }
        // A look that is under way may have seen what was before.
        (self.seen, self.rang, self.owes_word) = (None, true, in_silence);
        let (own, run_goes_on) = self.runs.given_up(owner, now);
        if in_silence || run_goes_on {
            return self.wake_first(now);
        }
        let back = self.runs.stand_back(&own, self.spread, now);
        self.stands_back_until = now + back;
        // Without a bell, others look no sooner than this.
        let others = if self.has_bell { Duration::ZERO } else { self.pause_after(now - own.since) };
        self.due = self.due.min(now + back.max(others));
    }

    /// What became of this owner's lock, or attempt, is not known, or what was known is out of date. If others had heard of it
    /// by what is not known, they have yet to be told.
    pub(super) fn forget(&mut self, owner: Option<OwnerId>, now: Instant, in_silence: bool) {
        self.seen = None;
        let Some(owner) = owner else { return };
        self.runs.is_over(owner);
        self.owes_word |= in_silence;
        if self.turn == Some(owner) || in_silence {
            self.turn = self.turn.filter(|turn| *turn != owner);
            self.due = now;
        }
    }

    /// One of this process has asked, and had no answer: everybody asks for himself, and hears why.
    pub(super) fn ask_failed(&mut self) {
        self.blind = true;
    }

    /// A look is sent.
    pub(super) fn looks(&mut self, now: Instant) {
        self.rang = false;
        self.looked_at = now;
    }

    /// The look did not come about. Nobody is woken.
    pub(super) fn failed(&mut self, due: Instant) {
        self.seen = None;
        self.blind = true;
        self.due = due;
    }

    /// A look has found it free. True if nobody of this process is there to take it, and others were not told.
    #[must_use]
    pub(super) fn found_free(&mut self, now: Instant) -> bool {
        self.blind = false;
        self.seen = None;
        self.spread /= 2;
        self.wake_first(now);
        self.turn.is_none() && std::mem::take(&mut self.owes_word)
    }

    /// A look has found it held.
    pub(super) fn found_held(&mut self, held: Held, now: Instant) {
        let is_own = self.runs.is_own(held.owner);
        if let Some(owner) = held.owner
            && !is_own
        {
            self.runs.note_rival(owner, now);
        }
        let is_new = self.seen.as_ref().is_some_and(|seen| seen.owner != held.owner);
        if is_new && !is_own {
            self.keep_apart();
        }
        // Who gives up what this process has says so.
        let pause = if self.has_bell || is_own { self.longest } else { self.pause_after(held.since) };
        (self.blind, self.free_looks) = (false, 0);
        self.owes_word &= self.rang;
        let due = now + pause.clamp(SHORTEST, self.longest);
        self.seen = Some(Seen { owner: held.owner, believed_until: due + GRACE });
        // What rang while the answer was on its way may be news.
        self.due = if self.rang { now + jittered(self.spread) } else { due };
        // One who has it and does not know: the answer to his attempt was lost.
        if let Some(at) = self.waiting.iter().position(|waiter| Some(waiter.owner) == held.owner)
            && let Some(waiter) = self.waiting.remove(at)
        {
            let _ = waiter.wake.send(());
        }
    }

    /// Somebody, of this process or another, has given it up.
    pub(super) fn ring(&mut self, now: Instant) {
        let has_it = self.runs.has_it() || (self.turn.is_some() && now < self.due + GRACE);
        let pause = if has_it { ECHO } else { jittered(self.spread) };
        self.rang = true;
        self.due = self.due.min((now + pause).max(self.stands_back_until));
        if let Some(seen) = &mut self.seen {
            seen.believed_until = now;
        }
    }

    fn wake_first(&mut self, now: Instant) {
        self.turn = None;
        while let Some(at) = self.waiting.iter().position(|waiter| waiter.away.is_none())
            && let Some(waiter) = self.waiting.remove(at)
        {
            if waiter.wake.send(()).is_ok() {
                self.turn = Some(waiter.owner);
                break;
            }
        }
        // Nobody is here. If others have not been told, a look shows whether they have to be.
        let Some(_) = self.turn else {
            self.due = now;
            return;
        };
        let patience = PATIENCE.max(self.spread) * 2_u32.pow(self.free_looks.min(5));
        self.due = now + patience.min(self.longest);
        self.free_looks += 1;
    }

    fn pause_after(&self, held_for: Duration) -> Duration {
        (held_for / PART_OF_HOLD).max(jittered(self.spread)).max(SHORTEST)
    }

    /// Somebody else was quicker.
    fn keep_apart(&mut self) {
        self.spread = (self.spread * 2).clamp(SHORTEST, WIDEST);
    }
}
