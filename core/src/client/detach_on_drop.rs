use crate::context::Context;
use futures_util::future::BoxFuture;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};
use tokio::runtime::Handle;

/// A request that goes on in the background if its caller drops it: its effect on the store must be known to the end.
/// Closing the client waits for it in either case.
///
/// Not a task from the start: while the caller stays, no other thread is woken and nothing is scheduled.
pub(super) struct DetachOnDrop<T: Send + 'static> {
    /// The runtime of the caller that polls it, to which the timers and sockets of the request belong; before the first poll,
    /// the runtime that acquired.
    runtime: Handle,
    request: Option<BoxFuture<'static, T>>,
}

impl<T: Send + 'static> DetachOnDrop<T> {
    pub(super) fn new(
        context: &Context,
        runtime: Handle,
        request: impl Future<Output = T> + Send + 'static,
    ) -> Self {
        Self { runtime, request: Some(Box::pin(context.background.track_future(request))) }
    }
}

impl<T: Send + 'static> Future for DetachOnDrop<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<T> {
        if let Ok(caller) = Handle::try_current() {
            self.runtime = caller;
        }
        poll_request(&mut self.request, cx)
    }
}

impl<T: Send + 'static> Drop for DetachOnDrop<T> {
    fn drop(&mut self) {
        if let Some(request) = self.request.take() {
            self.runtime.spawn(request);
        }
    }
}

/// Polls a request that is taken out meanwhile: one that panics is not polled again.
pub(super) fn poll_request<T>(
    request: &mut Option<BoxFuture<'static, T>>,
    cx: &mut TaskContext<'_>,
) -> Poll<T> {
    let Some(mut polled) = request.take() else { return Poll::Pending };
    let answer = polled.as_mut().poll(cx);
    if answer.is_pending() {
        *request = Some(polled);
    }
    answer
}
