//! A shared lock over Redis whose waiters stand in a line, with an administrator. A mistake is a change in the text of a script.

use crate::calls::{Calls, lock_of};
use crate::plain::{Redis, busy, granted};
use crate::subject::Address;
use async_trait::async_trait;
use leasehold_core::{
    Attempt, Busy, Claim, DistributedLock, FencingToken, Finding, HolderInfo, LockAdmin, LockMode, LockName,
    LockStatus, LossCause, Outcome, OwnerId, Promises, Purge, Release, Renewal, Result, Semantics, Sharing,
    TokenClass, Waiter, WakeUp,
};
use redis::FromRedisValue;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Parts of the scripts below, and what stands in their places.
pub(crate) type Edits = &'static [(&'static str, &'static str)];

/// The line serves its waiters in their order, or is the marks of writers that wait for readers.
pub(crate) fn line(sharing: Sharing, edits: Edits, address: &Address) -> Arc<dyn DistributedLock> {
    let scripts = [
        COMMON,
        ATTEMPT,
        RENEW,
        RELEASE,
        LOOK,
        WAITERS,
        FORCE_RELEASE,
        LIST,
        FORGET,
        PURGE,
        ANY_IDLE,
        SLOTS_TOO,
    ];
    assert!(edits.iter().all(|(from, _)| scripts.iter().any(|script| script.contains(from))), "{edits:?}");
    lock_of(Line { redis: Redis::at(address), sharing, edits })
}

struct Line {
    redis: Redis,
    sharing: Sharing,
    edits: Edits,
}

