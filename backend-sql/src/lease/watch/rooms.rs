//! Who waits for which name in this process, and when the row of each name is looked at next. State alone: it asks nobody.

use crate::server::Ring;
use leasehold_core::OwnerId;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

/// The shortest pause between two looks at one name.
const SHORTEST: Duration = Duration::from_millis(1);

/// A lock that has been held for so long is looked at again after this part of it: the wait becomes longer by as little.
const PART_OF_HOLD: u32 = 16;

/// How far processes that compete for one name keep apart at most.
const WIDEST: Duration = Duration::from_millis(30);

/// For how long a look is believed beyond the time at which the next one is due.
const GRACE: Duration = Duration::from_millis(50);

/// For how long a name that nobody waits for is kept in mind: about as long as rivals stay the same.
const FORGET_AFTER: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Rooms {
    rooms: Mutex<HashMap<Vec<u8>, Room>>,
    /// The longest pause between two looks.
    longest: Duration,
    /// True if somebody rings when a lock is given up, so that only then there is a reason to look.
    has_bell: bool,
    /// Told when there may be something to look at sooner than was said.
    pub(super) sooner: Arc<Notify>,
}

/// Those who wait for one name. The first to come is the first to be woken, and nobody is woken with him.
#[derive(Debug)]
struct Room {
    waiting: VecDeque<Waiter>,
    due: Instant,
    seen: Option<Seen>,
    /// Over what time the looks of competing processes are to be spread. Grows when somebody else was quicker, shrinks
    /// when nobody was: so the looks at one name are a few for each hand-over, whatever the number of processes.
    spread: Duration,
    /// True if it rang since the last look was sent.
    rang: bool,
    /// How many looks in a row have found it free.
    free_looks: u32,
    last_use: Instant,
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

/// A name as a look has found it held.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) owner: Option<OwnerId>,
    pub(super) since: Duration,
}

/// What is to be done next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    Look(Vec<Vec<u8>>),
    Sleep(Instant),
    /// Nobody waits.
    Nothing,
}

impl Rooms {
    pub(super) fn new(longest: Duration, has_bell: bool) -> Self {
        Self { rooms: Mutex::default(), longest, has_bell, sooner: Arc::default() }
    }

    /// Waits until it is worth asking for a name.
    pub(super) async fn wait(self: &Arc<Self>, name: Vec<u8>, owner: OwnerId) {
        let mut place = self.enter(name, owner);
        let _ = (&mut place.woken).await;
    }

    fn enter(self: &Arc<Self>, name: Vec<u8>, owner: OwnerId) -> Place {
        let (wake, woken) = oneshot::channel();
        let now = Instant::now();
        {
            let mut rooms = self.rooms();
            let room = rooms.entry(name.clone()).or_insert_with(|| Room::new(now));
            if room.waiting.is_empty() {
                if !room.is_believed_held(now) {
                    // With a bell, a look is what says that somebody waits.
                    room.due = now + if self.has_bell { Duration::ZERO } else { SHORTEST.max(room.spread) };
                }
                self.sooner.notify_one();
            }
            room.waiting.push_back(Waiter { owner, wake });
            room.last_use = now;
        }
        Place { rooms: Arc::clone(self), name, woken }
    }

    /// True if a look has found the lock held by another, and the next look is not overdue.
    pub(super) fn know_held(&self, name: impl FnOnce() -> Vec<u8>, owner: OwnerId) -> bool {
        let by_another = |seen: &Seen| seen.owner != Some(owner) && Instant::now() < seen.believed_until;
        let rooms = self.rooms();
        let room = if rooms.is_empty() { None } else { rooms.get(&name()) };
        room.and_then(|room| room.seen.as_ref()).is_some_and(by_another)
    }

    /// What was known of a name is out of date.
    pub(super) fn forget(&self, name: &[u8]) {
        if let Some(room) = self.rooms().get_mut(name) {
            room.seen = None;
        }
    }

