//! Redlock by its description, on several nodes, with one classic mistake each; as a backend with the core's guard.

mod server;

pub(crate) use server::{five, four};

use crate::calls::{Calls, lock_of};
use crate::plain::{Redis, busy, fence, granted, key};
use crate::subject::Address;
use async_trait::async_trait;
use futures_util::future::join_all;
use leasehold_core::{
    Attempt, Claim, DistributedLock, Error, ErrorKind, LossCause, Outcome, OwnerId, Promises, Release,
    Renewal, Result, Semantics,
};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::task::JoinHandle;

/// The mistake of the lock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mistake {
    Nothing,
    /// #19: half of the nodes are taken for a majority.
    HalfIsAMajority,
    /// #20: a failed attempt is taken back only from the nodes that said that they had granted it.
    ForgetsTheSilent,
    /// #21: a majority that took long to answer is worth as much as one that did not.
    NoTimeIsSubtracted,
    /// #22: one node after the other, each for as long as a lease and longer.
    OneAfterTheOther,
    /// #23: the token is the largest of the counters of a majority.
    MaximumOfCounts,
}

const CLAIM: &str = "
    local held = redis.call('GET', KEYS[1])
    if held and string.sub(held, 1, 32) ~= string.sub(ARGV[1], 1, 32) then return -1 end
    redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
    return tonumber(redis.call('GET', KEYS[2]) or 0)";
const CLAIM_AND_COUNT: &str = "
    local held = redis.call('GET', KEYS[1])
    if held and string.sub(held, 1, 32) ~= string.sub(ARGV[1], 1, 32) then return -1 end
    redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
    return redis.call('INCR', KEYS[2])";
const WRITE_BACK: &str = "
    if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
    if tonumber(redis.call('GET', KEYS[2]) or 0) >= tonumber(ARGV[2]) then return 0 end
    redis.call('SET', KEYS[2], ARGV[2])
    return 1";
const TAKE_BACK: &str = "
    if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
    return redis.call('DEL', KEYS[1])";
const RELEASE: &str = "
    local held = redis.call('GET', KEYS[1])
    if not held or string.sub(held, 1, 32) ~= ARGV[1] then return 0 end
    return redis.call('DEL', KEYS[1])";
const RENEW: &str = "
    local held = redis.call('GET', KEYS[1])
    if not held or string.sub(held, 1, 32) ~= ARGV[1] then return 0 end
    return redis.call('PEXPIRE', KEYS[1], ARGV[2])";

/// A node that is slower than that is left out.
const SHORT: Duration = Duration::from_millis(60);
/// Longer than any lease in these cases.
const LONG: Duration = Duration::from_secs(5);

pub(crate) fn lock(mistake: Mistake, address: &Address) -> Arc<dyn DistributedLock> {
    let patience = match mistake {
        Mistake::NoTimeIsSubtracted | Mistake::OneAfterTheOther | Mistake::MaximumOfCounts => LONG,
        _ => SHORT * 4,
    };
    let node = |server: &str| Redis::at(&Address { server: server.to_owned(), patience, ..address.clone() });
    let nodes = address.server.split(',').map(node).collect();
    let redlock = Redlock { nodes, mistake, attempts: AtomicU64::new(0) };
    lock_of(Backend { redlock: Arc::new(redlock), slow: Mutex::default() })
}

struct Redlock {
    nodes: Vec<Redis>,
    mistake: Mistake,
    attempts: AtomicU64,
}

impl Redlock {
    fn majority(&self) -> usize {
        match self.mistake {
            Mistake::HalfIsAMajority => self.nodes.len() / 2,
            _ => self.nodes.len() / 2 + 1,
        }
    }

    /// The answers of all nodes, in their order.
    async fn ask(&self, script: &str, claim: &Claim, arguments: &[&str]) -> Vec<Result<i64>> {
        let keys = [key(claim), fence(claim)];
        let keys = [&*keys[0], &*keys[1]];
        let questions = self.nodes.iter().map(|node| node.script(script, &keys, arguments));
        if self.mistake != Mistake::OneAfterTheOther {
            return join_all(questions).await;
        }
        let mut answers = Vec::new();
        for question in questions {
            answers.push(question.await);
        }
        answers
    }

    async fn attempt(self: Arc<Self>, claim: Claim) -> Result<Attempt> {
        let value = format!("{}:{}", claim.owner().to_hex(), self.attempts.fetch_add(1, Ordering::SeqCst));
        let script = if self.mistake == Mistake::MaximumOfCounts { CLAIM_AND_COUNT } else { CLAIM };
        let ttl = claim.ttl_millis().to_string();
        let told = self.first_majority(script, &claim, &[&value, &ttl]).await;
        let counts: Vec<i64> = told.iter().filter_map(|told| *told.as_ref().ok()?).collect();
        let refused = told.iter().filter(|told| matches!(told, Ok(None))).count();
        if counts.len() >= self.majority() {
            let largest = counts.into_iter().max().unwrap_or_default();
            if self.mistake == Mistake::MaximumOfCounts {
                return Ok(granted(largest.unsigned_abs()));
            }
            let token = largest + 1;
            let written = self.ask(WRITE_BACK, &claim, &[&value, &token.to_string()]).await;
            if written.iter().filter(|written| matches!(written, Ok(1))).count() >= self.majority() {
                return Ok(granted(token.unsigned_abs()));
            }
        }
        let answered = told.iter().filter(|told| told.is_ok()).count();
        self.take_back(&claim, value, &told).await;
        match refused > 0 || answered >= self.majority() {
            true => Ok(busy()),
            false => Err(Error::new(ErrorKind::Indeterminate, "too few nodes answer")),
        }
    }

