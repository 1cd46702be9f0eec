//! Who stands directly behind a claim of the same process, and what the one in front tells it.
//!
//! Such a claim does not watch the node in front of its own: the claim in front tells it. When that one has held the lock and
//! has given it back, nobody has to look whose turn it is:
//!
//! * Numbers only grow, and when the one behind came to stand there, the line was listed, or it was given the next
//!   number after that of the one in front: between the two there is nobody, and never will be. In front of a holder
//!   there is nobody either. So the one behind is the first. (They begin anew with a directory that is made anew. That
//!   takes the delete of the node in front, and who finds it gone hands over nothing.)
//! * Its own node was there when the one in front was deleted: the server tells a session of all that it watches before it
//!   answers what came later, and its watch has not fired since it was set. A claim that has begun to look again has
//!   forgotten whether it has, so it believes no such word until a look has come to its end. Or it was there afterwards: it
//!   was read then.
//! * Both nodes are of one session, and a majority has agreed to the delete: the session was alive when that was sent, and
//!   the hold is counted from then.
//!
//! Of thousands who stand in line two listen to their own nodes: who holds, and who is next. Whoever comes to stand behind a
//! holder listens at once. Each of the others is made to listen by the holder before the one in front of it, when that leaves:
//! in one breath with the delete, and nobody waits for the answer, which comes before that to any later delete. If the next one
//! does not listen, because nobody held when it came, or there was no room, or it was just looking, then who leaves reads its
//! node, and waits for that.
//!
//! Whatever else becomes of the one in front, the one behind is told to look for itself: when it leaves without having held,
//! when its node was touched or is gone, when it is not known what became of a delete. A waiter that listens to the node in
//! front of it, which is of another process, does not hear of its own; but who stands behind it has that node before it as
//! well, and when that goes, the one looks, and the other when it has.
//!
//! Nor does anybody hear of the own node of a claim that is far from its turn. It [looks](crate::recipe) from time to time, and
//! who would hand over to it finds it gone, and tells it, and whoever follows that one.

use super::{Bell, Footing, Note};
use crate::place::Place;
use crate::standing::ListensTo;
use leasehold_core::{Clock, FencingToken, Moment, SystemClock};
use std::num::NonZero;
use std::sync::{Arc, Weak};

/// A claim that gives its lock back, or its place, from when its node is about to be deleted until that is over, or the
/// attempt.
#[derive(Debug)]
pub(crate) struct Leaving<'a>(&'a Bell);

/// Who is to be told.
#[derive(Debug)]
pub(super) struct Follower {
    pub(super) place: Weak<Place>,
    /// The transaction that made the node by which it stands there. By a later node it stands elsewhere.
    pub(super) made: FencingToken,
}

/// How the claim in front stands there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ahead {
    /// Whoever follows need not listen to its own node yet.
    Waits,
    /// It may leave at any moment, or is leaving: whoever follows listens to its own node.
    Holds,
}

/// Who follows a claim.
#[derive(Debug)]
pub(crate) struct Next {
    pub(crate) place: Arc<Place>,
    /// The transaction that made the node by which it stands there.
    pub(crate) made: FencingToken,
}

/// When something began, if it has: in half the room of an option.
#[derive(Debug)]
pub(super) struct Beginning(Moment);

/// The word that a node has become the first in line.
#[derive(Debug)]
pub(crate) struct HandOver {
    /// The transaction that made the node.
    pub(crate) made: FencingToken,
    /// A moment before the request of this session that a majority has agreed to.
    pub(crate) asked: Moment,
    /// True if it was read to be there after that request.
    pub(crate) was_seen: bool,
}

impl Place {
    /// Has this claim told when that one, which stands directly in front of it with a node of this number, is gone. `None` if
    /// that one does not stand there any more, or does not know where it stands.
    pub(crate) fn follow(
        self: &Arc<Self>,
        ahead: &Self,
        session: i64,
        number: i32,
        made: FencingToken,
    ) -> Option<Ahead> {
        // What it was told before is about a claim that it does not follow any more.
        self.bell.take_hand_over();
        let (earlier, ahead) = {
            let mut note = ahead.bell.note();
            if !note.is_of(session) || note.leads_with != Some(number) || note.doubted {
                return None;
            }
            let holds = note.holds() || note.leaves_since.0 != Moment::NEVER;
            let earlier = note.follower.replace(Follower { place: Arc::downgrade(self), made });
            (earlier, if holds { Ahead::Holds } else { Ahead::Waits })
        };
        // Another one that took its place for this one's: one of them stands there no more.
        look_again(earlier.filter(|earlier| !std::ptr::eq(earlier.place.as_ptr(), Arc::as_ptr(self))));
        Some(ahead)
    }
}

