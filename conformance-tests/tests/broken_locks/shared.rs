//! A shared lock over Redis, in three scripts that can each be broken. Readers stand in a sorted set with the end of each.

use crate::calls::{Calls, lock_of};
use crate::plain::{Redis, busy, granted};
use crate::subject::Address;
use async_trait::async_trait;
use leasehold_core::{
    Attempt, Busy, Claim, DistributedLock, LockMode, LossCause, Outcome, Promises, Release, Renewal, Result,
    Semantics, Sharing,
};
use std::sync::Arc;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mistake {
    Nothing,
    /// #65: a number of readers, and not their owners.
    CountsReaders,
    /// #66: one end for all readers, which each of them renews.
    OneEndForAll,
    /// #67: looks for a holder and enters the new one in two steps.
    LooksThenEnters,
    /// #71: the last reader deletes the record without another look at it.
    DeletesWithoutLooking,
}

pub(crate) fn shared(mistake: Mistake, address: &Address) -> Arc<dyn DistributedLock> {
    lock_of(Shared { redis: Redis::at(address), mistake })
}

struct Shared {
    redis: Redis,
    mistake: Mistake,
}

/// The keys and the time that every script begins with; readers whose end has passed are gone.
const PRELUDE: &str = "
    local writer, readers, fence, tokens, wanted = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
    local owner, ttl = ARGV[1], tonumber(ARGV[2])
    local time = redis.call('TIME')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    redis.call('ZREMRANGEBYSCORE', readers, '-inf', now)
";

/// True if the claim has to wait; a writer that waits for readers leaves a mark.
const LOOK: &str = "
    local held = redis.call('GET', writer)
    local reading = redis.call('ZCARD', readers) > 0
    if ARGV[3] == 'shared' then
        if held or redis.call('EXISTS', wanted) == 1 then return false end
    else
        if reading and ARGV[4] == 'waits' then redis.call('SET', wanted, owner, 'PX', 800) end
        if held or reading then return false end
    end
";

const ENTER: &str = "
    local token = redis.call('INCR', fence)
    if ARGV[3] == 'shared' then
        redis.call('ZADD', readers, now + ttl, owner)
        redis.call('HSET', tokens, owner, token)
    else
        redis.call('SET', writer, owner, 'PX', ttl)
        redis.call('DEL', wanted)
    end
    return token
";

/// The grant of a claim that holds already.
const AGAIN: &str = "
    if redis.call('GET', writer) == owner then
        redis.call('PEXPIRE', writer, ttl)
        return redis.call('GET', fence)
    end
    if redis.call('ZSCORE', readers, owner) then
        redis.call('ZADD', readers, 'GT', now + ttl, owner)
        return redis.call('HGET', tokens, owner)
    end
";

impl Shared {
    async fn run(&self, script: &str, claim: &Claim) -> Result<Option<u64>> {
        let name = claim.name();
        let keys = [
            name.to_string(),
            format!("{name}:readers"),
            format!("{name}:fence"),
            format!("{name}:tokens"),
            format!("{name}:wanted"),
        ];
        let (owner, ttl) = (claim.owner().to_hex(), claim.ttl_millis().to_string());
        let mode = if claim.mode().is_shared() { "shared" } else { "exclusive" };
        let waits = if claim.waits() { "waits" } else { "once" };
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let script = [PRELUDE, script].concat();
        self.redis.script(&script, &keys, &[&owner, &ttl, mode, waits]).await
    }

    /// What one owner has in the sorted set: all readers have one place there if they are only counted, or end together.
    fn enters(&self) -> String {
        match self.mistake {
            Mistake::CountsReaders => ENTER.replace(
                "redis.call('ZADD', readers, now + ttl, owner)",
                "redis.call('ZADD', readers, now + ttl, redis.call('ZCARD', readers))",
            ),
            Mistake::OneEndForAll => ENTER.replace(
                "redis.call('ZADD', readers, now + ttl, owner)",
                "redis.call('ZADD', readers, now + ttl, owner)
                 for _, other in ipairs(redis.call('ZRANGE', readers, 0, -1)) do
                     redis.call('ZADD', readers, 'GT', now + ttl, other)
                 end",
            ),
            _ => ENTER.to_owned(),
        }
    }
}

#[async_trait]
impl Calls for Shared {
    fn semantics(&self) -> Semantics {
        let mut semantics = Semantics::lease("redis", "plain", Promises::new(|_| Outcome::MayBreak));
        semantics.sharing = Sharing::WriterFirst;
        semantics
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        let enters = self.enters();
        let token = match self.mistake {
            Mistake::LooksThenEnters if self.run(&[LOOK, "return 1"].concat(), claim).await?.is_none() => {
                None
            }
            Mistake::LooksThenEnters => self.run(&enters, claim).await?,
            Mistake::CountsReaders => self.run(&[LOOK, &enters].concat(), claim).await?,
            _ => self.run(&[AGAIN, LOOK, &enters].concat(), claim).await?,
        };
        let leaves_mark = claim.waits() && !claim.mode().is_shared();
        Ok(match token {
            Some(token) => granted(token),
            None if leaves_mark => Attempt::Busy(Busy::new().with_place_in_queue()),
            None => busy(),
        })
    }

    async fn renew(&self, claim: &Claim) -> Result<Renewal> {
        let script = match self.mistake {
            Mistake::OneEndForAll | Mistake::CountsReaders => {
                "if redis.call('GET', writer) == owner then return redis.call('PEXPIRE', writer, ttl) end
                 for _, other in ipairs(redis.call('ZRANGE', readers, 0, -1)) do
                     redis.call('ZADD', readers, 'GT', now + ttl, other)
                 end
                 return redis.call('ZCARD', readers) > 0 and 1 or 0"
            }
            _ => {
                "if redis.call('GET', writer) == owner then return redis.call('PEXPIRE', writer, ttl) end
                 if not redis.call('ZSCORE', readers, owner) then return 0 end
                 redis.call('ZADD', readers, 'GT', now + ttl, owner)
                 return 1"
            }
        };
        let held = self.run(script, claim).await? == Some(1);
        Ok(if held { Renewal::Renewed } else { Renewal::Lost(LossCause::Gone) })
    }

    async fn release(&self, claim: &Claim) -> Result<Release> {
        const WRITER: &str = "
            if redis.call('GET', wanted) == owner then redis.call('DEL', wanted) end
            if redis.call('GET', writer) == owner then return redis.call('DEL', writer) end
        ";
        let reader = match self.mistake {
            Mistake::CountsReaders if claim.mode() == LockMode::Shared => {
                "return #redis.call('ZPOPMIN', readers) > 0 and 1 or 0"
            }
            Mistake::DeletesWithoutLooking if claim.mode() == LockMode::Shared => {
                let is_last = "return redis.call('ZCARD', readers) <= 1 and redis.call('ZSCORE', readers, owner) and 1 or 0";
                let is_last = self.run(is_last, claim).await? == Some(1);
                match is_last {
                    true => "return redis.call('DEL', readers)",
                    false => "redis.call('HDEL', tokens, owner) return redis.call('ZREM', readers, owner)",
                }
            }
            _ => "redis.call('HDEL', tokens, owner) return redis.call('ZREM', readers, owner)",
        };
        let held = self.run(&[WRITER, reader].concat(), claim).await? == Some(1);
        Ok(if held { Release::Released } else { Release::NotHeld })
    }
}
