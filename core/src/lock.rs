//! The contract for people who use locks.

use crate::{
    AcquireOptions, Error, ErrorKind, Lease, LockAdmin, LockGuard, LockName, Result, Semantics, Wait,
};
use async_trait::async_trait;
use std::fmt::Debug;
use std::future::Future;

/// A lock service: hand it a name, get a [`LockGuard`]. Object-safe: hold it as `Arc<dyn DistributedLock>`.
///
/// The short forms `acquire`, `try_acquire` and `with_lock` are in [`DistributedLockExt`]. To serve locks from a store
/// of your own, implement [`LockBackend`](crate::LockBackend) and wrap it in a [`LockClient`](crate::LockClient).
///
/// What no lock gives, this one included: exclusion of *effects*. A process that is paused while it holds a lock wakes
/// up later and writes. Pass the [fencing token](crate::FencingToken) to what you protect, and check it there.
///
/// Locks are not re-entrant: acquiring a name again while holding it waits like anybody else's attempt.
#[async_trait]
pub trait DistributedLock: Debug + Send + Sync + 'static {
    /// What is promised, as data.
    fn semantics(&self) -> &Semantics;

    /// The options of [`acquire`](DistributedLockExt::acquire), as configured.
    fn defaults(&self) -> &AcquireOptions;

    /// Acquires the lock of this name.
    ///
    /// # Errors
    ///
    /// Every kind but [`Lost`](ErrorKind::Lost): [`Busy`](ErrorKind::Busy) and [`TimedOut`](ErrorKind::TimedOut) say
    /// that somebody else holds it; [`Indeterminate`](ErrorKind::Indeterminate) that the store may have granted it
    /// without our learning of it, in which case the grant is being withdrawn and ends with its lease at the latest;
    /// [`Invalid`](ErrorKind::Invalid) is said before any I/O.
    ///
    /// # Cancel safety
    ///
    /// Safe to drop at any time. What was asked of the store is withdrawn in the background, as soon as the request that is
    /// under way has ended; if the store cannot be reached then, or the process ends first, the lease bounds what is left
    /// behind. Once it is ready, the guard is yours.
    async fn acquire_with(&self, name: &LockName, options: &AcquireOptions) -> Result<LockGuard>;

    /// For people: inspect, list, force-release, initialise, purge, check. `None` if the store cannot.
    fn admin(&self) -> Option<&dyn LockAdmin>;

    /// Waits, for 5 s at most, until what is under way is done (releases above all, of dropped guards too, and acquisitions
    /// that the store has been asked for), and gives connections back, for which it waits for 5 s at most. Guards that are
    /// still held are lost, with [`Closed`](crate::LossCause::Closed): release or drop them before, or their locks stay taken
    /// until their leases end. A release or an acquisition that nobody polls meanwhile comes to no end: drop it before, or it
    /// is waited for in vain.
    ///
    /// # Errors
    ///
    /// [`Indeterminate`](ErrorKind::Indeterminate) if requests were still under way when the time was over, releases above
    /// all, whose locks are free when their leases end; or if the store did not close in time.
    ///
    /// # Cancel safety
    ///
    /// Safe to drop, and to call again.
    async fn close(&self) -> Result<()>;
}

/// Short forms for every [`DistributedLock`]. You do not implement this trait.
pub trait DistributedLockExt: DistributedLock {
    /// Acquires with the [defaults](DistributedLock::defaults).
    ///
    /// # Errors
    ///
    /// As [`acquire_with`](DistributedLock::acquire_with).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire_with`](DistributedLock::acquire_with).
    fn acquire<N>(&self, name: N) -> impl Future<Output = Result<LockGuard>> + Send
    where
        N: TryInto<LockName, Error: Into<Error>> + Send,
    {
        async move {
            let name = name.try_into().map_err(Into::into)?;
            self.acquire_with(&name, self.defaults()).await
        }
    }

    /// Makes one attempt: `None` if somebody else holds the lock.
    ///
    /// Keep the result in a variable: in `locks.try_acquire("x").await?;` the guard is dropped at once, so nothing is held,
    /// and the compiler does not warn, because the guard is inside an `Option`.
    ///
    /// # Errors
    ///
    /// As [`acquire_with`](DistributedLock::acquire_with), without [`Busy`](ErrorKind::Busy).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire_with`](DistributedLock::acquire_with).
    fn try_acquire<N>(&self, name: N) -> impl Future<Output = Result<Option<LockGuard>>> + Send
    where
        N: TryInto<LockName, Error: Into<Error>> + Send,
    {
        async move {
            let name = name.try_into().map_err(Into::into)?;
            let options = self.defaults().clone().with_wait(Wait::No);
            match self.acquire_with(&name, &options).await {
                Ok(guard) => Ok(Some(guard)),
                Err(error) if error.kind() == ErrorKind::Busy => Ok(None),
                Err(error) => Err(error),
            }
        }
    }

    /// Acquires with the [defaults](DistributedLock::defaults), runs `work` for as long as the lock is held, and
    /// releases.
    ///
    /// # Errors
    ///
    /// As [`acquire_with`](DistributedLock::acquire_with); and [`Lost`](ErrorKind::Lost) if the lock was lost: `work`
    /// was then dropped at its next await, or its result is no longer covered by the lock. A release that could not be
    /// confirmed is no error here: the work was done under the lock, and the lease bounds the rest.
    ///
    /// # Cancel safety
    ///
    /// Safe to drop as far as `work` is: the lock is released in the background.
    fn with_lock<N, F, W>(&self, name: N, work: F) -> impl Future<Output = Result<W::Output>> + Send
    where
        N: TryInto<LockName, Error: Into<Error>> + Send,
        F: FnOnce(Lease) -> W + Send,
        W: Future<Output: Send> + Send,
    {
        async move {
            let guard = self.acquire(name).await?;
            let output = guard.protect(work(guard.lease())).await?;
            match guard.release().await {
                Err(error) if error.kind() == ErrorKind::Lost => Err(error),
                _ => Ok(output),
            }
        }
    }
}

impl<L: DistributedLock + ?Sized> DistributedLockExt for L {}
