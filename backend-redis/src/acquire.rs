//! Attempts.

use crate::backend::RedisBackend;
use crate::connection::{ConfirmKind, Confirmed};
use crate::reply::{self, Acquired};
use crate::scripts;
use crate::target::Replicas;
use leasehold_core::{Attempt, Busy, Claim, Error, ErrorKind, Grant, Result};

/// In the place of a channel: the owner does not wait.
const DOES_NOT_WAIT: &str = "";
/// In the place of a channel: the owner waits, and its process hears no messages.
const HEARS_NOTHING: &str = "-";

impl RedisBackend {
    /// One attempt. Repeated by an owner that waits, it is the heartbeat that keeps the place in the queue and finds a grant
    /// whose message was lost.
    pub(crate) async fn acquire(&self, claim: &Claim) -> Result<Attempt> {
        if self.believes_messages()
            && claim.waits()
            && let Some(grant) = self.waiters.take_grant(claim.owner())
        {
            return Ok(Attempt::Granted(grant));
        }
        let acquired = match claim.waits() {
            true => self.acquire_or_queue(claim).await?,
            false => self.run_acquire(claim, DOES_NOT_WAIT).await?,
        };
        match (acquired, self.replicas) {
            (Acquired::Granted(_), Some(replicas)) => Box::pin(self.confirm(claim, replicas)).await,
            (Acquired::Granted(token), None) => Ok(Attempt::Granted(Grant::new(token))),
            (Acquired::Busy(busy) | Acquired::Queued(busy, _), _) => Ok(Attempt::Busy(busy)),
        }
    }

    async fn acquire_or_queue(&self, claim: &Claim) -> Result<Acquired> {
        let owner = claim.owner();
        self.waiters.add(owner);
        let acquired = self.join_queue(claim).await;
        match &acquired {
            Ok(Acquired::Queued(_, place)) => self.waiters.set_place(owner, *place),
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
            return self.run_acquire(claim, &channel).await;
        }
        let acquired = self.run_acquire(claim, HEARS_NOTHING).await?;
        if matches!(acquired, Acquired::Queued(..))
            && self.servers.listen(keys.lock()).await
            && let Some(channel) = self.servers.channel(keys.lock())
        {
            // Once for each connection: the entry in the queue names no channel yet. Without an answer to this request, the
            // first one stands.
            return Ok(self.run_acquire(claim, &channel).await.unwrap_or(acquired));
        }
        Ok(acquired)
    }

    async fn run_acquire(&self, claim: &Claim, channel: &str) -> Result<Acquired> {
        let answer = self.acquires.run(self.keys.of(claim.name()), args(claim, channel)).await?;
        reply::acquired(&answer)
    }

    /// Believes a grant only if enough replicas have it. A script cannot wait for them, least of all that of the release that
    /// hands the lock over, so the owner asks once more, which writes the grant once more, and waits then.
    ///
    /// A grant that is not confirmed is an unknown outcome: the owner asks again, or releases it.
    async fn confirm(&self, claim: &Claim, replicas: Replicas) -> Result<Attempt> {
        let (keys, args) = (self.keys.of(claim.name()), args(claim, DOES_NOT_WAIT));
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let replicas = replicas.for_lease(claim.ttl());
        let confirm = (replicas, ConfirmKind::Grant);
        let asked = self.servers.run_confirmed(&scripts::ACQUIRE, &keys, &args, confirm);
        let (reply, confirmed) = asked.await.map_err(not_confirmed)?;
        match (reply::acquired(&reply).map_err(not_confirmed)?, confirmed) {
            (Acquired::Granted(token), Confirmed::Yes) => Ok(Attempt::Granted(Grant::new(token))),
            (Acquired::Granted(_), Confirmed::By(count)) => Err(not_confirmed(too_few(count, replicas))),
            (Acquired::Granted(_), Confirmed::Unasked(why)) => Err(not_confirmed(why)),
            // The grant has ended meanwhile.
            (Acquired::Busy(_) | Acquired::Queued(..), _) => {
                Ok(Attempt::Busy(Busy::new().with_place_in_queue()))
            }
        }
    }
}

fn args(claim: &Claim, channel: &str) -> Vec<String> {
    let (owner, ttl) = (claim.owner().to_hex(), claim.ttl_millis().to_string());
    let mode = if claim.mode().is_shared() { "shared" } else { "exclusive" };
    vec![owner, ttl, claim.holder().to_string(), channel.to_owned(), mode.to_owned()]
}

/// The grant stands in the store, so no failure of the confirmation says that nothing was done.
fn not_confirmed(why: Error) -> Error {
    why.with_kind(ErrorKind::Indeterminate)
}

fn too_few(count: u32, replicas: Replicas) -> Error {
    let message = format!("{count} of {} replicas have confirmed the grant in time", replicas.count);
    Error::new(ErrorKind::Indeterminate, message).with_help(
        "look at the replicas: INFO replication; or lower wait_replicas in the URL, or raise timeout",
    )
}
