use crate::context::Context;
use futures_util::future::BoxFuture;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use tokio::runtime::Handle;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// A request that goes on in the background if its caller drops it: its effect on the store must be known to the end.
/// Closing the client waits for it in either case.
///
/// Not a task from the start: while the caller stays, no other thread is woken and nothing is scheduled.
pub(super) struct DetachOnDrop<T: Send + 'static> {
    context: Arc<Context>,
    /// The runtime of the caller that polls it, to which the timers and sockets of the request belong; before the first poll,
    /// the runtime that acquired.
    runtime: Handle,
    request: Option<BoxFuture<'static, T>>,
    /// Held until the request has ended.
    under_way: Option<TaskTrackerToken>,
}

impl<T: Send + 'static> DetachOnDrop<T> {
    pub(super) fn new(
        context: Arc<Context>,
        runtime: Handle,
        request: impl Future<Output = T> + Send + 'static,
    ) -> Self {
        let under_way = Some(context.background.token());
        Self { context, runtime, request: Some(Box::pin(request)), under_way }
    }
}

impl<T: Send + 'static> Future for DetachOnDrop<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<T> {
        // Taken out while it is polled: a request that panics does not go on.
        let Some(mut request) = self.request.take() else {
            return Poll::Pending;
        };
        if let Ok(caller) = Handle::try_current() {
            self.runtime = caller;
        }
        let answer = request.as_mut().poll(cx);
        match answer.is_pending() {
            true => self.request = Some(request),
            false => self.under_way = None,
        }
        answer
    }
}

impl<T: Send + 'static> Drop for DetachOnDrop<T> {
    fn drop(&mut self) {
        if let Some(request) = self.request.take() {
            self.runtime.spawn(self.context.background.track_future(request));
        }
    }
}
