//! Attempts.

use crate::backend::RedisBackend;
use crate::connection::{ConfirmKind, Confirmed};
use crate::keys::LockKeys;
use crate::renew::renewal_script;
use crate::reply::{self, Acquired};
use crate::scripts;
use crate::target::Replicas;
use leasehold_core::{Attempt, Busy, Claim, Error, ErrorKind, FencingToken, Grant, Renewal, Result};
use redis::Value;

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
        let acquired = match self.acquire_free(claim).await? {
            Some(acquired) => acquired,
            None if claim.waits() => self.acquire_or_queue(claim).await?,
            None => self.acquire_in_turn(claim, &self.keys.of(claim.name()), DOES_NOT_WAIT).await?,
        };
        match (acquired, self.replicas) {
            (Acquired::Granted(token), Some(replicas)) => {
                Box::pin(self.confirm(claim, token, replicas)).await
            }
            (Acquired::Granted(token), None) => Ok(Attempt::Granted(Grant::new(token))),
            (Acquired::Busy(busy) | Acquired::Queued(busy, _), _) => Ok(Attempt::Busy(busy)),
        }
    }

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
                Acquired::Busy(_) if claim.waits() => Ok(None),
                acquired => Ok(Some(acquired)),
            },
        }
    }

    async fn acquire_or_queue(&self, claim: &Claim) -> Result<Acquired> {
        let owner = claim.owner();
        self.waiters.add(owner, claim.name());
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
            return self.acquire_in_turn(claim, &keys, &channel).await;
        }
        let acquired = self.acquire_in_turn(claim, &keys, HEARS_NOTHING).await?;
        if matches!(acquired, Acquired::Queued(..))
            && self.servers.listen(keys.lock()).await
            && let Some(channel) = self.servers.channel(keys.lock())
        {
            // Once for each connection: the entry names no channel yet. If this request fails, the first answer stands.
            return Ok(self.acquire_in_turn(claim, &keys, &channel).await.unwrap_or(acquired));
        }
        Ok(acquired)
    }

    async fn acquire_in_turn(&self, claim: &Claim, keys: &LockKeys, channel: &str) -> Result<Acquired> {
        let args = args_in_turn(claim, channel);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let answer = self.servers.run(&scripts::ACQUIRE_IN_TURN, keys, &args).await?;
        reply::acquired(&answer)
    }

    /// Believes a grant only if enough replicas have it. A script cannot wait for replicas, so the owner renews its lease and
    /// waits until they have that. A renewal takes no lock: it may arrive after the release of a claim whose caller has gone.
    ///
    /// A grant that is not confirmed is an unknown outcome: the owner asks again, or releases it.
    async fn confirm(&self, claim: &Claim, token: FencingToken, replicas: Replicas) -> Result<Attempt> {
        let (keys, args) =
            (self.keys.of(claim.name()), [claim.owner().to_hex(), claim.ttl_millis().to_string()]);
        let args = args.each_ref().map(String::as_str);
        let replicas = replicas.for_lease(claim.ttl());
        let confirm = (replicas, ConfirmKind::Grant);
        let script = renewal_script(claim.mode());
        let (reply, confirmed) =
            self.servers.run_confirmed(script, &keys, &args, confirm).await.map_err(not_confirmed)?;
        match (reply::renewal(&reply).map_err(not_confirmed)?, confirmed) {
            (Renewal::Renewed, Confirmed::Yes) => Ok(Attempt::Granted(Grant::new(token))),
            (Renewal::Renewed, Confirmed::By(count)) => Err(not_confirmed(too_few(count, replicas))),
            (Renewal::Renewed, Confirmed::Unasked(why)) => Err(not_confirmed(why)),
            // The grant has ended meanwhile.
            _ => Ok(Attempt::Busy(Busy::new().with_place_in_queue())),
        }
    }
}

fn args_in_turn(claim: &Claim, channel: &str) -> [String; 5] {
    let (owner, ttl) = (claim.owner().to_hex(), claim.ttl_millis().to_string());
    let mode = if claim.mode().is_shared() { "shared" } else { "exclusive" };
    [owner, ttl, claim.holder().to_string(), mode.to_owned(), channel.to_owned()]
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
