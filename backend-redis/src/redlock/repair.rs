//! A node that has come back empty, or was away when a lock was taken, is given the lock again.
//!
//! Only after a majority has just extended the lease: then the lock is held, and nobody else can have it, so setting it
//! on one node more takes nothing from anybody; it makes it harder to lose. A lease that has ended on a majority is lost
//! and is never brought back by this. Should the word come late, after the hold has ended elsewhere, a node keeps others
//! out for one lease more: its owner is told of no renewal by that.

use super::RedlockBackend;
use super::attempt::{AttemptFilter, withdraw};
use super::nodes::Node;
use super::reply::{self, HolderRecord};
use super::scripts;
use super::unfinished::Underway;
use crate::keys::LockKeys;
use leasehold_core::{Claim, Result};
use std::sync::Arc;

/// One lock that is to be repaired.
#[derive(Debug)]
struct Repair {
    keys: LockKeys,
    owner: String,
    ttl: String,
    underway: Underway,
}

impl RedlockBackend {
    /// Sets the lock on the nodes where it is gone, as `witness` has it. No caller waits for it.
    pub(super) fn repair(&self, claim: &Claim, witness: Option<usize>, gone: Vec<usize>) {
        let Some(witness) = witness.and_then(|place| self.nodes.at(place)) else { return };
        let gone: Vec<Arc<Node>> = gone.into_iter().filter_map(|place| self.nodes.at(place)).collect();
        let repair = Repair {
            keys: self.keys.of(claim.name()),
            owner: claim.owner().to_hex(),
            ttl: claim.ttl_millis().to_string(),
            underway: self.unfinished.begin(claim.owner()),
        };
        tokio::spawn(async move {
            // What fails here is found by the next renewal.
            if let Some(record) = repair.read(&witness).await {
                for node in gone {
                    if let Ok(true) = repair.set(&node, &record).await {
                        tracing::info!(target: "leasehold", { node = %node.address }, "quorum_repaired");
                    }
                }
            }
        });
    }
}

impl Repair {
    /// The record of the grant, from a node that has it.
    async fn read(&self, node: &Node) -> Option<HolderRecord> {
        let get = redis::cmd("GET").arg(self.keys.holder()).take();
        reply::record(&node.link.command(&get).await.ok()?)
    }

    async fn set(&self, node: &Node, record: &HolderRecord) -> Result<bool> {
        let HolderRecord { attempt, token, rest } = record;
        let value = format!("{}:{attempt}:{}", self.owner, node.place);
        if self.underway.is_ended() {
            return Ok(false);
        }
        let reply =
            node.link.run(&scripts::REPAIR, &self.keys.of_grant(), &[&value, token, &self.ttl, rest]).await;
        if self.underway.is_ended() {
            // Released meanwhile: the word of that may have come to the node before the lock did.
            return withdraw(node, &self.keys, &self.owner, AttemptFilter::Any, std::time::Duration::ZERO)
                .await
                .map(|_| false);
        }
        reply::done(&reply?)
    }
}
