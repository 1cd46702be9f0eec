//! The kinds of lock as subjects: what the suite asks of a lock is asked of a hold that came through another kind.

use async_trait::async_trait;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use leasehold::backend::{Hold, HoldStatus};
use leasehold::semantics::{Fault, Semantics};
use leasehold::{
    AcquireOptions, DistributedLock, DistributedLockExt, Error, ErrorKind, FencingToken, Health, LockGuard,
    LockName, LockSetGuard, Loss, Result,
};
use leasehold_conformance::{Cannot, Case, Store, Subject, stores};
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// Makes a hold by another kind of lock.
type Acquire =
    for<'a> fn(&'a dyn DistributedLock, &'a LockName, &'a AcquireOptions) -> BoxFuture<'a, Result<LockGuard>>;

/// A kind of lock: the ending of its subject's name, and how to acquire a lock by it.
type Kind = (&'static str, Acquire);

const KINDS: [Kind; 2] = [
    ("set", |locks, name, options| Box::pin(acquire_set_of_one(locks, name, options))),
    // A scope for each call: two calls of one scope would share.
    ("scope", |locks, name, options| {
        let scope = locks.scope();
        Box::pin(async move { scope.acquire_named(name, options).await })
    }),
];

/// The kinds on memory.
pub(crate) fn subjects() -> impl Iterator<Item = Box<dyn Subject>> {
    KINDS.into_iter().flat_map(|kind| {
        let stores = stores::named(&["memory".to_owned()]).unwrap_or_default();
        stores.into_iter().map(move |inner| Box::new(Through::new(inner, kind)) as Box<dyn Subject>)
    })
}

/// A store whose locks are acquired by another kind.
struct Through {
    inner: Box<dyn Subject>,
    name: String,
    kind: Kind,
}

impl fmt::Debug for Through {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Through {
    fn new(inner: Box<dyn Subject>, kind: Kind) -> Self {
        Self { name: format!("{}-{}", inner.name(), kind.0), inner, kind }
    }
}

#[async_trait]
impl Subject for Through {
    fn name(&self) -> &str {
        &self.name
    }

    async fn start(&self) -> std::result::Result<Box<dyn Store>, Cannot> {
        self.inner.start().await
    }

    async fn connect(&self, address: &str) -> Result<Arc<dyn DistributedLock>> {
        Ok(Arc::new(OfKind { inner: self.inner.connect(address).await?, acquire: self.kind.1 }))
    }

    fn covers(&self, case: &Case) -> std::result::Result<(), Cannot> {
        match (self.kind.0, case.id) {
            (_, id) if id.starts_with(['T', 'U', 'V', 'W', 'X', 'Y']) => {
                Err(Cannot::new("a kind is not put through another kind"))
            }
            ("set", "D17") => Err(Cannot::new("a set refuses hold_at_least")),
            _ => self.inner.covers(case),
        }
    }

    fn can_meet(&self, fault: Fault) -> std::result::Result<(), Cannot> {
        self.inner.can_meet(fault)
    }
}

#[derive(Clone)]
struct OfKind {
    inner: Arc<dyn DistributedLock>,
    acquire: Acquire,
}

#[async_trait]
impl DistributedLock for OfKind {
    fn semantics(&self) -> &Semantics {
        self.inner.semantics()
    }

    fn defaults(&self) -> &AcquireOptions {
        self.inner.defaults()
    }

    async fn acquire_named(&self, name: &LockName, options: &AcquireOptions) -> Result<LockGuard> {
        (self.acquire)(&*self.inner, name, options).await
    }

    fn handle(&self) -> Arc<dyn DistributedLock> {
        Arc::new(self.clone())
    }

    fn admin(&self) -> Option<&dyn leasehold::admin::LockAdmin> {
        self.inner.admin()
    }

    async fn ping(&self) -> Result<()> {
        self.inner.ping().await
    }

    async fn close(&self) -> Result<()> {
        self.inner.close().await
    }
}

impl fmt::Debug for OfKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

async fn acquire_set_of_one(
    locks: &dyn DistributedLock,
    name: &LockName,
    options: &AcquireOptions,
) -> Result<LockGuard> {
    let set = locks.acquire_all_with([name], options).await?;
    let ended = set.cancellation_token().cancelled_owned().boxed().shared();
    Ok(LockGuard::new(Arc::new(SetOfOne {
        name: name.clone(),
        token: set.token(name.as_str())?,
        set: Mutex::new(Some(Arc::new(set))),
        loss: OnceLock::new(),
        ended,
    })))
}

/// A set of one name as the hold of this name.
#[derive(Debug)]
struct SetOfOne {
    name: LockName,
    token: FencingToken,
    /// `None` once it is released.
    set: Mutex<Option<Arc<LockSetGuard>>>,
    /// A loss that came before the release.
    loss: OnceLock<Loss>,
    ended: Shared<BoxFuture<'static, ()>>,
}

impl SetOfOne {
    fn set(&self) -> Option<Arc<LockSetGuard>> {
        self.set.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn take(&self) -> Option<LockSetGuard> {
        if let HoldStatus::Lost(loss) = self.status() {
            let _ = self.loss.set(loss);
        }
        let set = self.set.lock().unwrap_or_else(PoisonError::into_inner).take();
        set.and_then(Arc::into_inner)
    }
}

impl Hold for SetOfOne {
    fn name(&self) -> &LockName {
        &self.name
    }

    fn token(&self) -> FencingToken {
        self.token
    }

    fn status(&self) -> HoldStatus {
        if let Some(loss) = self.loss.get() {
            return HoldStatus::Lost(loss.clone());
        }
        let Some(set) = self.set() else { return HoldStatus::Released };
        match (set.health(), set.loss()) {
            (Health::Ended, Some((_, loss))) => HoldStatus::Lost(loss),
            (Health::Ended, None) => HoldStatus::Released,
            (health, _) => HoldStatus::Held { remaining: set.remaining(), at_risk: health == Health::AtRisk },
        }
    }

    fn ended(self: Arc<Self>) -> BoxFuture<'static, Option<Loss>> {
        Box::pin(async move {
            self.ended.clone().await;
            match self.status() {
                HoldStatus::Lost(loss) => Some(loss),
                HoldStatus::Held { .. } | HoldStatus::Released => None,
            }
        })
    }

    fn extend(self: Arc<Self>, ttl: Duration) -> BoxFuture<'static, Result<()>> {
        Box::pin(async move {
            match self.set() {
                Some(set) => set.extend(ttl).await,
                None => Err(Error::new(ErrorKind::Lost, "the set was released")),
            }
        })
    }

    fn release(self: Arc<Self>) -> BoxFuture<'static, Result<()>> {
        let set = self.take();
        Box::pin(async move {
            match set {
                Some(set) => set.release().await,
                None => Err(Error::new(ErrorKind::Lost, "the set was released")),
            }
        })
    }

    fn abandon(self: Arc<Self>) {
        drop(self.take());
    }
}
