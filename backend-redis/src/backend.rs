//! Locks: the contract of the core, kept by scripts on whichever servers are one store.

use crate::batch::Batch;
use crate::keys::Keys;
use crate::scripts;
use crate::semantics::semantics;
use crate::servers::Servers;
use crate::target::{Deployment, Replicas};
use crate::waiters::WaiterRegistry;
use async_trait::async_trait;
use futures_util::future::BoxFuture;
use leasehold_core::{
    Attempt, Claim, LockAdmin, LockBackend, Namespace, OwnerId, Release, Renewal, Result, Semantics,
};
use leasehold_store_url::StoreUrl;
use std::sync::Arc;
use std::time::Duration;

/// Locks on a Redis or Valkey: on one server, on the primary that Sentinels name, or on a cluster.
///
/// One connection to a server serves all locks on it; it is made when it is first needed, and made again when it breaks.
/// Waiters hear on it, by one subscription for all of them, that the lock was handed over to them. In
/// RESP2 no messages come, and they ask every half second.
#[derive(Debug)]
pub struct RedisBackend {
    pub(crate) servers: Arc<Servers>,
    pub(crate) mode: Mode,
    pub(crate) keys: Keys,
    pub(crate) waiters: Arc<WaiterRegistry>,
    /// How many replicas must have a grant before it is believed.
    pub(crate) replicas: Option<Replicas>,
    pub(crate) acquires: Arc<Batch>,
    pub(crate) releases: Arc<Batch>,
}

/// How the servers are one store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Single,
    Sentinel,
    Cluster,
}

impl RedisBackend {
    /// A backend for the server at `url`. Connects to nothing yet.
    ///
    /// # Errors
    ///
    /// [`Invalid`](leasehold_core::ErrorKind::Invalid) for what is wrong with the URL, the files that it names, or the
    /// prefix; [`Misconfigured`](leasehold_core::ErrorKind::Misconfigured) if its scheme is none of these, or asks for TLS
    /// and this build has none.
    pub fn open(url: &StoreUrl, namespace: &Namespace) -> Result<Self> {
        let ((deployment, replicas), keys) = (Deployment::of(url)?, Keys::new(namespace)?);
        let channel = keys.channel(&OwnerId::random()?.to_hex());
        let waiters = Arc::<WaiterRegistry>::default();
        let mode = Mode::of(&deployment);
        let servers = Arc::new(Servers::new(deployment, &waiters, channel));
        Ok(Self {
            mode,
            acquires: Batch::new(&scripts::ACQUIRE, &servers),
            releases: Batch::new(&scripts::RELEASE, &servers),
            servers,
            keys,
            waiters,
            replicas,
        })
    }

    /// True if a message that tells of a grant is believed as it is.
    ///
    /// The script that publishes it counts the listeners on its own server only, skips a waiter that has none there, and keeps
    /// the message from being replicated to a former primary, to which this process may still be connected. A cluster passes
    /// it on to all nodes nevertheless, and so may a primary whose scripts cannot choose what is replicated. So on several
    /// servers a message is a reason to ask; and a grant that replicas must confirm has to be asked for anyway.
    pub(crate) fn believes_messages(&self) -> bool {
        self.mode == Mode::Single && self.replicas.is_none()
    }
}

impl Mode {
    fn of(deployment: &Deployment) -> Self {
        match deployment {
            Deployment::Single(_) => Self::Single,
            Deployment::Sentinel(_) => Self::Sentinel,
            Deployment::Cluster(_) => Self::Cluster,
        }
    }
}

#[async_trait]
impl LockBackend for RedisBackend {
    fn semantics(&self) -> Semantics {
        semantics(self.mode)
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        self.acquire(claim).await
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        self.renew_all(claims).await
    }

    fn renewal_group(&self, claim: &Claim) -> u64 {
        match self.servers.is_cluster() {
            true => self.servers.number_of(self.keys.of(claim.name()).lock()),
            false => 0,
        }
    }

    async fn release(&self, claim: &Claim, linger: Duration) -> Result<Release> {
        self.end(claim, linger).await
    }

    /// When the lock was handed over to the claim, or the connection broke on which that would have been told.
    fn changed<'a: 'c, 'b: 'c, 'c>(&'a self, claim: &'b Claim) -> BoxFuture<'c, ()> {
        Box::pin(self.waiters.changed(claim.owner()))
    }

    /// Never: a holder hears of a loss from its next renewal.
    async fn suspects(&self) -> Vec<OwnerId> {
        std::future::pending().await
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        Some(self)
    }

    async fn close(&self) -> Result<()> {
        self.servers.close();
        Ok(())
    }
}
