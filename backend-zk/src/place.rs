//! Where each claim stands: the map from owners to nodes, and who is to be told when something there changes.

use crate::session::{Listening, Session};
use leasehold_core::OwnerId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// The claims that have, or may have, a node.
#[derive(Debug, Default)]
pub(crate) struct Places {
    places: Mutex<HashMap<OwnerId, Arc<Place>>>,
    /// Holders to be told that they had better ask.
    suspects: Mutex<Vec<OwnerId>>,
    suspected: Notify,
}

/// The place of one claim.
#[derive(Debug)]
pub(crate) struct Place {
    owner: OwnerId,
    /// What the last call has found. Held for the length of a call: calls for one claim come one after the other.
    pub(crate) standing: tokio::sync::Mutex<Standing>,
    /// What the ear of the session needs to know of it, without waiting for a call.
    note: Mutex<Note>,
    changed: Notify,
}

/// Where a claim stands, as far as is known.
#[derive(Debug, Default)]
pub(crate) enum Standing {
    /// It has no node.
    #[default]
    Nowhere,
    /// It may have one: a request of this session is open, or went wrong.
    Unsure { session: Arc<Session> },
    /// It waits for the node in front of its own.
    Behind { session: Arc<Session>, node: String, before: String, _listening: Listening },
    /// It holds the lock, and listens to its own node.
    First { session: Arc<Session>, node: String, _listening: Listening },
}

#[derive(Debug, Default)]
struct Note {
    session: Option<i64>,
    holds: bool,
    unsure: bool,
    /// True once a request was open when it was asked again: then there may be a second node, which only a look at all of
    /// them finds.
    doubted: bool,
    /// True if a watch has fired since the last [`Place::listen`].
    fired: bool,
}

impl Places {
    /// The place of this owner, which is there from now on.
    pub(crate) fn enter(&self, owner: OwnerId) -> Arc<Place> {
        Arc::clone(self.places().entry(owner).or_insert_with(|| Arc::new(Place::new(owner))))
    }

    /// The place of this owner, if it has one.
    pub(crate) fn of(&self, owner: OwnerId) -> Option<Arc<Place>> {
        self.places().get(&owner).cloned()
    }

    /// Forgets a place that has no node any more.
    pub(crate) fn leave(&self, place: &Place) {
        self.places().remove(&place.owner);
    }

    /// The watch of a place has fired.
    pub(crate) fn fired(&self, place: &Place) {
        if place.fire() {
            self.suspect(vec![place.owner]);
        }
    }

    /// The connection is lost: whoever holds a node of this session is at risk.
    pub(crate) fn suspect_all_of(&self, session: i64) {
        self.suspect(self.those(|note| note.is_of(session) && note.holds));
    }

    /// There is a connection again: who could not be answered may ask again.
    pub(crate) fn reconnected(&self, session: i64) {
        for owner in self.those(|note| note.is_of(session) && note.unsure) {
            if let Some(place) = self.of(owner) {
                place.fire();
            }
        }
        self.suspect_all_of(session);
    }

    /// The session is over, and every place with it.
    pub(crate) fn session_over(&self, session: i64) {
        for owner in self.those(|note| note.is_of(session)) {
            if let Some(place) = self.of(owner) {
                place.fire();
            }
        }
        self.suspect_all_of(session);
    }

    /// Those who hold and had better ask; waits until there are any.
    pub(crate) async fn suspects(&self) -> Vec<OwnerId> {
        loop {
            let suspects = std::mem::take(&mut *lock(&self.suspects));
            if !suspects.is_empty() {
                return suspects;
            }
            // A notice that comes before this line is kept for it.
            self.suspected.notified().await;
        }
    }

    fn suspect(&self, owners: Vec<OwnerId>) {
        if !owners.is_empty() {
            lock(&self.suspects).extend(owners);
            self.suspected.notify_one();
        }
    }

    fn those(&self, are: impl Fn(&Note) -> bool) -> Vec<OwnerId> {
        let places = self.places();
        places.values().filter(|place| are(&lock(&place.note))).map(|place| place.owner).collect()
    }

    fn places(&self) -> MutexGuard<'_, HashMap<OwnerId, Arc<Place>>> {
        lock(&self.places)
    }
}

impl Place {
    fn new(owner: OwnerId) -> Self {
        Self {
            owner,
            standing: tokio::sync::Mutex::default(),
            note: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// From here on, a watch that fires counts. Called before the watch is asked for, so that none is missed.
    pub(crate) fn listen(&self) {
        lock(&self.note).fired = false;
    }

    /// True if a watch has fired since.
    pub(crate) fn has_fired(&self) -> bool {
        lock(&self.note).fired
    }

    /// Tells whoever waits that it may look again. True if this is a holder's place.
    pub(crate) fn fire(&self) -> bool {
        let holds = {
            let mut note = lock(&self.note);
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
        lock(&self.note).doubted = true;
    }

    /// True if there may be.
    pub(crate) fn is_doubted(&self) -> bool {
        lock(&self.note).doubted
    }

    /// Notes for the ear where the claim stands now.
    pub(crate) fn note(&self, standing: &Standing) {
        let mut note = lock(&self.note);
        note.session = standing.session().map(|session| session.id());
        note.holds = matches!(standing, Standing::First { .. });
        note.unsure = matches!(standing, Standing::Unsure { .. });
    }

    /// From now on its holder is told nothing: it gives the lock back.
    pub(crate) fn gives_back(&self) {
        lock(&self.note).holds = false;
    }
}

impl Standing {
    /// The session of the node that it has or may have.
    pub(crate) fn session(&self) -> Option<&Arc<Session>> {
        match self {
            Self::Nowhere => None,
            Self::Unsure { session } | Self::Behind { session, .. } | Self::First { session, .. } => {
                Some(session)
            }
        }
    }

    /// The node that it certainly had, and of which session.
    pub(crate) fn node(&self) -> Option<(&Arc<Session>, &str)> {
        match self {
            Self::Behind { session, node, .. } | Self::First { session, node, .. } => Some((session, node)),
            Self::Nowhere | Self::Unsure { .. } => None,
        }
    }
}

impl Note {
    fn is_of(&self, session: i64) -> bool {
        self.session == Some(session)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
