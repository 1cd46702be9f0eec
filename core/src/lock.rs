//! The contract for people who use locks.

use crate::admin::admin_of;
use crate::{AcquireOptions, LockAdmin, LockGuard, LockName, Result, Semantics};
use async_trait::async_trait;
use std::fmt::Debug;
use std::sync::Arc;

/// A lock service: hand it a name, get a [`LockGuard`]. Object-safe: hold it as `Arc<dyn DistributedLock>`.
///
/// The methods that programs call, such as `acquire`, `try_acquire` and `with_lock`, are in [`DistributedLockExt`](crate::DistributedLockExt). To serve locks from a store
/// of your own, implement [`LockBackend`](crate::LockBackend) and wrap it in a [`LockClient`](crate::LockClient).
///
/// What no lock gives, this one included: exclusion of *effects*. A process that is paused while it holds a lock wakes
/// up later and writes. Pass the [fencing token](crate::FencingToken) to what you protect, and check it there.
///
/// Locks are not re-entrant: acquiring a name again while holding it waits for its release, except within one [`Scope`](crate::Scope).
#[async_trait]
pub trait DistributedLock: Debug + Send + Sync + 'static {
    /// What is promised, as data.
    fn semantics(&self) -> &Semantics;

    /// The options of [`acquire`](crate::DistributedLockExt::acquire), as configured.
    fn defaults(&self) -> &AcquireOptions;

    /// Acquires the lock of this name. [`acquire_with`](crate::DistributedLockExt::acquire_with) takes any form of a name.
    ///
    /// # Errors
    ///
    /// Every kind; [`Lost`](crate::ErrorKind::Lost) only from a [`Scope`](crate::Scope), whose own hold was lost. [`Busy`](crate::ErrorKind::Busy) and [`TimedOut`](crate::ErrorKind::TimedOut) say
    /// that another owner holds it; [`Indeterminate`](crate::ErrorKind::Indeterminate) that the store may have granted it
    /// without our learning of it, in which case the grant is being withdrawn and ends with its lease at the latest;
    /// [`Invalid`](crate::ErrorKind::Invalid) is said before any I/O.
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
    /// [`Unsupported`](crate::ErrorKind::Unsupported) without an [`admin`](Self::admin); else as [`LockAdmin`]: [`Unavailable`](crate::ErrorKind::Unavailable), [`Denied`](crate::ErrorKind::Denied),
    /// [`Misconfigured`](crate::ErrorKind::Misconfigured), within the time-outs of the backend.
    ///
    /// # Cancel safety
    ///
    /// Safe to drop at any time.
    async fn ping(&self) -> Result<()> {
        admin_of(self)?.inspect(&LockName::new("ping")?).await.map(drop)
    }

    /// Closes the client. It waits until requests that are under way have ended, for 5 s at most: releases above all, also of
    /// dropped guards, and acquisitions whose request was sent. Then it closes the connections, for 5 s at most.
    ///
    /// Guards that are still held are lost, with [`Closed`](crate::LossCause::Closed): release or drop them before, or their
    /// locks stay taken until their leases end. Acquisitions that wait fail with [`Closed`](crate::ErrorKind::Closed) when they would
    /// ask again; drop them before. The end of a release or an acquisition that is not polled meanwhile is waited for in vain.
    ///
    /// # Errors
    ///
    /// [`Indeterminate`](crate::ErrorKind::Indeterminate) if requests were still under way when the time was over, releases above
    /// all, whose locks are free when their leases end; or if the store did not close in time.
    ///
    /// # Cancel safety
    ///
    /// Safe to drop, and to call again.
    async fn close(&self) -> Result<()>;
}
