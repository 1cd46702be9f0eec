//! What is put to the test: a backend in a mode, and how to get at its store.

mod several;

pub use several::{Members, Replicas};

use crate::administrator::Administrator;
use crate::case::Case;
use crate::kinds::{Kinds, LibraryKinds};
use crate::proxy::Proxy;
use crate::stop::Stop;
use async_trait::async_trait;
use leasehold_core::{DistributedLock, Fault, LockName, Observer, Result};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A backend in one mode: what it is called, how to start its store, how to connect.
///
/// This is all that a third party must write. Everything a case does beyond taking locks goes through the optional
/// hooks of [`Store`].
///
/// # Cancel safety
///
/// A case that takes too long is dropped wherever it waits, and its store with it. What a hook has started must end with
/// the store then, and need not be finished.
#[allow(unused_variables, reason = "a hook that is not there, or does nothing, needs none of them")]
#[async_trait]
pub trait Subject: fmt::Debug + Send + Sync + 'static {
    /// Its name in the output: `redis`. One word.
    fn name(&self) -> &str;

    /// Starts a store for one case, or attaches to the one there is. Names of locks are unique per case and run, so
    /// sharing is safe.
    ///
    /// # Errors
    ///
    /// The reason that there is no store here: [`Stop::missing`] if a server is not installed.
    async fn start(&self) -> std::result::Result<Box<dyn Store>, Stop>;

    /// Connects to a store by an address that it gave. Called in this process and in worker processes; every client
    /// has connections of its own.
    ///
    /// # Errors
    ///
    /// The backend's own.
    async fn connect(&self, address: &str) -> Result<Arc<dyn DistributedLock>>;

    /// Connects with an observer of the client's events: its `Waiting` tells a case that the store has refused a waiter. Cases
    /// that need to know that are skipped without this hook.
    async fn connect_observed(
        &self,
        address: &str,
        observer: Arc<dyn Observer>,
    ) -> std::result::Result<Arc<dyn DistributedLock>, Stop> {
        Err(Stop::no_hook("connect_observed"))
    }

    /// The kinds of lock that are built on its exclusive locks. Default: the library's.
    fn kinds(&self) -> &dyn Kinds {
        &LibraryKinds
    }

    /// The longest lease that the store may make of this ttl: longer, if it counts in seconds, has a smallest lease, or adds to each;
    /// never shorter. It is the same for a grant, a renewal and the least time of a hold. The cases then use leases that it keeps
    /// exactly, if there are any, and wait for the end of the others. Default: the ttl.
    fn lease(&self, ttl: Duration) -> Duration {
        ttl
    }

    /// Whether this case is put to it at all: a subject that differs from another one only in its servers need not be
    /// asked everything twice. Default: yes.
    ///
    /// # Errors
    ///
    /// Why not. The case is skipped with this reason.
    fn covers(&self, case: &Case) -> std::result::Result<(), Stop> {
        Ok(())
    }

    /// Whether this fault can happen to its store, where the backend's promises cannot say: they are the same for one
    /// server and for several. Default: yes.
    ///
    /// # Errors
    ///
    /// Why it never can.
    fn can_meet(&self, fault: Fault) -> std::result::Result<(), Stop> {
        Ok(())
    }
}

