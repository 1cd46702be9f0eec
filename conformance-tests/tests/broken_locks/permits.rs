//! Mistakes in semaphores.

use crate::plain::{Steps, busy, fence, granted, key};
use async_trait::async_trait;
use leasehold_conformance::{Kinds, Permits};
use leasehold_core::{
    AcquireOptions, DistributedLock, DistributedLockExt, Error, ErrorKind, FencingToken, Hold, HoldStatus,
    LockGuard, LockName, Loss, LossCause, Release, Renewal, Result, Semaphore, Wait,
};
use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Permits in a sorted set, each with its end by a clock of the client.
macro_rules! ends_by {
    ($now:ident) => {
        Steps {
            acquire: |redis, claim| {
                Box::pin(async move {
                    let script = "redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ARGV[2])
                                  if redis.call('ZSCORE', KEYS[1], ARGV[1]) then return redis.call('GET', KEYS[2]) end
                                  if redis.call('ZCARD', KEYS[1]) >= 1 then return false end
                                  redis.call('ZADD', KEYS[1], ARGV[3], ARGV[1])
                                  return redis.call('INCR', KEYS[2])";
                    let (now, keys) = ($now(), [key(claim), fence(claim)]);
                    let (now, end) = (now.to_string(), (now + claim.ttl_millis()).to_string());
                    let arguments = [&*claim.owner().to_hex(), &now, &end];
                    let token: Option<u64> = redis.script(script, &[&keys[0], &keys[1]], &arguments).await?;
                    Ok(token.map_or_else(busy, granted))
                })
            },
            renew: |redis, claim| {
                Box::pin(async move {
                    let end = ($now() + claim.ttl_millis()).to_string();
                    let script = "if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then return 0 end
                                  redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1]) return 1";
                    let held: u64 = redis.script(script, &[&key(claim)], &[&claim.owner().to_hex(), &end]).await?;
                    Ok(if held == 1 { Renewal::Renewed } else { Renewal::Lost(LossCause::Gone) })
                })
            },
            release: |redis, claim| {
                Box::pin(async move {
                    let held: u64 = redis.command(&["ZREM", &key(claim), &claim.owner().to_hex()]).await?;
                    Ok(if held == 1 { Release::Released } else { Release::NotHeld })
                })
            },
        }
    };
}

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// #72: five nodes count permits, each for itself, and a majority of them is a permit: three majorities of five fit into two
/// permits on each node.
#[derive(Debug)]
pub(crate) struct CountedByNodes;

/// #75: the token of a permit is the number of permits in use. A slot is given again with a token that is not larger.
#[derive(Debug)]
pub(crate) struct TokenIsACount;

const NODES: usize = 5;

impl Kinds for CountedByNodes {
    fn semaphore(
        &self,
        client: &dyn DistributedLock,
        name: &LockName,
        permits: u32,
    ) -> Result<Box<dyn Permits>> {
        let node = |node: usize| client.semaphore(format!("{name}/node-{node}"), permits);
        Ok(Box::new(Counted { nodes: (0..NODES).map(node).collect::<Result<_>>()? }))
    }
}

#[derive(Debug)]
struct Counted {
    nodes: Vec<Semaphore>,
}

/// The node that answers first. A client asks the others after it, and is content with a majority.
static FIRST: AtomicUsize = AtomicUsize::new(0);

#[async_trait]
impl Permits for Counted {
    async fn acquire(&self, options: &AcquireOptions) -> Result<LockGuard> {
        let once = options.clone().with_wait(Wait::No);
        loop {
            let first = FIRST.fetch_add(NODES / 2 + 1, SeqCst);
            let mut granted = Vec::new();
            for node in first..first + NODES {
                match self.nodes[node % NODES].acquire_with(&once).await {
                    Ok(permit) => granted.push(permit),
                    Err(error) if error.kind() == ErrorKind::Busy => {}
                    Err(error) => return Err(error),
                }
                if granted.len() > NODES / 2 {
                    return Wrapped::guard(granted, None);
                }
            }
            if options.wait() == Wait::No {
                return Err(Error::new(ErrorKind::Busy, "no majority has a permit left"));
            }
            drop(granted);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Kinds for TokenIsACount {
    fn semaphore(
        &self,
        client: &dyn DistributedLock,
        name: &LockName,
        permits: u32,
    ) -> Result<Box<dyn Permits>> {
        Ok(Box::new(CountsTokens(client.semaphore(name, permits)?)))
    }
}

#[derive(Debug)]
struct CountsTokens(Semaphore);

/// How many permits are in use.
static IN_USE: AtomicU64 = AtomicU64::new(0);

#[async_trait]
impl Permits for CountsTokens {
    async fn acquire(&self, options: &AcquireOptions) -> Result<LockGuard> {
        let permit = self.0.acquire_with(options).await?;
        Wrapped::guard(vec![permit], Some(FencingToken::new(IN_USE.fetch_add(1, SeqCst) + 1)))
    }
}

/// Several holds that are one, under the name of the first.
#[derive(Debug)]
struct Wrapped {
    name: LockName,
    token: FencingToken,
    counts: bool,
    guards: Mutex<Vec<LockGuard>>,
}

impl Wrapped {
    fn guard(guards: Vec<LockGuard>, counted: Option<FencingToken>) -> Result<LockGuard> {
        let (name, token) = (guards[0].name().clone(), guards[0].token()?);
        let (token, counts) = (counted.unwrap_or(token), counted.is_some());
        Ok(LockGuard::new(Arc::new(Self { name, token, counts, guards: Mutex::new(guards) })))
    }

    fn end(&self) -> Vec<LockGuard> {
        let guards = std::mem::take(&mut *self.guards.lock().unwrap_or_else(PoisonError::into_inner));
        if self.counts && !guards.is_empty() {
            IN_USE.fetch_sub(1, SeqCst);
        }
        guards
    }
}

impl Hold for Wrapped {
    fn name(&self) -> &LockName {
        &self.name
    }

    fn token(&self) -> FencingToken {
        self.token
    }

    fn status(&self) -> HoldStatus {
        let guards = self.guards.lock().unwrap_or_else(PoisonError::into_inner);
        match guards.iter().find_map(|guard| guard.loss()) {
            Some(loss) => HoldStatus::Lost(loss),
            None if guards.is_empty() => HoldStatus::Released,
            None => HoldStatus::Held { remaining: guards[0].remaining(), at_risk: false },
        }
    }

    fn ended(self: Arc<Self>) -> BoxFuture<Option<Loss>> {
        Box::pin(std::future::pending())
    }

    fn extend(self: Arc<Self>, _ttl: Duration) -> BoxFuture<Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn release(self: Arc<Self>) -> BoxFuture<Result<()>> {
        let guards = self.end();
        Box::pin(async move {
            for guard in guards {
                guard.release().await?;
            }
            Ok(())
        })
    }

    fn abandon(self: Arc<Self>) {
        drop(self.end());
    }
}

/// #74: the holders are the members of a sorted set, and their score is the end of their lease by their own clock. Each removes
/// those whose end has passed, by its own clock. With one permit, it is a lock.
pub(crate) const ENDS_BY_CLIENTS_CLOCKS: Steps = ends_by!(now_millis);

/// #108: the same by the boot clock of each client.
pub(crate) const ENDS_BY_BOOT_CLOCKS: Steps = ends_by!(boot_millis);

fn now_millis() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

fn boot_millis() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    u64::try_from(now.tv_sec).unwrap_or_default() * 1_000
}
