//! The memory backend, with one value changed on its way in or out.

use crate::values::{Hints, Queues, SOUND, Values};
use async_trait::async_trait;
use leasehold_conformance::{Counters, Stop, Store, Subject};
use leasehold_core::memory::MemoryBackend;
use leasehold_core::{
    Attempt, Busy, Claim, DistributedLock, Error, ErrorKind, FencingToken, Finding, HolderInfo, KnownServers,
    LockAdmin, LockBackend, LockClient, LockClientBuilder, LockMode, LockName, LockStatus, Observer, OwnerId,
    Purge, Release, Renewal, Result, RuntimeClock, Semantics, Waiter, renew_each,
};
use std::collections::BTreeMap;
use std::fmt;
use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::broadcast;

/// A store in which these values are changed, on the clock of the runtime. One for each case.
pub(crate) struct Mutant {
    values: Values,
    store: Shared,
}

/// The state that the clients of a store share.
#[derive(Clone, Debug)]
struct Shared {
    memory: MemoryBackend,
    queues: Arc<Mutex<Queues>>,
    /// The owners of holds that were ended by force.
    ended: broadcast::Sender<OwnerId>,
    freed: broadcast::Sender<LockName>,
    calls: Arc<AtomicUsize>,
    /// What the names in the store stand for.
    texts: Arc<Mutex<BTreeMap<LockName, String>>>,
}

impl Mutant {
    pub(crate) fn subject(values: Values) -> Arc<dyn Subject> {
        let memory = MemoryBackend::with_clock(Arc::new(RuntimeClock::new()));
        let store = Shared {
            memory,
            queues: Arc::default(),
            ended: broadcast::Sender::new(64),
            freed: broadcast::Sender::new(64),
            calls: Arc::default(),
            texts: Arc::default(),
        };
        Arc::new(Self { values, store })
    }

    /// The address is the prefix of all names.
    fn client(&self, prefix: &str) -> LockClientBuilder {
        let ended = tokio::sync::Mutex::new(self.store.ended.subscribe());
        let backend = Backend {
            values: self.values,
            store: self.store.clone(),
            ended,
            calls: AtomicUsize::new(0),
            prefix: prefix.to_owned(),
            early: Mutex::default(),
        };
        LockClient::builder(Arc::new(backend)).with_clock(Arc::new(RuntimeClock::new()))
    }
}

impl Shared {
    /// Ends holds by force, and tells the clients.
    async fn end(&self, name: &LockName, only_if: Option<FencingToken>) -> Result<Vec<LockStatus>> {
        let ended = self.memory.force_release(name, only_if).await?;
        for owner in ended.iter().filter_map(|hold| hold.owner) {
            let _ = self.ended.send(owner);
        }
        let _ = self.freed.send(name.clone());
        Ok(ended)
    }

    /// One attempt, behind those that came before. A claim that waits joins the queue.
    async fn try_in_order(&self, claim: &Claim) -> Result<Attempt> {
        let is_first = {
            let mut queues = self.queues();
            let queue = queues.entry(claim.name().clone()).or_default();
            if claim.waits() && !queue.iter().any(|waiter| waiter.owner == Some(claim.owner())) {
                queue.push(Waiter::new(Some(claim.owner()), HolderInfo::from_json(claim.holder())));
            }
            queue.first().is_none_or(|first| first.owner == Some(claim.owner()))
        };
        let attempt =
            if is_first { self.memory.try_acquire(claim).await? } else { Attempt::Busy(Busy::new()) };
        match attempt {
            Attempt::Granted(grant) => {
                self.leave_queue(claim);
                Ok(Attempt::Granted(grant))
            }
            Attempt::Busy(busy) => Ok(Attempt::Busy(busy.with_place_in_queue())),
        }
    }

    fn leave_queue(&self, claim: &Claim) {
        if let Some(queue) = self.queues().get_mut(claim.name()) {
            queue.retain(|waiter| waiter.owner != Some(claim.owner()));
        }
    }

