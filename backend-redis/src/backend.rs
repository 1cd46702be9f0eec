//! Locks: the contract of the core, kept by scripts on whichever servers are one store.

use crate::batch::ClaimBatcher;
use crate::cluster::hash_slot;
use crate::connection::ConfirmKind;
use crate::keys::{Keys, LockKeys};
use crate::reply::{self, Acquired};
use crate::scripts;
use crate::semantics::semantics;
use crate::servers::{SINGLE, Servers, renewal_of};
use crate::target::{Deployment, Replicas};
use crate::waiters::WaiterRegistry;
use async_trait::async_trait;
use futures_util::future::{BoxFuture, join_all};
use leasehold_core::{
    Attempt, Busy, Claim, Error, ErrorKind, Grant, KnownServers, LockAdmin, LockBackend,
    MAX_CLAIMS_PER_RENEWAL, Namespace, OwnerId, Release, Renewal, Result, Semantics,
};
use leasehold_store_url::StoreUrl;
use redis::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// In the place of a channel: the owner does not wait.
const DOES_NOT_WAIT: &str = "";
/// In the place of a channel: the owner waits, and its process hears no messages.
const HEARS_NOTHING: &str = "-";

/// Locks on a Redis or Valkey: on one server, on the primary that Sentinels name, or on a cluster.
///
/// One connection to a server serves all locks on it; it is made when it is first needed, and made again when it breaks.
/// Waiters hear on it, by one subscription for all of them, that the lock was handed over to them. In
/// RESP2 no messages come, and they ask every half second.
#[derive(Debug)]
pub struct RedisBackend {
    pub(crate) servers: Arc<Servers>,
    pub(crate) keys: Keys,
    pub(crate) waiters: Arc<WaiterRegistry>,
    /// How many replicas must have a grant before it is believed.
    pub(crate) replicas: Option<Replicas>,
    pub(crate) acquires: Arc<ClaimBatcher>,
    pub(crate) releases: Arc<ClaimBatcher>,
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
        let ((deployment, replicas), keys) = (Deployment::from_url(url)?, Keys::new(namespace)?);
        let channel = keys.channel(&OwnerId::random()?.to_hex());
        let waiters = Arc::<WaiterRegistry>::default();
        let servers = Arc::new(Servers::new(deployment, &waiters, channel));
        Ok(Self {
            acquires: ClaimBatcher::new(&scripts::ACQUIRE, &servers),
            releases: ClaimBatcher::new(&scripts::RELEASE, &servers),
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
        self.servers.mode() == SINGLE && self.replicas.is_none()
    }
}

#[async_trait]
impl LockBackend for RedisBackend {
    fn semantics(&self) -> Semantics {
        semantics(self.servers.mode())
    }

    /// One attempt. Repeated by an owner that waits, it is the heartbeat that keeps the place in the queue and finds a grant
    /// whose message was lost.
    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        if self.believes_messages()
            && claim.waits()
            && let Some(grant) = self.waiters.take_grant(claim.owner())
        {
            return Ok(Attempt::Granted(grant));
        }
        let acquired = match self.acquire_free(claim).await? {
            Some(acquired) => acquired,
            None if claim.waits() => self.acquire_or_queue(claim).await?,
            None => self.acquire_in_turn(claim, &self.keys.of(claim.name()), DOES_NOT_WAIT).await?,
        };
        match (acquired, self.replicas) {
            ((Attempt::Granted(grant), _), Some(replicas)) => {
                Box::pin(self.confirm(claim, grant, replicas)).await
            }
            ((attempt, _), _) => Ok(attempt),
        }
    }

