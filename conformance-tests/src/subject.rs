//! What is put to the test: a backend in a mode, and how to get at its store.

use crate::administrator::Administrator;
use crate::case::Case;
use crate::proxy::Proxy;
use async_trait::async_trait;
use leasehold_core::{DistributedLock, LockName, Result};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A backend in one mode: what it is called, how to start its store, how to connect.
///
/// This is all that a third party must write. Everything a case does beyond taking locks goes through the optional
/// hooks of [`Store`].
#[async_trait]
pub trait Subject: fmt::Debug + Send + Sync + 'static {
    /// Its name in the output: `redis`. One word.
    fn name(&self) -> &str;

    /// Starts a store for one case, or attaches to the one there is. Names of locks are unique per case and run, so
    /// sharing is safe.
    ///
    /// # Errors
    ///
    /// Why there is none here. The cases then fail, unless `LEASEHOLD_SKIP_MISSING` is set.
    async fn start(&self) -> std::result::Result<Box<dyn Store>, Cannot>;

    /// Connects to a store by an address that it gave. Called in this process and in worker processes; every client
    /// has connections of its own.
    ///
    /// # Errors
    ///
    /// The backend's own.
    async fn connect(&self, address: &str) -> Result<Arc<dyn DistributedLock>>;

    /// Whether this case is put to it at all: a subject that differs from another one only in its servers need not be
    /// asked everything twice. Default: yes.
    ///
    /// # Errors
    ///
    /// Why not. The case is skipped with this reason.
    fn covers(&self, case: &Case) -> std::result::Result<(), Cannot> {
        let _ = case;
        Ok(())
    }
}

/// A running store, and what the suite may do to it. A hook that is not there skips the cases that need it, by name
/// and with its reason.
#[async_trait]
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// What [`Subject::connect`] takes, in any process of this host.
    fn address(&self) -> String;

    /// The same store, for clients whose holds may last as long as this without a word from it. Leases do by
    /// themselves; a session must be asked for.
    fn address_for_holds_of(&self, time: Duration) -> String {
        let _ = time;
        self.address()
    }

    /// Puts a proxy in front of the store, and answers it and the address through it, for a client that takes a
    /// request for lost after `patience`.
    async fn proxied(&self, patience: Duration) -> std::result::Result<(Proxy, String), Cannot> {
        let _ = patience;
        Err(Cannot::new("the store is not reached by a network that could be cut"))
    }

    /// Stops the store without closing a connection.
    async fn pause(&self) -> std::result::Result<(), Cannot> {
        Err(Cannot::new("the store has no process that could be stopped"))
    }

    /// Lets it go on.
    async fn resume(&self) -> std::result::Result<(), Cannot> {
        Err(Cannot::new("the store has no process that could be stopped"))
    }

    /// Kills it as a crash would. It stays down until [`restart`](Self::restart).
    async fn kill(&self) -> std::result::Result<(), Cannot> {
        Err(Cannot::new("the store has no process that could be killed"))
    }

    /// Starts it again, with what it had written or with nothing.
    async fn restart(&self, keep_data: bool) -> std::result::Result<(), Cannot> {
        let _ = keep_data;
        Err(Cannot::new("the store has no process that could be restarted"))
    }

    /// Deletes the record of one held lock, as an administrator with the store's own client would.
    async fn delete(&self, name: &LockName) -> std::result::Result<(), Cannot> {
        let _ = name;
        Err(Cannot::new("no way to delete one lock's record behind its holder's back"))
    }

    /// Deletes everything in the store.
    async fn wipe(&self) -> std::result::Result<(), Cannot> {
        Err(Cannot::new("no way to delete everything in the store"))
    }

    /// How many records the store has, of whatever kind: keys, rows, nodes.
    async fn records(&self) -> std::result::Result<usize, Cannot> {
        Err(Cannot::new("no way to count what is in the store"))
    }

    /// Who looks after it, where it is a database.
    fn administrator(&self) -> std::result::Result<&dyn Administrator, Cannot> {
        Err(Cannot::new("the store is no database"))
    }

    /// What the store itself has counted. Exact only where nobody but the case uses it.
    async fn counters(&self) -> std::result::Result<Counters, Cannot> {
        Err(Cannot::new("the store does not count its messages"))
    }

    /// Deletes everything that the store keeps of one name, the places of its waiters included.
    async fn delete_queue(&self, name: &LockName) -> std::result::Result<(), Cannot> {
        let _ = name;
        Err(Cannot::new("the store keeps no queue that could be deleted"))
    }

    /// Its servers one by one, where several are one store.
    fn members(&self) -> std::result::Result<&dyn Members, Cannot> {
        Err(Cannot::new("the store is one server"))
    }

    /// Its replicas, one of which takes over when a primary fails.
    fn replicas(&self) -> std::result::Result<&dyn Replicas, Cannot> {
        Err(Cannot::new("the store has no replica that takes over"))
    }

    /// The same store under a prefix for lock names.
    async fn namespaced(&self, prefix: &str) -> std::result::Result<String, Cannot> {
        let _ = prefix;
        Err(Cannot::new("the backend has no prefix for lock names"))
    }

    /// Other addresses of the same store: with and without the default port, another spelling of the path.
    async fn aliases(&self) -> std::result::Result<Vec<String>, Cannot> {
        Err(Cannot::new("the store has one address only"))
    }

    /// An address with a secret in it, and the secret. It need not let anybody in.
    async fn secret(&self) -> std::result::Result<(String, String), Cannot> {
        Err(Cannot::new("the backend takes no secret"))
    }
}

