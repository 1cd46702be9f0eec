//! Mistakes in the order and the waking of waiters: no lock is lost by them.

use crate::calls::{Calls, lock_of};
use crate::plain::{Plain, Redis, SOUND, fence, granted, key};
use crate::subject::Address;
use async_trait::async_trait;
use futures_util::StreamExt;
use leasehold_core::{
    Attempt, Busy, Claim, DistributedLock, Fairness, FencingToken, Finding, Grant, HolderInfo, LockAdmin,
    LockName, LockStatus, OwnerId, Release, Renewal, Result, Semantics, Waiter, WakeUp,
};
use redis::aio::PubSub;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// #63: declares that waiters are told, and tells them or does not.
pub(crate) fn told(fallback: Duration, notifies: bool, address: &Address) -> Arc<dyn DistributedLock> {
    lock_of(NotifyingLock { plain: Plain::new(SOUND, address), fallback, notifies })
}

/// #175: says that a waiter should ask again whenever it is asked.
pub(crate) fn always_told(address: &Address) -> Arc<dyn DistributedLock> {
    lock_of(AlwaysTold(Plain::new(SOUND, address)))
}

struct AlwaysTold(Plain);

#[async_trait]
impl Calls for AlwaysTold {
    fn semantics(&self) -> Semantics {
        let mut semantics = self.0.semantics();
        semantics.wake_up = WakeUp::Push { fallback: Duration::from_secs(1) };
        semantics
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        self.0.try_acquire(claim).await
    }

    async fn renew(&self, claim: &Claim) -> Result<Renewal> {
        self.0.renew(claim).await
    }

    async fn release(&self, claim: &Claim) -> Result<Release> {
        self.0.release(claim).await
    }

    async fn changed(&self, _: &Claim) {}
}

struct NotifyingLock {
    plain: Plain,
    fallback: Duration,
    notifies: bool,
}

#[async_trait]
impl Calls for NotifyingLock {
    fn semantics(&self) -> Semantics {
        let mut semantics = self.plain.semantics();
        semantics.wake_up = WakeUp::Push { fallback: self.fallback };
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
        if !self.notifies {
            return std::future::pending().await;
        }
        self.plain.key_gone_by_now(claim).await;
    }
}

/// #64: a queue, served at this index of its list. A new waiter joins at the end.
pub(crate) fn in_line(first: &'static str, address: &Address) -> Arc<dyn DistributedLock> {
    lock_of(Line::new(first, None, address))
}

/// #106: the queue is a list, and its waiters are shown as `LPUSH` would have left it: the last one first.
pub(crate) fn shown_from_the_end(address: &Address) -> Arc<dyn DistributedLock> {
    lock_of(Line { shows_from_the_end: true, ..Line::new("0", None, address) })
}

/// #97: a queue whose head is given the lock by the release before it. A waiter that asks finds its own grant, and
/// its lease may begin anew or not.
pub(crate) fn handed_over(begins_anew: bool, address: &Address) -> Arc<dyn DistributedLock> {
    lock_of(Line::new("0", Some(begins_anew), address))
}

/// #171: the head of the queue is told that it was given the lock, and believes that without asking: from the message, or from its
/// last question.
pub(crate) fn told_of_its_turn(from_the_message: bool, address: &Address) -> Arc<dyn DistributedLock> {
    let turns =
        Some(Turns { from_the_message, told: Mutex::default(), words: tokio::sync::Mutex::default() });
    lock_of(Line { turns, ..Line::new("0", Some(true), address) })
}

struct Line {
    plain: Plain,
    redis: Redis,
    first: &'static str,
    hands_over: bool,
    begins_anew: bool,
    shows_from_the_end: bool,
    turns: Option<Turns>,
}

/// The turns that waiters were told of, with their tokens.
struct Turns {
    from_the_message: bool,
    told: Mutex<HashMap<OwnerId, u64>>,
    /// What is told, on a connection that is made once.
    words: tokio::sync::Mutex<Option<PubSub>>,
}

impl Turns {
    fn told(&self) -> std::sync::MutexGuard<'_, HashMap<OwnerId, u64>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Line {
    fn new(first: &'static str, hands_over: Option<bool>, address: &Address) -> Self {
        Self {
            plain: Plain::new(SOUND, address),
            redis: Redis::at(address),
            first,
            hands_over: hands_over.is_some(),
            begins_anew: hands_over.unwrap_or(true),
            shows_from_the_end: false,
            turns: None,
        }
    }
}

const JOIN: &str = "
    local v = redis.call('GET', KEYS[1])
    if v == ARGV[1] then
        if ARGV[4] == 'true' then redis.call('PEXPIRE', KEYS[1], ARGV[2], 'GT') end
        return tonumber(redis.call('GET', KEYS[2]))
    end
    local first = redis.call('LINDEX', KEYS[3], ARGV[3])
    if not v and (not first or first == ARGV[1]) then
        redis.call('LREM', KEYS[3], 0, ARGV[1])
        redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
        return redis.call('INCR', KEYS[2])
    end
    if ARGV[5] == 'false' then return false end
    if not redis.call('LPOS', KEYS[3], ARGV[1]) then redis.call('RPUSH', KEYS[3], ARGV[1]) end
    redis.call('HSET', KEYS[4], ARGV[1], ARGV[2])
    return false";

const LEAVE: &str = "
    redis.call('LREM', KEYS[3], 0, ARGV[1])
    redis.call('HDEL', KEYS[4], ARGV[1])
    if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
    local heir = ARGV[2] == 'true' and redis.call('LPOP', KEYS[3])
    if heir then
        redis.call('SET', KEYS[1], heir, 'PX', redis.call('HGET', KEYS[4], heir))
        redis.call('PUBLISH', 'turn:' .. heir, redis.call('INCR', KEYS[2]))
    else
        redis.call('DEL', KEYS[1])
    end
    return 1";

