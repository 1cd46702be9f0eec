//! Mistakes that cost nobody the lock, and somebody the wait for it.

use crate::calls::{Calls, lock_of};
use crate::plain::{Plain, Redis, SOUND, fence, granted, key};
use crate::subject::Address;
use async_trait::async_trait;
use leasehold_core::{
    Attempt, Busy, Claim, DistributedLock, Fairness, Release, Renewal, Result, Semantics, WakeUp,
};
use std::sync::Arc;
use std::time::Duration;

/// #63: declares that waiters are told, and tells them or does not.
pub(crate) fn told(are_told: bool, address: &Address) -> Arc<dyn DistributedLock> {
    lock_of(Told { plain: Plain::new(SOUND, address), are_told })
}

struct Told {
    plain: Plain,
    are_told: bool,
}

#[async_trait]
impl Calls for Told {
    fn semantics(&self) -> Semantics {
        let mut semantics = self.plain.semantics();
        semantics.wake_up = WakeUp::Push { fallback: Duration::from_secs(2) };
        semantics
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        self.plain.try_acquire(claim).await
    }

    async fn renew(&self, claim: &Claim) -> Result<Renewal> {
        self.plain.renew(claim).await
    }

    async fn release(&self, claim: &Claim) -> Result<Release> {
        self.plain.release(claim).await
    }

    async fn changed(&self, claim: &Claim) {
        if !self.are_told {
            return std::future::pending().await;
        }
        self.plain.key_gone_by_now(claim).await;
    }
}

/// #64: a queue, served at this index of its list. Who joins it is the last.
pub(crate) fn in_line(first: &'static str, address: &Address) -> Arc<dyn DistributedLock> {
    lock_of(Line { plain: Plain::new(SOUND, address), redis: Redis::at(address), first })
}

struct Line {
    plain: Plain,
    redis: Redis,
    first: &'static str,
}

#[async_trait]
impl Calls for Line {
    fn semantics(&self) -> Semantics {
        let mut semantics = self.plain.semantics();
        semantics.fairness = Fairness::Fifo;
        semantics.wake_up = WakeUp::Poll { at_most: Duration::from_millis(10) };
        semantics
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        let script = "local v = redis.call('GET', KEYS[1])
                      if v == ARGV[1] then return tonumber(redis.call('GET', KEYS[2])) end
                      local first = redis.call('LINDEX', KEYS[3], ARGV[3])
                      if not v and (not first or first == ARGV[1]) then
                          redis.call('LREM', KEYS[3], 0, ARGV[1])
                          redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
                          return redis.call('INCR', KEYS[2])
                      end
                      if not redis.call('LPOS', KEYS[3], ARGV[1]) then redis.call('RPUSH', KEYS[3], ARGV[1]) end
                      return false";
        let keys = [key(claim), fence(claim), queue(claim)];
        let arguments = [claim.owner().to_hex(), claim.ttl_millis().to_string()];
        let token: Option<u64> = self
            .redis
            .script(script, &[&keys[0], &keys[1], &keys[2]], &[&arguments[0], &arguments[1], self.first])
            .await?;
        Ok(token.map_or_else(|| Attempt::Busy(Busy::new().with_place_in_queue()), granted))
    }

    async fn renew(&self, claim: &Claim) -> Result<Renewal> {
        self.plain.renew(claim).await
    }

    async fn release(&self, claim: &Claim) -> Result<Release> {
        self.redis.command::<u64>(&["LREM", &queue(claim), "0", &claim.owner().to_hex()]).await?;
        self.plain.release(claim).await
    }
}

fn queue(claim: &Claim) -> String {
    format!("{}:queue", claim.name())
}