/// The servers of a store that has several, known by their places from zero.
#[async_trait]
pub trait Members: fmt::Debug + Send + Sync + 'static {
    /// How many there are when all is well.
    fn count(&self) -> usize;

    /// Waits until so many of them serve, and answers which one leads.
    async fn leader_of(&self, serving: usize) -> std::result::Result<usize, Cannot>;

    /// Kills one as a crash would.
    async fn kill(&self, member: usize) -> std::result::Result<(), Cannot>;

    /// Starts it again with what it had written. It joins the others a moment later.
    async fn restart(&self, member: usize) -> std::result::Result<(), Cannot>;

    /// Stops one without closing a connection.
    async fn pause(&self, member: usize) -> std::result::Result<(), Cannot>;

    /// Lets it go on.
    async fn resume(&self, member: usize) -> std::result::Result<(), Cannot>;

    /// A proxy in front of each, in their order, and the address of the store through them.
    async fn proxied(&self) -> std::result::Result<(Vec<Proxy>, String), Cannot>;

    /// Starts one again with nothing, where each keeps for itself what the clients tell it.
    async fn restart_empty(&self, member: usize) -> std::result::Result<(), Cannot> {
        let _ = member;
        Err(Cannot::new(REPLICATED))
    }

    /// How many records one has, of whatever kind.
    async fn records_of(&self, member: usize) -> std::result::Result<usize, Cannot> {
        let _ = member;
        Err(Cannot::new(REPLICATED))
    }

    /// True if one has this lock as taken, by whomever.
    async fn holds(&self, member: usize, name: &LockName) -> std::result::Result<bool, Cannot> {
        let _ = (member, name);
        Err(Cannot::new(REPLICATED))
    }

    /// Ends the lease of a lock on one of them, as its clock would.
    async fn end_lease(&self, member: usize, name: &LockName) -> std::result::Result<(), Cannot> {
        let _ = (member, name);
        Err(Cannot::new(REPLICATED))
    }
}

const REPLICATED: &str = "its servers are one store, and tell each other what they know";

/// A store with a primary for each name, and a replica that takes over from it.
#[async_trait]
pub trait Replicas: fmt::Debug + Send + Sync + 'static {
    /// The store's address for clients that believe no grant which the replica does not have.
    fn confirmed_address(&self) -> String;

    /// Waits until the replica of the name's primary has all that it has.
    async fn catch_up(&self, name: &LockName) -> std::result::Result<(), Cannot>;

    /// Cuts the replica of the name's primary off: what the primary is told from now on, the replica will never have.
    async fn cut_off(&self, name: &LockName) -> std::result::Result<(), Cannot>;

    /// Kills the name's primary as a crash would, and waits until the replica has taken over.
    async fn fail_over(&self, name: &LockName) -> std::result::Result<(), Cannot>;

    /// Stops the name's primary without closing a connection, and waits until the replica has taken over.
    async fn supplant(&self, name: &LockName) -> std::result::Result<(), Cannot>;

    /// Lets the stopped primary go on, which takes itself for one until it is told.
    async fn revive(&self) -> std::result::Result<(), Cannot>;
}

/// What a store has counted since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Messages received and sent, of whatever kind.
    pub messages: u64,
    /// Clients told that something they wait for has changed.
    pub wake_ups: u64,
    /// Clients that wait to be told, at this moment.
    pub waiting: u64,
}

impl Counters {
    /// These counts.
    pub fn new(messages: u64, wake_ups: u64, waiting: u64) -> Self {
        Self { messages, wake_ups, waiting }
    }
}

/// Something that the suite wanted and a store or subject cannot do, and why. It skips a case; it never passes one.
#[derive(Clone, Debug)]
pub struct Cannot {
    reason: String,
}

impl Cannot {
    /// For this reason.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into() }
    }
}

impl fmt::Display for Cannot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}
