//! The nodes of a cluster as far as they are known, and finding out anew.

use super::map::Map;
use super::slot::Slot;
use crate::connection::{Link, Route};
use crate::servers::PrimaryNode;
use crate::target::{Address, Target};
use crate::waiters::WaiterRegistry;
use futures_util::future::select_ok;
use leasehold_core::{Error, ErrorKind, Result};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// The map is asked for no more often than this: while a node is down, those who want the others are not to wait for it.
const PAUSE: Duration = Duration::from_millis(100);

/// How many nodes are asked for the map at once: one that is down or silent costs no time.
const ASK_AT_ONCE: usize = 4;

/// The nodes.
#[derive(Debug)]
pub(super) struct Nodes {
    /// The nodes that the URL names. At least one.
    seeds: Vec<Target>,
    waiters: Arc<WaiterRegistry>,
    /// What the channels of this client begin with.
    channel: String,
    known: Mutex<Known>,
    /// True if the map may be out of date.
    in_doubt: AtomicBool,
    /// One caller asks for the map, the others wait for it.
    asking: tokio::sync::Mutex<LastQuestion>,
    /// Questions for the map that have ended.
    asked: AtomicU64,
    /// Nodes that were linked to; their channels are told apart by it.
    linked: AtomicU64,
}

/// The last question for the map: when it ended, and why it failed, if it did.
#[derive(Debug, Default)]
struct LastQuestion {
    ended: Option<Instant>,
    failure: Option<Error>,
}

#[derive(Debug, Default)]
struct Known {
    map: Map,
    links: HashMap<Address, Arc<PrimaryNode>>,
    closed: bool,
}

impl Nodes {
    pub(super) fn new(seeds: Vec<Target>, waiters: Arc<WaiterRegistry>, channel: String) -> Self {
        Self {
            seeds,
            waiters,
            channel,
            known: Mutex::default(),
            in_doubt: AtomicBool::new(true),
            asking: tokio::sync::Mutex::default(),
            asked: AtomicU64::new(0),
            linked: AtomicU64::new(0),
        }
    }

    /// The node that has the slot.
    ///
    /// # Errors
    ///
    /// [`Unavailable`](ErrorKind::Unavailable) if nobody has it, or nobody can be asked.
    pub(super) async fn owner(self: &Arc<Self>, slot: Slot) -> Result<(Address, Arc<PrimaryNode>)> {
        let refreshed = self.refresh_if_in_doubt().await;
        let owner = self.known().map.owner(slot).cloned();
        match (owner, refreshed) {
            (Some(address), _) => Ok((address.clone(), self.node(&address)?)),
            (None, Err(error)) => Err(error),
            (None, Ok(())) => {
                self.doubt();
                Err(slot_without_node(slot))
            }
        }
    }

    /// The node that has the slot as far as is known, as a number; the slot, if nobody is known to have it.
    pub(super) fn number_of_owner(&self, slot: Slot) -> u64 {
        let mut hasher = DefaultHasher::new();
        match self.known().map.owner(slot) {
            Some(address) => address.hash(&mut hasher),
            None => slot.hash(&mut hasher),
        }
        hasher.finish()
    }

    /// The node that has the slot as far as is known, if it was ever linked to.
    pub(super) fn known_owner(&self, slot: Slot) -> Option<Arc<PrimaryNode>> {
        let known = self.known();
        known.links.get(known.map.owner(slot)?).cloned()
    }

    /// All nodes that have slots.
    pub(super) async fn primaries(self: &Arc<Self>) -> Result<Vec<Arc<PrimaryNode>>> {
        self.doubt();
        self.refresh_if_in_doubt().await?;
        let primaries = self.known().map.primaries();
        primaries.iter().map(|address| self.node(address)).collect()
    }

    /// The node at this address.
    pub(super) fn node(&self, address: &Address) -> Result<Arc<PrimaryNode>> {
        let mut known = self.known();
        if known.closed {
            return Err(Error::closed());
        }
        if let Some(node) = known.links.get(address) {
            return Ok(Arc::clone(node));
        }
        let node = Arc::new(self.link_to(address)?);
        known.links.insert(address.clone(), Arc::clone(&node));
        Ok(node)
    }

    /// The slot has moved there, as a node says that had it before.
    pub(super) fn move_slot(&self, slot: Slot, to: Address) {
        self.known().map.move_slot(slot, to);
        self.doubt();
    }

    /// The map may be out of date: the next request has it asked for.
    pub(super) fn doubt(&self) {
        self.in_doubt.store(true, Ordering::SeqCst);
    }

    pub(super) fn close(&self) {
        let mut known = self.known();
        known.closed = true;
        known.links.drain().for_each(|(_, node)| node.link.close());
    }

