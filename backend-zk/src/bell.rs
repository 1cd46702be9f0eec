//! What tells a claim that something has changed where it stands.

use crate::place::Standing;
use leasehold_core::OwnerId;
use std::num::NonZero;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Wake;
use tokio::sync::Notify;

/// The bell of one claim.
///
/// It is the waker of the claim's watches: the library's own task rings it when it reads the event from the wire, and no task
/// of ours is woken in between. So ringing never waits and never calls the library: it takes two locks, one after the
/// other, under which nothing is done but to set a flag or add to a list, and no watch is dropped.
///
/// Apart from the place, and without a way back to it: the place owns its watch, the watch owns its waker, and a
/// waker that owned the place would keep it, and the session, for ever.
#[derive(Debug)]
pub(crate) struct Bell {
    owner: OwnerId,
    note: Mutex<Note>,
    changed: Notify,
    suspects: Arc<Suspects>,
}

/// Holders to be told that they had better ask.
#[derive(Debug, Default)]
pub(crate) struct Suspects {
    owners: Mutex<Vec<OwnerId>>,
    told: Notify,
}

/// Where the claim stands, for who cannot wait until a call is over.
#[derive(Debug, Default)]
struct Note {
    session: Option<NonZero<i64>>,
    holds: bool,
    unsure: bool,
    /// True once a request was open when it was asked again: then there may be a second node, which only a look at all of
    /// them finds.
    doubted: bool,
    /// True if a watch has fired since the last [`Bell::listen`].
    fired: bool,
}

impl Bell {
    pub(crate) fn new(owner: OwnerId, suspects: &Arc<Suspects>) -> Self {
        Self { owner, note: Mutex::default(), changed: Notify::new(), suspects: Arc::clone(suspects) }
    }

    pub(crate) fn owner(&self) -> &OwnerId {
        &self.owner
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

    /// A watch has fired: a waiter may look again, and a holder had better.
    pub(crate) fn ring(&self) {
        if self.fire() {
            self.suspects.add([self.owner]);
        }
    }

    /// Tells whoever waits that it may look again. True if the claim holds.
    pub(crate) fn fire(&self) -> bool {
        let holds = {
            let mut note = self.note();
            note.fired = true;
            note.holds
        };
        self.changed.notify_waiters();
        holds
    }

    /// Waits until a watch has fired.
    pub(crate) async fn changed(&self) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            // Registered before looking, so that one in between is not missed.
            changed.as_mut().enable();
            if self.has_fired() {
                return;
            }
            changed.await;
        }
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
        let mut note = self.note();
        note.session = standing.session().and_then(|session| NonZero::new(session.id()));
        note.holds = matches!(standing, Standing::First { .. });
        note.unsure = matches!(standing, Standing::Unsure { .. });
    }

    /// From now on its holder is told nothing: it gives the lock back.
    pub(crate) fn gives_back(&self) {
        self.note().holds = false;
    }

    /// True if it has or may have a node of this session.
    pub(crate) fn is_of(&self, session: i64) -> bool {
        self.note().is_of(session)
    }

    /// True if it holds by a node of this session.
    pub(crate) fn holds_by(&self, session: i64) -> bool {
        let note = self.note();
        note.is_of(session) && note.holds
    }

    /// True if it may have a node of this session, and nobody could say.
    pub(crate) fn is_unsure_of(&self, session: i64) -> bool {
        let note = self.note();
        note.is_of(session) && note.unsure
    }

    fn note(&self) -> MutexGuard<'_, Note> {
        lock(&self.note)
    }
}

impl Note {
    fn is_of(&self, session: i64) -> bool {
        self.session.is_some_and(|id| id.get() == session)
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.ring();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ring();
    }
}

impl Suspects {
    pub(crate) fn add(&self, owners: impl IntoIterator<Item = OwnerId>) {
        lock(&self.owners).extend(owners);
        self.told.notify_one();
    }

    /// Those who hold and had better ask; waits until there are any.
    pub(crate) async fn take(&self) -> Vec<OwnerId> {
        loop {
            let owners = std::mem::take(&mut *lock(&self.owners));
            if !owners.is_empty() {
                return owners;
            }
            // A notice that comes before this line is kept for it.
            self.told.notified().await;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
