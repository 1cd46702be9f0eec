//! Locks: the contract of the core, kept by scripts on whichever servers are one store.

mod admin;
mod batch;
mod check;
mod confirmation;
mod holding;
mod renewal;
mod rights;
mod semantics;
mod taken_back;

pub(crate) use admin::held_names;
pub(crate) use check::look_at;
pub(crate) use rights::missing_on_node;

use crate::contention::Contention;
use crate::keys::Keys;
use crate::mailbox::Mailbox;
use crate::servers::Servers;
use crate::target::{Deployment, Replicas};
use async_trait::async_trait;
use batch::Batches;
use futures_util::future::BoxFuture;
use leasehold_core::{
    Attempt, Claim, LockAdmin, LockBackend, Namespace, OwnerId, Release, Renewal, Result, Semantics,
};
use leasehold_store_url::StoreUrl;
use std::sync::Arc;
use std::time::Duration;
use taken_back::TakenBack;

/// Locks on a Redis or Valkey: on one server, on the primary that Sentinels name, or on a cluster.
///
/// One connection to a server serves all locks on it; it is made when it is first needed, and made again when it breaks.
/// Those who wait hear on it, by one subscription for all of them, that the lock was handed over to them; in the older
/// protocol, on a second connection.
#[derive(Debug)]
pub struct RedisBackend {
    servers: Servers,
    mode: Mode,
    keys: Keys,
    contention: Contention,
    mailbox: Arc<Mailbox>,
    /// How many replicas must have a grant before it is believed.
    replicas: Option<Replicas>,
    taken_back: Arc<TakenBack>,
    /// Where requests can go together.
    batches: Option<Batches>,
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
        let mailbox = Arc::<Mailbox>::default();
        let mode = Mode::of(&deployment);
        let servers = Servers::new(deployment, &mailbox, channel);
        Ok(Self {
            mode,
            batches: Batches::of(&servers, &keys, replicas),
            servers,
            keys,
            contention: Contention::new(),
            mailbox,
            replicas,
            taken_back: Arc::default(),
        })
    }

    /// True if a message that tells of a grant is believed as it is.
    ///
    /// The script that publishes it counts the listeners on its own server only, and passes by whoever has none there; and
    /// it keeps the message from being replicated to the primary of yesterday, to which this process may still be
    /// connected. A cluster passes it on to all nodes nevertheless, and so may a primary whose scripts cannot choose what
    /// is replicated. So where there are several servers a message says that it is worth asking; and where replicas must
    /// confirm a grant, it has to be asked for anyway.
    fn believes_messages(&self) -> bool {
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
        semantics::semantics(self.mode)
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        // Only then are grants taken back.
        let _underway = self.replicas.map(|_| self.taken_back.begin(claim.owner()));
        if claim.waits() { self.attempt_or_queue(claim).await } else { self.attempt_once(claim).await }
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        renewal::renew(&self.servers, &self.keys, self.replicas, claims).await
    }

    fn renewal_group(&self, claim: &Claim) -> u64 {
        match self.servers.have_slots() {
            true => self.servers.number_of(self.keys.of(claim.name()).lock()),
            false => 0,
        }
    }

    async fn release(&self, claim: &Claim, linger: Duration) -> Result<Release> {
        self.end(claim, linger).await
    }

    /// When the lock was handed over to the claim, or the connection broke on which that would have been told.
    fn changed<'a: 'c, 'b: 'c, 'c>(&'a self, claim: &'b Claim) -> BoxFuture<'c, ()> {
        // No async method, which would keep more than the news for as long as somebody waits.
        Box::pin(self.mailbox.news(claim.owner()))
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
