//! Step 5.

use super::token;
use crate::bell::{Leaving, Next};
use crate::node::Node;
use crate::session::{Listening, Outcome, Trouble, Turn, Whose};
use crate::ties::line;
use futures_util::future::{Either, select};
use leasehold_core::{Clock, OwnerId, SystemClock};
use std::pin::pin;
use tokio::task::yield_now;

/// For whoever does not know its node: deletes every node of this owner. True if one of them held the lock.
pub(crate) async fn leave(turn: &Turn, directory: &str, owner: OwnerId) -> Outcome<bool> {
    // With a proof: what a leader that is cut off does not show may be there, and stay as long as the session.
    let children = match turn.prove_and_list(directory).await {
        Err(Trouble::NoNode) => return Ok(false),
        listed => listed?,
    };
    let queue = line(turn, directory, children).await?;
    let mut held = false;
    // From the back, so that none of them comes to hold the lock by this.
    for place in queue.places_of(owner).into_iter().rev() {
        held = delete(turn, &format!("{directory}/{}", queue.node(place))).await? && place == 0;
    }
    Ok(held)
}

/// For a holder: deletes its node, and tells the claim of its process that stands behind it. True if the node was there.
///
/// In the same breath the claim that is then the next one is made to listen to its own node, for which nobody waits but this
/// call, and that not for long. And so is the one behind this, if it does not listen yet: its turn waits for that. If the
/// holder before has asked for that, its answer comes before that to the delete, although nobody may have looked at it yet:
/// where each holds for no time, to ask again would be a request more for every other turn.
pub(crate) async fn hand_over(
    turn: &Turn,
    directory: &str,
    node: &Node,
    leaving: &Leaving<'_>,
) -> Outcome<bool> {
    let (asked, path) = (SystemClock::new().now(), format!("{directory}/{node}"));
    let next = leaving.bell().next();
    let after_next = next.as_ref().and_then(|next| next.place.bell.next());
    let (unheard, after_next) = (unheard(next), unheard(after_next));
    // In this order, and the server keeps it.
    let hands_over = async {
        let at_once = unheard.as_ref().filter(|next| !next.place.bell.is_about_to_listen());
        let listens = made_to_listen(turn, directory, at_once);
        let (left, listens) = tokio::join!(biased; delete(turn, &path), listens);
        if !matches!(left, Ok(true)) {
            return (left, false);
        }
        let is_told = match &unheard {
            Some(next) if at_once.is_none() && !next.place.bell.listens_to_itself() => {
                made_to_listen(turn, directory, unheard.as_ref()).await
                    && leaving.hands_over(asked, unheard.as_ref())
            }
            Some(_) if at_once.is_none() => leaving.hands_over(asked, None),
            Some(_) if !listens => false,
            _ => leaving.hands_over(asked, unheard.as_ref()),
        };
        (left, is_told)
    };
    let goes_on = made_to_listen(turn, directory, after_next.as_ref());
    let (left, is_told) = match select(pin!(hands_over), pin!(goes_on)).await {
        Either::Left((left, goes_on)) => {
            // Given up, whoever leaves next asks again.
            turn.not_for_long(goes_on).await;
            left
        }
        Either::Right((_, hands_over)) => hands_over.await,
    };
    if is_told {
        // The one that holds now goes first. A session's requests are carried out in their order: what it asks would
        // wait for what this task asks next, and the whole line for both.
        yield_now().await;
    }
    left
}

/// Whoever does not listen to its own node yet.
fn unheard(next: Option<Next>) -> Option<Next> {
    next.filter(|next| !next.place.bell.listens_to_itself())
}

async fn made_to_listen(turn: &Turn, directory: &str, next: Option<&Next>) -> bool {
    let Some(next) = next else {
        return false;
    };
    let _until_it_is_over = next.place.bell.is_to_listen();
    let listening = listen_for(turn, directory, next).await;
    listening.is_some_and(|listening| next.place.listens(next.made, listening))
}

/// Has a claim that follows listen to its own node. `None` if that is not known to be there; if it is known not to be, the
/// claim is told so, and whoever follows that one.
async fn listen_for(turn: &Turn, directory: &str, next: &Next) -> Option<Listening> {
    let node = next.place.bell.node()?;
    match turn.read_and_watch_listening(&format!("{directory}/{node}"), Whose::Own, &next.place).await {
        Ok((stat, listening)) if token(&stat) == next.made => Some(listening),
        Err(Trouble::NoNode) => {
            next.place.bell.ring();
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
