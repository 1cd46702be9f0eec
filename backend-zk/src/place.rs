//! Where each claim stands: the map from owners to nodes, and who is to be told when something there changes.

use crate::bell::Bell;
use crate::node::Node;
use crate::session::{Listening, Session};
use crate::suspects::Suspects;
use leasehold_core::{FencingToken, OwnerId};
use std::borrow::Borrow;
use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::time::Instant;

/// The claims that have, or may have, a node.
#[derive(Debug, Default)]
pub(crate) struct Places {
    places: Mutex<HashSet<OfOwner>>,
    suspects: Arc<Suspects>,
}

/// A place that is found by its owner, which stands in its bell: a map would keep each owner once more.
#[derive(Debug)]
struct OfOwner(Arc<Place>);

/// The place of one claim.
#[derive(Debug)]
pub(crate) struct Place {
    /// What the last call has found. Held for the length of a call: calls for one claim come one after the other.
    pub(crate) standing: tokio::sync::Mutex<Standing>,
    /// Told of every change, also while there is a call.
    pub(crate) bell: Arc<Bell>,
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
    Behind { session: Arc<Session>, node: Node, before: Node, stood: Option<Stood>, _listening: Listening },
    /// It holds the lock, and listens to its own node.
    First { session: Arc<Session>, node: Node, _listening: Listening },
}

/// When a claim stood in line for certain, if the last attempt has found that out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stood {
    /// When that attempt was begun, before the leader answered a request of it.
    pub(crate) asked: Instant,
    /// The transaction that made its node.
    pub(crate) made: FencingToken,
}

impl Places {
    /// The place of this owner, which is there from now on.
    pub(crate) fn enter(&self, owner: OwnerId) -> Arc<Place> {
        let mut places = self.places();
        if let Some(OfOwner(place)) = places.get(&owner) {
            return Arc::clone(place);
        }
        let place = Arc::new(Place { standing: tokio::sync::Mutex::default(), bell: self.bell(owner) });
        places.insert(OfOwner(Arc::clone(&place)));
        place
    }

    /// The place of this owner, if it has one.
    pub(crate) fn of(&self, owner: OwnerId) -> Option<Arc<Place>> {
        self.places().get(&owner).map(|OfOwner(place)| Arc::clone(place))
    }

    /// Forgets a place that has no node any more.
    pub(crate) fn leave(&self, place: &Place) {
        self.places().remove(place.bell.owner());
    }

    /// The connection is lost: whoever holds a node of this session is at risk.
    pub(crate) fn suspect_all_of(&self, session: i64) {
        let holders = self.those(|bell| bell.holds_by(session));
        if !holders.is_empty() {
            self.suspects.add(holders.iter().map(|bell| *bell.owner()));
        }
    }

    /// There is a connection again: who could not be answered may ask again.
    pub(crate) fn reconnected(&self, session: i64) {
        for bell in self.those(|bell| bell.is_unsure_of(session)) {
            bell.fire();
        }
        self.suspect_all_of(session);
    }

    /// The session is over, and every place with it.
    pub(crate) fn session_over(&self, session: i64) {
        for bell in self.those(|bell| bell.is_of(session)) {
            bell.fire();
        }
        self.suspect_all_of(session);
    }

    /// Those who hold and had better ask; waits until there are any.
    pub(crate) async fn suspects(&self) -> Vec<OwnerId> {
        self.suspects.take().await
    }

    fn bell(&self, owner: OwnerId) -> Arc<Bell> {
        Arc::new(Bell::new(owner, &self.suspects))
    }

    fn those(&self, are: impl Fn(&Bell) -> bool) -> Vec<Arc<Bell>> {
        let places = self.places();
        let bells = places.iter().map(|OfOwner(place)| &place.bell);
        bells.filter(|bell| are(bell)).cloned().collect()
    }

    fn places(&self) -> MutexGuard<'_, HashSet<OfOwner>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Borrow<OwnerId> for OfOwner {
    fn borrow(&self) -> &OwnerId {
        self.0.bell.owner()
    }
}

/// As its owner's, which `Borrow` demands.
impl Hash for OfOwner {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.bell.owner().hash(state);
    }
}

impl PartialEq for OfOwner {
    fn eq(&self, other: &Self) -> bool {
        self.0.bell.owner() == other.0.bell.owner()
    }
}

impl Eq for OfOwner {}

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
    pub(crate) fn node(&self) -> Option<(&Arc<Session>, &Node)> {
        match self {
            Self::Behind { session, node, .. } | Self::First { session, node, .. } => Some((session, node)),
            Self::Nowhere | Self::Unsure { .. } => None,
        }
    }
}
