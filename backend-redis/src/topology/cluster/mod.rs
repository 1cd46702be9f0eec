//! A cluster: several primaries, each with some of the names.
//!
//! All keys of a name lie in one slot, so each request concerns one node. A node that does not have the slot says who
//! does, and has done nothing: the request goes on there, for the same owner. What may have been carried out is never sent
//! again.

mod map;
mod nodes;
mod redirect;
mod slot;

pub(crate) use slot::Slot;

use crate::connection::Call;
use crate::servers::{PrimaryNode, Reply};
use crate::target::{Address, Target};
use crate::waiters::WaiterRegistry;
use leasehold_core::{Error, ErrorKind, Result};
use nodes::Nodes;
use redirect::{Redirect, is_in_doubt};
use std::sync::Arc;

/// How often one request is sent on. Twice is ordinary while a slot moves; more is a cluster whose nodes do not agree.
const MOST_REDIRECTS: usize = 5;

/// A cluster.
#[derive(Debug)]
pub(crate) struct Cluster {
    nodes: Arc<Nodes>,
}

impl Cluster {
    /// The cluster of which these are some nodes. Connects to nothing yet.
    pub(crate) fn new(seeds: Vec<Target>, waiters: Arc<WaiterRegistry>, channel: String) -> Self {
        Self { nodes: Arc::new(Nodes::new(seeds, waiters, channel)) }
    }

    /// Calls a script where its keys lie, and gives the very reply, which may be an error, of the node that has them.
    pub(crate) async fn ask(&self, call: Call<'_>) -> Result<Reply> {
        let slot = Slot::of(call.keys.first().unwrap_or(&""));
        let (mut address, mut node) = self.nodes.owner(slot).await?;
        let mut call = call;
        for _ in 0..=MOST_REDIRECTS {
            let reply = match PrimaryNode::ask(&node, &call).await {
                Ok(reply) => reply,
                Err(error) => match self.instead_of(&address, slot, &error).await {
                    Some(other) => {
                        (address, node) = other;
                        call.asking = false;
                        continue;
                    }
                    None => return Err(error),
                },
            };
            match Redirect::of(&reply.value, &address) {
                Some(Redirect::Moved(to)) => {
                    self.nodes.move_slot(slot, to.clone());
                    (address, call.asking) = (to, false);
                }
                Some(Redirect::Ask(to)) => (address, call.asking) = (to, true),
                Some(Redirect::Nowhere) => {
                    self.nodes.doubt();
                    return Err(node.link.here(sent_nowhere(slot)));
                }
                None => {
                    if is_in_doubt(&reply.value) {
                        self.nodes.doubt();
                    }
                    return Ok(reply);
                }
            }
            node = self.nodes.node(&address)?;
        }
        Err(node.link.here(sent_around(slot)))
    }

    /// The node that has the key, whether or not it still does when it is asked.
    pub(crate) async fn node_of(&self, key: &str) -> Result<Arc<PrimaryNode>> {
        self.nodes.owner(Slot::of(key)).await.map(|(_, node)| node)
    }

    /// The node that has the key as far as is known, if it was ever asked.
    pub(crate) fn known_node_of(&self, key: &str) -> Option<Arc<PrimaryNode>> {
        self.nodes.known_owner(Slot::of(key))
    }

    /// The node that has the key as far as is known, as a number.
    pub(crate) fn number_of_node(&self, key: &str) -> u64 {
        self.nodes.number_of_owner(Slot::of(key))
    }

    /// All nodes that have slots.
    pub(crate) async fn primaries(&self) -> Result<Vec<Arc<PrimaryNode>>> {
        self.nodes.primaries().await
    }

    pub(crate) fn close(&self) {
        self.nodes.close();
    }

    /// Another node that has the slot, if this one could not be asked, so that certainly nothing was done.
    async fn instead_of(
        &self,
        failed: &Address,
        slot: Slot,
        error: &Error,
    ) -> Option<(Address, Arc<PrimaryNode>)> {
        if error.is_outage() {
            self.nodes.doubt();
        }
        if error.kind() != ErrorKind::Unavailable {
            return None;
        }
        let other = self.nodes.owner(slot).await.ok()?;
        (other.0 != *failed).then_some(other)
    }
}

fn sent_nowhere(slot: Slot) -> Error {
    let message = format!("slot {slot} is at a node of which this one does not know where it is");
    Error::new(ErrorKind::Unavailable, message).with_help(
        "look at what the nodes announce: cluster-announce-hostname, cluster-preferred-endpoint-type",
    )
}

fn sent_around(slot: Slot) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!("the nodes of the cluster do not agree on who has slot {slot}"),
    )
    .with_help("wait until they do; if it lasts, look at CLUSTER SLOTS of each of them")
}