    pub(super) fn next(&self) -> Next {
        let (now, mut rooms) = (Instant::now(), self.rooms());
        rooms.retain(|_, room| !room.waiting.is_empty() || now < room.last_use + FORGET_AFTER);
        let wanted = || rooms.iter().filter(|(_, room)| !room.waiting.is_empty());
        let Some(first) = wanted().map(|(_, room)| room.due).min() else {
            return Next::Nothing;
        };
        if first > now {
            return Next::Sleep(first);
        }
        // What is due soon comes along.
        let names: Vec<Vec<u8>> = wanted()
            .filter(|(_, room)| room.due <= now + SHORTEST / 2)
            .map(|(name, _)| name.clone())
            .collect();
        for name in &names {
            if let Some(room) = rooms.get_mut(name) {
                room.rang = false;
            }
        }
        Next::Look(names)
    }

    /// A look has found a name like this. Who waits for a free one is woken: the first of them.
    pub(super) fn found(&self, name: &[u8], held: Option<Held>) {
        let now = Instant::now();
        let mut rooms = self.rooms();
        let Some(room) = rooms.get_mut(name) else { return };
        match held {
            None => room.found_free(now),
            Some(held) => {
                let pause = match self.has_bell {
                    true => self.longest,
                    false => (held.since / PART_OF_HOLD).max(jittered(room.spread)),
                };
                room.found_held(held, now, pause.clamp(SHORTEST, self.longest));
            }
        }
    }

    /// The look did not come about. Nobody is woken: who asks for himself hears why.
    pub(super) fn failed(&self, names: &[Vec<u8>]) {
        let (due, mut rooms) = (Instant::now() + self.longest, self.rooms());
        for name in names {
            if let Some(room) = rooms.get_mut(name) {
                room.seen = None;
                room.due = due;
            }
        }
    }

    /// To be looked at now, although the last look is not over for long.
    pub(super) fn look_again(&self, name: &[u8]) {
        if let Some(room) = self.rooms().get_mut(name) {
            room.due = Instant::now();
        }
    }

    fn rooms(&self) -> MutexGuard<'_, HashMap<Vec<u8>, Room>> {
        self.rooms.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Room {
    fn new(now: Instant) -> Self {
        Self {
            waiting: VecDeque::new(),
            due: now,
            seen: None,
            spread: Duration::ZERO,
            rang: false,
            free_looks: 0,
            last_use: now,
        }
    }

    fn is_believed_held(&self, now: Instant) -> bool {
        self.seen.as_ref().is_some_and(|seen| now < seen.believed_until)
    }

    fn found_free(&mut self, now: Instant) {
        self.seen = None;
        self.spread /= 2;
        // If it is still free then, whoever was woken has left, or the store is slow to grant.
        self.due = now + SHORTEST.max(self.spread) * 2_u32.pow(self.free_looks.min(5));
        self.free_looks += 1;
        while let Some(waiter) = self.waiting.pop_front() {
            if waiter.wake.send(()).is_ok() {
                break;
            }
        }
    }

    fn found_held(&mut self, held: Held, now: Instant, pause: Duration) {
        if self.seen.as_ref().is_some_and(|seen| seen.owner != held.owner) {
            self.spread = (self.spread * 2).clamp(SHORTEST, WIDEST);
        }
        self.free_looks = 0;
        let due = now + pause;
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

    fn ring(&mut self, now: Instant) {
        self.rang = true;
        self.due = self.due.min(now + jittered(self.spread));
        if let Some(seen) = &mut self.seen {
            seen.believed_until = now;
        }
    }
}

impl Ring for Rooms {
    fn ring(&self, name: &[u8]) {
        if let Some(room) = self.rooms().get_mut(name) {
            room.ring(Instant::now());
        }
        self.sooner.notify_one();
    }

    fn ring_all(&self) {
        self.rooms().values_mut().for_each(|room| room.ring(Instant::now()));
        self.sooner.notify_one();
    }

    fn is_wanted(&self) -> bool {
        !self.rooms().is_empty()
    }
}

/// A waiter's own end of his place. Dropped, it is given up.
struct Place {
    rooms: Arc<Rooms>,
    name: Vec<u8>,
    woken: oneshot::Receiver<()>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.woken.close();
        if let Some(room) = self.rooms.rooms().get_mut(&self.name) {
            room.waiting.retain(|waiter| !waiter.wake.is_closed());
            // Woken, and gone before he heard it: somebody else is to be.
            if self.woken.try_recv().is_ok() {
                room.due = Instant::now();
                self.rooms.sooner.notify_one();
            }
        }
    }
}

fn jittered(spread: Duration) -> Duration {
    spread.mul_f64(fastrand::f64())
}

#[cfg(test)]
mod tests;
