use super::memory::Memory;
use crate::{Cannot, Case, Store, Subject};
use async_trait::async_trait;
use leasehold::semantics::Semantics;
use leasehold::{AcquireOptions, DistributedLock, DistributedLockExt, LockGuard, LockName, Result};
use std::sync::Arc;

/// Locks in memory, each acquired as the permit of a semaphore of one: that is a mutex, and keeps what a lock promises. It is
/// put to the cases of one name that need no look at the store.
#[derive(Debug)]
pub(crate) struct SemaphoreOfOne;

#[derive(Clone, Debug)]
struct Permits(Arc<dyn DistributedLock>);

#[derive(Debug)]
struct Slots(Box<dyn Store>);

#[async_trait]
impl Subject for SemaphoreOfOne {
    fn name(&self) -> &str {
        "memory-semaphore-of-one"
    }

    async fn start(&self) -> std::result::Result<Box<dyn Store>, Cannot> {
        Ok(Box::new(Slots(Memory.start().await?)))
    }

    async fn connect(&self, address: &str) -> Result<Arc<dyn DistributedLock>> {
        Ok(Arc::new(Permits(Memory.connect(address).await?)))
    }

    fn covers(&self, case: &Case) -> std::result::Result<(), Cannot> {
        match case.id {
            "D16" => Err(Cannot::new("its renewals are those of the locks that it is made of")),
            id if id.starts_with(['A', 'B', 'C', 'D', 'E', 'F', 'G']) => Ok(()),
            _ => Err(Cannot::new("a kind of lock is put to the families A to G")),
        }
    }
}

#[async_trait]
impl DistributedLock for Permits {
    fn semantics(&self) -> &Semantics {
        self.0.semantics()
    }

    fn defaults(&self) -> &AcquireOptions {
        self.0.defaults()
    }

    async fn acquire_named(&self, name: &LockName, options: &AcquireOptions) -> Result<LockGuard> {
        // A guard has the name of its slot, and a case may ask for the name of a guard.
        let name = name.semaphore().unwrap_or(name.as_str());
        self.0.semaphore(name, 1)?.acquire_with(options).await
    }

    fn handle(&self) -> Arc<dyn DistributedLock> {
        Arc::new(self.clone())
    }

    fn admin(&self) -> Option<&dyn leasehold::admin::LockAdmin> {
        None
    }

    async fn ping(&self) -> Result<()> {
        self.0.ping().await
    }

    async fn close(&self) -> Result<()> {
        self.0.close().await
    }
}

#[async_trait]
impl Store for Slots {
    fn address(&self) -> String {
        self.0.address()
    }

    async fn delete(&self, name: &LockName) -> std::result::Result<(), Cannot> {
        // A guard has the name of its slot.
        let name = name.semaphore().unwrap_or(name.as_str());
        let slot = LockName::from_store(format!("{name}::slot:0")).map_err(super::cannot)?;
        self.0.delete(&slot).await
    }

    async fn namespaced(&self, prefix: &str) -> std::result::Result<String, Cannot> {
        self.0.namespaced(prefix).await
    }
}
