//! Where each claim stands: the map from owners to nodes, and who is to be told when something there changes.

use crate::bell::Bell;
use crate::node::Node;
use crate::one_by_one::OneByOne;
use crate::session::Listening;
use crate::standing::Standing;
use crate::suspects::Suspects;
use leasehold_core::{Claim, FencingToken, LockName, Moment, OwnerId};
use std::borrow::Borrow;
use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The claims that have, or may have, a node.
#[derive(Debug, Default)]
pub(crate) struct Places {
    places: Mutex<HashSet<OfOwner>>,
    /// For each name, by which node who waits for it came last.
    last: Mutex<HashMap<LockName, Node>>,
    suspects: Arc<Suspects>,
}

/// A place that is found by its owner, which stands in its bell: a map would keep each owner once more.
#[derive(Debug)]
struct OfOwner(Arc<Place>);

/// The place of one claim.
#[derive(Debug)]
pub(crate) struct Place {
    /// What the last call has found. Held for the length of a call: calls for one claim come one after the other.
    pub(crate) standing: OneByOne<Standing>,
    /// Told of every change, also while there is a call.
    pub(crate) bell: Bell,
}

impl Places {
    /// The place of this owner, which is there from now on.
    pub(crate) fn enter(&self, owner: OwnerId) -> Arc<Place> {
        let mut places = self.places();
        if let Some(OfOwner(place)) = places.get(&owner) {
            return Arc::clone(place);
        }
        let place = Arc::new(Place::of(owner, &self.suspects));
        places.insert(OfOwner(Arc::clone(&place)));
        place
    }

    /// Notes that a claim came to stand at the end of a line.
    pub(crate) fn stands_last(&self, claim: &Claim, node: Node) {
        self.last().insert(claim.name().clone(), node);
    }

    /// The node of who came last, as far as is known: it may hold by now, or stand elsewhere, or be gone.
    pub(crate) fn last_of(&self, name: &LockName) -> Option<Node> {
        self.last().get(name).cloned()
    }

    /// True if the claim of this node had begun to leave at the time `by`, or has no place here any more.
    pub(crate) fn has_left(&self, node: &Node, by: Moment) -> bool {
        let place = node.numbered().and_then(|(owner, _)| self.of(owner));
        place.is_none_or(|place| place.bell.leaves_since() <= by)
    }

    /// The place of this owner, if it has one.
    pub(crate) fn of(&self, owner: OwnerId) -> Option<Arc<Place>> {
        self.places().get(&owner).map(|OfOwner(place)| Arc::clone(place))
    }

    /// True if it is a place still: it may have been left while somebody waited for what is known of it.
    pub(crate) fn has(&self, place: &Arc<Place>) -> bool {
        self.of(*place.bell.owner()).is_some_and(|it| Arc::ptr_eq(&it, place))
    }

    /// Forgets the place of a claim, which has no node any more.
    pub(crate) fn leave(&self, claim: &Claim) {
        self.places().remove(&claim.owner());
        let mut last = self.last();
        if last.get(claim.name()).is_some_and(|node| node.is_of(claim.owner())) {
            last.remove(claim.name());
        }
    }

    /// The connection is lost: whoever holds a node of this session is at risk.
    pub(crate) fn suspect_all_of(&self, session: i64) {
        let holders = self.those(|bell| bell.holds_by(session));
        if !holders.is_empty() {
            self.suspects.add(holders.iter().map(|place| *place.bell.owner()));
        }
    }

    /// There is a connection again: who could not be answered may ask again.
    pub(crate) fn reconnected(&self, session: i64) {
        for place in self.those(|bell| bell.is_unsure_of(session)) {
            place.bell.fire();
        }
        self.suspect_all_of(session);
    }

    /// The session is over, and every place with it.
    pub(crate) fn session_over(&self, session: i64) {
        for place in self.those(|bell| bell.is_of(session)) {
            place.bell.fire();
        }
        self.suspect_all_of(session);
    }

    /// Those who hold and had better ask; waits until there are any.
    pub(crate) async fn suspects(&self) -> Vec<OwnerId> {
        self.suspects.take().await
    }

    fn those(&self, are: impl Fn(&Bell) -> bool) -> Vec<Arc<Place>> {
        let places = self.places();
        let those = places.iter().map(|OfOwner(place)| place).filter(|place| are(&place.bell));
        those.cloned().collect()
    }

    fn last(&self) -> MutexGuard<'_, HashMap<LockName, Node>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn places(&self) -> MutexGuard<'_, HashSet<OfOwner>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    pub(crate) fn of(owner: OwnerId, suspects: &Arc<Suspects>) -> Self {
        Self { standing: OneByOne::default(), bell: Bell::new(owner, suspects) }
    }

    /// Has the claim listen so to the node that this transaction made, unless it stands elsewhere, or something is under way
    /// for it that may have it stand elsewhere.
    pub(crate) fn listens(&self, made: FencingToken, listening: Listening) -> bool {
        let Some(mut standing) = self.standing.try_lock() else {
            return false;
        };
        let Standing::Behind(behind) = &mut *standing else {
            return false;
        };
        let stands_there = behind.stood.is_some_and(|stood| stood.made() == made);
        if !behind.hears.is_told() || !stands_there {
            return false;
        }
        if !listening.is_deaf() {
            self.bell.has_begun_to_listen();
        }
        behind.listening = listening;
        true
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contenders::prefix_of;
    use leasehold_core::{Clock, SystemClock};
    use std::time::Duration;

    fn claim(owner: u128) -> Claim {
        let name = LockName::new("job").unwrap();
        Claim::new(name, OwnerId::from_u128(owner), Duration::from_secs(60), "".into())
    }

    fn stand(places: &Places, claim: &Claim, number: i32) -> Node {
        places.enter(claim.owner());
        let node = Node::from(format!("{}{number:010}", prefix_of(claim.owner())).as_str());
        places.stands_last(claim, node.clone());
        node
    }

    /// A process that waits for a million names, one after the other, would keep a million nodes.
    #[test]
    fn who_came_last_is_forgotten_when_it_leaves() {
        let (places, first, second) = (Places::default(), claim(1), claim(2));
        stand(&places, &first, 7);
        let last = stand(&places, &second, 8);
        places.leave(&first);
        assert_eq!(places.last_of(first.name()), Some(last));
        places.leave(&second);
        assert_eq!(places.last_of(first.name()), None);
        assert!(places.last().is_empty() && places.places().is_empty());
    }

    #[test]
    fn who_began_to_leave_by_then_or_is_gone_has_left() {
        let (places, claim) = (Places::default(), claim(1));
        let node = stand(&places, &claim, 7);
        let before = SystemClock::new().now();
        assert!(!places.has_left(&node, before));
        let place = places.of(claim.owner()).unwrap();
        while SystemClock::new().now() == before {}
        drop(place.bell.gives_back());
        assert!(!places.has_left(&node, before));
        assert!(places.has_left(&node, SystemClock::new().now()));
        places.leave(&claim);
        assert!(places.has_left(&node, before));
    }
}
