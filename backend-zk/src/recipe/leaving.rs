//! Step 5.

use super::token;
use crate::bell::{Leaving, Next};
use crate::contenders::Queue;
use crate::node::Node;
use crate::place::Places;
use crate::session::{Listening, Outcome, Trouble, Turn, Whose};
use leasehold_core::{Clock, OwnerId, SystemClock};

/// For whoever does not know its node: deletes every node of this owner. True if one of them held the lock.
pub(crate) async fn leave(turn: &Turn, directory: &str, owner: OwnerId) -> Outcome<bool> {
    // With a proof: what a leader that is cut off does not show may be there, and stay as long as the session.
    let children = match turn.prove_and_list(directory).await {
        Err(Trouble::NoNode) => return Ok(false),
        listed => listed?,
    };
    let queue = Queue::of(children);
    let mut held = false;
    // From the back, so that none of them comes to hold the lock by this.
    for place in queue.places_of(owner).into_iter().rev() {
        held = delete(turn, &format!("{directory}/{}", queue.node(place))).await? && place == 0;
    }
    Ok(held)
}

/// For a holder: deletes its node, and tells the claim of its process that stands behind it. True if the node was there.
pub(crate) async fn hand_over(
    turn: &Turn,
    directory: &str,
    node: &Node,
    leaving: &Leaving<'_>,
    places: &Places,
) -> Outcome<bool> {
    let (asked, next, path) = (SystemClock::new().now(), leaving.next(), format!("{directory}/{node}"));
    let Some(next) = next else {
        let left = delete(turn, &path).await;
        if matches!(left, Ok(true)) {
            leaving.hands_over(asked, None);
        }
        return left;
    };
    // In this order, and the server keeps it.
    let (left, listening) = tokio::join!(biased; delete(turn, &path), listen_for(turn, directory, &next));
    if let (Ok(true), Some(listening)) = (&left, listening)
        && places.listens(&next, listening)
    {
        leaving.hands_over(asked, Some(&next));
    }
    left
}

/// Has a claim that follows listen to its own node. `None` if that is not known to be there; if it is known not to be, the
/// claim is told so, and whoever follows that one.
async fn listen_for(turn: &Turn, directory: &str, next: &Next) -> Option<Listening> {
    let node = next.bell.node()?;
    match turn.read_and_watch_listening(&format!("{directory}/{node}"), Whose::Own, &next.bell).await {
        Ok((stat, listening)) if token(&stat) == next.made => Some(listening),
        Err(Trouble::NoNode) => {
            next.bell.ring();
            None
        }
        Ok(_) | Err(_) => None,
    }
}

/// Deletes a node. False if it was gone already: so a delete can be repeated after a lost reply.
pub(crate) async fn delete(turn: &Turn, path: &str) -> Outcome<bool> {
    match turn.delete(path).await {
        Ok(()) => Ok(true),
        Err(Trouble::NoNode) => Ok(false),
        Err(trouble) => Err(trouble),
    }
}