    /// By a task of its own: a caller may keep its future and not poll it, and would hold up all others.
    async fn refresh_if_in_doubt(self: &Arc<Self>) -> Result<()> {
        // While the first map is asked for, nothing is in doubt, and nothing is known either: wait for it.
        if !self.in_doubt.load(Ordering::SeqCst) && !self.known().map.nodes().is_empty() {
            return Ok(());
        }
        let before = self.asked.load(Ordering::SeqCst);
        let refreshed = tokio::spawn(Arc::clone(self).refresh(before)).await;
        refreshed.unwrap_or_else(|error| Err(not_asked().with_source(error)))
    }

    /// `before`: how many questions had ended when this one was wanted.
    async fn refresh(self: Arc<Self>, before: u64) -> Result<()> {
        let mut last = self.asking.lock().await;
        if let Some(failure) = &last.failure
            && self.asked.load(Ordering::SeqCst) > before
        {
            // It failed while this call waited for it. One after the other, each would wait for all before it.
            return Err(failure.clone());
        }
        let too_soon = last.ended.is_some_and(|ended| ended.elapsed() < PAUSE);
        if !self.in_doubt.load(Ordering::SeqCst) || (too_soon && !self.known().map.nodes().is_empty()) {
            return Ok(());
        }
        // Before the question: what raises doubt from here on may be newer than the answer.
        self.in_doubt.store(false, Ordering::SeqCst);
        let asked = self.ask_some().await;
        *last = LastQuestion { ended: Some(Instant::now()), failure: asked.as_ref().err().cloned() };
        self.asked.fetch_add(1, Ordering::SeqCst);
        match asked {
            Ok(map) => {
                self.install(map);
                Ok(())
            }
            Err(error) => {
                self.doubt();
                Err(error)
            }
        }
    }

    /// The first answer of any node.
    async fn ask_some(&self) -> Result<Map> {
        let mut nodes = self.to_be_asked()?;
        let mut failure = None;
        while !nodes.is_empty() {
            let some = nodes.split_off(nodes.len().saturating_sub(ASK_AT_ONCE));
            let questions = some.iter().map(|(address, node)| Box::pin(ask(address, node)));
            match select_ok(questions).await {
                Ok((map, _)) => return Ok(map),
                Err(error) => failure = Some(error),
            }
        }
        Err(failure.unwrap_or_else(not_asked))
    }

    /// The nodes of the last map; and at the end, which is asked first, those of the URL.
    fn to_be_asked(&self) -> Result<Vec<(Address, Arc<PrimaryNode>)>> {
        let of_map = self.known().map.nodes().to_vec();
        let seeds = self.seeds.iter().map(|seed| seed.address.clone());
        let mut addresses: Vec<Address> = seeds.filter(|seed| !of_map.contains(seed)).collect();
        addresses.extend(of_map);
        addresses.into_iter().map(|address| Ok((address.clone(), self.node(&address)?))).collect()
    }

    fn install(&self, map: Map) {
        let mut known = self.known();
        let seeds = |address: &Address| self.seeds.iter().any(|seed| seed.address == *address);
        // A node that has left is forgotten with its connection; requests that are under way keep it for as long.
        known.links.retain(|address, _| map.nodes().contains(address) || seeds(address));
        known.map = map;
    }

    fn link_to(&self, address: &Address) -> Result<PrimaryNode> {
        let (Some(seed), Address::Tcp { host, port }) = (self.seeds.first(), address) else {
            return Err(not_asked());
        };
        let number = self.linked.fetch_add(1, Ordering::SeqCst);
        Ok(PrimaryNode {
            link: Link::along(Route::Node(seed.at(host, *port)?), Arc::clone(&self.waiters)),
            channel: format!("{}:{number}", self.channel),
        })
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn ask(address: &Address, node: &PrimaryNode) -> Result<Map> {
    let reply = node.link.command(redis::cmd("CLUSTER").arg("SLOTS")).await?;
    Map::read(&reply, address).ok_or_else(|| node.link.here(no_map()))
}

fn slot_without_node(slot: Slot) -> Error {
    Error::new(ErrorKind::Unavailable, format!("no node of the cluster has slot {slot}"))
        .with_help("look at the cluster: CLUSTER INFO, CLUSTER SLOTS")
}

fn no_map() -> Error {
    Error::new(ErrorKind::Unavailable, "it knows of no node that has slots")
        .with_help("look at the cluster: CLUSTER INFO, CLUSTER SLOTS")
}

fn not_asked() -> Error {
    Error::new(ErrorKind::Unavailable, "no node of the cluster could be asked who has what")
        .with_help("look at the nodes that the URL names")
}
