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

/// What rings while this process has the lock is most likely the echo of what it gave up itself.
const ECHO: Duration = Duration::from_millis(10);

/// Those who wait for one name. The first to come is the first to be woken, and nobody is woken with him.
#[derive(Debug)]
pub(super) struct Room {
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
}

/// What the last look has found: a holder.
#[derive(Debug)]
struct Seen {
    owner: Option<OwnerId>,
    believed_until: Instant,
}

/// Who hears that a lock was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// Only who is woken by this process. If it dies before he has the lock, others look by themselves before long.
    Nobody,
    /// Everybody who listens.
    Everybody,
    /// There is nothing to listen to: others look when they look.
    ByLooks,
}

impl Room {
    pub(super) fn new(now: Instant) -> Self {
        Self {
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
        !self.waiting.is_empty() || self.owes_word
    }

    pub(super) fn is_forgotten(&self, now: Instant) -> bool {
        !self.is_looked_at() && now >= self.last_use + FORGET_AFTER
    }

    /// Stands in line. Who had his turn and did not get the lock keeps his place.
    pub(super) fn enter(&mut self, owner: OwnerId, now: Instant, has_bell: bool) -> oneshot::Receiver<()> {
        let (wake, woken) = oneshot::channel();
        let waiter = Waiter { owner, wake };
        self.last_use = now;
        if self.turn == Some(owner) {
            self.turn = None;
            self.keep_apart();
            self.due = self.due.min(now + jittered(self.spread));
            self.waiting.push_front(waiter);
            return woken;
        }
        if self.waiting.is_empty() && !self.is_believed_held(now) {
            // With a bell, a look is what says that somebody waits.
            let soon = if has_bell { Duration::ZERO } else { SHORTEST.max(self.spread) };
            self.due = (now + soon).max(self.stands_back_until);
        }
        self.waiting.push_back(waiter);
        woken
    }

    /// Takes out who has left. `unheard` if he was woken, and gone before he heard it: somebody else is to be.
    pub(super) fn leave(&mut self, unheard: bool, now: Instant) {
        self.waiting.retain(|waiter| !waiter.wake.is_closed());
        if unheard {
            self.due = now;
        }
    }

    /// True if the store need not be asked: a look has found the lock held by another, or others are before him in line;
    /// and the next look is not overdue.
    pub(super) fn keeps_waiting(&self, owner: OwnerId, now: Instant) -> bool {
        let is_his =
            self.turn == Some(owner) || self.seen.as_ref().is_some_and(|seen| seen.owner == Some(owner));
        let is_in_line = (self.turn.is_some() || !self.waiting.is_empty()) && now < self.due + GRACE;
        let stands_back = now < self.stands_back_until;
        !is_his && (self.is_believed_held(now) || (!self.blind && (is_in_line || stands_back)))
    }

    pub(super) fn is_believed_held(&self, now: Instant) -> bool {
        self.seen.as_ref().is_some_and(|seen| now < seen.believed_until)
    }

    /// Granted to one of this process.
    pub(super) fn taken(&mut self, owner: OwnerId, now: Instant, longest: Duration) {
        self.turn = None;
        self.runs.taken(owner, now);
        (self.owes_word, self.free_looks) = (false, 0);
        // Whoever gives it up says so.
        self.due = self.looked_at + longest;
    }

    /// True if what this owner gives up is for the next of this process, so that nobody else need be told.
    pub(super) fn hands_on(&self, owner: OwnerId, now: Instant) -> bool {
        !self.waiting.is_empty() && self.runs.goes_on(owner, now)
    }

    /// Given up by one of this process: the next of them has his turn, or, after a while, whoever is the first to look.
    pub(super) fn given_up(&mut self, owner: OwnerId, now: Instant, told: Told) {
        self.seen = None;
        let (own, run_goes_on) = self.runs.given_up(owner, now);
        self.owes_word = told == Told::Nobody;
        if self.owes_word || run_goes_on {
            return self.wake_first(now);
        }
        let back = self.runs.stand_back(&own, self.spread, now);
        self.stands_back_until = now + back;
        let others = match told {
            Told::ByLooks => ((now - own.since) / PART_OF_HOLD).max(SHORTEST),
            Told::Everybody | Told::Nobody => Duration::ZERO,
        };
        self.due = self.due.min(now + back.max(others));
    }

    /// What was known is out of date.
    pub(super) fn forget(&mut self) {
        self.seen = None;
    }

    /// A look is sent.
    pub(super) fn looks(&mut self, now: Instant) {
        self.rang = false;
        self.looked_at = now;
    }

    /// The look did not come about. Nobody is woken.
    pub(super) fn failed(&mut self, due: Instant) {
        self.seen = None;
        (self.blind, self.owes_word) = (true, false);
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
    pub(super) fn found_held(&mut self, held: Held, now: Instant, longest: Duration, has_bell: bool) {
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
        let pause = if has_bell || is_own { longest } else { self.pause_after(held.since) };
        (self.blind, self.owes_word, self.free_looks) = (false, false, 0);
        let due = now + pause.clamp(SHORTEST, longest);
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
        let has_it = self.runs.has_it() || self.turn.is_some();
        let pause = if has_it { ECHO } else { jittered(self.spread) };
        self.rang = !has_it;
        self.due = self.due.min((now + pause).max(self.stands_back_until));
        if let Some(seen) = &mut self.seen {
            seen.believed_until = now;
        }
    }

    fn wake_first(&mut self, now: Instant) {
        self.turn = None;
        while let Some(waiter) = self.waiting.pop_front() {
            if waiter.wake.send(()).is_ok() {
                self.turn = Some(waiter.owner);
                break;
            }
        }
        // If it is free then, whoever was woken has left, or the store is slow to grant.
        self.due = now + SHORTEST.max(self.spread) * 2_u32.pow(self.free_looks.min(5));
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
