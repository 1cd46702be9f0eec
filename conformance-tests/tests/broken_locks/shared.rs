//! A shared lock over Redis, in scripts that can each be broken. Readers stand in a sorted set with the end of each.

use crate::calls::{Calls, lock_of};
use crate::plain::{Redis, busy, granted};
use crate::shared_mistakes::Mistake;
use crate::subject::Address;
use async_trait::async_trait;
use leasehold_core::{
    Attempt, Busy, Claim, DistributedLock, FencingToken, Finding, HolderInfo, LockAdmin, LockMode, LockName,
    LockStatus, LossCause, Outcome, OwnerId, Promises, Release, Renewal, Result, Semantics, Sharing, Waiter,
    renew_each,
};
use redis::FromRedisValue;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub(crate) fn shared(mistake: Mistake, address: &Address) -> Arc<dyn DistributedLock> {
    lock_of(Shared::new(mistake, address))
}

pub(crate) struct Shared {
    redis: Redis,
    mistake: Mistake,
}

/// The keys and the time that every script begins with; readers whose end has passed are gone.
const PRELUDE: &str = "
    local writer, readers, fence, tokens, wanted = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
    local owner, ttl, mode, linger = ARGV[1], tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[5])
    local time = redis.call('TIME')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    redis.call('ZREMRANGEBYSCORE', readers, '-inf', now)
";

/// True if the claim has to wait; a writer that waits for readers leaves a mark.
const LOOK: &str = "
    local held = redis.call('GET', writer)
    local reading = redis.call('ZCARD', readers) > 0
    if mode == 'shared' then
        if held or redis.call('EXISTS', wanted) == 1 then return false end
    else
        if reading and ARGV[4] == 'waits' then redis.call('SET', wanted, owner, 'PX', 800) end
        if held or reading then return false end
    end
";

const ENTER: &str = "
    local token = redis.call('INCR', fence)
    redis.call('HSET', tokens, 'info:' .. owner, ARGV[6])
    if mode == 'shared' then
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
        redis.call('PEXPIRE', writer, ttl, 'GT')
        return redis.call('GET', fence)
    end
    if redis.call('ZSCORE', readers, owner) then
        redis.call('ZADD', readers, 'GT', now + ttl, owner) -- again
        return redis.call('HGET', tokens, owner)
    end
";

const RENEW: &str = "
    if redis.call('GET', writer) == owner then
        redis.call('PEXPIRE', writer, ttl, 'GT')
        return 1
    end
    if not redis.call('ZSCORE', readers, owner) then return 0 end
    redis.call('ZADD', readers, 'GT', now + ttl, owner)
    return 1
";

/// A writer's part of a release, and a reader's.
const RELEASE: [&str; 2] = [
    "
    if redis.call('GET', wanted) == owner then redis.call('DEL', wanted) end
    if redis.call('GET', writer) == owner then
        redis.call('HDEL', tokens, 'info:' .. owner)
        if linger > 0 then return redis.call('SET', writer, 'released', 'PX', linger) and 1 end
        return redis.call('DEL', writer)
    end
    ",
    "
    local token = redis.call('HGET', tokens, owner)
    redis.call('HDEL', tokens, owner, 'info:' .. owner)
    if redis.call('ZREM', readers, owner) == 0 then return 0 end
    if linger > 0 then
        redis.call('HSET', tokens, 'released ' .. owner, token)
        redis.call('ZADD', readers, now + linger, 'released ' .. owner)
    end
    return 1
    ",
];

/// The holds: the owner of each, its token, what is left of its lease, its mode, and what it says of itself.
const INSPECT: &str = "
    local holds, held = {}, redis.call('GET', writer)
    local function add(owner, token, left, mode)
        local info = redis.call('HGET', tokens, 'info:' .. owner) or ''
        table.insert(holds, {owner, tonumber(token), left, mode, info})
    end
    if held then add(held, redis.call('GET', fence), redis.call('PTTL', writer), 'write') end
    for _, reader in ipairs(redis.call('ZRANGE', readers, 0, -1)) do
        add(reader, redis.call('HGET', tokens, reader), redis.call('ZSCORE', readers, reader) - now, 'shared')
    end
    return holds
