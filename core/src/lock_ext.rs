//! The methods that programs call.

use crate::admin::admin_of;
use crate::kinds::{acquire_all, checked_names};
use crate::{
    AcquireOptions, DistributedLock, Election, ErrorKind, IntoLockName, Lease, LockGuard, LockMode,
    LockSetGuard, Result, Scope, Semaphore, Wait,
};
use std::future::Future;
use std::time::Duration;

/// What programs call on every [`DistributedLock`]. You do not implement this trait.
///
/// A short form acquires with the [defaults](DistributedLock::defaults), and a form with `try` makes one attempt, or waits for a given time, and
/// answers `None` if another owner holds the lock.
///
/// # Errors
///
/// Every method that acquires has the errors of [`acquire_named`](DistributedLock::acquire_named); the forms with `try` are never
/// [`Busy`](ErrorKind::Busy) or [`TimedOut`](ErrorKind::TimedOut). More is said at the method.
///
/// # Cancel safety
///
/// Every method is as safe to drop as [`acquire_named`](DistributedLock::acquire_named), unless it says more. The locks that were
/// acquired so far are released in the background.
pub trait DistributedLockExt: DistributedLock {
    /// Acquires, and waits until the lock is free.
    fn acquire(&self, name: impl IntoLockName) -> impl Future<Output = Result<LockGuard>> + Send {
        async move { self.acquire_named(&name.into_lock_name()?, self.defaults()).await }
    }

    /// Acquires with these options instead of the [defaults](DistributedLock::defaults).
    fn acquire_with(
        &self,
        name: impl IntoLockName,
        options: &AcquireOptions,
    ) -> impl Future<Output = Result<LockGuard>> + Send {
        async move { self.acquire_named(&name.into_lock_name()?, options).await }
    }

    /// Acquires for reading: together with other readers, and while no
    /// [writer](Self::write) and no exclusive owner holds the lock. For other options:
    /// [`AcquireOptions::with_mode`] and [`acquire_with`](Self::acquire_with).
    /// [`Unsupported`](ErrorKind::Unsupported) on a store without [shared](crate::Sharing) locks.
    fn read(&self, name: impl IntoLockName) -> impl Future<Output = Result<LockGuard>> + Send {
        acquire_in_mode(self, name, LockMode::Shared, None)
    }

    /// Makes one attempt to acquire for reading: `None` if a writer or an exclusive owner holds the lock, or waits for it.
    fn try_read(&self, name: impl IntoLockName) -> impl Future<Output = Result<Option<LockGuard>>> + Send {
        async move { none_if_busy(acquire_in_mode(self, name, LockMode::Shared, Some(Wait::No)).await) }
    }

    /// Acquires for reading, but waits for at most this time, as [`acquire_timeout`](Self::acquire_timeout) does.
    fn read_timeout(
        &self,
        name: impl IntoLockName,
        wait: Duration,
    ) -> impl Future<Output = Result<LockGuard>> + Send {
        acquire_in_mode(self, name, LockMode::Shared, Some(wait.into()))
    }

    /// Acquires for writing: alone, as [`acquire`](Self::acquire) does. The
    /// two exclude each other.
    fn write(&self, name: impl IntoLockName) -> impl Future<Output = Result<LockGuard>> + Send {
        acquire_in_mode(self, name, LockMode::Write, None)
    }

    /// Makes one attempt to acquire for writing: `None` if another owner or a reader holds the lock.
    fn try_write(&self, name: impl IntoLockName) -> impl Future<Output = Result<Option<LockGuard>>> + Send {
        async move { none_if_busy(acquire_in_mode(self, name, LockMode::Write, Some(Wait::No)).await) }
    }

    /// Acquires for writing, but waits for at most this time, as [`acquire_timeout`](Self::acquire_timeout) does.
    fn write_timeout(
        &self,
        name: impl IntoLockName,
        wait: Duration,
    ) -> impl Future<Output = Result<LockGuard>> + Send {
        acquire_in_mode(self, name, LockMode::Write, Some(wait.into()))
    }