    fn texts(&self) -> MutexGuard<'_, BTreeMap<LockName, String>> {
        self.texts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queues(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Subject for Mutant {
    fn name(&self) -> &str {
        "mutant"
    }

    fn lease(&self, ttl: Duration) -> Duration {
        (self.values.lease)(ttl)
    }

    async fn start(&self) -> std::result::Result<Box<dyn Store>, Stop> {
        Ok(Box::new(Behind(self.store.clone())))
    }

    async fn connect(&self, prefix: &str) -> Result<Arc<dyn DistributedLock>> {
        Ok(Arc::new(self.client(prefix).build()))
    }

    async fn connect_observed(
        &self,
        prefix: &str,
        observer: Arc<dyn Observer>,
    ) -> std::result::Result<Arc<dyn DistributedLock>, Stop> {
        Ok(Arc::new(self.client(prefix).with_observer(observer).build()))
    }
}

/// The store itself, with nothing changed.
#[derive(Debug)]
struct Behind(Shared);

#[async_trait]
impl Store for Behind {
    fn address(&self) -> String {
        String::new()
    }

    async fn delete(&self, name: &LockName) -> std::result::Result<(), Stop> {
        let deleted = self.0.end(name, None).await.map_err(Stop::failed)?;
        if deleted.is_empty() { Err(Stop::Absent("nobody holds the lock".to_owned())) } else { Ok(()) }
    }

    async fn namespaced(&self, prefix: &str) -> std::result::Result<String, Stop> {
        Ok(prefix.to_owned())
    }

    async fn counters(&self) -> std::result::Result<Counters, Stop> {
        Ok(Counters::new(self.0.calls.load(Ordering::Relaxed) as u64, 0, 0))
    }

    async fn records(&self) -> std::result::Result<usize, Stop> {
        self.0.memory.list("").await.map(|held| held.len()).map_err(Stop::failed)
    }
}

/// More calls than any case makes of a sound backend: a client that asks for ever would do so until the end of days, in no virtual
/// time.
const CALLS: usize = 50_000;

struct Backend {
    values: Values,
    store: Shared,
    ended: tokio::sync::Mutex<broadcast::Receiver<OwnerId>>,
    calls: AtomicUsize,
    prefix: String,
    /// The owners of waiters that were told once.
    early: Mutex<Vec<OwnerId>>,
}

impl Backend {
    /// The values of what belongs to a claim of this mode.
    fn values(&self, mode: LockMode) -> Values {
        if (self.values.of_mode)(mode) { self.values } else { SOUND }
    }

    fn values_of(&self, hold: &Option<LockStatus>) -> Values {
        self.values(hold.as_ref().map_or(LockMode::Exclusive, |hold| hold.mode))
    }

    fn claim(&self, claim: &Claim, ttl: Duration, mode: fn(LockMode) -> LockMode) -> Claim {
        let calls = self.calls.fetch_add(1, Ordering::Relaxed);
        assert!(calls < CALLS, "it asks without end");
        self.store.calls.fetch_add(1, Ordering::Relaxed);
        let name = self.stored(claim.name());
        let owner = OwnerId::from_u128((self.values.owner)(claim.owner().as_u128()));
        let holder = (self.values.holder)(claim.holder()).into();
        claim
            .clone()
            .with_name(name)
            .with_owner(owner)
            .with_ttl(ttl)
            .with_holder(holder)
            .with_mode(mode(claim.mode()))
    }

    /// A status under the name that was asked for.
    fn seen(&self, mut status: LockStatus, name: &LockName) -> LockStatus {
        status.name = name.clone();
        status.token = status.token.map(|token| FencingToken::new((self.values.token)(token.get())));
        status
    }

    /// The name in the store, and a note of what it stands for: with its prefix, it may be longer than a name.
    fn stored(&self, name: &LockName) -> LockName {
        let text = (self.values.stored)(&self.prefix, &(self.values.name)(name.as_str()));
        let short = || {
            let hash = std::hash::BuildHasherDefault::<std::hash::DefaultHasher>::default();
            LockName::new(format!("{:x}", std::hash::BuildHasher::hash_one(&hash, &text))).unwrap()
        };
        let stored = LockName::from_store(&text)
            .unwrap_or_else(|_| if text.is_empty() { name.clone() } else { short() });
        self.store.texts().insert(stored.clone(), text);
        stored
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl LockBackend for Backend {
    fn semantics(&self) -> Semantics {
        (self.values.semantics)(self.store.memory.semantics())
    }

    async fn try_acquire(&self, asked: &Claim) -> Result<Attempt> {
        let values = self.values(asked.mode());
        let claim = self.claim(asked, (values.granted_for)(asked.ttl()), values.granted_mode);
        let mut attempt = match self.values.has_queue {
            true => self.store.try_in_order(&claim).await,
            false => self.store.memory.try_acquire(&claim).await,
        };
        if let Ok(Attempt::Granted(grant)) = &mut attempt {
            grant.token = FencingToken::new((values.token)(grant.token.get()));
        }
        (values.attempt)(attempt)
    }

    async fn renew(&self, asked: &[Claim]) -> Vec<Result<Renewal>> {
        let answers = renew_each(asked, async |asked| {
            let values = self.values(asked.mode());
            let claim = self.claim(asked, (values.renewed_for)(asked.ttl()), values.renewed_mode);
            let mut answer = self.store.memory.renew(std::slice::from_ref(&claim)).await;
            (values.renewal)(answer.pop().unwrap_or_else(|| Err(unknown()))?)
        });
        (self.values.renewals)(answers.await)
    }

    async fn release(&self, asked: &Claim, linger: Duration) -> Result<Release> {
        let values = self.values(asked.mode());
        let claim = self.claim(asked, asked.ttl(), values.released_mode);
        self.store.leave_queue(&claim);
        let released = self.store.memory.release(&claim, (values.lingers_for)(linger)).await?;
        let _ = self.store.freed.send(claim.name().clone());
        (values.release)(released)
    }

    async fn changed(&self, claim: &Claim) {
        match self.values.hints {
            Hints::Never => pending().await,
            Hints::Always(after) => tokio::time::sleep(after).await,
            Hints::Once => {
                let told = &mut *self.early.lock().unwrap_or_else(PoisonError::into_inner);
                if !told.contains(&claim.owner()) {
                    return told.push(claim.owner());
                }
            }
            Hints::Freed { late, of_others } => {
                let (mut freed, name) = (self.store.freed.subscribe(), self.stored(claim.name()));
                let is_free = self.store.memory.inspect(&name).await.is_ok_and(|holds| holds.is_empty());
                let mut is_told = is_free && !of_others;
                while !is_told {
                    let Ok(told) = freed.recv().await else { return pending().await };
                    is_told = (told == name) != of_others;
                }
                return tokio::time::sleep(late).await;
            }
        }
        pending::<()>().await;
    }

    fn renewal_group(&self, claim: &Claim) -> u64 {
        (self.values.group)(claim.owner().as_u128())
    }

    async fn suspects(&self) -> Vec<OwnerId> {
        if let Some(pause) = self.values.suspects_every {
            tokio::time::sleep(pause).await;
            let held = self.store.memory.list("").await.unwrap_or_default();
            let mut ended = self.ended.lock().await;
            let ended = std::iter::from_fn(|| ended.try_recv().ok()).collect::<Vec<_>>();
            return held.iter().filter_map(|hold| hold.owner).chain(ended).collect();
        }
        let Some(suspects) = self.values.suspects else { return pending().await };
        let mut ended = self.ended.lock().await;
        loop {
            let Ok(owner) = ended.recv().await else { return pending().await };
            let held = self.store.memory.list("").await.unwrap_or_default();
            let told = suspects(owner, held.iter().filter_map(|hold| hold.owner).collect());
            if !told.is_empty() {
                return told;
            }
        }
    }

    fn servers(&self) -> Option<&KnownServers> {
        None
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        Some(self)
    }

    async fn close(&self) -> Result<()> {
        Ok(())
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl LockAdmin for Backend {
    async fn inspect(&self, name: &LockName) -> Result<Vec<LockStatus>> {
        let holds = self.store.memory.inspect(&self.stored(name)).await?;
        let seen = or_none(holds.into_iter().map(|hold| Some(self.seen(hold, name))));
        let changed = seen.into_iter().filter_map(|hold| (self.values_of(&hold).status)(hold));
        Ok((self.values.statuses)(changed.collect()))
    }

    async fn list(&self, prefix: &str) -> Result<Vec<LockStatus>> {
        let wanted = [&self.prefix, &*(self.values.prefix)(prefix)].concat();
        let mut held = self.store.memory.list("").await?;
        held.retain_mut(|hold| {
            let text = self.store.texts().get(&hold.name).cloned().unwrap_or_default();
            let name = text.strip_prefix(&self.prefix).and_then(|name| LockName::from_store(name).ok());
            hold.name = name.unwrap_or_else(|| hold.name.clone());
            text.starts_with(&wanted)
        });
        Ok((self.values.list)(held))
    }

    async fn list_reachable(&self, prefix: &str) -> Result<(Vec<LockStatus>, Vec<Error>)> {
        Ok((self.list(prefix).await?, Vec::new()))
    }

    async fn waiters(&self, name: &LockName) -> Result<Vec<Waiter>> {
        Ok((self.values.waiters)(&self.store.queues(), name))
    }

    async fn force_release(&self, name: &LockName, only_if: Option<FencingToken>) -> Result<Vec<LockStatus>> {
        let ended = self.store.end(&self.stored(name), (self.values.only_if)(only_if)).await?;
        let seen = ended.into_iter().map(|hold| Some(self.seen(hold, name)));
        Ok(or_none(seen).into_iter().filter_map(|hold| (self.values_of(&hold).forced)(hold)).collect())
    }

    async fn purge(&self, idle: Duration, purge: Purge) -> Result<Option<u64>> {
        self.store.memory.purge(idle, purge).await
    }

    async fn init(&self) -> Result<()> {
        Ok(())
    }

    fn init_script(&self) -> Option<String> {
        None
    }

    async fn forget(&self, names: &[LockName]) -> Result<()> {
        self.store.memory.forget(names).await
    }

    async fn check(&self) -> Result<Vec<Finding>> {
        Ok(Vec::new())
    }
}

/// The holds of a name; one `None` if there are none, in which a mutation may put a hold.
fn or_none(holds: impl Iterator<Item = Option<LockStatus>>) -> Vec<Option<LockStatus>> {
    let holds: Vec<_> = holds.collect();
    if holds.is_empty() { vec![None] } else { holds }
}

pub(crate) fn unknown() -> Error {
    Error::new(ErrorKind::Indeterminate, "nobody knows")
}

impl fmt::Debug for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mutant")
    }
}

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mutant")
    }
}
