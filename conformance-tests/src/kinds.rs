//! The kinds of lock that the core builds on exclusive locks, as the cases of the suite use them.

use async_trait::async_trait;
use leasehold_core::{
    AcquireOptions, DistributedLock, DistributedLockExt, LockGuard, LockName, Result, Semaphore,
};
use std::fmt::Debug;

/// The operations of the kinds, one method for each; every method has the library's as its default. A subject whose kind is
/// its own, such as a broken one, replaces a method; see [`Subject::kinds`](crate::Subject::kinds).
///
/// A method takes the client and answers a type of the library where that has a public constructor, and else a boxed trait of
/// this module that the library's type implements.
pub trait Kinds: Debug + Send + Sync + 'static {
    /// A semaphore of this client.
    ///
    /// # Errors
    ///
    /// As [`DistributedLockExt::semaphore`].
    fn semaphore(
        &self,
        client: &dyn DistributedLock,
        name: &LockName,
        permits: u32,
    ) -> Result<Box<dyn Permits>> {
        Ok(Box::new(client.semaphore(name, permits)?))
    }
}

/// A semaphore, of the library or not.
#[async_trait]
pub trait Permits: Debug + Send + Sync {
    /// Acquires a permit, which tells its slot.
    ///
    /// # Errors
    ///
    /// As [`Semaphore::acquire_with`].
    ///
    /// # Cancel safety
    ///
    /// As [`Semaphore::acquire_with`].
    async fn acquire(&self, options: &AcquireOptions) -> Result<LockGuard>;
}

#[async_trait]
impl Permits for Semaphore {
    async fn acquire(&self, options: &AcquireOptions) -> Result<LockGuard> {
        self.acquire_with(options).await
    }
}

/// The kinds of the library, unchanged.
#[derive(Debug)]
pub(crate) struct LibraryKinds;

impl Kinds for LibraryKinds {}