    /// Acquires the locks of all these names, or none.
    ///
    /// The names may come in any order, and twice: the locks are acquired in the order of their names, each once. While one is
    /// waited for, only those in front of it are held, so that sets cannot deadlock. One wait covers all names.
    ///
    /// ```
    /// # use leasehold_core::{DistributedLockExt, LockClient};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> leasehold_core::Result<()> {
    /// # let locks = LockClient::in_memory();
    /// let accounts = locks.acquire_all(["account/7", "account/3"]).await?;
    /// let (from, to) = (accounts.token("account/7")?, accounts.token("account/3")?);
    /// accounts.protect(transfer(from, to)).await?; // stops if one of the two locks is lost
    /// accounts.release().await
    /// # }
    /// # async fn transfer(from: leasehold_core::FencingToken, to: leasehold_core::FencingToken) {}
    /// ```
    ///
    /// Not promised: that no deadlock arises with locks that are acquired one by one beside the set, or with a second set that
    /// is acquired while the first is held; a place in a queue for the names behind the one that is waited for; that all locks
    /// become free at one moment. In `mode=for-update` each name needs a connection of its own.
    ///
    /// # Errors
    ///
    /// As [`acquire_named`](DistributedLock::acquire_named), naming the lock; the others are given back in the background.
    /// [`Invalid`](ErrorKind::Invalid), before any I/O, for no name, for more than
    /// [`MAX_NAMES`](LockSetGuard::MAX_NAMES), and for [`hold_at_least`](AcquireOptions::with_hold_at_least).
    fn acquire_all<N: IntoLockName>(
        &self,
        names: impl IntoIterator<Item = N>,
    ) -> impl Future<Output = Result<LockSetGuard>> + Send {
        let names = checked_names(names);
        async move { acquire_all(self, names?, self.defaults()).await }
    }

    /// As [`acquire_all`](Self::acquire_all), with these options for every lock. Every lock is held in the same
    /// [mode](AcquireOptions::with_mode).
    fn acquire_all_with<N: IntoLockName>(
        &self,
        names: impl IntoIterator<Item = N>,
        options: &AcquireOptions,
    ) -> impl Future<Output = Result<LockSetGuard>> + Send {
        let names = checked_names(names);
        async move { acquire_all(self, names?, options).await }
    }

    /// Acquires the locks of all these names, but waits for at most this time, as [`acquire_timeout`](Self::acquire_timeout) does.
    fn acquire_all_timeout<N: IntoLockName>(
        &self,
        names: impl IntoIterator<Item = N>,
        wait: Duration,
    ) -> impl Future<Output = Result<LockSetGuard>> + Send {
        let names = checked_names(names);
        async move { acquire_all(self, names?, &self.defaults().clone().with_wait(wait)).await }
    }

    /// Makes one attempt for each name: `None` if another owner holds one of the locks. What was granted beside it is then being
    /// released.
    fn try_acquire_all<N: IntoLockName>(
        &self,
        names: impl IntoIterator<Item = N>,
    ) -> impl Future<Output = Result<Option<LockSetGuard>>> + Send {
        let acquired = self.acquire_all_timeout(names, Duration::ZERO);
        async move { none_if_busy(acquired.await) }
    }

    /// A new identity for re-entrant locks: within one [`Scope`], a lock that is held can be acquired again.
    fn scope(&self) -> Scope {
        Scope::new(self.handle())
    }

    /// Acquires, but waits for at most this time. Zero is one attempt.
    /// [`TimedOut`](ErrorKind::TimedOut) if another owner held the lock for all of the time,
    /// [`Busy`](ErrorKind::Busy) for a time of zero.
    fn acquire_timeout(
        &self,
        name: impl IntoLockName,
        wait: Duration,
    ) -> impl Future<Output = Result<LockGuard>> + Send {
        acquire_in_mode(self, name, self.defaults().mode, Some(wait.into()))
    }

    /// Makes one attempt: `None` if another owner holds the lock.
    ///
    /// Keep the result in a variable: in `locks.try_acquire("x").await?;` the guard is dropped at once, so nothing is held,
    /// and the compiler does not warn, because the guard is inside an `Option`.
    fn try_acquire(&self, name: impl IntoLockName) -> impl Future<Output = Result<Option<LockGuard>>> + Send {
        async move { none_if_busy(self.acquire_timeout(name, Duration::ZERO).await) }
    }

