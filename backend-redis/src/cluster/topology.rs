//! The nodes of a cluster as far as they are known, and finding out anew.

use super::map::{SlotMap, hash_slot};
use crate::connection::{Route, ServerLink};
use crate::locked;
use crate::target::{Address, Target};
use crate::waiters::WaiterRegistry;
use futures_util::future::select_ok;
use leasehold_core::{Error, ErrorKind, Result};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;

/// The map is asked for no more often than this: while a node is down, those who want the others are not to wait for it.
const MAP_REFRESH_PAUSE: Duration = Duration::from_millis(100);

/// How many nodes are asked for the map at once: one that is down or silent costs no time.
const ASK_AT_ONCE: usize = 4;

const LOOK_AT_CLUSTER: &str = "look at the cluster: CLUSTER INFO, CLUSTER SLOTS";

#[derive(Debug)]
pub(crate) struct Cluster {
    /// The nodes that the URL names. At least one.
    seeds: Vec<Target>,
    waiters: Arc<WaiterRegistry>,
    /// What the channels of this client begin with.
    channel: String,
    known: Mutex<ClusterState>,
    /// True if the map may be out of date.
    in_doubt: AtomicBool,
    /// One caller asks for the map, the others wait for it. When the last question ended, and why it failed, if it did.
    asking: tokio::sync::Mutex<Option<(Instant, Option<Error>)>>,
}

#[derive(Debug, Default)]
struct ClusterState {
    map: SlotMap,
    links: HashMap<Address, Arc<ServerLink>>,
    closed: bool,
}

impl Cluster {
    /// The cluster of which these are some nodes. Connects to nothing yet.
    pub(crate) fn new(seeds: Vec<Target>, waiters: Arc<WaiterRegistry>, channel: String) -> Self {
        Self {
            seeds,
            waiters,
            channel,
            known: Mutex::default(),
            in_doubt: AtomicBool::new(true),
            asking: tokio::sync::Mutex::default(),
        }
    }

    /// The node that has the slot; [`Unavailable`](ErrorKind::Unavailable) if no node has it, or none can be asked.
    pub(super) async fn owner(self: &Arc<Self>, slot: u16) -> Result<(Address, Arc<ServerLink>)> {
        let refreshed = self.refresh_if_in_doubt().await;
        let owner = locked(&self.known).map.owner(slot).cloned();
        match (owner, refreshed) {
            (Some(address), _) => {
                let link = self.link(&address)?;
                Ok((address, link))
            }
            (None, Err(error)) => Err(error),
            (None, Ok(())) => {
                self.doubt();
                Err(unavailable(format!("no node of the cluster has slot {slot}"), LOOK_AT_CLUSTER))
            }
        }
    }

    /// The node that has the key, whether or not it still does when it is asked.
    pub(crate) async fn node_of(self: &Arc<Self>, key: &str) -> Result<Arc<ServerLink>> {
        self.owner(hash_slot(key)).await.map(|(_, link)| link)
    }

    /// The node that has the key as far as is known, if it was ever linked to.
    pub(crate) fn known_node_of(&self, key: &str) -> Option<Arc<ServerLink>> {
        let known = locked(&self.known);
        known.links.get(known.map.owner(hash_slot(key))?).cloned()
    }

    /// All nodes that have slots, and an error in the place of those that are missing.
    pub(crate) async fn primaries(self: &Arc<Self>) -> Result<Vec<Result<Arc<ServerLink>>>> {
        self.doubt();
        self.refresh_if_in_doubt().await?;
        let (primaries, unassigned) = {
            let known = locked(&self.known);
            (known.map.primaries(), known.map.unassigned())
        };
        let missing = (!unassigned.is_empty()).then(|| {
            let message = format!("no node of the cluster has slots {}", unassigned.join(", "));
            Err(unavailable(message, LOOK_AT_CLUSTER))
        });
        Ok(primaries.iter().map(|address| self.link(address)).chain(missing).collect())
    }

    pub(super) fn link(&self, address: &Address) -> Result<Arc<ServerLink>> {
        let mut known = locked(&self.known);
        if known.closed {
            return Err(Error::closed());
        }
        if let Some(link) = known.links.get(address) {
            return Ok(Arc::clone(link));
        }
        let seed = self.seeds.first().ok_or_else(not_asked)?;
        let target = Target { address: address.clone(), ..seed.clone() };
        let channel = format!("{}:{address}", self.channel);
        let link = ServerLink::new(Route::Node(target), Arc::clone(&self.waiters), channel);
        known.links.insert(address.clone(), Arc::clone(&link));
        Ok(link)
    }

