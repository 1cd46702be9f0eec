//! Who waits for which name in this process, and when the row of each name is looked at next. State alone: it asks nobody.

use super::line::{Spot, Woken};
use super::room::{Room, SHORTEST};
use crate::server::Ring;
use leasehold_core::OwnerId;
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

#[derive(Debug)]
pub(super) struct Rooms {
    rooms: Mutex<HashMap<Arc<[u8]>, Room>>,
    /// The longest pause between two looks.
    longest: Duration,
    /// True if somebody rings when a lock is given up, so that only then there is a reason to look.
    has_bell: bool,
    /// Told when there may be something to look at sooner than was said.
    pub(super) sooner: Arc<Notify>,
}

/// A name as a look has found it held.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) owner: Option<OwnerId>,
    pub(super) since: Duration,
}

/// How somebody's hold of a name ended, if it did.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    /// It is free now. In silence if the store told nobody, because this process hands on.
    GivenUp { by: OwnerId, in_silence: bool },
    /// There was no answer.
    Perhaps { by: OwnerId, in_silence: bool },
    /// There was nothing to give up, or others are kept out for a while.
    NotHeld { by: OwnerId },
    /// Somebody has taken it from its holder.
    FromOutside,
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

    /// A place among those who wait for a name, whose future ends when it is worth asking.
    pub(super) fn wait(&self, name: Vec<u8>, owner: OwnerId) -> Place<'_> {
        let now = Instant::now();
        let mut rooms = self.rooms();
        let known = rooms.get_key_value(name.as_slice()).map(|(name, _)| Arc::clone(name));
        let name = known.unwrap_or_else(|| name.into());
        let room =
            rooms.entry(Arc::clone(&name)).or_insert_with(|| Room::new(now, self.longest, self.has_bell));
        let spot = room.enter(owner, now);
        drop(rooms);
        self.sooner.notify_one();
        Place { rooms: self, unheard: Some(name), spot }
    }

    /// Who has the lock of all rooms drops no waker, and wakes nobody: with the last one a task may end, and its place in
    /// another room.
    fn listen(&self, name: &[u8], spot: Spot, waker: &Waker) -> Poll<()> {
        let listens = match self.rooms().get_mut(name) {
            Some(room) => room.listen(spot, waker),
            None => Err(Woken),
        };
        match listens {
            Ok(earlier) => {
                drop(earlier);
                Poll::Pending
            }
            Err(Woken) => Poll::Ready(()),
        }
    }

    fn leave(&self, name: &[u8], spot: Spot) {
        let left = self.rooms().get_mut(name).map(|room| room.leave(spot, Instant::now()));
        if let Some(Err(Woken)) = left {
            self.sooner.notify_one();
        }
    }

    /// True if a claim that waits need not ask the store.
    pub(super) fn keeps_waiting(&self, name: impl FnOnce() -> Vec<u8>, owner: OwnerId) -> bool {
        self.of(name, |room| room.keeps_waiting(owner, Instant::now())).unwrap_or(false)
    }

    /// What came of asking: granted or not to this owner, or no answer.
    pub(super) fn asked(&self, name: impl FnOnce() -> Vec<u8>, owner: OwnerId, granted: Option<bool>) {
        self.of(name, |room| room.asked(owner, granted, Instant::now()));
    }

    /// True if what this owner gives up is for another one of this process, and nobody else need be told.
    pub(super) fn hands_on(&self, name: impl FnOnce() -> Vec<u8>, owner: OwnerId) -> bool {
        self.of(name, |room| room.hands_on(owner, Instant::now())).unwrap_or(false)
    }

    /// What became of a lock that one of this process gave up, or something else that was done to it.
    pub(super) fn ended(&self, name: &[u8], end: End) {
        let now = Instant::now();
        let tell = |room: &mut Room| match end {
            End::GivenUp { by, in_silence } => room.given_up(by, now, in_silence),
            End::Perhaps { by, in_silence } => room.given_up_perhaps(by, now, in_silence),
            End::NotHeld { by } => room.not_held(by, now),
            End::FromOutside => room.changed(now),
        };
        if self.of(|| name.to_vec(), tell).is_some() {
            self.sooner.notify_one();
        }
    }

    /// Tells the room of this name something, and wakes who goes on after it. Where nobody waits, the name is not even made.
    fn of<T>(&self, name: impl FnOnce() -> Vec<u8>, tell: impl FnOnce(&mut Room) -> T) -> Option<T> {
        let mut rooms = self.rooms();
        let room = if rooms.is_empty() { None } else { rooms.get_mut(name().as_slice()) }?;
        let (told, to_wake) = (tell(room), room.take_wakers());
        drop(rooms);
        to_wake.into_iter().for_each(Waker::wake);
        Some(told)
    }

    pub(super) fn next(&self) -> Next {
        let (now, mut rooms) = (Instant::now(), self.rooms());
        rooms.retain(|_, room| !room.is_forgotten(now));
        let wanted = || rooms.iter().filter(|(_, room)| room.is_looked_at());
        let Some(first) = wanted().map(|(_, room)| room.due).min() else {
            return Next::Nothing;
        };
        if first > now {
            return Next::Sleep(first);
        }
        // What is due soon comes along.
        let names: Vec<Vec<u8>> = wanted()
            .filter(|(_, room)| room.due <= now + SHORTEST / 2)
            .map(|(name, _)| name.to_vec())
            .collect();
        for name in &names {
            if let Some(room) = rooms.get_mut(name.as_slice()) {
                room.looks(now);
            }
        }
        Next::Look(names)
    }

    /// A look has found a name like this. Who waits for a free one is woken: the first of them. True if there is none, and
    /// others have yet to be told.
    #[must_use]
    pub(super) fn found(&self, name: &[u8], held: Option<Held>) -> bool {
        let now = Instant::now();
        let found = |room: &mut Room| match held {
            None => room.found_free(now),
            Some(held) => {
                room.found_held(held, now);
                false
            }
        };
        self.of(|| name.to_vec(), found).unwrap_or(false)
    }

    /// Nobody brings the answers to the looks that were under way: who did has ended, with its runtime.
    pub(super) fn begin_anew(&self) {
        let now = Instant::now();
        self.rooms().values_mut().for_each(|room| room.looks_anew(now));
    }

    /// The look did not come about. Nobody is woken: those who ask for themselves hear why.
    pub(super) fn failed(&self, names: &[Vec<u8>]) {
        let (now, mut rooms) = (Instant::now(), self.rooms());
        for name in names {
            if let Some(room) = rooms.get_mut(name.as_slice()) {
                room.failed(now);
            }
        }
    }

    /// To be looked at now, although the last look is not over for long.
    pub(super) fn look_again(&self, name: &[u8]) {
        if let Some(room) = self.rooms().get_mut(name) {
            room.look_by(Instant::now());
        }
    }

    fn rooms(&self) -> MutexGuard<'_, HashMap<Arc<[u8]>, Room>> {
        self.rooms.lock().unwrap_or_else(PoisonError::into_inner)
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
        let (now, mut rooms) = (Instant::now(), self.rooms());
        rooms.retain(|_, room| !room.is_forgotten(now));
        !rooms.is_empty()
    }
}

/// A waiter's own end of its place. Dropped, it is given up. Small, and itself the future: thousands may wait.
#[derive(Debug)]
pub(super) struct Place<'a> {
    rooms: &'a Rooms,
    /// The name of the room, until the waiter has heard that it was woken.
    unheard: Option<Arc<[u8]>>,
    spot: Spot,
}

impl Future for Place<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(name) = &self.unheard else {
            return Poll::Ready(());
        };
        let heard = self.rooms.listen(name, self.spot, cx.waker());
        if heard.is_ready() {
            self.unheard = None;
        }
        heard
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Some(name) = self.unheard.take() {
            self.rooms.leave(&name, self.spot);
        }
    }
}

#[cfg(test)]
mod tests;
