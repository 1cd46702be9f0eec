//! Watches on nodes.
//!
//! A session has a limited number of them. After a reconnect the client library sets all its watches again, in several
//! requests if their paths are long. These requests share one number, so the library takes the second answer for a breach of the
//! protocol and closes the connection, at one server after the other, until the session and all its locks are lost
//! (zookeeper-client 0.11.2, `WatchManager::resend_watches`). So the paths of all watches must fit into one request.

use futures_util::FutureExt;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use zookeeper_client::OneshotWatcher;

/// The bytes of paths that waiters may watch.
const BLOCKER_BYTES: usize = 72 * 1024;
/// The bytes of paths that holders may watch. An eighth of the request stays free for watches that are dropped while there is no
/// connection: the library removes them only after it has set them again.
const OWN_BYTES: usize = 40 * 1024;

/// A watch that is set. Dropped, it is removed from the server; if it has fired, that costs no request.
#[derive(Debug)]
pub(crate) struct NodeWatch {
    /// The future of the library, which keeps the watch. It was polled once, with the waker of the claim.
    _set: Pin<Box<dyn Any + Send + Sync>>,
    /// Given back after the watch.
    _permit: OwnedSemaphorePermit,
}

/// The watches that a session may still set.
#[derive(Debug)]
pub(super) struct WatchBudget {
    own: Arc<Semaphore>,
    blockers: Arc<Semaphore>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchTarget {
    Own,
    Blocker,
}

impl NodeWatch {
    /// Wakes the waker when the watch fires, or when the session ends. At once, if that has happened already.
    pub(super) fn new(watcher: OneshotWatcher, waker: &Waker, permit: OwnedSemaphorePermit) -> Self {
        let mut fired = Box::pin(watcher.changed().map(drop));
        let poll = || fired.as_mut().poll(&mut Context::from_waker(waker)).is_ready();
        // The library panics if its task has ended with its runtime. This is the only poll, so it never does later.
        if catch_unwind(AssertUnwindSafe(poll)).unwrap_or(true) {
            waker.wake_by_ref();
        }
        Self { _set: fired, _permit: permit }
    }
}

impl WatchBudget {
    pub(super) fn new() -> Self {
        Self { own: Arc::new(Semaphore::new(OWN_BYTES)), blockers: Arc::new(Semaphore::new(BLOCKER_BYTES)) }
    }

    /// A permit for a watch of this path; `None` if there are too many.
    pub(super) fn permit(&self, target: WatchTarget, path: &str) -> Option<OwnedSemaphorePermit> {
        let budget = match target {
            WatchTarget::Own => &self.own,
            WatchTarget::Blocker => &self.blockers,
        };
        Arc::clone(budget).try_acquire_many_owned(u32::try_from(path.len()).ok()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The most that the client library sends in one request.
    const ONE_REQUEST: usize = 128 * 1024;

    #[test]
    fn permits_fit_into_one_request_and_holders_leave_some_to_waiters() {
        let (budget, path) = (WatchBudget::new(), "x".repeat(87));
        let permits = |target| std::iter::from_fn(|| budget.permit(target, &path)).collect::<Vec<_>>();
        let (own, blockers) = (permits(WatchTarget::Own), permits(WatchTarget::Blocker));
        assert!(own.len() > 400 && blockers.len() > 800, "{} and {}", own.len(), blockers.len());
        assert!((own.len() + blockers.len()) * path.len() < ONE_REQUEST * 9 / 10);
        drop(own);
        assert!(budget.permit(WatchTarget::Own, &path).is_some());
        assert!(budget.permit(WatchTarget::Blocker, &path).is_none());
    }
}
