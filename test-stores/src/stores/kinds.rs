//! The kinds of lock of this workspace, with the blocking API of the facade.

use futures_util::future::BoxFuture;
use leasehold::blocking::{Guard, Locks};
use leasehold::{AcquireOptions, DistributedLock, LockName, Loss, Result};
use leasehold_conformance::{BlockingGuard, BlockingLocks, Kinds};
use std::sync::Arc;
use std::time::Duration;

/// The library's kinds of lock, with the blocking API of the facade.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "it has no state")]
pub struct FacadeKinds;

impl Kinds for FacadeKinds {
    fn blocking(
        &self,
        connecting: BoxFuture<'static, Result<Arc<dyn DistributedLock>>>,
    ) -> Option<Result<Arc<dyn BlockingLocks>>> {
        Some(Locks::new(connecting).map(|locks| Arc::new(ThreadClient(locks)) as Arc<dyn BlockingLocks>))
    }
}

#[derive(Debug)]
struct ThreadClient(Locks);

impl BlockingLocks for ThreadClient {
    fn acquire(&self, name: &LockName, options: &AcquireOptions) -> Result<Box<dyn BlockingGuard>> {
        Ok(Box::new(ThreadGuard(self.0.acquire_with(name, options)?)))
    }

    fn try_acquire(&self, name: &LockName) -> Result<Option<Box<dyn BlockingGuard>>> {
        Ok(self.0.try_acquire(name)?.map(|guard| Box::new(ThreadGuard(guard)) as Box<dyn BlockingGuard>))
    }

    fn close(&self) -> Result<()> {
        self.0.close()
    }
}

#[derive(Debug)]
struct ThreadGuard(Guard);

impl BlockingGuard for ThreadGuard {
    fn is_held(&self) -> bool {
        self.0.is_held()
    }

    fn loss(&self) -> Option<Loss> {
        self.0.loss()
    }

    fn extend(&self, ttl: Duration) -> Result<()> {
        self.0.extend(ttl)
    }

    fn release(self: Box<Self>) -> Result<()> {
        self.0.release()
    }
}
