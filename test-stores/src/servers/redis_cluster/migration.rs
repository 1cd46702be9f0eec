//! How a slot moves from node to node.

use super::{PRIMARIES, RedisCluster};
use crate::servers::wait::wait_until;
use leasehold_conformance::Stop;
use std::collections::BTreeSet;

impl RedisCluster {
    /// Begins to move a key's slot from its node to another: from now on, its keys are partly here and partly there.
    ///
    /// # Errors
    ///
    /// If a node does not agree.
    pub fn begin_migration(&self, key: &str, to: usize) -> Result<(), Stop> {
        let (slot, from) = (self.slot_of(key)?.to_string(), self.owner_of(key)?);
        self.tell(to, &["CLUSTER", "SETSLOT", &slot, "IMPORTING", &self.id(from)?])?;
        self.tell(from, &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &self.id(to)?])
    }

    /// Takes keys of a slot along.
    ///
    /// # Errors
    ///
    /// If a node does not agree.
    pub fn migrate(&self, from: usize, to: usize, keys: &[&str]) -> Result<(), Stop> {
        let port = self.nodes[to].port().to_string();
        let mut words = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
        words.extend(keys);
        self.tell(from, &words)
    }

    /// Ends a migration: the slot is the other node's, and all nodes know it.
    ///
    /// The source is told before the target, and the third node is told as well. Otherwise, where slots move in quick
    /// succession, two nodes may choose the same epoch, and the node with the smaller id then raises its own; if it still
    /// claims the slot, the other node returns the slot to it, and the nodes disagree on the owner for ever.
    ///
    /// # Errors
    ///
    /// If a node does not agree.
    pub fn end_migration(&self, key: &str, from: usize, to: usize) -> Result<(), Stop> {
        let (slot, id) = (self.slot_of(key)?.to_string(), self.id(to)?);
        let words = ["CLUSTER", "SETSLOT", &slot, "NODE", &id];
        self.tell(from, &words)?;
        self.tell(to, &words)?;
        // The epoch is now above all that any node has claimed the slot with.
        self.tell(to, &["CLUSTER", "BUMPEPOCH"])?;
        let place = format!(":{}", self.nodes[to].port());
        wait_until("all nodes know the owner of the slot", || {
            (0..PRIMARIES).all(|node| {
                let knows = || match self.nodes[node].command(&["EVAL", "return 1", "1", key]) {
                    Ok(answer) if node == to => answer == ":1",
                    Ok(answer) => answer.trim_end().ends_with(&place),
                    Err(_) => false,
                };
                knows() || self.tell(node, &words).is_ok() && knows()
            }) && self.is_settled()
        })
    }

    /// True if all primaries know of each other's epochs, and no two have the same: nothing old that is still under way
    /// changes anything then.
    fn is_settled(&self) -> bool {
        let views: Vec<BTreeSet<(String, String)>> = (0..PRIMARIES).map(|node| self.epochs(node)).collect();
        let epochs = |view: &BTreeSet<(String, String)>| {
            view.iter().map(|(_, epoch)| epoch.clone()).collect::<BTreeSet<_>>().len()
        };
        views.iter().all(|view| *view == views[0] && epochs(view) == PRIMARIES)
    }

    /// The primaries and their epochs, as a node knows them.
    fn epochs(&self, node: usize) -> BTreeSet<(String, String)> {
        let told = self.nodes[node].command(&["CLUSTER", "NODES"]).unwrap_or_default();
        let words = told.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let primaries = words.filter(|words| words.len() > 7 && words[2].contains("master"));
        primaries.map(|words| (words[0].to_owned(), words[6].to_owned())).collect()
    }
}