    /// Waits for at most this time: `None` if another owner held the lock for all of it.
    fn try_acquire_for(
        &self,
        name: impl IntoLockName,
        wait: Duration,
    ) -> impl Future<Output = Result<Option<LockGuard>>> + Send {
        async move { none_if_busy(self.acquire_timeout(name, wait).await) }
    }

    /// True if the lock is held, by any owner. It is late by nature: to do something if the lock is free, use
    /// [`try_acquire`](Self::try_acquire). Errors and cancel safety are those of [`Election::leader`].
    fn is_locked(&self, name: impl IntoLockName) -> impl Future<Output = Result<bool>> + Send {
        async move { Ok(!admin_of(self)?.inspect(&name.into_lock_name()?).await?.is_empty()) }
    }

    /// Acquires, runs `work` for as long as the lock is held, and
    /// releases.
    ///
    /// # Errors
    ///
    /// As [`acquire_named`](DistributedLock::acquire_named); and [`Lost`](ErrorKind::Lost) if the lock was lost: `work`
    /// was then dropped at its next await, or its result is not covered by the lock. A release that could not be
    /// confirmed is no error here: the work was done under the lock, and the lease bounds the rest.
    ///
    /// # Cancel safety
    ///
    /// Safe to drop as far as `work` is: the lock is released in the background.
    fn with_lock<F, W>(
        &self,
        name: impl IntoLockName,
        work: F,
    ) -> impl Future<Output = Result<W::Output>> + Send
    where
        F: FnOnce(Lease) -> W + Send,
        W: Future<Output: Send> + Send,
    {
        async move { run_under(self.acquire(name).await?, work).await }
    }

    /// Makes one attempt, and runs `work` as [`with_lock`](Self::with_lock) does: `None` if another owner holds the lock,
    /// and `work` was not begun.
    fn try_with_lock<F, W>(
        &self,
        name: impl IntoLockName,
        work: F,
    ) -> impl Future<Output = Result<Option<W::Output>>> + Send
    where
        F: FnOnce(Lease) -> W + Send,
        W: Future<Output: Send> + Send,
    {
        async move {
            match self.try_acquire(name).await? {
                Some(guard) => run_under(guard, work).await.map(Some),
                None => Ok(None),
            }
        }
    }

    /// The semaphore of this name, for a caller that allows so many permits. It shares nothing with the lock of that name. Keep it,
    /// and clone it: the clones know who waits through them, and a new one may take a free slot before those.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for no permits, for more than [`Semaphore::MAX_PERMITS`], and for a name that leaves no
    /// room for `::slot:` and a number, or for `::gate`. Nothing is sent.
    fn semaphore(&self, name: impl IntoLockName, permits: u32) -> Result<Semaphore> {
        Semaphore::new(self.handle(), name.into_lock_name()?, permits)
    }

    /// A candidate for the leadership of this name, which is the exclusive lock of the name.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for a bad name. Nothing is sent.
    fn elect(&self, name: impl IntoLockName) -> Result<Election> {
        Ok(Election::new(self.handle(), name.into_lock_name()?))
    }
}

impl<L: DistributedLock + ?Sized> DistributedLockExt for L {}

/// `None` where another owner holds the lock.
pub(crate) fn none_if_busy<G>(outcome: Result<G>) -> Result<Option<G>> {
    match outcome {
        Err(error) if error.is_contended() => Ok(None),
        outcome => outcome.map(Some),
    }
}

async fn acquire_in_mode<L: DistributedLock + ?Sized>(
    locks: &L,
    name: impl IntoLockName,
    mode: LockMode,
    wait: Option<Wait>,
) -> Result<LockGuard> {
    let wait = wait.unwrap_or(locks.defaults().wait);
    let options = locks.defaults().clone().with_mode(mode).with_wait(wait);
    locks.acquire_named(&name.into_lock_name()?, &options).await
}

async fn run_under<F, W>(guard: LockGuard, work: F) -> Result<W::Output>
where
    F: FnOnce(Lease) -> W + Send,
    W: Future<Output: Send> + Send,
{
    let output = guard.protect(work(guard.lease())).await?;
    match guard.release().await {
        Err(error) if error.kind() == ErrorKind::Lost => Err(error),
        _ => Ok(output),
    }
}