    /// The slot has moved there, as a node says that had it before.
    pub(super) fn move_slot(&self, slot: u16, to: Address) {
        locked(&self.known).map.move_slot(slot, to);
        self.doubt();
    }

    /// The map may be out of date: the next request has it asked for.
    pub(super) fn doubt(&self) {
        self.in_doubt.store(true, Ordering::SeqCst);
    }

    pub(crate) fn close(&self) {
        let mut known = locked(&self.known);
        known.closed = true;
        known.links.drain().for_each(|(_, link)| link.close());
    }

    /// By a task of its own: a caller may keep its future and not poll it, and would hold up all others.
    async fn refresh_if_in_doubt(self: &Arc<Self>) -> Result<()> {
        // While the first map is asked for, nothing is in doubt, and nothing is known either: wait for it.
        if !self.in_doubt.load(Ordering::SeqCst) && !locked(&self.known).map.nodes().is_empty() {
            return Ok(());
        }
        let refreshed = tokio::spawn(Arc::clone(self).refresh()).await;
        refreshed.unwrap_or_else(|error| Err(not_asked().with_source(error)))
    }

    async fn refresh(self: Arc<Self>) -> Result<()> {
        let begin = Instant::now();
        let mut last = self.asking.lock().await;
        let too_soon = match &*last {
            // It failed while this call waited for it. One after the other, each would wait for all before it.
            Some((ended, Some(failure))) if *ended > begin => return Err(failure.clone()),
            Some((ended, _)) => ended.elapsed() < MAP_REFRESH_PAUSE,
            None => false,
        };
        if !self.in_doubt.load(Ordering::SeqCst) || (too_soon && !locked(&self.known).map.nodes().is_empty())
        {
            return Ok(());
        }
        // Before the question: what raises doubt from here on may be newer than the answer.
        self.in_doubt.store(false, Ordering::SeqCst);
        let asked = self.ask_some().await;
        *last = Some((Instant::now(), asked.as_ref().err().cloned()));
        let map = asked.inspect_err(|_| self.doubt())?;
        let mut known = locked(&self.known);
        let is_seed = |address: &Address| self.seeds.iter().any(|seed| seed.address == *address);
        // A node that has left is forgotten with its connection; requests that are under way keep it for as long.
        known.links.retain(|address, _| map.nodes().contains(address) || is_seed(address));
        let fail_overs = known.map.fail_overs(&map);
        known.map = map;
        // Observers are called without the mutex.
        drop(known);
        for [slots, before, now] in fail_overs {
            self.waiters.servers.note(&slots, &before);
            self.waiters.servers.note(&slots, &now);
        }
        Ok(())
    }

    async fn ask_some(&self) -> Result<SlotMap> {
        let mut nodes = self.to_be_asked()?;
        let mut failure = None;
        while !nodes.is_empty() {
            let some = nodes.split_off(nodes.len().saturating_sub(ASK_AT_ONCE));
            let questions = some.iter().map(|(address, link)| Box::pin(ask(address, link)));
            match select_ok(questions).await {
                Ok((map, _)) => return Ok(map),
                Err(error) => failure = Some(error),
            }
        }
        Err(failure.unwrap_or_else(not_asked))
    }

    /// The nodes of the last map; and at the end, which is asked first, those of the URL.
    fn to_be_asked(&self) -> Result<Vec<(Address, Arc<ServerLink>)>> {
        let of_map = locked(&self.known).map.nodes().to_vec();
        let seeds = self.seeds.iter().map(|seed| seed.address.clone());
        let mut addresses: Vec<Address> = seeds.filter(|seed| !of_map.contains(seed)).collect();
        addresses.extend(of_map);
        addresses.into_iter().map(|address| Ok((address.clone(), self.link(&address)?))).collect()
    }
}

async fn ask(address: &Address, link: &ServerLink) -> Result<SlotMap> {
    let reply = link.command(redis::cmd("CLUSTER").arg("SLOTS")).await?;
    SlotMap::read(&reply, address).ok_or_else(|| {
        link.route.with_address(unavailable("it knows of no node that has slots".to_owned(), LOOK_AT_CLUSTER))
    })
}

fn not_asked() -> Error {
    let message = "no node of the cluster could be asked who has what".to_owned();
    unavailable(message, "look at the nodes that the URL names")
}

pub(super) fn unavailable(message: String, help: &'static str) -> Error {
    Error::new(ErrorKind::Unavailable, message).with_help(help)
}
