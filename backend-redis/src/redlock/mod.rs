//! Redlock: locks on a majority of independent nodes.

mod admin;
mod attempt;
mod check;
mod follower;
mod holding;
mod nodes;
mod quorum;
mod renewal;
mod repair;
mod reply;
mod scripts;
mod semantics;
mod unfinished;

use crate::keys::Keys;
use crate::target::Target;
use async_trait::async_trait;
use leasehold_core::{
    Attempt, Claim, Error, LockAdmin, LockBackend, Namespace, OwnerId, Release, Renewal, Result, Semantics,
};
use leasehold_store_url::StoreUrl;
use nodes::Nodes;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use unfinished::Unfinished;

/// Locks on a majority of independent Redis or Valkey servers, after the algorithm of redis.io, *Distributed Locks with
/// Redis*, with fencing tokens that a majority confirms.
///
/// All nodes are asked at once, over one connection to each. A name is held by whoever holds it on more than half of
/// them.
#[derive(Debug)]
pub struct RedlockBackend {
    nodes: Nodes,
    keys: Keys,
    /// The number of the next attempt, or renewal.
    attempts: AtomicU64,
    unfinished: Arc<Unfinished>,
    /// Two places of the URL that were found to be one server.
    twins: OnceLock<Error>,
}

impl RedlockBackend {
    /// A backend for the nodes at `url`. Connects to nothing yet.
    ///
    /// # Errors
    ///
    /// [`Invalid`](leasehold_core::ErrorKind::Invalid) for fewer than three nodes, for one that is named twice, and for
    /// what else is wrong with the URL, the files that it names, or the prefix;
    /// [`Misconfigured`](leasehold_core::ErrorKind::Misconfigured) if its scheme is none of these, or asks for TLS and this
    /// build has none.
    pub fn open(url: &StoreUrl, namespace: &Namespace) -> Result<Self> {
        let (targets, keys) = (Target::nodes(url)?, Keys::new(namespace)?);
        Ok(Self {
            nodes: Nodes::new(targets),
            keys,
            attempts: AtomicU64::new(1),
            unfinished: Arc::default(),
            twins: OnceLock::new(),
        })
    }
}

#[async_trait]
impl LockBackend for RedlockBackend {
    fn semantics(&self) -> Semantics {
        semantics::semantics()
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        self.attempt(claim).await
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        self.renew_all(claims).await
    }

    async fn release(&self, claim: &Claim, linger: Duration) -> Result<Release> {
        self.end(claim, linger).await
    }

    /// Never: no node knows when a majority is free.
    async fn changed(&self, _claim: &Claim) {
        std::future::pending::<()>().await;
    }

    /// Never: a holder hears of a loss from its next renewal.
    async fn suspects(&self) -> Vec<OwnerId> {
        std::future::pending().await
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        Some(self)
    }

    async fn close(&self) -> Result<()> {
        self.nodes.close();
        Ok(())
    }
}