const COMMON: &str = "
    local owner, mode, ttl, waits, order = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5]
    local clients_now, argument, more = tonumber(ARGV[6]), ARGV[7], ARGV[8]
    local time = redis.call('TIME')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    local function keys(name)
        local marks = name
        return {
            ends = name, modes = name .. ':modes', tokens = name .. ':tokens', fence = name .. ':fence',
            place = name .. ':place', used = name .. ':used',
            line = marks .. ':line', seen = marks .. ':seen', wants = marks .. ':wants',
        }
    end
    local k = keys(KEYS[1])
    local function leave(owner)
        redis.call('ZREM', k.line, owner)
        redis.call('HDEL', k.seen, owner)
        redis.call('HDEL', k.wants, owner)
    end
    local function drop(owner)
        redis.call('ZREM', k.ends, owner)
        redis.call('HDEL', k.modes, owner)
        redis.call('HDEL', k.tokens, owner)
    end
    local function is_gone(waiter)
        return tonumber(redis.call('HGET', k.seen, waiter)) + 1000 < now
    end
    local function prune()
        for _, ended in ipairs(redis.call('ZRANGEBYSCORE', k.ends, '-inf', now)) do drop(ended) end
        for _, waiter in ipairs(redis.call('ZRANGE', k.line, 0, -1)) do
            if is_gone(waiter) then leave(waiter) end
        end
    end
    local function holds(k, even_ended)
        local all, ends = {}, redis.call('ZRANGE', k.ends, 0, -1, 'WITHSCORES')
        for i = 1, #ends, 2 do
            local left, token = ends[i + 1] - now, redis.call('HGET', k.tokens, ends[i])
            if left > 0 or even_ended then
                all[#all + 1] = { ends[i], math.max(left, 1), tonumber(token), redis.call('HGET', k.modes, ends[i]) }
            end
        end
        return all
    end
    local function names(suffix, prefix)
        local names, found, cursor = {}, {}, '0'
        repeat
            local page = redis.call('SCAN', cursor, 'COUNT', '100')
            cursor = page[1]
            for _, key in ipairs(page[2]) do
                local of = string.match(key, '^(.*):' .. suffix .. '$')
                if of and not found[of] and string.sub(of, 1, #prefix) == prefix then
                    found[of] = true
                    names[#names + 1] = of
                end
            end
        until cursor == '0'
        table.sort(names)
        return names
    end
    local function all_of(k)
        return { k.ends, k.modes, k.tokens, k.line, k.seen, k.wants, k.fence, k.place, k.used }
    end
";

const ATTEMPT: &str = "
    prune()
    if redis.call('ZSCORE', k.ends, owner) then
        redis.call('ZADD', k.ends, 'GT', now + ttl, owner)
        return tonumber(redis.call('HGET', k.tokens, owner))
    end
    local is_writer, blocked, beside_readers, in_front = mode ~= 'shared', false, false, true
    for _, other in ipairs(redis.call('ZRANGE', k.ends, 0, -1)) do
        local is_reader = redis.call('HGET', k.modes, other) == 'shared'
        beside_readers = beside_readers or is_reader
        blocked = blocked or is_writer or not is_reader
    end
    for _, other in ipairs(redis.call('ZRANGE', k.line, 0, -1)) do
        local other_writes = redis.call('HGET', k.wants, other) ~= 'shared'
        in_front = in_front and other ~= owner
        if order == 'fifo' then
            blocked = blocked or (in_front and (is_writer or other_writes))
        else
            blocked = blocked or (other ~= owner and not is_writer and other_writes)
        end
    end
    if not blocked then
        leave(owner)
        if is_writer and order ~= 'fifo' then redis.call('DEL', k.line, k.seen, k.wants) end
        redis.call('ZADD', k.ends, now + ttl, owner)
        redis.call('HSET', k.modes, owner, mode)
        redis.call('SET', k.used, now)
        local token = redis.call('INCR', k.fence)
        redis.call('HSET', k.tokens, owner, token)
        return token
    end
    local joins = order == 'fifo' or (is_writer and beside_readers)
    if waits == 'true' and joins then
        redis.call('ZADD', k.line, 'NX', redis.call('INCR', k.place), owner)
        redis.call('HSET', k.seen, owner, now)
        redis.call('HSET', k.wants, owner, mode)
    end
    return false
";

const RENEW: &str = "
    if tonumber(redis.call('ZSCORE', k.ends, owner) or 0) <= now then return 0 end
    redis.call('ZADD', k.ends, 'GT', now + ttl, owner)
    return 1
";

const RELEASE: &str = "
    local held = tonumber(redis.call('ZSCORE', k.ends, owner) or 0) > now
    drop(owner)
    leave(owner) -- who goes
    redis.call('SET', k.used, now)
    return held and 1 or 0
";

const LOOK: &str = "
    local seen = holds(k)
    return seen
";

const WAITERS: &str = "return redis.call('ZRANGE', k.line, 0, -1)";

const FORCE_RELEASE: &str = "
    local ended, all = {}, holds(k)
    for _, hold in ipairs(all) do
        if argument == '' or tostring(hold[3]) == argument then
            ended[#ended + 1] = hold
            drop(hold[1])
        end
    end
    redis.call('SET', k.used, now) -- by force
    return ended
";

const LIST: &str = "
    local listed = {}
    for _, of in ipairs(names('modes', argument)) do
        for _, hold in ipairs(holds(keys(of))) do listed[#listed + 1] = { of, hold } end
    end
    return listed
";

const FORGET: &str = "
    prune()
    for _, of in ipairs({ KEYS[1] }) do
        local k = keys(of)
        local is_free = #holds(k) + redis.call('ZCARD', k.line) == 0
        local all = is_free and all_of(k) or {}
        if #all > 0 then redis.call('DEL', unpack(all)) end
    end
    return 1
";

const PURGE: &str = "
    local forgotten = 0
    for _, of in ipairs(names('used', '')) do
        local k = keys(of)
        local idle = now - redis.call('GET', k.used)
        if idle >= tonumber(argument) and #holds(k) == 0 then
            forgotten = forgotten + 1
            if more == 'delete' then redis.call('DEL', k.ends, k.modes, k.tokens, k.line, k.seen, k.wants, k.used) end
        end
    end
    return forgotten
";

/// No scripts: with any edit of these, a purge takes any time, and a list leaves the permits of semaphores out.
const ANY_IDLE: &str = "any idle time";
const SLOTS_TOO: &str = "slots too";

type Held = (String, u64, u64, String);

impl Line {
    /// Runs a script with the owner, mode, ttl and waiting of a claim, and with these arguments.
    async fn run<T: FromRedisValue>(
        &self,
        script: &str,
        name: &str,
        claim: Option<&Claim>,
        arguments: [&str; 2],
    ) -> Result<T> {
        let edit = |text: String, (from, to): &(&str, &str)| text.replace(from, to);
        let script = self.edits.iter().fold([COMMON, script].concat(), edit);
        let owner = claim.map(|claim| claim.owner().to_hex()).unwrap_or_default();
        let mode = claim.map_or(LockMode::Exclusive, Claim::mode).to_string();
        let ttl = claim.map_or(0, Claim::ttl_millis).to_string();
        let waits = claim.is_some_and(Claim::waits).to_string();
        let order = if self.sharing == Sharing::Fifo { "fifo" } else { "writers" };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis().to_string();
        let all = [&owner, &mode, &ttl, &waits, order, &now, arguments[0], arguments[1]];
        self.redis.script(&script, &[name], &all).await
    }
}

#[async_trait]
impl Calls for Line {
    fn semantics(&self) -> Semantics {
        let mut semantics = Semantics::lease("redis", "line", Promises::new(|_| Outcome::MayBreak));
        semantics.sharing = self.sharing;
        semantics.token = TokenClass::Stored;
        if self.sharing == Sharing::Fifo {
            semantics.fairness = leasehold_core::Fairness::Fifo;
        }
        semantics.wake_up = WakeUp::Poll { at_most: Duration::from_millis(50) };
        semantics
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        let token: Option<u64> = self.run(ATTEMPT, claim.name().as_str(), Some(claim), ["", ""]).await?;
        Ok(match token {
            Some(token) => granted(token),
            None if claim.waits() => Attempt::Busy(Busy::new().with_place_in_queue()),
            None => busy(),
        })
    }

    async fn renew(&self, claim: &Claim) -> Result<Renewal> {
        let held: u64 = self.run(RENEW, claim.name().as_str(), Some(claim), ["", ""]).await?;
        Ok(if held == 1 { Renewal::Renewed } else { Renewal::Lost(LossCause::Gone) })
    }

    async fn release(&self, claim: &Claim) -> Result<Release> {
        let held: u64 = self.run(RELEASE, claim.name().as_str(), Some(claim), ["", ""]).await?;
        Ok(if held == 1 { Release::Released } else { Release::NotHeld })
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        Some(self)
    }
}

fn status(name: &LockName, (owner, left, token, mode): Held) -> LockStatus {
    let mut status = LockStatus::new(name.clone());
    status.owner = OwnerId::from_hex(&owner);
    status.token = Some(FencingToken::new(token));
    status.ends_in = Some(Duration::from_millis(left));
    status.mode = match mode.as_str() {
        "shared" => LockMode::Shared,
        "write" => LockMode::Write,
        _ => LockMode::Exclusive,
    };
    status
}

#[async_trait]
impl LockAdmin for Line {
    async fn inspect(&self, name: &LockName) -> Result<Vec<LockStatus>> {
        let held: Vec<Held> = self.run(LOOK, name.as_str(), None, ["", ""]).await?;
        Ok(held.into_iter().map(|hold| status(name, hold)).collect())
    }

    async fn list(&self, prefix: &str) -> Result<Vec<LockStatus>> {
        let listed: Vec<(String, Held)> = self.run(LIST, "", None, [prefix, ""]).await?;
        let leaves_out_slots = self.edits.iter().any(|(from, _)| *from == SLOTS_TOO);
        let shown = listed.into_iter().filter(|(name, _)| !leaves_out_slots || LockName::new(name).is_ok());
        shown.map(|(name, hold)| Ok(status(&LockName::from_store(name)?, hold))).collect()
    }

    async fn waiters(&self, name: &LockName) -> Result<Vec<Waiter>> {
        let owners: Vec<String> = match self.sharing {
            Sharing::Fifo => self.run(WAITERS, name.as_str(), None, ["", ""]).await?,
            _ => Vec::new(),
        };
        Ok(owners.iter().map(|owner| Waiter::new(OwnerId::from_hex(owner), HolderInfo::default())).collect())
    }

    async fn force_release(&self, name: &LockName, only_if: Option<FencingToken>) -> Result<Vec<LockStatus>> {
        let only_if = only_if.map(|token| token.to_string()).unwrap_or_default();
        let ended: Vec<Held> = self.run(FORCE_RELEASE, name.as_str(), None, [&only_if, ""]).await?;
        Ok(ended.into_iter().map(|hold| status(name, hold)).collect())
    }

    async fn init(&self) -> Result<()> {
        Ok(())
    }

    async fn purge(&self, idle: Duration, purge: Purge) -> Result<Option<u64>> {
        if !self.edits.iter().any(|(from, _)| *from == ANY_IDLE) {
            Purge::check_idle(idle)?;
        }
        let (idle, what) = (idle.as_millis().to_string(), if purge == Purge::Delete { "delete" } else { "" });
        self.run(PURGE, "", None, [&idle, what]).await.map(Some)
    }

    async fn forget(&self, names: &[LockName]) -> Result<()> {
        for name in names {
            self.run::<u64>(FORGET, name.as_str(), None, ["", ""]).await?;
        }
        Ok(())
    }

    async fn check(&self) -> Result<Vec<Finding>> {
        Ok(Vec::new())
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Line")
    }
}