#[async_trait]
impl Calls for Line {
    fn semantics(&self) -> Semantics {
        let mut semantics = in_order(self.plain.semantics());
        if self.turns.is_some() {
            semantics.wake_up = WakeUp::Push { fallback: Duration::from_millis(500) };
        }
        semantics
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        if let Some(turns) = &self.turns
            && let Some(token) = turns.told().remove(&claim.owner())
        {
            let grant = Grant::new(FencingToken::new(token));
            let grant = if turns.from_the_message { grant } else { grant.from_hand_over() };
            return Ok(Attempt::Granted(grant));
        }
        let keys = [key(claim), fence(claim), queue(claim.name()), format!("{}:ttls", claim.name())];
        let (owner, ttl) = (claim.owner().to_hex(), claim.ttl_millis().to_string());
        let (anew, waits) = (self.begins_anew.to_string(), claim.waits().to_string());
        let keys = keys.each_ref().map(String::as_str);
        let token: Option<u64> =
            self.redis.script(JOIN, &keys, &[&owner, &ttl, self.first, &anew, &waits]).await?;
        Ok(token.map_or_else(|| Attempt::Busy(Busy::new().with_place_in_queue()), granted))
    }

    async fn changed(&self, claim: &Claim) {
        let Some(turns) = &self.turns else { return std::future::pending().await };
        let mut words = turns.words.lock().await;
        while !turns.told().contains_key(&claim.owner()) {
            if words.is_none() {
                *words = self.redis.listen("turn:*").await;
            }
            let Some(messages) = &mut *words else { return std::future::pending().await };
            let Some(word) = messages.on_message().next().await else { return std::future::pending().await };
            let owner = word.get_channel_name().strip_prefix("turn:").and_then(OwnerId::from_hex);
            if let (Some(owner), Ok(token)) = (owner, word.get_payload()) {
                turns.told().insert(owner, token);
            }
        }
    }

    async fn renew(&self, claim: &Claim) -> Result<Renewal> {
        self.plain.renew(claim).await
    }

    async fn release(&self, claim: &Claim) -> Result<Release> {
        let keys = [key(claim), fence(claim), queue(claim.name()), format!("{}:ttls", claim.name())];
        let (owner, hands_over) = (claim.owner().to_hex(), self.hands_over.to_string());
        let keys = keys.each_ref().map(String::as_str);
        let held: u64 = self.redis.script(LEAVE, &keys, &[&owner, &hands_over]).await?;
        Ok(if held == 1 { Release::Released } else { Release::NotHeld })
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        Some(self)
    }
}

#[async_trait]
impl LockAdmin for Line {
    async fn inspect(&self, name: &LockName) -> Result<Vec<LockStatus>> {
        self.plain.inspect(name).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<LockStatus>> {
        self.plain.list(prefix).await
    }

    async fn waiters(&self, name: &LockName) -> Result<Vec<Waiter>> {
        let mut owners: Vec<String> = self.redis.command(&["LRANGE", &queue(name), "0", "-1"]).await?;
        if self.shows_from_the_end {
            owners.reverse();
        }
        Ok(owners.iter().map(|owner| Waiter::new(OwnerId::from_hex(owner), HolderInfo::default())).collect())
    }

    async fn force_release(&self, name: &LockName, only_if: Option<FencingToken>) -> Result<Vec<LockStatus>> {
        self.plain.force_release(name, only_if).await
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

fn queue(name: &LockName) -> String {
    format!("{name}:queue")
}

fn in_order(mut semantics: Semantics) -> Semantics {
    semantics.fairness = Fairness::Fifo;
    semantics.wake_up = WakeUp::Poll { at_most: Duration::from_millis(10) };
    semantics
}

/// #101: a queue in the memory of each process. Between processes, luck decides.
pub(crate) fn in_line_of_a_process(address: &Address) -> Arc<dyn DistributedLock> {
    lock_of(ProcessLine(Plain::new(SOUND, address)))
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Line")
    }
}

struct ProcessLine(Plain);

static LINES: Mutex<BTreeMap<LockName, VecDeque<OwnerId>>> = Mutex::new(BTreeMap::new());

/// The line of a name, as it is after this.
fn with_line<T>(claim: &Claim, act: impl FnOnce(&mut VecDeque<OwnerId>) -> T) -> T {
    let mut lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
    act(lines.entry(claim.name().clone()).or_default())
}

#[async_trait]
impl Calls for ProcessLine {
    fn semantics(&self) -> Semantics {
        in_order(self.0.semantics())
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        let is_first = with_line(claim, |line| line.front().is_none_or(|first| *first == claim.owner()));
        if is_first && let Attempt::Granted(grant) = self.0.try_acquire(claim).await? {
            with_line(claim, |line| line.retain(|owner| *owner != claim.owner()));
            return Ok(Attempt::Granted(grant));
        }
        with_line(claim, |line| {
            if claim.waits() && !line.contains(&claim.owner()) {
                line.push_back(claim.owner());
            }
        });
        Ok(Attempt::Busy(Busy::new().with_place_in_queue()))
    }

    async fn renew(&self, claim: &Claim) -> Result<Renewal> {
        self.0.renew(claim).await
    }

    async fn release(&self, claim: &Claim) -> Result<Release> {
        with_line(claim, |line| line.retain(|owner| *owner != claim.owner()));
        self.0.release(claim).await
    }
}