impl Bell {
    /// Whoever stands behind its node, which has this number, may rely on hearing from it, though it is still finding out
    /// where it stands.
    pub(crate) fn leads_with(&self, number: Option<i32>) {
        self.note().leads_with = number;
    }

    /// From now on its holder is told nothing: it gives the lock back. Whoever follows it hears of that from the
    /// [`Leaving`].
    pub(crate) fn gives_back(&self) -> Leaving<'_> {
        let mut note = self.note();
        // The word that its node is gone says less than the answer to the delete, and comes before it.
        if note.holds() {
            note.footing = Footing::Neither;
        }
        note.listens_to = ListensTo::NotItself;
        if note.leaves_since.0 == Moment::NEVER {
            note.leaves_since.0 = SystemClock::new().now();
        }
        drop(note);
        Leaving(self)
    }

    /// When it first began to leave: before any request to that end was sent. [`Moment::NEVER`] if it has not.
    pub(crate) fn leaves_since(&self) -> Moment {
        self.note().leaves_since.0
    }

    /// Who follows, if anybody does by now.
    pub(crate) fn next(&self) -> Option<Next> {
        let note = self.note();
        note.follower.as_ref().and_then(Follower::get)
    }

    /// Tells that the turn of the claim's node has come.
    fn hand(&self, word: HandOver) {
        let waiters = {
            let mut note = self.note();
            note.rare.get_or_insert_default().handed_over = Some(word);
            note.take_waiters()
        };
        waiters.wake();
    }

    /// What it was told, once.
    pub(crate) fn take_hand_over(&self) -> Option<HandOver> {
        self.note().take_hand_over()
    }
}

impl Default for Beginning {
    fn default() -> Self {
        Self(Moment::NEVER)
    }
}

impl Leaving<'_> {
    pub(crate) fn bell(&self) -> &Bell {
        self.0
    }

    /// The holder's node is gone, by a request that was sent after `asked`: whoever follows is the first in line. `seen` is
    /// who was read to be there since, and listens. Anybody else listened already, or has come to follow meanwhile. True if
    /// somebody was told.
    pub(crate) fn hands_over(&self, asked: Moment, seen: Option<&Next>) -> bool {
        let follower = self.0.note().stop_leading();
        let Some(Next { place, made }) = follower.and_then(|follower| follower.get()) else {
            return false;
        };
        let was_seen = seen.is_some_and(|seen| seen.made == made);
        place.bell.hand(HandOver { made, asked, was_seen });
        true
    }
}

/// Left without a hand-over, or perhaps not left: whoever follows looks for itself.
impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        let follower = self.0.note().stop_leading();
        look_again(follower);
    }
}

/// Never with a lock of the one that is followed held.
pub(super) fn look_again(follower: Option<Follower>) {
    if let Some(next) = follower.and_then(|follower| follower.get()) {
        next.place.bell.fire();
    }
}

impl Note {
    /// Notes by which node it stands. Answers who followed it and is to be told: if it stands elsewhere now, or has heard
    /// something, perhaps of its own node before it was known to listen to that.
    ///
    /// Whoever has heard and has not looked since leads nobody, whatever its last call was about: its node may be gone.
    pub(super) fn stands_at(
        &mut self,
        session: Option<NonZero<i64>>,
        number: Option<i32>,
    ) -> Option<Follower> {
        if !self.fired && (session, number) == (self.session, self.leads_with) {
            return None;
        }
        let follower = self.stop_leading();
        self.session = session;
        self.leads_with = number.filter(|_| !self.fired);
        follower
    }

    /// From now on nobody may rely on hearing from it. Who did, and is to be told.
    pub(super) fn stop_leading(&mut self) -> Option<Follower> {
        self.leads_with = None;
        self.follower.take()
    }

    /// True if it was told by the claim that it follows, and has not taken that.
    pub(super) fn is_told(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.handed_over.is_some())
    }

    fn take_hand_over(&mut self) -> Option<HandOver> {
        let word = self.rare.as_mut()?.handed_over.take();
        self.tidy();
        word
    }

    /// Keeps no room for what is not there.
    pub(super) fn tidy(&mut self) {
        self.rare.take_if(|rare| rare.handed_over.is_none() && rare.more_waiters.is_empty());
    }
}

impl Follower {
    /// `None` if it is gone.
    fn get(&self) -> Option<Next> {
        self.place.upgrade().map(|place| Next { place, made: self.made })
    }
}

#[cfg(test)]
mod tests;
