use super::Core;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::runtime::Handle;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// A future that is carried on in the background when it is dropped before it is ready: what was asked of a store must
/// be heard to its end, but a caller may leave. Who closes the client meanwhile waits for it, wherever it runs: the store
/// hears of it before its connections end.
///
/// Not a spawned task from the start: while the caller stays, no other thread is woken and nothing is scheduled.
pub(super) struct Carried<T: Send + 'static> {
    core: Arc<Core>,
    runtime: Handle,
    work: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
    /// Until it is ready.
    under_way: Option<TaskTrackerToken>,
}

impl<T: Send + 'static> Carried<T> {
    pub(super) fn new(
        core: Arc<Core>,
        runtime: Handle,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Self {
        let under_way = Some(core.background.token());
        Self { core, runtime, work: Some(Box::pin(work)), under_way }
    }
}

impl<T: Send + 'static> Future for Carried<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        // Taken out while it is polled: what panics is not carried on.
        let Some(mut work) = self.work.take() else {
            return Poll::Pending;
        };
        let answer = work.as_mut().poll(cx);
        if answer.is_pending() {
            self.work = Some(work);
        } else {
            self.under_way = None;
        }
        answer
    }
}

impl<T: Send + 'static> Drop for Carried<T> {
    fn drop(&mut self) {
        if let Some(work) = self.work.take() {
            self.runtime.spawn(self.core.background.track_future(work));
        }
    }
}