";

/// Ends a hold, also one that is released and not over.
const FORCE: &str = "
    if redis.call('GET', writer) == owner then return redis.call('DEL', writer) end
    redis.call('HDEL', tokens, owner)
    return redis.call('ZREM', readers, owner)
";

type HoldRow = (String, u64, u64, String, String);

impl Shared {
    pub(crate) fn new(mistake: Mistake, address: &Address) -> Self {
        Self { redis: Redis::at(address), mistake }
    }

    /// True if somebody holds the lock; with an owner, if that is the holder.
    pub(crate) async fn is_held(&self, name: &LockName, owner: Option<OwnerId>) -> Result<bool> {
        let holds = self.holds(name).await?;
        Ok(holds.iter().any(|(holder, ..)| owner.is_none_or(|owner| owner.to_hex() == *holder)))
    }

    /// Runs a script of these parts, with the mistake in it.
    async fn script<T: FromRedisValue>(
        &self,
        parts: &[&str],
        name: &LockName,
        arguments: [&str; 7],
    ) -> Result<T> {
        // No name has such a character in it.
        let mark = if matches!(self.mistake, Mistake::MarkOfAnotherName) { ":wanted" } else { "\u{1}wanted" };
        let keys =
            ["", "\u{1}readers", "\u{1}fence", "\u{1}tokens", mark].map(|suffix| format!("{name}{suffix}"));
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let script = self.mistake.put_into([&[PRELUDE], parts].concat().concat());
        self.redis.script(&script, &keys, &arguments).await
    }

    async fn run(&self, parts: &[&str], claim: &Claim, linger: Duration) -> Result<Option<u64>> {
        let (owner, ttl) = (claim.owner().to_hex(), claim.ttl_millis().to_string());
        let (mode, linger) = (claim.mode().to_string(), linger.as_millis().to_string());
        let clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis().to_string();
        let waits = if claim.waits() { "waits" } else { "once" };
        let answer = self
            .script(parts, claim.name(), [&owner, &ttl, &mode, waits, &linger, claim.holder(), &clock])
            .await;
        self.mistake.answer(claim, parts.contains(&ENTER), answer)
    }

    async fn holds(&self, name: &LockName) -> Result<Vec<HoldRow>> {
        self.script(&[INSPECT], name, ["", "0", "", "", "0", "", "0"]).await
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
        let now = Duration::ZERO;
        let token = match self.mistake {
            Mistake::LooksThenEnters if self.run(&[LOOK, "return 1"], claim, now).await?.is_none() => None,
            Mistake::LooksThenEnters => self.run(&[ENTER], claim, now).await?,
            Mistake::CountsReaders => self.run(&[LOOK, ENTER], claim, now).await?,
            _ => self.run(&[AGAIN, LOOK, ENTER], claim, now).await?,
        };
        if let Mistake::EndsByASecondStep(mode) = self.mistake
            && token.is_some()
            && claim.mode() == mode
        {
            let end = match mode {
                LockMode::Shared => "return redis.call('ZADD', readers, now + ttl, owner)",
                _ => "return redis.call('PEXPIRE', writer, ttl)",
            };
            self.run(&[end], claim, now).await?;
        }
        let leaves_mark = claim.waits() && !claim.mode().is_shared();
        Ok(match token {
            Some(token) => granted(token),
            None if matches!(self.mistake, Mistake::HintsToWriters) && claim.mode() == LockMode::Write => {
                for _ in 0..5 {
                    self.run(&[LOOK, "return 1"], claim, now).await?;
                }
                Attempt::Busy(Busy::new().with_place_in_queue().with_end(Duration::from_millis(1)))
            }
            None if leaves_mark => Attempt::Busy(Busy::new().with_place_in_queue()),
            None => busy(),
        })
    }

