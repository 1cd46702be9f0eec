//! Locks on one server.

mod admin;
mod check;
mod renewal;
mod semantics;

use crate::keys::Keys;
use crate::link::Link;
use crate::mailbox::{Mailbox, Place};
use crate::reply;
use crate::scripts;
use crate::target::Target;
use async_trait::async_trait;
use leasehold_core::{
    Attempt, Claim, ErrorKind, Grant, LockAdmin, LockBackend, Namespace, OwnerId, Release, Renewal,
    Result, Semantics, StoreUrl,
};
use std::sync::Arc;
use std::time::Duration;

/// Locks on one Redis or Valkey server.
///
/// One connection serves all locks; it is made when it is first needed, and made again when it breaks. Those who wait
/// hear on it, by one subscription for all of them, that the lock was handed over to them.
#[derive(Debug)]
pub struct RedisBackend {
    link: Link,
    keys: Keys,
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
        Ok(Self { link: Link::new(target, Arc::clone(&mailbox)), keys, mailbox, channel })
    }

    /// Asks for a claim whose owner goes if it is not granted.
    async fn attempt_once(&self, claim: &Claim) -> Result<Attempt> {
        let keys = self.keys.of(claim.name());
        let (owner, ttl) = (claim.owner().to_hex(), claim.ttl_millis().to_string());
        let reply = self.link.run(&scripts::ACQUIRE, &keys.all(), &[&owner, &ttl, claim.holder(), ""]).await?;
        reply::attempt(&reply).map(|(attempt, _)| attempt)
    }

    /// Asks for a claim whose owner will wait. Asked again, this is the heartbeat that keeps its place in the queue, and
    /// that finds a grant whose message was lost.
    async fn attempt_or_queue(&self, claim: &Claim) -> Result<Attempt> {
        let owner = claim.owner();
        if let Some(token) = self.mailbox.take_or_listen(owner) {
            return Ok(Attempt::Granted(Grant::new(token).from_hand_over()));
        }
        let mut answer = self.ask(claim).await;
        if matches!(answer, Ok((_, Some(_)))) && self.link.listen(&self.channel).await {
            // Once for each connection: now the place is known to be one that can be told. If this gets no answer, the
            // first one stands.
            answer = self.ask(claim).await.or(answer);
        }
        match &answer {
            Ok((Attempt::Busy(_), place)) => self.mailbox.waits_at(owner, *place),
            Ok((Attempt::Granted(_), _)) => self.mailbox.forget(owner),
            Err(error) if error.kind() == ErrorKind::Indeterminate => {}
            Err(_) => self.mailbox.forget_unless_queued(owner),
        }
        answer.map(|(attempt, _)| attempt)
    }

    async fn ask(&self, claim: &Claim) -> Result<(Attempt, Option<Place>)> {
        let keys = self.keys.of(claim.name());
        let (hex, ttl) = (claim.owner().to_hex(), claim.ttl_millis().to_string());
        let args = [&*hex, &*ttl, claim.holder()];
        let reply = self.link.run_listening(&scripts::ACQUIRE, &keys.all(), &args, &self.channel).await?;
        reply::attempt(&reply)
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
        if claim.waits() {
            self.mailbox.forget(claim.owner());
        }
        let keys = self.keys.of(claim.name());
        let (owner, linger) = (claim.owner().to_hex(), linger.as_millis().to_string());
        let released = self.link.run(&scripts::RELEASE, &keys.all(), &[&owner, &linger]).await?;
        reply::release(&released)
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
