//! What tells a claim that something has changed where it stands.

mod changed;
mod followers;

pub(crate) use followers::{Ahead, Leaving, Next};

use crate::node::Node;
use crate::place::Place;
use crate::standing::{ListensTo, Standing};
use crate::suspects::Suspects;
use followers::{Beginning, Follower, HandOver, look_again};
use leasehold_core::OwnerId;
use std::num::NonZero;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Wake, Waker};

/// The bell of one claim.
///
/// The claim's watches wake it: the library's own task rings it when it reads the event from the wire, and no task of ours
/// is woken in between. So ringing never waits: it takes a few locks, one after the other, under which nothing is done but
/// to set a flag or change a list: nobody is woken, and no watch is dropped.
///
/// It is a part of the claim's place, as whoever waits keeps both. The place owns its watch, and the watch has no more than a
/// [`Rope`]: a waker that owned the place would keep it, and the session, for ever.
#[derive(Debug)]
pub(crate) struct Bell {
    owner: OwnerId,
    note: Mutex<Note>,
    suspects: Arc<Suspects>,
}

/// What rings the bell of a place, if that is still there.
#[derive(Debug)]
pub(crate) struct Rope(Weak<Place>);

/// A request that has a claim listen to its own node, until that is over.
#[derive(Debug)]
pub(crate) struct ToListen<'a>(&'a Bell);

/// Where the claim stands, for who cannot wait until a call is over.
#[derive(Debug, Default)]
struct Note {
    session: Option<NonZero<i64>>,
    footing: Footing,
    listens_to: ListensTo,
    /// True once a request was open when it was asked again: then there may be a second node, which only a look at all of
    /// them finds.
    doubted: bool,
    /// True if a watch has fired since the last [`Bell::listen`].
    fired: bool,
    /// The number of its node, if whoever stands behind that may rely on hearing from this claim.
    leads_with: Option<i32>,
    follower: Option<Follower>,
    /// When it first began to leave.
    leaves_since: Beginning,
    /// How many [`Changed`] there are.
    waiting: u32,
    /// Who is woken by it: one as a rule.
    waiter: Option<Waker>,
    rare: Option<Box<Rare>>,
}

/// What nearly no waiter has, or not for long: in the others it takes one word.
#[derive(Debug, Default)]
struct Rare {
    /// What it was told by the claim that it follows.
    handed_over: Option<HandOver>,
    more_waiters: Vec<Waker>,
}

/// How it stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Footing {
    Holds,
    /// It has or may have a node, and nobody could say where that stands.
    Unsure,
    /// It waits, leaves, or is not there.
    #[default]
    Neither,
}

impl Bell {
    pub(crate) fn new(owner: OwnerId, suspects: &Arc<Suspects>) -> Self {
        Self { owner, note: Mutex::default(), suspects: Arc::clone(suspects) }
    }

    pub(crate) fn owner(&self) -> &OwnerId {
        &self.owner
    }

    /// Its node, by which whoever stands behind that may rely on hearing from it.
    pub(crate) fn node(&self) -> Option<Node> {
        let number = self.note().leads_with?;
        Some(Node::Numbered { owner: self.owner, number })
    }

    /// True if it listens to its own node.
    pub(crate) fn listens_to_itself(&self) -> bool {
        self.note().listens_to == ListensTo::Itself
    }

    /// True if a request was sent that has it listen to its own node, and was not answered yet.
    pub(crate) fn is_about_to_listen(&self) -> bool {
        self.note().listens_to == ListensTo::ItselfSoon
    }

    /// A request is sent that has it listen to its own node, and is over when this is dropped. If nothing came of it, as where
    /// there is no room, whoever leaves next may ask again at once.
    pub(crate) fn is_to_listen(&self) -> ToListen<'_> {
        let mut note = self.note();
        if note.listens_to == ListensTo::ItselfLater {
            note.listens_to = ListensTo::ItselfSoon;
        }
        ToListen(self)
    }

    /// It has been made to listen to its own node.
    pub(crate) fn has_begun_to_listen(&self) {
        let mut note = self.note();
        if matches!(note.listens_to, ListensTo::ItselfLater | ListensTo::ItselfSoon) {
            note.listens_to = ListensTo::Itself;
        }
    }

    /// From here on, a watch that fires counts. Called before the watch is asked for, so that none is missed. An earlier
    /// watch that fires only now counts too: its claim looks once without need.
    pub(crate) fn listen(&self) {
        self.note().fired = false;
    }

    /// True if a watch has fired since.
    pub(crate) fn has_fired(&self) -> bool {
        self.note().fired
    }

    /// A watch has fired: a waiter may look again, and a holder had better. If it was that of its own node, whoever follows
    /// looks too. If it was that of the node in front, they hear what comes of it.
    pub(crate) fn ring(&self) {
        if self.fire() {
            self.suspects.add([self.owner]);
        }
        let follower = {
            let mut note = self.note();
            if note.listens_to == ListensTo::NotItself { None } else { note.stop_leading() }
        };
        look_again(follower);
    }

    /// Tells whoever waits that it may look again. True if the claim holds.
    pub(crate) fn fire(&self) -> bool {
        let (holds, waiters) = {
            let mut note = self.note();
            note.fired = true;
            (note.holds(), note.take_waiters())
        };
        waiters.wake();
        holds
    }

    /// Notes that there may be more nodes than are known.
    pub(crate) fn doubts(&self) {
        self.note().doubted = true;
    }

    /// True if there may be.
    pub(crate) fn is_doubted(&self) -> bool {
        self.note().doubted
    }

    /// Notes where the claim stands now.
    pub(crate) fn stands(&self, standing: &Standing) {
        let follower = {
            let mut note = self.note();
            let session = standing.session().and_then(|session| NonZero::new(session.id()));
            note.footing = match standing {
                Standing::First { .. } => Footing::Holds,
                _ if standing.is_unsure() => Footing::Unsure,
                _ => Footing::Neither,
            };
            note.listens_to = standing.listens_to();
            note.stands_at(session, standing.number())
        };
        look_again(follower);
    }

    /// True if it has or may have a node of this session.
    pub(crate) fn is_of(&self, session: i64) -> bool {
        self.note().is_of(session)
    }

    /// True if it holds by a node of this session.
    pub(crate) fn holds_by(&self, session: i64) -> bool {
        let note = self.note();
        note.is_of(session) && note.holds()
    }

    /// True if it has or may have a node of this session, and nobody could say where that stands.
    pub(crate) fn is_unsure_of(&self, session: i64) -> bool {
        let note = self.note();
        note.is_of(session) && note.footing == Footing::Unsure
    }

    fn note(&self) -> MutexGuard<'_, Note> {
        self.note.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ToListen<'_> {
    fn drop(&mut self) {
        let mut note = self.0.note();
        if note.listens_to == ListensTo::ItselfSoon {
            note.listens_to = ListensTo::ItselfLater;
        }
    }
}

impl Note {
    fn holds(&self) -> bool {
        self.footing == Footing::Holds
    }

    fn is_of(&self, session: i64) -> bool {
        self.session.is_some_and(|id| id.get() == session)
    }
}

impl Rope {
    pub(crate) fn of(place: &Arc<Place>) -> Waker {
        Waker::from(Arc::new(Self(Arc::downgrade(place))))
    }
}

impl Wake for Rope {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    /// If the place is left meanwhile, its watch may be dropped here, by the task that told of it: it only sends a message then.
    fn wake_by_ref(self: &Arc<Self>) {
        if let Some(place) = self.0.upgrade() {
            place.bell.ring();
        }
    }
}
