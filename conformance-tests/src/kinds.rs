//! The kinds of lock that the core builds on exclusive locks, as the cases of the suite use them.

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use leasehold_core::{
    AcquireOptions, DistributedLock, DistributedLockExt, FencingToken, LockGuard, LockName, LockSetGuard,
    Loss, Result, Semaphore,
};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

/// The operations of the kinds, one method for each; every method has the library's as its default. A subject whose kind is
/// its own, such as a broken one, replaces a method; see [`Subject::kinds`](crate::Subject::kinds).
///
/// A method takes the client and answers a type of the library where that has a public constructor, and else a boxed trait of
/// this module that the library's type implements. Errors and cancel safety, here and in those traits, are those of the library's method of
/// the same name.
#[async_trait]
pub trait Kinds: Debug + Send + Sync + 'static {
    /// The locks of several names, all or none.
    async fn acquire_all(
        &self,
        client: &Arc<dyn DistributedLock>,
        names: &[LockName],
        options: &AcquireOptions,
    ) -> Result<Box<dyn LockSet>> {
        Ok(Box::new(client.acquire_all_with(names, options).await?))
    }

    /// A new identity for re-entrant locks. Its [handles](DistributedLock::handle) are clones of it.
    fn scope(&self, client: &Arc<dyn DistributedLock>) -> Arc<dyn DistributedLock> {
        Arc::new(client.scope())
    }

    /// A semaphore of this client.
    fn semaphore(
        &self,
        client: &dyn DistributedLock,
        name: &LockName,
        permits: u32,
    ) -> Result<Box<dyn Permits>> {
        Ok(Box::new(client.semaphore(name, permits)?))
    }

    /// A client for threads, made by this future: the API for programs without an async runtime, whose calls fail as
    /// [`Misconfigured`](leasehold_core::ErrorKind::Misconfigured) inside a runtime. The default is not to have one, `None`; the cases
    /// of the family Y are then skipped.
    fn blocking(
        &self,
        connecting: BoxFuture<'static, Result<Arc<dyn DistributedLock>>>,
    ) -> Option<Result<Arc<dyn BlockingLocks>>> {
        drop(connecting);
        None
    }
}

/// A client whose calls block their thread.
pub trait BlockingLocks: Debug + Send + Sync {
    /// Acquires a lock.
    fn acquire(&self, name: &LockName, options: &AcquireOptions) -> Result<Box<dyn BlockingGuard>>;

    /// Acquires a lock if it is free.
    fn try_acquire(&self, name: &LockName) -> Result<Option<Box<dyn BlockingGuard>>>;

    /// Waits for the releases, and closes the connections.
    fn close(&self) -> Result<()>;
}

/// A lock that a thread holds. Dropping it releases the lock, and does not wait for that.
pub trait BlockingGuard: Debug + Send {
    /// True while the lock is held.
    fn is_held(&self) -> bool;

    /// How the lock was lost.
    fn loss(&self) -> Option<Loss>;

    /// Extends the lease.
    fn extend(&self, ttl: Duration) -> Result<()>;

    /// Releases the lock.
    fn release(self: Box<Self>) -> Result<()>;
}

/// A semaphore, of the library or not.
#[async_trait]
pub trait Permits: Debug + Send + Sync {
    /// Acquires a permit, which tells its slot.
    async fn acquire(&self, options: &AcquireOptions) -> Result<LockGuard>;
}

#[async_trait]
impl Permits for Semaphore {
    async fn acquire(&self, options: &AcquireOptions) -> Result<LockGuard> {
        self.acquire_with(options).await
    }
}

/// The locks of several names, held as one: [`LockSetGuard`], or what replaces it. Dropping it releases them.
#[async_trait]
pub trait LockSet: Debug + Send + Sync {
    /// The token of one of the names.
    ///
    /// # Errors
    ///
    /// [`Lost`](leasehold_core::ErrorKind::Lost) once one lock is lost.
    fn token(&self, name: &LockName) -> Result<FencingToken>;

    /// True while all locks are held.
    fn is_held(&self) -> bool;

    /// Waits for the first loss. Answers the lock that was lost, if it is known.
    ///
    /// # Cancel safety
    ///
    /// Safe to drop and to call again.
    async fn lost(&self) -> Option<LockName>;

    /// Releases all locks.
    ///
    /// # Cancel safety
    ///
    /// Dropped at any time, the releases go on in the background.
    async fn release(self: Box<Self>) -> Result<()>;
}

#[async_trait]
impl LockSet for LockSetGuard {
    fn token(&self, name: &LockName) -> Result<FencingToken> {
        self.token(name.as_str())
    }

    fn is_held(&self) -> bool {
        (**self).is_held()
    }

    async fn lost(&self) -> Option<LockName> {
        (**self).lost().await.lock().cloned()
    }

    async fn release(self: Box<Self>) -> Result<()> {
        (*self).release().await
    }
}

/// The kinds of the library, unchanged.
#[derive(Debug)]
pub(crate) struct LibraryKinds;

impl Kinds for LibraryKinds {}
