//! How a slot moves from node to node.

use leasehold_conformance::Stop;
use leasehold_test_stores::servers::RedisCluster;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

const PRIMARIES: usize = 3;
/// Far above the time that the nodes take to agree.
const AGREED_WITHIN: Duration = Duration::from_secs(120);

/// A cluster whose slots move.
pub(crate) trait SlotMove {
    /// Begins to move a key's slot from its node to another: from now on, its keys are partly here and partly there.
    fn begin_migration(&self, key: &str, to: usize) -> Result<(), Stop>;

    /// Takes keys of a slot along.
    fn migrate(&self, from: usize, to: usize, keys: &[&str]) -> Result<(), Stop>;

    /// Ends a migration: the slot is the other node's, and all nodes know it.
    fn end_migration(&self, key: &str, from: usize, to: usize) -> Result<(), Stop>;
}

impl SlotMove for RedisCluster {
    fn begin_migration(&self, key: &str, to: usize) -> Result<(), Stop> {
        let (slot, from) = (self.slot_of(key)?.to_string(), self.owner_of(key)?);
        tell(self, to, &["CLUSTER", "SETSLOT", &slot, "IMPORTING", &id(self, from)?])?;
        tell(self, from, &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &id(self, to)?])
    }

    fn migrate(&self, from: usize, to: usize, keys: &[&str]) -> Result<(), Stop> {
        let port = self.nodes()[to].port().to_string();
        let mut words = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
        words.extend(keys);
        tell(self, from, &words)
    }

    /// The source is told before the target, and the third node is told as well. Otherwise, where slots move in quick
    /// succession, two nodes may choose the same epoch, and the node with the smaller id then raises its own; if it still
    /// claims the slot, the other node returns the slot to it, and the nodes disagree on the owner for ever.
    fn end_migration(&self, key: &str, from: usize, to: usize) -> Result<(), Stop> {
        let (slot, id) = (self.slot_of(key)?.to_string(), id(self, to)?);
        let words = ["CLUSTER", "SETSLOT", &slot, "NODE", &id];
        tell(self, from, &words)?;
        tell(self, to, &words)?;
        // The epoch is now above all that any node has claimed the slot with.
        tell(self, to, &["CLUSTER", "BUMPEPOCH"])?;
        let place = format!(":{}", self.nodes()[to].port());
        let start = Instant::now();
        let is_known = || {
            (0..PRIMARIES).all(|node| {
                let knows = || match self.nodes()[node].command(&["EVAL", "return 1", "1", key]) {
                    Ok(answer) if node == to => answer == ":1",
                    Ok(answer) => answer.trim_end().ends_with(&place),
                    Err(_) => false,
                };
                knows() || tell(self, node, &words).is_ok() && knows()
            }) && is_settled(self)
        };
        while !is_known() {
            if start.elapsed() > AGREED_WITHIN {
                return Err(Stop::failed("the nodes do not agree on the owner of a slot"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

/// The id of a node.
fn id(cluster: &RedisCluster, node: usize) -> Result<String, Stop> {
    let answer = cluster.nodes()[node].command(&["CLUSTER", "MYID"]).map_err(Stop::failed)?;
    Ok(answer.lines().last().unwrap_or_default().to_owned())
}

fn tell(cluster: &RedisCluster, node: usize, words: &[&str]) -> Result<(), Stop> {
    let answer = cluster.nodes()[node].command(words).map_err(Stop::failed)?;
    if answer.starts_with('+') { Ok(()) } else { Err(Stop::failed(format!("{words:?}: {answer}"))) }
}

/// True if all primaries know of each other's epochs, and no two have the same: nothing old that is still under way
/// changes anything then.
fn is_settled(cluster: &RedisCluster) -> bool {
    let views: Vec<BTreeSet<(String, String)>> =
        (0..PRIMARIES).map(|node| epochs_of(cluster, node)).collect();
    let epochs = |view: &BTreeSet<(String, String)>| {
        view.iter().map(|(_, epoch)| epoch.clone()).collect::<BTreeSet<_>>().len()
    };
    views.iter().all(|view| *view == views[0] && epochs(view) == PRIMARIES)
}

/// The primaries and their epochs, as a node knows them.
fn epochs_of(cluster: &RedisCluster, node: usize) -> BTreeSet<(String, String)> {
    let told = cluster.nodes()[node].command(&["CLUSTER", "NODES"]).unwrap_or_default();
    let words = told.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let primaries = words.filter(|words| words.len() > 7 && words[2].contains("master"));
    primaries.map(|words| (words[0].to_owned(), words[6].to_owned())).collect()
}
