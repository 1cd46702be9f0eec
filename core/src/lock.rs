//! The contract for people who use locks.

use crate::kinds::{acquire_all, checked_names};
use crate::{
    AcquireOptions, Election, Error, ErrorKind, IntoLockName, Lease, LockAdmin, LockGuard, LockMode,
    LockName, LockSetGuard, Result, Scope, Semantics, Semaphore, Wait,
};
use async_trait::async_trait;
use std::fmt::Debug;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// A lock service: hand it a name, get a [`LockGuard`]. Object-safe: hold it as `Arc<dyn DistributedLock>`.
///
/// The methods that programs call, such as `acquire`, `try_acquire` and `with_lock`, are in [`DistributedLockExt`]. To serve locks from a store
/// of your own, implement [`LockBackend`](crate::LockBackend) and wrap it in a [`LockClient`](crate::LockClient).
///
/// What no lock gives, this one included: exclusion of *effects*. A process that is paused while it holds a lock wakes
/// up later and writes. Pass the [fencing token](crate::FencingToken) to what you protect, and check it there.
///
/// Locks are not re-entrant: acquiring a name again while holding it waits for its release, except within one [`Scope`].
#[async_trait]
pub trait DistributedLock: Debug + Send + Sync + 'static {
    /// What is promised, as data.
    fn semantics(&self) -> &Semantics;

    /// The options of [`acquire`](DistributedLockExt::acquire), as configured.
    fn defaults(&self) -> &AcquireOptions;

    /// Acquires the lock of this name. [`acquire_with`](DistributedLockExt::acquire_with) takes any form of a name.
    ///
    /// # Errors
    ///
    /// Every kind but [`Lost`](ErrorKind::Lost): [`Busy`](ErrorKind::Busy) and [`TimedOut`](ErrorKind::TimedOut) say
    /// that another owner holds it; [`Indeterminate`](ErrorKind::Indeterminate) that the store may have granted it
    /// without our learning of it, in which case the grant is being withdrawn and ends with its lease at the latest;
    /// [`Invalid`](ErrorKind::Invalid) is said before any I/O.
    ///
    /// # Cancel safety
    ///
    /// Safe to drop at any time. What the request may have left in the store is released in the background, as soon as the
    /// request has ended; if the store cannot be reached then, or the process ends first, it ends with its lease.
    async fn acquire_named(&self, name: &LockName, options: &AcquireOptions) -> Result<LockGuard>;

    /// Another handle to the same client, for the kinds of lock that keep one, such as a [`Scope`](crate::Scope).
    fn handle(&self) -> Arc<dyn DistributedLock>;

    /// For people: inspect, list, force-release, initialise, purge, check. `None` if the store cannot.
    fn admin(&self) -> Option<&dyn LockAdmin>;

    /// Asks the store for one answer, to learn whether it can be reached with these credentials: opening a client opens no
    /// connection. It reads the state of one lock, and changes nothing. For a readiness probe and for the start of a
    /// program; that it succeeds does not promise that a later acquisition does.
    ///
    /// # Errors
    ///
    /// [`Unsupported`](ErrorKind::Unsupported) without an [`admin`](Self::admin); else as [`LockAdmin`]: [`Unavailable`](ErrorKind::Unavailable), [`Denied`](ErrorKind::Denied),
    /// [`Misconfigured`](ErrorKind::Misconfigured), within the time-outs of the backend.
    ///
    /// # Cancel safety
    ///
    /// Safe to drop at any time.
    async fn ping(&self) -> Result<()> {
        let Some(admin) = self.admin() else {
            return Err(Error::new(ErrorKind::Unsupported, "this store has nothing to read its locks with"));
        };
        admin.inspect(&LockName::new("ping")?).await.map(drop)
    }

    /// Closes the client. It waits until requests that are under way have ended, for 5 s at most: releases above all, also of
    /// dropped guards, and acquisitions whose request was sent. Then it closes the connections, for 5 s at most.
    ///
    /// Guards that are still held are lost, with [`Closed`](crate::LossCause::Closed): release or drop them before, or their
    /// locks stay taken until their leases end. Acquisitions that wait fail with [`Closed`](ErrorKind::Closed) when they would
    /// ask again; drop them before. The end of a release or an acquisition that is not polled meanwhile is waited for in vain.
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

/// What programs call on every [`DistributedLock`]. You do not implement this trait.
pub trait DistributedLockExt: DistributedLock {
    /// Acquires with the [defaults](DistributedLock::defaults).
    ///
    /// # Errors
    ///
    /// As [`acquire_named`](DistributedLock::acquire_named).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire_named`](DistributedLock::acquire_named).
    fn acquire(&self, name: impl IntoLockName) -> impl Future<Output = Result<LockGuard>> + Send {
        async move { self.acquire_named(&name.into_lock_name()?, self.defaults()).await }
    }

    /// Acquires with these options instead of the [defaults](DistributedLock::defaults).
    ///
    /// # Errors
    ///
    /// As [`acquire_named`](DistributedLock::acquire_named).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire_named`](DistributedLock::acquire_named).
    fn acquire_with(
        &self,
        name: impl IntoLockName,
        options: &AcquireOptions,
    ) -> impl Future<Output = Result<LockGuard>> + Send {
        async move { self.acquire_named(&name.into_lock_name()?, options).await }
    }

