//! The guard and the lease of a holder, and the contract behind them.

mod hold;
mod lease;
#[cfg(test)]
mod tests;

pub use hold::{Hold, HoldStatus};
pub(crate) use lease::released;
pub use lease::{Health, Lease};

use crate::Result;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

/// A lock that is held, for as long as this value lives and the store agrees.
///
/// It dereferences to its [`Lease`], which answers all questions: [`token`](Lease::token), [`is_held`](Lease::is_held),
/// [`lost`](Lease::lost). End it with [`release`](Self::release), which tells whether the work was covered to its end.
///
/// Dropping it releases in the background: on the runtime that acquired it, or on a thread of the client if that runtime has
/// ended. If the store cannot be reached, the lease ends by itself. A panic drops the guard like any other value. A process
/// that ends does not wait for the release: the lock of a guard that is dropped at the end of `main` is free when its lease
/// or session has ended. So await [`release`](Self::release), or [`close`](crate::DistributedLock::close) of the client.
///
/// `mem::forget` leaks the hold: it is renewed until the process ends or `max_hold` is reached.
#[must_use = "the lock is released when its guard is dropped: keep it in a variable while you work"]
#[derive(Debug)]
pub struct LockGuard {
    lease: Lease,
    armed: bool,
}

impl LockGuard {
    /// A guard over this hold. For implementations of [`DistributedLock`](crate::DistributedLock) that do not go
    /// through [`LockClient`](crate::LockClient).
    pub fn new(hold: Arc<dyn Hold>) -> Self {
        Self { lease: Lease::new(hold), armed: true }
    }

    /// A handle to the lease that can be given away: to another task, to a callback. It answers questions and keeps
    /// nothing held.
    pub fn lease(&self) -> Lease {
        self.lease.clone()
    }

    /// Releases the lock and waits for the store's confirmation. After a lost reply the store is asked once more, and "nothing to
    /// release" then counts as success.
    ///
    /// # Errors
    ///
    /// * [`Lost`](crate::ErrorKind::Lost): it was lost before, so the end of the work was not covered by it.
    /// * [`Indeterminate`](crate::ErrorKind::Indeterminate), [`Unavailable`](crate::ErrorKind::Unavailable): the store
    ///   did not confirm. The work *was* covered. The release is tried again in the background; the lock is free when
    ///   its lease ends at the latest.
    ///
    /// # Cancel safety
    ///
    /// Dropped at any time, the release goes on in the background.
    pub async fn release(self) -> Result<()> {
        self.into_hold().release().await
    }

    /// The hold, which is from now on for the caller to end.
    pub(crate) fn into_hold(mut self) -> Arc<dyn Hold> {
        self.armed = false;
        Arc::clone(self.lease.hold())
    }

    /// Makes the store keep the lease for at least `ttl` from now, and each renewal from now on likewise; the holder counts
    /// on less, by 1 % and 2 ms for the drift of clocks. Never shortens it: a `ttl` below the present one leaves that as it
    /// is. The limit of [`max_hold`](crate::AcquireOptions::with_max_hold) stays.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) for a ttl out of range, [`Unsupported`](crate::ErrorKind::Unsupported) where a
    /// hold is not a lease, [`Lost`](crate::ErrorKind::Lost), or what the store said; the lease then is what it was.
    ///
    /// # Cancel safety
    ///
    /// Dropped at any time, the request goes on in the background, and counts if it is confirmed in time.
    pub async fn extend(&self, ttl: Duration) -> Result<()> {
        Arc::clone(self.lease.hold()).extend(ttl).await
    }
}

impl Deref for LockGuard {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.lease
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        if self.armed {
            Arc::clone(self.lease.hold()).abandon();
        }
    }
}
