//! Stores of several servers: members that vote, a primary and its replica.

use crate::proxy::Proxy;
use crate::stop::Stop;
use async_trait::async_trait;
use leasehold_core::LockName;
use std::fmt;

/// The servers of a store that has several, known by their places from zero. Errors and cancel safety are those of
/// [`Store`](super::Store).
#[allow(unused_variables, reason = "a hook that is not there, or does nothing, needs none of them")]
#[async_trait]
pub trait Members: fmt::Debug + Send + Sync + 'static {
    /// How many there are when all is well.
    fn count(&self) -> usize;

    /// Waits until so many of them serve, and answers which one leads; any, where [none leads](Self::has_leader).
    async fn leader_of(&self, serving: usize) -> Result<usize, Stop>;

    /// False if they know nothing of each other.
    fn has_leader(&self) -> bool {
        true
    }

    /// Kills one as a crash would.
    async fn kill(&self, member: usize) -> Result<(), Stop>;

    /// Starts it again with what it had written, and it joins the others a moment later; or with nothing, where each keeps for itself
    /// what the clients tell it.
    async fn restart(&self, member: usize, keep_data: bool) -> Result<(), Stop>;

    /// Stops one without closing a connection.
    async fn pause(&self, member: usize) -> Result<(), Stop>;

    /// Lets it go on.
    async fn resume(&self, member: usize) -> Result<(), Stop>;

    /// A proxy in front of each, in their order, and the address of the store through them.
    async fn proxied(&self) -> Result<(Vec<Proxy>, String), Stop>;

    /// Starts new ones in their place, and a proxy for each, through which the others find it. None where that cannot be made.
    async fn proxied_from_each_other(&self) -> Result<Vec<Proxy>, Stop> {
        Ok(Vec::new())
    }

    /// True if one has this lock as taken, by whomever.
    async fn holds(&self, member: usize, name: &LockName) -> Result<bool, Stop> {
        Err(Stop::no_hook("holds"))
    }

    /// Ends the lease of a lock on one of them, as its clock would.
    async fn end_lease(&self, member: usize, name: &LockName) -> Result<(), Stop> {
        Err(Stop::no_hook("end_lease"))
    }
}

/// A store with a primary for each name, and a replica that takes over from it. Errors and cancel safety are those of
/// [`Store`](super::Store).
#[allow(unused_variables, reason = "a hook that is not there, or does nothing, needs none of them")]
#[async_trait]
pub trait Replicas: fmt::Debug + Send + Sync + 'static {
    /// The store's address for clients that believe no grant which the replica does not have.
    fn confirmed_address(&self) -> Result<String, Stop> {
        Err(Stop::no_hook("confirmed_address"))
    }

    /// Waits until the replica of the name's primary has all that it has.
    async fn catch_up(&self, name: &LockName) -> Result<(), Stop>;

    /// Cuts the replica of the name's primary off: what the primary is told from now on, the replica will never have.
    async fn cut_off(&self, name: &LockName) -> Result<(), Stop>;

    /// Kills the name's primary as a crash would, and waits until the replica has taken over.
    async fn fail_over(&self, name: &LockName) -> Result<(), Stop>;

    /// Stops the name's primary without closing a connection, and waits until the replica has taken over.
    async fn supplant(&self, name: &LockName) -> Result<(), Stop>;

    /// Lets the stopped primary go on, which takes itself for one until it is told.
    async fn revive(&self) -> Result<(), Stop>;
}
