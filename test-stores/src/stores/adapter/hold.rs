//! A hold over a guard that is not a [`LockGuard`].

use crate::locked;
use leasehold::backend::{Hold, HoldStatus};
use leasehold::{
    Error, ErrorKind, FencingToken, Health, Lease, LockGuard, LockName, LockSetGuard, Loss, Result, blocking,
};
use std::fmt::Debug;
use std::future::pending;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::oneshot;

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A guard that is not a [`LockGuard`], with a lease and operations of its own.
pub(super) trait OtherGuard: Debug + Send + Sync + 'static {
    fn lease(&self) -> Lease;
    fn extend(self: Arc<Self>, ttl: Duration) -> BoxFuture<Result<()>>;
    fn release(self) -> BoxFuture<Result<()>>;
}

impl OtherGuard for LockSetGuard {
    fn lease(&self) -> Lease {
        (**self).lease()
    }

    fn extend(self: Arc<Self>, ttl: Duration) -> BoxFuture<Result<()>> {
        Box::pin(async move { (**self).extend(ttl).await })
    }

    fn release(self) -> BoxFuture<Result<()>> {
        Box::pin(self.release())
    }
}

impl OtherGuard for blocking::Guard {
    fn lease(&self) -> Lease {
        (**self).clone()
    }

    fn extend(self: Arc<Self>, ttl: Duration) -> BoxFuture<Result<()>> {
        Box::pin(on_a_thread(move || (*self).extend(ttl)))
    }

    fn release(self) -> BoxFuture<Result<()>> {
        Box::pin(on_a_thread(move || self.release()))
    }
}

/// The same hold, under a [`LockGuard`].
pub(super) fn guard_over(guard: impl OtherGuard) -> Result<LockGuard> {
    let lease = guard.lease();
    Ok(LockGuard::new(Arc::new(HoldOver {
        token: lease.token()?,
        lease,
        guard: Mutex::new(Some(Arc::new(guard))),
    })))
}

/// Runs work where it may block: on a thread outside of every runtime. When the future is dropped, the work goes on, and its
/// result is dropped.
pub(super) async fn on_a_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let (sender, receiver) = oneshot::channel();
    let thread = std::thread::spawn(move || drop(sender.send(work())));
    let result = receiver.await;
    // Joined, not detached: glibc may read the memory of a thread that ended while it was being detached.
    let _ = thread.join();
    result.map_err(|_| Error::new(ErrorKind::Indeterminate, "the thread of a blocking call panicked"))?
}

#[derive(Debug)]
struct HoldOver<G> {
    lease: Lease,
    token: FencingToken,
    /// `None` once it is released.
    guard: Mutex<Option<Arc<G>>>,
}

impl<G> HoldOver<G> {
    fn guard(&self) -> Option<Arc<G>> {
        locked(&self.guard).clone()
    }

    fn take(&self) -> Option<Arc<G>> {
        locked(&self.guard).take()
    }
}

impl<G: OtherGuard> Hold for HoldOver<G> {
    fn name(&self) -> &LockName {
        self.lease.name()
    }

    fn token(&self) -> FencingToken {
        self.token
    }

    fn status(&self) -> HoldStatus {
        match (self.lease.health(), self.lease.loss()) {
            (_, Some(loss)) => HoldStatus::Lost(loss),
            (Health::Ended, None) => HoldStatus::Released,
            (health, None) => {
                HoldStatus::Held { remaining: self.lease.remaining(), at_risk: health == Health::AtRisk }
            }
        }
    }

    fn ended(self: Arc<Self>) -> BoxFuture<Option<Loss>> {
        Box::pin(async move {
            // `protect` ends work without an end when the lease ends.
            let _ = self.lease.protect(pending::<()>()).await;
            self.lease.loss()
        })
    }

    fn extend(self: Arc<Self>, ttl: Duration) -> BoxFuture<Result<()>> {
        self.guard().map_or_else(released, |guard| guard.extend(ttl))
    }

    fn release(self: Arc<Self>) -> BoxFuture<Result<()>> {
        self.take().and_then(Arc::into_inner).map_or_else(released, OtherGuard::release)
    }

    fn abandon(self: Arc<Self>) {
        drop(self.take());
    }
}

fn released() -> BoxFuture<Result<()>> {
    Box::pin(async { Err(Error::new(ErrorKind::Lost, "the lock was released")) })
}