    /// Renews claims in as few requests as is fair to others. The claims of one request are of one
    /// mode, and lie in one slot, where there are slots.
    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        let mut groups: BTreeMap<(bool, Option<u16>), Vec<(usize, &Claim)>> = BTreeMap::new();
        for (index, claim) in claims.iter().enumerate() {
            let slot = self.servers.is_cluster().then(|| hash_slot(self.keys.of(claim.name()).lock()));
            groups.entry((claim.mode().is_shared(), slot)).or_default().push((index, claim));
        }
        let requests = groups.values().flat_map(|group| group.chunks(MAX_CLAIMS_PER_RENEWAL));
        let renewed = join_all(requests.map(async |request| {
            let (indices, claims): (Vec<_>, Vec<_>) = request.iter().copied().unzip();
            let renewed = self.renew_together(&claims, ConfirmKind::Renewal).await;
            indices.into_iter().zip(renewed)
        }));
        let mut renewals: Vec<_> = renewed.await.into_iter().flatten().collect();
        renewals.sort_by_key(|(index, _)| *index);
        let needed = self.replicas.map_or(0, |replicas| replicas.count);
        let count_on = |(renewal, count): (_, Result<u32>)| match renewal {
            // The next primary may not know this extension. The lease before it is counted on.
            Renewal::Renewed if count.map_or(true, |count| count < needed) => Renewal::Held,
            renewal => renewal,
        };
        renewals.into_iter().map(|(_, renewed)| renewed.map(count_on)).collect()
    }

    fn renewal_group(&self, claim: &Claim) -> u64 {
        self.servers.number_of(self.keys.of(claim.name()).lock())
    }

    /// Ends a claim: its hold, and its place in the queue, also one that this process does not know: a stale entry would receive
    /// the next hand-over.
    async fn release(&self, claim: &Claim, linger: Duration) -> Result<Release> {
        self.waiters.remove(claim.owner());
        let linger = vec![whole_millis(linger).to_string()];
        let request = (self.keys.of(claim.name()), vec![claim.owner().to_hex()]);
        let answer = self.releases.run(linger, request).await?;
        reply::release(&answer)
    }

    /// When the lock was handed over to the claim, or the connection broke on which that would have been told.
    fn changed<'a: 'c, 'b: 'c, 'c>(&'a self, claim: &'b Claim) -> BoxFuture<'c, ()> {
        Box::pin(self.waiters.changed(claim.owner()))
    }

    /// Never: a holder hears of a loss from its next renewal.
    async fn suspects(&self) -> Vec<OwnerId> {
        std::future::pending().await
    }

    fn servers(&self) -> Option<&KnownServers> {
        Some(&self.waiters.servers)
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        Some(self)
    }

    async fn close(&self) -> Result<()> {
        self.servers.close();
        Ok(())
    }
}

impl RedisBackend {
    /// Tries for a name that may be free. `None` if that does not decide the attempt: the owner waits, or is a reader, or the
    /// name is known not to be free.
    async fn acquire_free(&self, claim: &Claim) -> Result<Option<Acquired>> {
        if claim.mode().is_shared() || claim.waits() && self.waiters.is_waited_for(claim.name()) {
            return Ok(None);
        }
        let for_all = vec![claim.ttl_millis().to_string(), claim.holder().to_string()];
        let request = (self.keys.of(claim.name()), vec![claim.owner().to_hex()]);
        match self.acquires.run(for_all, request).await? {
            Value::Nil => Ok(None),
            answer => match reply::acquired(&answer)? {
                (Attempt::Busy(_), _) if claim.waits() => Ok(None),
                acquired => Ok(Some(acquired)),
            },
        }
    }

    async fn acquire_or_queue(&self, claim: &Claim) -> Result<Acquired> {
        let owner = claim.owner();
        self.waiters.add(owner, claim.name());
        let acquired = self.join_queue(claim).await;
        match &acquired {
            Ok((_, Some(place))) => self.waiters.set_place(owner, *place),
            Err(error) if error.kind() == ErrorKind::Indeterminate => {}
            Err(_) => self.waiters.remove_unless_queued(owner),
            Ok(_) => self.waiters.remove(owner),
        }
        acquired
    }

