//! The line where two nodes have one number.
//!
//! The server gives each number of a directory once, so two that it has numbered are never tied, whoever asked for them
//! (but for numbers that are [spent](crate::node::is_spent), by which nobody holds). But a node that was named by hand may have a
//! number that is given later, or was given before. Neither the name nor the order in which a server lists them says which of
//! them was there first; the transaction that made it does:
//!
//! * It is the same for everybody who looks, at every server, and never changes. So all agree on who is first, on who stands
//!   directly in front of whom, and on whom `force` frees; and of two who are tied never both wait for each other.
//! * A server that shows a node shows all that were made before it and are there. So who is first stays first: what is
//!   tied with it later was made later.
//!
//! It costs a read of each that is tied, and where none is, nothing.

use crate::contenders::Queue;
use crate::session::{Outcome, Trouble, Turn};
use futures_util::future::try_join_all;
use leasehold_core::ErrorKind;
use std::collections::HashMap;

/// How many nodes are read at once.
const AT_ONCE: usize = 256;
/// Before every transaction.
const FIRST_OF_ALL: i64 = i64::MIN;

/// The line of a lock, of which these are the children.
pub(crate) async fn line(turn: &Turn, directory: &str, children: Vec<String>) -> Outcome<Queue> {
    let mut queue = Queue::of(children);
    let tied = queue.tied();
    if !tied.is_empty() {
        queue.untie(&Box::pin(made(turn, directory, &tied)).await?);
    }
    Ok(queue)
}

/// The transactions that made these nodes, of those that are still there. Who may not be asked is taken to have come first: it
/// keeps others out until it goes, where the other way round two might hold.
async fn made(turn: &Turn, directory: &str, nodes: &[String]) -> Outcome<HashMap<String, i64>> {
    let mut made = HashMap::new();
    for nodes in nodes.chunks(AT_ONCE) {
        let looks = nodes.iter().map(async |node| match turn.read(&format!("{directory}/{node}")).await {
            Ok((_, stat)) => Ok(Some((node.clone(), stat.czxid))),
            Err(Trouble::NoNode) => Ok(None),
            Err(Trouble::Refused(error)) if error.kind() == ErrorKind::Denied => {
                Ok(Some((node.clone(), FIRST_OF_ALL)))
            }
            Err(trouble) => Err(trouble),
        });
        made.extend(try_join_all(looks).await?.into_iter().flatten());
    }
    Ok(made)
}
