//! Locks on one server.

mod admin;
mod check;
mod holding;
mod renewal;
mod rights;
mod semantics;

pub(crate) use admin::held_names;
pub(crate) use check::look_at;

use crate::contention::Contention;
use crate::keys::Keys;
use crate::link::Link;
use crate::mailbox::Mailbox;
use crate::target::Target;
use async_trait::async_trait;
use leasehold_core::{
    Attempt, Claim, LockAdmin, LockBackend, Namespace, OwnerId, Release, Renewal, Result, Semantics, StoreUrl,
};
use std::sync::Arc;
use std::time::Duration;

/// Locks on one Redis or Valkey server.
///
/// One connection serves all locks; it is made when it is first needed, and made again when it breaks. Those who wait
/// hear on it, by one subscription for all of them, that the lock was handed over to them; in the older protocol, on a
/// second connection.
#[derive(Debug)]
pub struct RedisBackend {
    link: Link,
    keys: Keys,
    contention: Contention,
    mailbox: Arc<Mailbox>,
    /// The channel of this backend's waiters, and of nobody else's.
    channel: String,
}

impl RedisBackend {
    /// A backend for the server at `url`. Connects to nothing yet.
    ///
    /// # Errors
    ///
    /// [`Invalid`](leasehold_core::ErrorKind::Invalid) for what is wrong with the URL, the files that it names, or the
    /// prefix; [`Misconfigured`](leasehold_core::ErrorKind::Misconfigured) if the URL asks for TLS and this build has
    /// none.
    pub fn open(url: &StoreUrl, namespace: &Namespace) -> Result<Self> {
        let (target, keys) = (Target::of(url)?, Keys::new(namespace)?);
        let channel = keys.channel(&OwnerId::random()?.to_hex());
        let mailbox = Arc::<Mailbox>::default();
        Ok(Self {
            link: Link::new(target, Arc::clone(&mailbox)),
            keys,
            contention: Contention::new(),
            mailbox,
            channel,
        })
    }
}

#[async_trait]
impl LockBackend for RedisBackend {
    fn semantics(&self) -> Semantics {
        semantics::semantics()
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        if claim.waits() { self.attempt_or_queue(claim).await } else { self.attempt_once(claim).await }
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        renewal::renew(&self.link, &self.keys, claims).await
    }

    async fn release(&self, claim: &Claim, linger: Duration) -> Result<Release> {
        self.end(claim, linger).await
    }

    /// When the lock was handed over to the claim, or the connection broke on which that would have been told.
    async fn changed(&self, claim: &Claim) {
        self.mailbox.news(claim.owner()).await;
    }

    /// Never: a holder hears of a loss from its next renewal.
    async fn suspects(&self) -> Vec<OwnerId> {
        std::future::pending().await
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        Some(self)
    }

    async fn close(&self) -> Result<()> {
        self.link.close();
        Ok(())
    }
}
