//! Whoever comes first: when that is believed without a proof, and from when the hold is counted.

use super::{Known, Own, Recipe, none_if_gone, token};
use crate::node::Node;
use crate::session::{Listening, Outcome, Trouble, Whose};
use crate::standing::{Standing, Stood};
use crate::ties::line;
use leasehold_core::{Clock, Grant, Moment, SystemClock};
use std::sync::Arc;
use std::time::Duration;

/// What part of a lease may have passed since the session was proved, for a hand-over to be counted from then. By the same
/// part of it the keeper renews, so a hold does not begin with less than a renewal would find.
const FRESH: u32 = 3;

impl Recipe<'_> {
    /// Step 4 without a look: the claim in front, which held the lock, has [told](crate::bell::followers) this one.
    /// True of this node for as long as it is there, but believed only if that was a moment ago.
    pub(super) fn take_hand_over(&self, standing: &mut Standing) -> Option<Grant> {
        let word = self.place.bell.take_hand_over()?;
        let Standing::Behind(behind) = &*standing else {
            return None;
        };
        let (age, lease) = (age(word.asked), behind.session.lease());
        let is_for_this_node = behind.stood.is_some_and(|stood| stood.made() == word.made);
        let is_there = (word.was_seen || !behind.listening.is_deaf()) && !self.place.bell.has_fired();
        let is_old = age >= lease.min(self.claim.ttl()) / FRESH;
        let is_of_this_session = behind.session.id() == self.turn.session().id();
        let is_known = behind.hears.is_told() && is_for_this_node && is_of_this_session && is_there;
        if !is_known || is_old || self.place.bell.is_doubted() {
            // The one in front is gone, and says so once: a look at one's own node is not enough now.
            self.place.bell.fire();
            return None;
        }
        if let Standing::Behind(behind) = std::mem::take(standing) {
            self.holds(standing, behind.nodes.own(self.claim.owner()), behind.listening);
        }
        // It is counted from when this attempt was sent. If that was before the delete, it ends all the earlier.
        Some(Grant::new(word.made).with_lease(lease.saturating_sub(age)))
    }

    /// Step 4 as it nearly always is: the one in front held the lock, and the session was proved a moment ago. Then
    /// the list need not be newer than the word that the one in front is gone. Numbers only grow, so whoever is first
    /// once is first for as long as its node is there. It goes with its session, and of that the proof tells:
    /// the hold is counted from before it was asked. Or by hand, and of that the watch tells, as in any other hold. If
    /// anything is not as expected, nothing is believed without another proof.
    pub(super) async fn try_first(&self, standing: &mut Standing) -> Outcome<Option<Grant>> {
        let Standing::Behind(behind) = &*standing else {
            return Ok(None);
        };
        let Some((made, asked)) = behind.stood.and_then(|stood| Some((stood.made(), stood.asked()?))) else {
            return Ok(None);
        };
        let is_old = age(asked) >= behind.session.lease().min(self.claim.ttl()) / FRESH;
        if is_old || self.place.bell.is_doubted() || behind.session.id() != self.turn.session().id() {
            return Ok(None);
        }
        let node = behind.nodes.own(self.claim.owner()).to_string();
        let children = none_if_gone(self.turn.list_as_seen(self.directory).await)?;
        let queue = line(self.turn, self.directory, children).await?;
        if *queue.places_of(self.claim.owner()) != [0] || queue.node(0) != node {
            return Ok(None);
        }
        let own = Own { node: node.clone(), how: Known::Made(made) };
        Ok(self.believe(standing, &node, Some(own)).await?.map(Grant::from_hand_over))
    }

    /// What the next look can build upon, of an attempt that has proved the session.
    pub(super) fn stood(&self, own: Option<&Own>) -> Option<Stood> {
        let made = match &own?.how {
            Known::Made(made) => *made,
            Known::Read(stat, _) if stat.ephemeral_owner == self.turn.session().id() => token(stat),
            Known::Read(..) | Known::Sure => return None,
        };
        Stood::new(made, self.asked)
    }

    /// The claim's node has the lowest number: it holds, if the node is of this session. From now on it listens to its node,
    /// so that a deletion is heard of at once.
    pub(super) async fn believe(
        &self,
        standing: &mut Standing,
        node: &str,
        own: Option<Own>,
    ) -> Outcome<Option<Grant>> {
        let session = self.turn.session();
        let (token, listening) = match own.map(|own| own.how) {
            // The ear asks: nothing that it could hear would be older than this grant.
            Some(Known::Made(token)) => (token, self.turn.watch_later(self.path(node), token, self.place)),
            known => {
                let read = match known {
                    Some(Known::Read(stat, listening)) => Ok((stat, listening)),
                    _ => self.turn.read_and_watch(&self.path(node), Whose::Own, self.place).await,
                };
                let (stat, listening) = match read {
                    Err(Trouble::NoNode) => return Ok(None),
                    read => read?,
                };
                if stat.ephemeral_owner != session.id() {
                    self.delete(node).await?;
                    return Ok(None);
                }
                (token(&stat), listening)
            }
        };
        self.holds(standing, node.into(), listening);
        Ok(Some(Grant::new(token).with_lease(session.lease())))
    }

    fn holds(&self, standing: &mut Standing, node: Node, listening: Listening) {
        let session = Arc::clone(self.turn.session());
        self.stands(standing, Standing::First { session, node, listening });
        // What rang before the bell knew of a holder has told nobody that the holder had better ask.
        if self.place.bell.has_fired() {
            self.place.bell.ring();
        }
    }
}

/// By the clock of leases: that of the runtime stops while the host sleeps, and a session ends meanwhile.
fn age(asked: Moment) -> Duration {
    SystemClock::new().now().since(asked)
}