    /// Grants the lock to the owner, or puts it into the queue with the channel on which its process hears of the grant.
    async fn join_queue(&self, claim: &Claim) -> Result<Acquired> {
        let keys = self.keys.of(claim.name());
        if let Some(channel) = self.servers.channel(keys.lock()) {
            return self.acquire_in_turn(claim, &keys, &channel).await;
        }
        let acquired = self.acquire_in_turn(claim, &keys, HEARS_NOTHING).await?;
        if acquired.1.is_some()
            && self.servers.listen(keys.lock()).await
            && let Some(channel) = self.servers.channel(keys.lock())
        {
            // Once for each connection: the entry names no channel yet. If this request fails, the first answer stands.
            return Ok(self.acquire_in_turn(claim, &keys, &channel).await.unwrap_or(acquired));
        }
        Ok(acquired)
    }

    async fn acquire_in_turn(&self, claim: &Claim, keys: &LockKeys, channel: &str) -> Result<Acquired> {
        let (owner, ttl) = (claim.owner().to_hex(), claim.ttl_millis().to_string());
        let mode = if claim.mode().is_shared() { "shared" } else { "exclusive" };
        let args = [&*owner, &ttl, claim.holder(), mode, channel];
        let answer = self.servers.run(&scripts::ACQUIRE_IN_TURN, keys, &args).await?;
        reply::acquired(&answer)
    }

    /// Believes a grant only if enough replicas have it. A script cannot wait for replicas, so the owner renews its lease and
    /// waits until they have that. A renewal takes no lock: it may arrive after the release of a claim whose caller has gone.
    ///
    /// A grant that is not confirmed is an unknown outcome: the owner asks again, or releases it.
    async fn confirm(&self, claim: &Claim, grant: Grant, replicas: Replicas) -> Result<Attempt> {
        // The grant stands in the store, so no failure of the confirmation says that nothing was done.
        let not_confirmed = |why: Error| why.with_kind(ErrorKind::Indeterminate);
        let renewed = self.renew_together(&[claim], ConfirmKind::Grant).await.pop();
        let (renewal, count) =
            renewed.unwrap_or_else(|| Err(reply::not_understood())).map_err(not_confirmed)?;
        if renewal != Renewal::Renewed {
            // The grant has ended meanwhile.
            return Ok(Attempt::Busy(Busy::new().with_place_in_queue()));
        }
        let count = count.map_err(not_confirmed)?;
        if count >= replicas.count {
            return Ok(Attempt::Granted(grant));
        }
        let message = format!("{count} of {} replicas have confirmed the grant in time", replicas.count);
        Err(Error::new(ErrorKind::Indeterminate, message).with_help(
            "look at the replicas: INFO replication; or lower wait_replicas in the URL, or raise timeout",
        ))
    }

    /// Renews claims in one request. With each answer, how many replicas have what was written, where they are asked.
    async fn renew_together(
        &self,
        claims: &[&Claim],
        kind: ConfirmKind,
    ) -> Vec<Result<(Renewal, Result<u32>)>> {
        let requests: Vec<_> = claims.iter().map(|claim| renewal_of(claim, &self.keys)).collect();
        let shortest = claims.iter().map(|claim| claim.ttl()).min().unwrap_or_default();
        // A confirmation that comes late in the lease is of no use.
        let within = |replicas: Replicas| replicas.within.min(shortest / 4);
        let confirm = self.replicas.map(|it| (Replicas { within: within(it), ..it }, kind));
        let are_shared = claims.first().is_some_and(|claim| claim.mode().is_shared());
        let script = if are_shared { &scripts::RENEW_SHARED } else { &scripts::RENEW };
        let answers = self.servers.run_each(script, &[], &requests, confirm).await;
        let renewal = |answer: Result<_>| {
            let (answer, replicas) = answer?;
            Ok((reply::renewal(&answer)?, replicas))
        };
        answers.into_iter().map(renewal).collect()
    }
}

/// In whole milliseconds, rounded up: others are kept out for at least as long as was asked for, and zero means not at all.
pub(crate) fn whole_millis(time: Duration) -> u128 {
    time.as_nanos().div_ceil(1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_millis_are_rounded_up() {
        for (nanos, millis) in [(0, 0), (1, 1), (1_000_000, 1), (1_000_001, 2)] {
            assert_eq!(whole_millis(Duration::from_nanos(nanos)), millis);
        }
    }
}
