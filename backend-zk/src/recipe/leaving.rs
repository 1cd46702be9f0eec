//! Step 5.

use crate::contenders::Queue;
use crate::session::{Outcome, Trouble, Turn};
use leasehold_core::OwnerId;

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

/// Deletes a node. False if it was gone already: so a delete can be repeated after a lost reply.
pub(crate) async fn delete(turn: &Turn, path: &str) -> Outcome<bool> {
    match turn.delete(path).await {
        Ok(()) => Ok(true),
        Err(Trouble::NoNode) => Ok(false),
        Err(trouble) => Err(trouble),
    }
}
