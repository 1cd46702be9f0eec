//! A small backend over Redis in three steps, each of which can be exchanged for a broken one.

use crate::calls::{Calls, lock_of};
use crate::plain_admin as admin;
use crate::subject::{Address, Lasting};
use async_trait::async_trait;
use futures_util::StreamExt;
use leasehold_core::{
    Attempt, Busy, Claim, DistributedLock, Error, ErrorKind, FencingToken, Grant, LockAdmin, LockMode,
    LossCause, Outcome, Promises, Release, Renewal, Result, Semantics, renew_each,
};
use redis::aio::{MultiplexedConnection, PubSub};
use redis::{FromRedisValue, cmd};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

pub(crate) type Step<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// The steps of a lock: what exactly is sent to the server.
#[derive(Clone, Copy)]
pub(crate) struct Steps {
    pub(crate) acquire: for<'a> fn(&'a Redis, &'a Claim) -> Step<'a, Attempt>,
    pub(crate) renew: for<'a> fn(&'a Redis, &'a Claim) -> Step<'a, Renewal>,
    pub(crate) release: for<'a> fn(&'a Redis, &'a Claim) -> Step<'a, Release>,
}

/// The steps done right: one script each.
pub(crate) const SOUND: Steps = Steps {
    acquire: |redis, claim| {
        Box::pin(async move {
            let token: Option<u64> = redis
                .script(
                    "local v = redis.call('GET', KEYS[1])
                     if v and v ~= ARGV[1] then return false end
                     redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
                     if v then return tonumber(redis.call('GET', KEYS[2])) end
                     return redis.call('INCR', KEYS[2])",
                    &[&key(claim), &fence(claim)],
                    &[&claim.owner().to_hex(), &claim.ttl_millis().to_string()],
                )
                .await?;
            Ok(token.map_or_else(busy, granted))
        })
    },
    renew: |redis, claim| {
        Box::pin(async move {
            let script = "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
                          redis.call('PEXPIRE', KEYS[1], ARGV[2], 'GT') return 1";
            let arguments = [claim.owner().to_hex(), claim.ttl_millis().to_string()];
            let held: u64 = redis.script(script, &[&key(claim)], &[&arguments[0], &arguments[1]]).await?;
            Ok(if held == 1 { Renewal::Renewed } else { Renewal::Lost(LossCause::Gone) })
        })
    },
    release: |redis, claim| {
        Box::pin(async move {
            let script = "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end return redis.call('DEL', KEYS[1])";
            let held: u64 = redis.script(script, &[&key(claim)], &[&claim.owner().to_hex()]).await?;
            Ok(if held == 1 { Release::Released } else { Release::NotHeld })
        })
    },
};

pub(crate) fn key(claim: &Claim) -> String {
    claim.name().to_string()
}

pub(crate) fn fence(claim: &Claim) -> String {
    format!("{}:fence", claim.name())
}

pub(crate) fn granted(token: u64) -> Attempt {
    Attempt::Granted(Grant::new(FencingToken::new(token)))
}

pub(crate) fn busy() -> Attempt {
    Attempt::Busy(Busy::new())
}

/// One connection, made again after a failure.
pub(crate) struct Redis {
    address: Address,
    connection: Mutex<Option<MultiplexedConnection>>,
    /// True for a client that runs scripts by their hash, and sends the text of one that the server does not know.
    by_hash: bool,
}

impl Redis {
    pub(crate) fn at(address: &Address) -> Self {
        Self { address: address.clone(), connection: Mutex::new(None), by_hash: false }
    }

    /// A connection to the copy of this server.
    pub(crate) fn replica(&self) -> Self {
        Self::at(&self.address.to_replica())
    }

    pub(crate) async fn command<T: FromRedisValue>(&self, words: &[&str]) -> Result<T> {
        let mut command = cmd(words[0]);
        command.arg(&words[1..]);
        let answer = tokio::time::timeout(self.address.patience, self.send(&command)).await;
        let answer = answer.unwrap_or_else(|_| Err(unknown("no reply in time".to_owned())));
        if answer.as_ref().is_err_and(|error| !is_unknown_script(error)) {
            *self.connection.lock().await = None;
        }
        answer
    }

    pub(crate) async fn script<T: FromRedisValue>(
        &self,
        script: &str,
        keys: &[&str],
        arguments: &[&str],
    ) -> Result<T> {
        let (count, hash) = (keys.len().to_string(), redis::Script::new(script).get_hash().to_owned());
        let words = |how, script| [&[how, script, &*count], keys, arguments].concat();
        if self.by_hash {
            match self.command(&words("EVALSHA", &hash)).await {
                Err(error) if is_unknown_script(&error) => {}
                answer => return answer,
            }
        }
        self.command(&words("EVAL", script)).await
    }

    /// What is said on channels of this pattern from now on.
    pub(crate) async fn listen(&self, channel: &str) -> Option<PubSub> {
        let client = redis::Client::open(format!("redis://{}", self.address.server)).ok()?;
        let mut messages = client.get_async_pubsub().await.ok()?;
        messages.psubscribe(channel).await.ok()?;
        Some(messages)
    }

    async fn send<T: FromRedisValue>(&self, command: &redis::Cmd) -> Result<T> {
        let mut connection = self.connect().await?;
        command.query_async(&mut connection).await.map_err(|error| match error.code() {
            Some("NOPERM") => Error::new(ErrorKind::Denied, error.to_string()),
            _ => unknown(error.to_string()),
        })
    }