    /// Acquires for reading, with the [defaults](DistributedLock::defaults): together with other readers, and while no
    /// [writer](Self::write) and no exclusive owner holds the lock. For other options:
    /// [`AcquireOptions::with_mode`] and [`acquire_with`](Self::acquire_with).
    ///
    /// # Errors
    ///
    /// As [`acquire_named`](DistributedLock::acquire_named); [`Unsupported`](ErrorKind::Unsupported) on a store without
    /// [shared](crate::Sharing) locks.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire_named`](DistributedLock::acquire_named).
    fn read(&self, name: impl IntoLockName) -> impl Future<Output = Result<LockGuard>> + Send {
        acquire_in_mode(self, name, LockMode::Shared)
    }

    /// Acquires for writing, with the [defaults](DistributedLock::defaults): alone, as [`acquire`](Self::acquire) does. The
    /// two exclude each other.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire_named`](DistributedLock::acquire_named).
    fn write(&self, name: impl IntoLockName) -> impl Future<Output = Result<LockGuard>> + Send {
        acquire_in_mode(self, name, LockMode::Write)
    }

    /// Acquires the locks of all these names, or none, with the [defaults](DistributedLock::defaults).
    ///
    /// The names may come in any order, and twice: the locks are acquired in the order of their names, each once. While one is
    /// waited for, only those in front of it are held, so that two sets never wait for each other. One wait covers all names.
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
    ///
    /// # Cancel safety
    ///
    /// As [`acquire_named`](DistributedLock::acquire_named): what was acquired so far is released in the background.
    fn acquire_all<N: IntoLockName>(
        &self,
        names: impl IntoIterator<Item = N>,
    ) -> impl Future<Output = Result<LockSetGuard>> + Send {
        let names = checked_names(names);
        async move { acquire_all(self, names?, self.defaults()).await }
    }

    /// As [`acquire_all`](Self::acquire_all), with these options for every lock. Every lock is held in the same
    /// [mode](AcquireOptions::with_mode).
    ///
    /// # Errors
    ///
    /// As [`acquire_all`](Self::acquire_all).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire_all`](Self::acquire_all).
    fn acquire_all_with<N: IntoLockName>(
        &self,
        names: impl IntoIterator<Item = N>,
        options: &AcquireOptions,
    ) -> impl Future<Output = Result<LockSetGuard>> + Send {
        let names = checked_names(names);
        async move { acquire_all(self, names?, options).await }
    }

    /// Makes one attempt for each name: `None` if another owner holds one of the locks, and then none is held.
    ///
    /// # Errors
    ///
    /// As [`acquire_all`](Self::acquire_all), without [`Busy`](ErrorKind::Busy).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire_all`](Self::acquire_all).
    fn try_acquire_all<N: IntoLockName>(
        &self,
        names: impl IntoIterator<Item = N>,
    ) -> impl Future<Output = Result<Option<LockSetGuard>>> + Send {
        let names = checked_names(names);
        async move {
            let options = self.defaults().clone().with_wait(Wait::No);
            match acquire_all(self, names?, &options).await {
                Ok(guard) => Ok(Some(guard)),
                Err(error) if error.kind() == ErrorKind::Busy => Ok(None),
                Err(error) => Err(error),
            }
        }
    }

    /// A new identity for re-entrant locks: within one [`Scope`], a lock that is held can be acquired again.
    fn scope(&self) -> Scope {
        Scope::new(self.handle())
    }

    /// Acquires with the [defaults](DistributedLock::defaults), but waits for at most this time. Zero is one attempt.
    ///
    /// # Errors
    ///
    /// As [`acquire_named`](DistributedLock::acquire_named): [`TimedOut`](ErrorKind::TimedOut) if another owner held the
    /// lock for all of the time, [`Busy`](ErrorKind::Busy) for a time of zero.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire_named`](DistributedLock::acquire_named).
    fn acquire_timeout(
        &self,
        name: impl IntoLockName,
        wait: Duration,
    ) -> impl Future<Output = Result<LockGuard>> + Send {
        async move {
            let options = self.defaults().clone().with_wait(wait);
            self.acquire_named(&name.into_lock_name()?, &options).await
        }
    }

    /// Makes one attempt: `None` if another owner holds the lock.
    ///
    /// Keep the result in a variable: in `locks.try_acquire("x").await?;` the guard is dropped at once, so nothing is held,
    /// and the compiler does not warn, because the guard is inside an `Option`.
    ///
    /// # Errors
    ///
    /// As [`acquire_named`](DistributedLock::acquire_named), without [`Busy`](ErrorKind::Busy).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire_named`](DistributedLock::acquire_named).
    fn try_acquire(&self, name: impl IntoLockName) -> impl Future<Output = Result<Option<LockGuard>>> + Send {
        async move {
            let options = self.defaults().clone().with_wait(Wait::No);
            match self.acquire_named(&name.into_lock_name()?, &options).await {
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
    ///
    /// # Errors
    ///
    /// As [`with_lock`](Self::with_lock), without [`Busy`](ErrorKind::Busy).
    ///
    /// # Cancel safety
    ///
    /// As [`with_lock`](Self::with_lock).
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

    /// The semaphore of this name, for a caller that allows so many permits. It shares nothing with the lock of that name.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for no permits, for more than [`Semaphore::MAX_PERMITS`], and for a name that leaves no
    /// room for `::slot:` and a number. Nothing is sent.
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

async fn acquire_in_mode<L: DistributedLock + ?Sized>(
    locks: &L,
    name: impl IntoLockName,
    mode: LockMode,
) -> Result<LockGuard> {
    let options = locks.defaults().clone().with_mode(mode);
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
