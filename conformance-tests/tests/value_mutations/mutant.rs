//! The memory backend, with one value changed on its way in or out.

use async_trait::async_trait;
use leasehold_conformance::{Cannot, Store, Subject};
use leasehold_core::memory::MemoryBackend;
use leasehold_core::{
    Attempt, Claim, DistributedLock, Error, ErrorKind, FencingToken, Finding, LockAdmin, LockBackend,
    LockClient, LockName, LockStatus, OwnerId, Release, Renewal, Result, RuntimeClock, Semantics, Waiter,
    renew_each,
};
use std::fmt;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// What becomes of each value. [`SOUND`] changes none.
#[derive(Clone, Copy)]
pub(crate) struct Values {
    pub(crate) name: fn(&str) -> String,
    pub(crate) owner: fn(u128) -> u128,
    pub(crate) holder: fn(&str) -> String,
    pub(crate) granted_for: fn(Duration) -> Duration,
    pub(crate) renewed_for: fn(Duration) -> Duration,
    pub(crate) lingers_for: fn(Duration) -> Duration,
    pub(crate) attempt: fn(Result<Attempt>) -> Result<Attempt>,
    pub(crate) renewal: fn(Renewal) -> Result<Renewal>,
    pub(crate) renewals: fn(Vec<Result<Renewal>>) -> Vec<Result<Renewal>>,
    pub(crate) release: fn(Release) -> Result<Release>,
    pub(crate) token: fn(u64) -> u64,
    pub(crate) status: fn(Option<LockStatus>) -> Option<LockStatus>,
    pub(crate) list: fn(Vec<LockStatus>) -> Vec<LockStatus>,
    pub(crate) prefix: fn(&str) -> String,
    pub(crate) only_if: fn(Option<FencingToken>) -> Option<FencingToken>,
    pub(crate) forced: fn(Option<LockStatus>) -> Option<LockStatus>,
    pub(crate) semantics: fn(Semantics) -> Semantics,
    /// After how long a waiter is told to ask again, if ever.
    pub(crate) changes: Option<Duration>,
    pub(crate) group: fn(u128) -> u64,
}

pub(crate) const SOUND: Values = Values {
    name: str::to_owned,
    owner: |owner| owner,
    holder: str::to_owned,
    granted_for: |ttl| ttl,
    renewed_for: |ttl| ttl,
    lingers_for: |time| time,
    attempt: |attempt| attempt,
    renewal: Ok,
    renewals: |answers| answers,
    release: Ok,
    token: |token| token,
    status: |status| status,
    list: |list| list,
    prefix: str::to_owned,
    only_if: |token| token,
    forced: |status| status,
    semantics: |semantics| semantics,
    changes: None,
    group: |_| 0,
};

/// A store in which these values are changed, on the clock of the runtime. One for each case.
pub(crate) struct Mutant {
    values: Values,
    store: MemoryBackend,
}

impl Mutant {
    pub(crate) fn subject(values: Values) -> Arc<dyn Subject> {
        Arc::new(Self { values, store: MemoryBackend::with_clock(Arc::new(RuntimeClock::new())) })
    }
}

#[async_trait]
impl Subject for Mutant {
    fn name(&self) -> &str {
        "mutant"
    }

    async fn start(&self) -> std::result::Result<Box<dyn Store>, Cannot> {
        Ok(Box::new(Behind(self.store.clone())))
    }

    async fn connect(&self, _: &str) -> Result<Arc<dyn DistributedLock>> {
        let backend = Backend { values: self.values, store: self.store.clone(), calls: AtomicUsize::new(0) };
        let client = LockClient::builder(Arc::new(backend)).with_clock(Arc::new(RuntimeClock::new()));
        Ok(Arc::new(client.build()))
    }
}

/// The store itself, with nothing changed.
#[derive(Debug)]
struct Behind(MemoryBackend);

#[async_trait]
impl Store for Behind {
    fn address(&self) -> String {
        String::new()
    }

    async fn delete(&self, name: &LockName) -> std::result::Result<(), Cannot> {
        let deleted = self.0.force_release(name, None).await.map_err(Cannot::failed)?;
        if deleted.is_empty() { Err(Cannot::absent("nobody holds the lock")) } else { Ok(()) }
    }