    async fn connect(&self) -> Result<MultiplexedConnection> {
        let mut connection = self.connection.lock().await;
        if let Some(connection) = &*connection {
            return Ok(connection.clone());
        }
        let password = &self.address.password;
        let login = if password.is_empty() { String::new() } else { format!(":{password}@") };
        let client = redis::Client::open(format!("redis://{login}{}", self.address.server))
            .map_err(|error| down(&error))?;
        let settings = redis::AsyncConnectionConfig::new().set_response_timeout(None);
        let new = client
            .get_multiplexed_async_connection_with_config(&settings)
            .await
            .map_err(|error| down(&error))?;
        Ok(connection.insert(new).clone())
    }
}

fn lasting(claim: &Claim, time: Lasting) -> Claim {
    Claim::new(claim.name().clone(), claim.owner(), time(claim.ttl()), claim.holder().clone())
        .with_waiting(claim.waits())
        .with_mode(claim.mode())
}

fn is_unknown_script(error: &Error) -> bool {
    error.to_string().contains("No matching script")
}

fn unknown(why: String) -> Error {
    Error::new(ErrorKind::Indeterminate, why)
}

fn down(error: &redis::RedisError) -> Error {
    Error::new(ErrorKind::Unavailable, format!("cannot connect: {:?}", error.kind()))
}

/// These steps as a backend.
pub(crate) struct Plain {
    steps: Steps,
    pub(super) redis: Redis,
    pub(crate) batch: Batch,
    pub(crate) semantics: Semantics,
    pub(crate) has_admin: bool,
    /// The mode in which holds are shown.
    pub(crate) shown_mode: LockMode,
    pub(crate) lasting: Times,
    pub(crate) admin_mistake: admin::Mistake,
}

/// How long the store keeps a grant, a renewal, and the least time of a hold.
#[derive(Clone, Copy)]
pub(crate) struct Times {
    pub(crate) granted_for: Lasting,
    pub(crate) renewed_for: Lasting,
    pub(crate) lingers_for: Lasting,
}

impl Times {
    /// The same for all.
    pub(crate) const fn all(lasting: Lasting) -> Self {
        Self { granted_for: lasting, renewed_for: lasting, lingers_for: lasting }
    }
}

/// How claims are renewed that fall due together.
pub(crate) type Batch =
    for<'a> fn(&'a Plain, &'a [Claim]) -> Pin<Box<dyn Future<Output = Vec<Result<Renewal>>> + Send + 'a>>;

impl Plain {
    pub(crate) fn new(steps: Steps, address: &Address) -> Self {
        let batch: Batch = |plain, claims| Box::pin(renew_each(claims, |claim| plain.renew(claim)));
        let semantics = Semantics::lease("redis", "plain", Promises::new(|_| Outcome::MayBreak));
        Self {
            steps,
            redis: Redis::at(address),
            batch,
            semantics,
            has_admin: true,
            shown_mode: LockMode::Exclusive,
            lasting: Times::all(|time| time),
            admin_mistake: admin::Mistake::Nothing,
        }
    }
}

impl Plain {
    pub(crate) fn by_hash(steps: Steps, address: &Address) -> Self {
        let mut plain = Self::new(steps, address);
        plain.redis.by_hash = true;
        plain
    }

    /// Returns when the server says that the lock's key was deleted or has expired. Connects anew when its connection
    /// breaks, as a good client does.
    pub(crate) async fn key_gone(&self, claim: &Claim) {
        while self.next_message(claim, false).await.is_none() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The same, also if that was said before anybody listened.
    pub(crate) async fn key_gone_by_now(&self, claim: &Claim) {
        while self.next_message(claim, true).await.is_none() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The next message on the key's channel, or nothing to wait for; `None` if the connection breaks first.
    async fn next_message(&self, claim: &Claim, look: bool) -> Option<()> {
        let mut messages = self.redis.listen(&format!("__keyspace@0__:{}", key(claim))).await?;
        if look && self.redis.command::<u64>(&["EXISTS", &key(claim)]).await.ok()? == 0 {
            return Some(());
        }
        messages.on_message().next().await.map(drop)
    }
}

/// A lock of these steps, whose scripts are run by their hash.
pub(crate) fn lock_by_hash(steps: Steps, address: &Address) -> Arc<dyn DistributedLock> {
    lock_of(Plain::by_hash(steps, address))
}

/// A lock of these steps.
pub(crate) fn lock(steps: Steps, address: &Address) -> Arc<dyn DistributedLock> {
    lock_of(Plain::new(steps, address))
}

#[async_trait]
impl Calls for Plain {
    fn semantics(&self) -> Semantics {
        self.semantics.clone()
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        (self.steps.acquire)(&self.redis, &lasting(claim, self.lasting.granted_for)).await
    }

    async fn renew(&self, claim: &Claim) -> Result<Renewal> {
        (self.steps.renew)(&self.redis, &lasting(claim, self.lasting.renewed_for)).await
    }

    async fn renew_all(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        (self.batch)(self, claims).await
    }

    async fn release(&self, claim: &Claim) -> Result<Release> {
        (self.steps.release)(&self.redis, claim).await
    }

    async fn linger(&self, claim: &Claim, time: Duration) -> Result<Release> {
        let script = "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
                      redis.call('SET', KEYS[1], '', 'PX', ARGV[2]) return 1";
        let arguments = [claim.owner().to_hex(), (self.lasting.lingers_for)(time).as_millis().to_string()];
        let held: u64 = self.redis.script(script, &[&key(claim)], &[&arguments[0], &arguments[1]]).await?;
        Ok(if held == 1 { Release::Released } else { Release::NotHeld })
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        self.has_admin.then_some(self as _)
    }
}

impl fmt::Debug for Plain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Plain")
    }
}