    /// The answer of each node: its counter, or `None` if the lock is held there.
    async fn first_majority(
        &self,
        script: &str,
        claim: &Claim,
        arguments: &[&str],
    ) -> Vec<Result<Option<i64>>> {
        if self.mistake == Mistake::MaximumOfCounts {
            return self.as_soon_as_a_majority(script, claim, arguments).await;
        }
        let answers = self.ask(script, claim, arguments).await;
        answers.into_iter().map(|answer| answer.map(|count| (count >= 0).then_some(count))).collect()
    }

    async fn as_soon_as_a_majority(
        &self,
        script: &str,
        claim: &Claim,
        arguments: &[&str],
    ) -> Vec<Result<Option<i64>>> {
        use futures_util::StreamExt;
        let keys = [key(claim), fence(claim)];
        let keys = [&*keys[0], &*keys[1]];
        let mut asked: futures_util::stream::FuturesUnordered<_> =
            self.nodes.iter().map(|node| node.script::<i64>(script, &keys, arguments)).collect();
        let mut answers = Vec::new();
        while let Some(answer) = asked.next().await {
            answers.push(answer.map(|count| (count >= 0).then_some(count)));
            if answers.iter().filter(|answer| matches!(answer, Ok(Some(_)))).count() >= self.majority() {
                break;
            }
        }
        answers
    }

    async fn take_back(self: &Arc<Self>, claim: &Claim, value: String, told: &[Result<Option<i64>>]) {
        let answers = match self.mistake {
            Mistake::ForgetsTheSilent => {
                for (node, _) in self.nodes.iter().zip(told).filter(|(_, told)| matches!(told, Ok(Some(_)))) {
                    let _ = node.script::<i64>(TAKE_BACK, &[&key(claim)], &[&value]).await;
                }
                return;
            }
            _ => self.ask(TAKE_BACK, claim, &[&value]).await,
        };
        let silent: Vec<usize> = (0..answers.len()).filter(|node| answers[*node].is_err()).collect();
        let (this, claim) = (Arc::clone(self), claim.clone());
        tokio::spawn(async move {
            let end = tokio::time::Instant::now() + claim.ttl();
            for node in silent {
                while tokio::time::Instant::now() < end {
                    if this.nodes[node].script::<i64>(TAKE_BACK, &[&key(&claim)], &[&value]).await.is_ok() {
                        break;
                    }
                    tokio::time::sleep(SHORT).await;
                }
            }
        });
    }
}

struct Backend {
    redlock: Arc<Redlock>,
    /// #21: attempts that wait for longer than their callers do.
    slow: Mutex<HashMap<OwnerId, JoinHandle<Result<Attempt>>>>,
}

impl Backend {
    fn slow(&self) -> std::sync::MutexGuard<'_, HashMap<OwnerId, JoinHandle<Result<Attempt>>>> {
        self.slow.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Calls for Backend {
    fn semantics(&self) -> Semantics {
        Semantics::lease("redis", "redlock", Promises::new(|_| Outcome::MayBreak))
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        if self.redlock.mistake != Mistake::NoTimeIsSubtracted {
            return Arc::clone(&self.redlock).attempt(claim.clone()).await;
        }
        let earlier = self.slow().remove(&claim.owner());
        let mut attempt = match earlier {
            Some(attempt) => attempt,
            None => tokio::spawn(Arc::clone(&self.redlock).attempt(claim.clone())),
        };
        match tokio::time::timeout(SHORT, &mut attempt).await {
            Ok(outcome) => outcome.unwrap(),
            Err(_) => {
                self.slow().insert(claim.owner(), attempt);
                Ok(busy())
            }
        }
    }

    async fn renew(&self, claim: &Claim) -> Result<Renewal> {
        let (owner, ttl) = (claim.owner().to_hex(), claim.ttl_millis().to_string());
        let answers = self.redlock.ask(RENEW, claim, &[&owner, &ttl]).await;
        let renewed = answers.iter().filter(|answer| matches!(answer, Ok(1))).count();
        let failed = answers.iter().filter(|answer| answer.is_err()).count();
        match renewed >= self.redlock.majority() {
            true => Ok(Renewal::Renewed),
            false if failed > 0 => Err(Error::new(ErrorKind::Indeterminate, "too few nodes answer")),
            false => Ok(Renewal::Lost(LossCause::Gone)),
        }
    }

    async fn release(&self, claim: &Claim) -> Result<Release> {
        let answers = self.redlock.ask(RELEASE, claim, &[&claim.owner().to_hex()]).await;
        let released = answers.iter().any(|answer| matches!(answer, Ok(1)));
        Ok(if released { Release::Released } else { Release::NotHeld })
    }
}
