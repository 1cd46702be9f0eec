use super::rows::{LockedRow, Rows};
use crate::lock_mutex;
use futures_util::FutureExt as _;
use futures_util::future::{AbortHandle, BoxFuture, Shared, abortable};
use leasehold_core::{Claim, LockMode, LockName};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::yield_now;

/// A wait for a row in the server, which locks it in the moment in which it is free.
///
/// It is no task: it goes on when a caller polls it, and an answer of the server stays in the connection until then. If no caller
/// polls it, the release of the claim closes the connection.
#[derive(Debug)]
pub(super) struct RowWait {
    pub(super) name: LockName,
    pub(super) mode: LockMode,
    /// Shared by the tasks that wait for it: there may be several, of which one is about to end. The row is taken by one of them.
    wait: Shared<BoxFuture<'static, Arc<Mutex<Option<LockedRow>>>>>,
    /// Ends it when the claim is released.
    left: AbortHandle,
    /// Given back with this value.
    _permit: OwnedSemaphorePermit,
}

impl RowWait {
    pub(super) fn begin(rows: Arc<Rows>, claim: Claim, permit: OwnedSemaphorePermit) -> Self {
        let (name, mode) = (claim.name().clone(), claim.mode());
        let (wait, left) = abortable(async move { rows.lock_in_time(&claim).await });
        // The next attempt meets the same error, and returns it.
        let wait = async move { Arc::new(Mutex::new(wait.await.ok().and_then(Result::ok).flatten())) };
        Self { name, mode, wait: wait.boxed().shared(), left, _permit: permit }
    }

    /// Returns when the wait has ended. Safe to drop: the wait itself goes on.
    pub(super) async fn ended(&self) {
        self.wait.clone().await;
    }

    /// Polls it once: an answer of the server may lie in the connection. If the wait has ended, the row, unless it is not locked.
    pub(super) fn progress(&self) -> Poll<Option<LockedRow>> {
        match self.wait.clone().now_or_never() {
            Some(row) => Poll::Ready(lock_mutex(&row).take()),
            None => Poll::Pending,
        }
    }

    /// Ends it, and closes its connection. A row that was locked meanwhile is unlocked.
    pub(super) async fn leave(&self, rows: &Rows) {
        self.left.abort();
        let locked = loop {
            match self.progress() {
                Poll::Ready(locked) => break locked,
                // Another task is polling it at this moment, and may never poll it again.
                Poll::Pending => yield_now().await,
            }
        };
        if let Some(locked) = locked {
            rows.roll_back(locked.connection).await;
        }
    }
}