    async fn renew(&self, claim: &Claim) -> Result<Renewal> {
        let held = self.run(&[RENEW], claim, Duration::ZERO).await? == Some(1);
        Ok(if held { Renewal::Renewed } else { Renewal::Lost(LossCause::Gone) })
    }

    async fn renew_all(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        let answers = renew_each(claims, |claim| self.renew(claim)).await;
        self.mistake.answers(claims, answers)
    }

    async fn release(&self, claim: &Claim) -> Result<Release> {
        self.linger(claim, Duration::ZERO).await
    }

    async fn linger(&self, claim: &Claim, time: Duration) -> Result<Release> {
        let reader = match self.mistake {
            Mistake::CountsReaders if claim.mode() == LockMode::Shared => {
                "return #redis.call('ZPOPMIN', readers) > 0 and 1 or 0"
            }
            Mistake::DeletesWithoutLooking if claim.mode() == LockMode::Shared => {
                let is_last = "return redis.call('ZCARD', readers) <= 1 and redis.call('ZSCORE', readers, owner) and 1 or 0";
                match self.run(&[is_last], claim, time).await? == Some(1) {
                    true => "return redis.call('DEL', readers)",
                    false => RELEASE[1],
                }
            }
            Mistake::LooksThenDeletesTheWriter if claim.mode() == LockMode::Write => {
                let is_its = "return redis.call('GET', writer) == owner and 1 or 0";
                match self.run(&[is_its], claim, time).await? == Some(1) {
                    true => "return redis.call('DEL', writer)",
                    false => RELEASE[1],
                }
            }
            _ => RELEASE[1],
        };
        let held = self.run(&[RELEASE[0], reader], claim, time).await? == Some(1);
        Ok(if held { Release::Released } else { Release::NotHeld })
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        Some(self)
    }
}

#[async_trait]
impl LockAdmin for Shared {
    async fn inspect(&self, name: &LockName) -> Result<Vec<LockStatus>> {
        let status = |(owner, token, left, mode, info): HoldRow| {
            let mut status = LockStatus::new(name.clone());
            status.owner = OwnerId::from_hex(&owner);
            status.token = Some(FencingToken::new(token));
            status.ends_in = Some(Duration::from_millis(left));
            status.mode = if mode == "shared" { LockMode::Shared } else { LockMode::Write };
            status.holder = HolderInfo::from_json(&info);
            status
        };
        Ok(self.holds(name).await?.into_iter().map(status).collect())
    }

    async fn list(&self, prefix: &str) -> Result<Vec<LockStatus>> {
        let keys: Vec<String> = self.redis.command(&["KEYS", &format!("{prefix}*")]).await?;
        let names: BTreeSet<LockName> =
            keys.iter().filter_map(|key| LockName::new(key.split('\u{1}').next()?).ok()).collect();
        let mut all = Vec::new();
        for name in names {
            all.extend(self.inspect(&name).await?);
        }
        Ok(all)
    }

    async fn waiters(&self, _name: &LockName) -> Result<Vec<Waiter>> {
        Ok(Vec::new())
    }

    async fn force_release(&self, name: &LockName, only_if: Option<FencingToken>) -> Result<Vec<LockStatus>> {
        let is_meant = |token| only_if.is_none_or(|only| only == FencingToken::new(token));
        let ended = self.inspect(name).await?;
        for (owner, token, ..) in self.holds(name).await? {
            if is_meant(token) {
                self.script::<u64>(&[FORCE], name, [&owner, "0", "", "", "0", "", "0"]).await?;
            }
        }
        Ok(ended.into_iter().filter(|hold| hold.token.is_some_and(|token| is_meant(token.get()))).collect())
    }

    async fn init(&self) -> Result<()> {
        Ok(())
    }

    async fn forget(&self, _names: &[LockName]) -> Result<()> {
        Ok(())
    }

    async fn check(&self) -> Result<Vec<Finding>> {
        Ok(Vec::new())
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shared")
    }
}
