use super::KINDS;
use super::memory::Memory;
use crate::{Cannot, Case, Store, Subject};
use async_trait::async_trait;
use leasehold::admin::LockAdmin;
use leasehold::backend::{Hold, HoldStatus};
use leasehold::semantics::Semantics;
use leasehold::{
    AcquireOptions, DistributedLock, DistributedLockExt, Error, ErrorKind, FencingToken, Health, LockGuard,
    LockMode, LockName, LockSetGuard, Loss, Result,
};
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

type Later<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
type Acquire =
    for<'a> fn(&'a dyn DistributedLock, &'a LockName, &'a AcquireOptions) -> Later<'a, Result<LockGuard>>;

/// Locks in memory, each acquired by another kind of lock.
pub(crate) struct OtherKind {
    name: &'static str,
    acquire: Acquire,
}

/// Each lock is that of a writer.
pub(crate) const WRITE: OtherKind = OtherKind {
    name: "memory-write",
    acquire: |locks, name, options| {
        let options = options.clone().with_mode(LockMode::Write);
        Box::pin(async move { locks.acquire_named(name, &options).await })
    },
};

/// Each lock is a set of one name.
pub(crate) const SET_OF_ONE: OtherKind = OtherKind {
    name: "memory-set-of-one",
    acquire: |locks, name, options| Box::pin(acquire_set_of_one(locks, name, options)),
};

/// Each acquisition is the first of a scope of its own: two of one scope would share.
pub(crate) const SCOPE: OtherKind = OtherKind {
    name: "memory-scope",
    acquire: |locks, name, options| {
        let scope = locks.scope();
        Box::pin(async move { scope.acquire_named(name, options).await })
    },
};

#[async_trait]
impl Subject for OtherKind {
    fn name(&self) -> &str {
        self.name
    }

    async fn start(&self) -> std::result::Result<Box<dyn Store>, Cannot> {
        Memory.start().await
    }

    async fn connect(&self, address: &str) -> Result<Arc<dyn DistributedLock>> {
        Ok(Arc::new(Locks { inner: Memory.connect(address).await?, acquire: self.acquire }))
    }

    fn covers(&self, case: &Case) -> std::result::Result<(), Cannot> {
        match (self.name, case.id) {
            ("memory-set-of-one", "D17" | "D22" | "D24") => Err(Cannot::new("a set refuses hold_at_least")),
            (_, "D16") => Err(Cannot::new("its renewals are those of the locks that it is made of")),
            (_, id) if id.starts_with('T') || id.starts_with(KINDS) => {
                Err(Cannot::new("a kind of lock is put to the cases of one name"))
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for OtherKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

#[derive(Clone)]
struct Locks {
    inner: Arc<dyn DistributedLock>,
    acquire: Acquire,
}

#[async_trait]
impl DistributedLock for Locks {
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

    fn admin(&self) -> Option<&dyn LockAdmin> {
        self.inner.admin()
    }

    async fn ping(&self) -> Result<()> {
        self.inner.ping().await
    }

    async fn close(&self) -> Result<()> {
        self.inner.close().await
    }
}

impl fmt::Debug for Locks {
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
    let ended = watch::Sender::new(());
    let (over, seen) = (set.cancellation_token(), ended.subscribe());
    tokio::spawn(async move {
        over.cancelled().await;
        drop(ended);
    });
    Ok(LockGuard::new(Arc::new(SetOfOne {
        name: name.clone(),
        token: set.token(name.as_str())?,
        set: Mutex::new(Some(Arc::new(set))),
        loss: OnceLock::new(),
        ended: seen,
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
    /// Its sender is dropped at the end of the set.
    ended: watch::Receiver<()>,
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
            (Health::Ended, Some(loss)) => HoldStatus::Lost(loss),
            (Health::Ended, None) => HoldStatus::Released,
            (health, _) => HoldStatus::Held { remaining: set.remaining(), at_risk: health == Health::AtRisk },
        }
    }

    fn ended(self: Arc<Self>) -> Later<'static, Option<Loss>> {
        Box::pin(async move {
            let _ = self.ended.clone().changed().await;
            match self.status() {
                HoldStatus::Lost(loss) => Some(loss),
                HoldStatus::Held { .. } | HoldStatus::Released => None,
            }
        })
    }

    fn extend(self: Arc<Self>, ttl: Duration) -> Later<'static, Result<()>> {
        Box::pin(async move {
            match self.set() {
                Some(set) => set.extend(ttl).await,
                None => Err(Error::new(ErrorKind::Lost, "the set was released")),
            }
        })
    }

    fn release(self: Arc<Self>) -> Later<'static, Result<()>> {
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
