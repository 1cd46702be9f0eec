//! Adapters: another kind of lock in the place of the plain locks of a subject, so that the cases of one name test it too.

mod hold;
mod semaphore;

use crate::locked;
use async_trait::async_trait;
use hold::{guard_over, on_a_thread};
use leasehold::admin::LockAdmin;
use leasehold::semantics::{Semantics, Sharing};
use leasehold::{
    AcquireOptions, DistributedLock, DistributedLockExt, LockGuard, LockMode, LockName, Result, Semaphore,
    blocking,
};
use leasehold_conformance::{Case, Stop, Store, Subject};
use semaphore::{SlotStore, semaphore_name};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The kind that each lock is acquired as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The lock of a writer.
    Write,
    /// A set of one name.
    SetOfOne,
    /// The first acquisition of a scope of its own: two acquisitions of one scope share a hold.
    Scope,
    /// A permit of a semaphore of one, which is a mutex.
    SemaphoreOfOne,
    /// A lock of the blocking API.
    Blocking,
}

/// A subject whose locks are acquired as another kind.
#[derive(Debug)]
pub(super) struct Adapter {
    name: String,
    base: Arc<dyn Subject>,
    kind: Kind,
}

impl Adapter {
    pub(super) fn new(base: impl Subject, kind: Kind) -> Self {
        let suffix = match kind {
            Kind::Write => "write",
            Kind::SetOfOne => "set-of-one",
            Kind::Scope => "scope",
            Kind::SemaphoreOfOne => "semaphore-of-one",
            Kind::Blocking => "blocking",
        };
        Self { name: format!("{}-{suffix}", base.name()), base: Arc::new(base), kind }
    }
}

#[async_trait]
impl Subject for Adapter {
    fn name(&self) -> &str {
        &self.name
    }

    async fn start(&self) -> std::result::Result<Box<dyn Store>, Stop> {
        let store = self.base.start().await?;
        Ok(if self.kind == Kind::SemaphoreOfOne { Box::new(SlotStore(store)) } else { store })
    }

    async fn connect(&self, address: &str) -> Result<Arc<dyn DistributedLock>> {
        if self.kind != Kind::Blocking {
            let inner = self.base.connect(address).await?;
            return Ok(Arc::new(AdapterClient::new(inner, self.kind, None)));
        }
        let (base, address) = (Arc::clone(&self.base), address.to_owned());
        on_a_thread(move || {
            let locks = blocking::Locks::new(async move { base.connect(&address).await })?;
            let inner = locks.run(async |inner| Ok(inner))?;
            Ok(Arc::new(AdapterClient::new(inner, Kind::Blocking, Some(locks))) as Arc<dyn DistributedLock>)
        })
        .await
    }

    fn lease(&self, ttl: Duration) -> Duration {
        self.base.lease(ttl)
    }

    /// Covers every case of one name on memory, and the families A to G on other stores.
    fn covers(&self, case: &Case) -> std::result::Result<(), Stop> {
        let all_families = self.base.name() == "memory";
        match (self.kind, case.id) {
            (_, "D16") => Err(Stop::skipped("its renewals are those of the locks that it is made of")),
            (_, "C24") => Err(Stop::skipped("its list is that of the locks that it is made of")),
            (Kind::SemaphoreOfOne, "C19") => {
                Err(Stop::skipped("its waiters go from the gate to a slot, and are not shown in between"))
            }
            (Kind::SetOfOne, "D17" | "D22" | "D24" | "S04") => {
                Err(Stop::skipped("a set refuses hold_at_least"))
            }
            (Kind::SemaphoreOfOne, "K10") => {
                Err(Stop::skipped("the longest names leave no room for the number of a slot"))
            }
            (Kind::SemaphoreOfOne, "D26") => Err(Stop::skipped("a permit has no mode")),
            (Kind::SemaphoreOfOne, "G09") => Err(Stop::skipped(
                "an attempt on a slot whose reply is lost is withdrawn, and another claim waits",
            )),
            (Kind::Blocking, "E12") => {
                Err(Stop::skipped("a blocking client renews on a thread of its own, which no caller starves"))
            }
            (_, id) if id.starts_with(['A', 'B', 'C', 'D', 'E', 'F', 'G']) => self.base.covers(case),
            (_, id) if id.starts_with(['T', 'U', 'V', 'W', 'X', 'Y']) => {
                Err(Stop::skipped("a kind of lock is put to the cases of one name"))
            }
            _ if all_families => self.base.covers(case),
            _ => Err(Stop::skipped("a kind of lock is put to the families A to G")),
        }
    }
}

/// The client of an adapter.
#[derive(Clone)]
struct AdapterClient {
    inner: Arc<dyn DistributedLock>,
    semantics: Semantics,
    kind: Kind,
    /// The client whose thread `inner` runs on, if the kind is blocking.
    blocking: Option<blocking::Locks>,
    /// A program keeps a semaphore, whose clones know of each other's waiters.
    semaphores: Arc<Mutex<HashMap<LockName, Semaphore>>>,
}

impl AdapterClient {
    fn new(inner: Arc<dyn DistributedLock>, kind: Kind, blocking: Option<blocking::Locks>) -> Self {
        let mut semantics = inner.semantics().clone();
        if matches!(kind, Kind::Write | Kind::SemaphoreOfOne) {
            // All its holds are of one mode.
            semantics.sharing = Sharing::Unsupported;
        }
        Self { inner, semantics, kind, blocking, semaphores: Arc::default() }
    }

    fn semaphore(&self, name: &LockName) -> Result<Semaphore> {
        let mut semaphores = locked(&self.semaphores);
        if let Some(semaphore) = semaphores.get(name) {
            return Ok(semaphore.clone());
        }
        let semaphore = self.inner.semaphore(semaphore_name(name), 1)?;
        semaphores.insert(name.clone(), semaphore.clone());
        Ok(semaphore)
    }
}

#[async_trait]
impl DistributedLock for AdapterClient {
    fn semantics(&self) -> &Semantics {
        &self.semantics
    }

    fn defaults(&self) -> &AcquireOptions {
        self.inner.defaults()
    }

    async fn acquire_named(&self, name: &LockName, options: &AcquireOptions) -> Result<LockGuard> {
        if let Some(locks) = self.blocking.clone() {
            let (name, options) = (name.clone(), options.clone());
            return guard_over(on_a_thread(move || locks.acquire_with(&name, &options)).await?);
        }
        match self.kind {
            Kind::Write => self.inner.acquire_named(name, &options.clone().with_mode(LockMode::Write)).await,
            Kind::SetOfOne => guard_over(self.inner.acquire_all_with([name], options).await?),
            Kind::Scope => self.inner.scope().acquire_named(name, options).await,
            Kind::SemaphoreOfOne => self.semaphore(name)?.acquire_with(options).await,
            Kind::Blocking => unreachable!("it has a blocking client"),
        }
    }

    fn handle(&self) -> Arc<dyn DistributedLock> {
        Arc::new(self.clone())
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        let admin = self.inner.admin()?;
        Some(if self.kind == Kind::SemaphoreOfOne { self } else { admin })
    }

    async fn ping(&self) -> Result<()> {
        self.inner.ping().await
    }

    async fn close(&self) -> Result<()> {
        self.inner.close().await
    }
}

impl fmt::Debug for AdapterClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
