//! Mistakes in a scope. Each lock of the scope is sound.

use async_trait::async_trait;
use leasehold_conformance::Kinds;
use leasehold_core::{
    AcquireOptions, DistributedLock, DistributedLockExt, FencingToken, Hold, HoldStatus, Lease, LockAdmin,
    LockGuard, LockName, Loss, Result, Scope, Semantics,
};
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio::task;

/// The scopes, by the address of the client and the task.
type TaskScopes = HashMap<(usize, Option<task::Id>), Scope>;
type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// #80: the identity is the task: what one task holds is held by all that runs in it, and by nothing that it spawns.
#[derive(Debug)]
pub(crate) struct IdentityOfTheTask;

impl Kinds for IdentityOfTheTask {
    fn scope(&self, client: &Arc<dyn DistributedLock>) -> Arc<dyn DistributedLock> {
        Arc::new(TaskScope(Arc::clone(client)))
    }
}

/// The scope of the calling task on this client.
#[derive(Clone, Debug)]
struct TaskScope(Arc<dyn DistributedLock>);

impl TaskScope {
    fn of_task(&self) -> Scope {
        static SCOPES: Mutex<Option<TaskScopes>> = Mutex::new(None);
        let key = (Arc::as_ptr(&self.0).addr(), task::try_id());
        let mut scopes = SCOPES.lock().unwrap_or_else(PoisonError::into_inner);
        scopes.get_or_insert_default().entry(key).or_insert_with(|| self.0.scope()).clone()
    }
}

#[async_trait]
impl DistributedLock for TaskScope {
    fn semantics(&self) -> &Semantics {
        self.0.semantics()
    }

    fn defaults(&self) -> &AcquireOptions {
        self.0.defaults()
    }

    async fn acquire_named(&self, name: &LockName, options: &AcquireOptions) -> Result<LockGuard> {
        self.of_task().acquire_named(name, options).await
    }

    fn handle(&self) -> Arc<dyn DistributedLock> {
        Arc::new(self.clone())
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        self.0.admin()
    }

    async fn close(&self) -> Result<()> {
        self.0.close().await
    }
}

/// #82: whichever guard is released first releases the lock.
#[derive(Debug)]
pub(crate) struct InnerReleaseFrees;

impl Kinds for InnerReleaseFrees {
    fn scope(&self, client: &Arc<dyn DistributedLock>) -> Arc<dyn DistributedLock> {
        Arc::new(FreeingScope { client: Arc::clone(client), held: Arc::default() })
    }
}

type Held = Mutex<Option<LockGuard>>;

#[derive(Clone, Debug)]
struct FreeingScope {
    client: Arc<dyn DistributedLock>,
    held: Arc<Mutex<HashMap<LockName, Weak<Held>>>>,
}

impl FreeingScope {
    fn held(&self, name: &LockName) -> Option<Arc<Held>> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner).get(name)?.upgrade()?;
        let is_held = held.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        is_held.then_some(held)
    }
}

#[async_trait]
impl DistributedLock for FreeingScope {
    fn semantics(&self) -> &Semantics {
        self.client.semantics()
    }

    fn defaults(&self) -> &AcquireOptions {
        self.client.defaults()
    }

    async fn acquire_named(&self, name: &LockName, options: &AcquireOptions) -> Result<LockGuard> {
        let held = match self.held(name) {
            Some(held) => held,
            None => Arc::new(Mutex::new(Some(self.client.acquire_named(name, options).await?))),
        };
        let mut all = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(name.clone(), Arc::downgrade(&held));
        let lease = held.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(LockGuard::lease);
        let (lease, name) = (lease.unwrap(), name.clone());
        let token = lease.token()?;
        Ok(LockGuard::new(Arc::new(Counted { held, lease, token, name })))
    }

    fn handle(&self) -> Arc<dyn DistributedLock> {
        Arc::new(self.clone())
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        self.client.admin()
    }

    async fn close(&self) -> Result<()> {
        self.client.close().await
    }
}

#[derive(Debug)]
struct Counted {
    held: Arc<Held>,
    lease: Lease,
    token: FencingToken,
    name: LockName,
}

impl Counted {
    fn take(&self) -> Option<LockGuard> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Hold for Counted {
    fn name(&self) -> &LockName {
        &self.name
    }

    fn token(&self) -> FencingToken {
        self.token
    }

    fn status(&self) -> HoldStatus {
        match (self.lease.loss(), self.lease.remaining()) {
            (Some(loss), _) => HoldStatus::Lost(loss),
            (None, Duration::ZERO) => HoldStatus::Released,
            (None, remaining) => HoldStatus::Held { remaining, at_risk: false },
        }
    }

    fn ended(self: Arc<Self>) -> BoxFuture<Option<Loss>> {
        Box::pin(async move { Some(self.lease.lost().await) })
    }

    fn extend(self: Arc<Self>, _ttl: Duration) -> BoxFuture<Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn release(self: Arc<Self>) -> BoxFuture<Result<()>> {
        let guard = self.take();
        Box::pin(async move {
            match guard {
                Some(guard) => guard.release().await,
                None => Ok(()),
            }
        })
    }

    fn abandon(self: Arc<Self>) {
        drop(self.take());
    }
}