    async fn records(&self) -> std::result::Result<usize, Cannot> {
        self.0.list("").await.map(|held| held.len()).map_err(Cannot::failed)
    }
}

/// More calls than any case makes of a sound backend: what asks for ever would ask until the end of days, in no virtual time.
const CALLS: usize = 50_000;

struct Backend {
    values: Values,
    store: MemoryBackend,
    calls: AtomicUsize,
}

impl Backend {
    fn claim(&self, claim: &Claim, ttl: Duration) -> Claim {
        assert!(self.calls.fetch_add(1, Ordering::Relaxed) < CALLS, "it asks without end");
        let name =
            LockName::new((self.values.name)(claim.name().as_str())).unwrap_or_else(|_| claim.name().clone());
        let owner = OwnerId::from_u128((self.values.owner)(claim.owner().as_u128()));
        Claim::new(name, owner, ttl, (self.values.holder)(claim.holder()).into()).with_waiting(claim.waits())
    }

    /// A status under the name that was asked for.
    fn seen(&self, status: Option<LockStatus>, name: &LockName) -> Option<LockStatus> {
        status.map(|mut status| {
            status.name = name.clone();
            status.token = status.token.map(|token| FencingToken::new((self.values.token)(token.get())));
            status
        })
    }

    fn named(&self, name: &LockName) -> Result<LockName> {
        LockName::new((self.values.name)(name.as_str()))
    }
}

#[async_trait]
impl LockBackend for Backend {
    fn semantics(&self) -> Semantics {
        (self.values.semantics)(self.store.semantics())
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        let claim = self.claim(claim, (self.values.granted_for)(claim.ttl()));
        let mut attempt = self.store.try_acquire(&claim).await;
        if let Ok(Attempt::Granted(grant)) = &mut attempt {
            grant.token = FencingToken::new((self.values.token)(grant.token.get()));
        }
        (self.values.attempt)(attempt)
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        let claims: Vec<Claim> =
            claims.iter().map(|claim| self.claim(claim, (self.values.renewed_for)(claim.ttl()))).collect();
        let answers = renew_each(&claims, async |claim| {
            let mut answer = self.store.renew(std::slice::from_ref(claim)).await;
            (self.values.renewal)(answer.pop().unwrap_or_else(|| Err(unknown()))?)
        });
        (self.values.renewals)(answers.await)
    }

    async fn release(&self, claim: &Claim, linger: Duration) -> Result<Release> {
        let claim = self.claim(claim, claim.ttl());
        (self.values.release)(self.store.release(&claim, (self.values.lingers_for)(linger)).await?)
    }

    async fn changed(&self, _: &Claim) {
        match self.values.changes {
            Some(after) => tokio::time::sleep(after).await,
            None => pending().await,
        }
    }

    fn renewal_group(&self, claim: &Claim) -> u64 {
        (self.values.group)(claim.owner().as_u128())
    }

    async fn suspects(&self) -> Vec<OwnerId> {
        pending().await
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        Some(self)
    }

    async fn close(&self) -> Result<()> {
        Ok(())
    }
}

#[async_trait]
impl LockAdmin for Backend {
    async fn inspect(&self, name: &LockName) -> Result<Vec<LockStatus>> {
        let status = self.store.inspect(&self.named(name)?).await?.pop();
        Ok((self.values.status)(self.seen(status, name)).into_iter().collect())
    }

    async fn list(&self, prefix: &str) -> Result<Vec<LockStatus>> {
        Ok((self.values.list)(self.store.list(&(self.values.prefix)(prefix)).await?))
    }

    async fn waiters(&self, name: &LockName) -> Result<Vec<Waiter>> {
        self.store.waiters(name).await
    }

    async fn force_release(&self, name: &LockName, only_if: Option<FencingToken>) -> Result<Vec<LockStatus>> {
        let forced =
            self.store.force_release(&self.named(name)?, (self.values.only_if)(only_if)).await?.pop();
        Ok((self.values.forced)(self.seen(forced, name)).into_iter().collect())
    }

    async fn init(&self) -> Result<()> {
        Ok(())
    }

    fn init_script(&self) -> Option<String> {
        None
    }

    async fn check(&self) -> Result<Vec<Finding>> {
        Ok(Vec::new())
    }
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