/// A running store, and what the suite may do to it. A hook that is not there skips the cases that need it, by name
/// and with its reason ([`Stop::skipped`]); one that was tried and came to nothing fails them ([`Stop::failed`],
/// [`Stop::Absent`]).
/// Cancel safety is that of [`Subject`].
#[allow(unused_variables, reason = "a hook that is not there, or does nothing, needs none of them")]
#[async_trait]
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// What [`Subject::connect`] takes, in any process of this host.
    fn address(&self) -> String;

    /// The same store, for clients whose holds may last as long as this without a word from it. Leases do by
    /// themselves; a session must be asked for.
    fn address_for_holds_of(&self, time: Duration) -> String {
        self.address()
    }

    /// Puts a proxy in front of the store, and answers it and the address through it, for a client that takes a
    /// request for lost after `patience`.
    async fn proxied(&self, patience: Duration) -> std::result::Result<(Proxy, String), Stop> {
        Err(Stop::no_hook("proxied"))
    }

    /// Stops the store without closing a connection.
    async fn pause(&self) -> std::result::Result<(), Stop> {
        Err(Stop::no_hook("pause"))
    }

    /// Lets it go on.
    async fn resume(&self) -> std::result::Result<(), Stop> {
        Err(Stop::no_hook("resume"))
    }

    /// Kills it as a crash would. It stays down until [`restart`](Self::restart).
    async fn kill(&self) -> std::result::Result<(), Stop> {
        Err(Stop::no_hook("kill"))
    }

    /// Starts it again at the same address, with what it had written or with nothing. Also called on a store that runs: it is
    /// stopped first.
    async fn restart(&self, keep_data: bool) -> std::result::Result<(), Stop> {
        Err(Stop::no_hook("restart"))
    }

    /// Kills it as a crash would, and starts it again with what one that is set up in the usual way would have written by
    /// then.
    async fn crash(&self) -> std::result::Result<(), Stop> {
        self.kill().await?;
        self.restart(true).await
    }

    /// From now on, what is there counts as synced to the disk, and what comes later only if the store syncs it. Those
    /// that have connections to it may lose them.
    async fn sync(&self) -> std::result::Result<(), Stop> {
        Err(Stop::no_hook("sync"))
    }

    /// Kills it as a loss of power would, and starts it again with what was [synced](Self::sync).
    async fn lose_power(&self) -> std::result::Result<(), Stop> {
        Err(Stop::no_hook("lose_power"))
    }

    /// Refuses what clients ask for, as while their password is changed or a right is missing; or serves them again. The records stay, and a
    /// hold that is a connection lives on.
    async fn refuse(&self, refuse: bool) -> std::result::Result<(), Stop> {
        Err(Stop::no_hook("refuse"))
    }

    /// Deletes the record of one held lock, as an administrator with the store's own client would; where there is none, it
    /// is [absent](Stop::Absent).
    async fn delete(&self, name: &LockName) -> std::result::Result<(), Stop> {
        Err(Stop::no_hook("delete"))
    }

    /// Deletes everything in the store.
    async fn wipe(&self) -> std::result::Result<(), Stop> {
        Err(Stop::no_hook("wipe"))
    }

    /// Loses everything that it keeps, by whatever is the worst way to do so. Default: [`wipe`](Self::wipe).
    async fn lose_data(&self) -> std::result::Result<(), Stop> {
        self.wipe().await
    }

    /// How many records the store has, of whatever kind: keys, rows, nodes.
    async fn records(&self) -> std::result::Result<usize, Stop> {
        Err(Stop::no_hook("records"))
    }

    /// The administrator of the store, where it is a database.
    fn administrator(&self) -> std::result::Result<&dyn Administrator, Stop> {
        Err(Stop::no_hook("administrator"))
    }

    /// What the store itself has counted. Exact only where nobody but the case uses it.
    async fn counters(&self) -> std::result::Result<Counters, Stop> {
        Err(Stop::no_hook("counters"))
    }

    /// Deletes everything that the store keeps of one name, the places of its waiters included.
    async fn delete_queue(&self, name: &LockName) -> std::result::Result<(), Stop> {
        Err(Stop::no_hook("delete_queue"))
    }

    /// Its servers one by one, where several are one store.
    fn members(&self) -> std::result::Result<&dyn Members, Stop> {
        Err(Stop::no_hook("members"))
    }

    /// Lets a replica follow it from now on, where there is none from the start; then it has [`replicas`](Self::replicas),
    /// and an [`address`](Self::address) that leads to whichever server is the primary. The first time, it may be a new
    /// start with nothing. The replica's clock is `behind` by so much, where that can be chosen.
    async fn replicate(&self, behind: Duration) -> std::result::Result<(), Stop> {
        self.replicas().map(drop)
    }

    /// Its replicas, one of which takes over when a primary fails.
    fn replicas(&self) -> std::result::Result<&dyn Replicas, Stop> {
        Err(Stop::no_hook("replicas"))
    }

    /// The same store under a prefix for lock names.
    async fn namespaced(&self, prefix: &str) -> std::result::Result<String, Stop> {
        Err(Stop::no_hook("namespaced"))
    }

    /// Other addresses of the same store: with and without the default port, another spelling of the path.
    async fn aliases(&self) -> std::result::Result<Vec<String>, Stop> {
        Err(Stop::no_hook("aliases"))
    }

    /// An address with a secret in it, and the secret. It need not let anybody in.
    async fn secret(&self) -> std::result::Result<(String, String), Stop> {
        Err(Stop::no_hook("secret"))
    }
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
