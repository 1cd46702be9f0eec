use super::cleanup::Cleanup;
use crate::context::Context;
use crate::guard::{Hold, HoldStatus, released};
use crate::keeper::{KeptLease, unanswered};
use crate::options::{check_ttl, whole_millis};
use crate::{Error, ErrorKind, FencingToken, HoldKind, LockName, Loss, LossCause, Release, Renewal, Result};
use futures_util::future::BoxFuture;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;
use tokio::runtime::Handle;

impl KeptLease {
    /// Ends the hold for its holder. Returns the release that is still to be sent, and the loss if it was lost already.
    fn end(&self) -> (Cleanup, Option<Loss>) {
        self.keeper.forget(self);
        let loss = self.mark_released();
        (Cleanup::new(self.context(), self.claim_to_release(), true, self.linger_until), loss)
    }
}

impl Hold for KeptLease {
    fn name(&self) -> &LockName {
        self.claim.name()
    }

    fn token(&self) -> FencingToken {
        self.token
    }

    fn status(&self) -> HoldStatus {
        self.status_now()
    }

    fn ended(self: Arc<Self>) -> BoxFuture<'static, Option<Loss>> {
        Box::pin(async move { self.wait_for_end().await })
    }

    fn extend(self: Arc<Self>, ttl: Duration) -> BoxFuture<'static, Result<()>> {
        Box::pin(DetachOnDrop::new(&Arc::clone(self.context()), self.runtime.clone(), async move {
            match self.status_now() {
                HoldStatus::Held { .. } => {}
                HoldStatus::Lost(loss) => return Err(loss.into()),
                // Nothing but a release may be sent for an owner that was released.
                HoldStatus::Released => return Err(released()),
            }
            if self.context().semantics.hold != HoldKind::Lease {
                let message = "a hold of this store is not a lease, and cannot be extended";
                return Err(Error::new(ErrorKind::Unsupported, message));
            }
            check_ttl(ttl)?;
            let ttl = whole_millis(ttl).max(self.length());
            let sent_at = self.context().clock.now();
            let claim = self.begin_extension(ttl);
            let answer =
                self.context().backend.renew(&[claim]).await.pop().unwrap_or_else(|| Err(unanswered()));
            self.answered(sent_at, ttl, answer.clone());
            match (self.status_now(), answer) {
                (HoldStatus::Lost(loss), _) => Err(loss.into()),
                (_, Ok(Renewal::Renewed)) => Ok(()),
                (_, Ok(Renewal::Held)) => {
                    Err(Error::new(ErrorKind::Unavailable, "the store would not extend the lease now"))
                }
                (_, Ok(Renewal::Lost(cause))) => Err(Loss::new(cause).into()),
                (_, Err(error)) => Err(error),
            }
        }))
    }

    fn release(self: Arc<Self>) -> BoxFuture<'static, Result<()>> {
        let (cleanup, loss) = self.end();
        let runtime = self.runtime.clone();
        if let Some(loss) = loss {
            // Belief is over, but the store may have a renewal that came too late.
            cleanup.run_in_background(&runtime);
            return Box::pin(std::future::ready(Err(loss.into())));
        }
        Box::pin(DetachOnDrop::new(self.context(), runtime.clone(), async move {
            match cleanup.run_for_caller(&runtime).await? {
                Release::Released => Ok(()),
                Release::NotHeld => Err(Loss::new(LossCause::Gone).into()),
            }
        }))
    }

    fn abandon(self: Arc<Self>) {
        let (cleanup, _) = self.end();
        cleanup.run_in_background(&self.runtime);
    }
}

/// A request that goes on in the background if its caller drops it: its effect on the store must be known to the end.
/// Closing the client waits for it in either case.
///
/// It is no task from the start: while the caller stays, no other thread is woken and nothing is scheduled.
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
        let answer = poll_request(&mut self.request, cx);
        if answer.is_pending()
            && let Ok(caller) = Handle::try_current()
        {
            self.runtime = caller;
        }
        answer
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

#[cfg(test)]
mod tests {
    use crate::{DistributedLockExt, ErrorKind, LockClient};
    use std::sync::Arc;
    use std::time::Duration;

    /// A renewal that is sent after the release could arrive before it, and keep the lock.
    #[tokio::test]
    async fn released_hold_is_not_extended() {
        let hold = LockClient::in_memory().acquire("job").await.unwrap().into_hold();
        Arc::clone(&hold).release().await.unwrap();
        let error = hold.extend(Duration::from_secs(60)).await.unwrap_err();
        // The store would have said that it is gone.
        assert!(error.kind() == ErrorKind::Lost && error.loss().is_none(), "{error}");
    }
}
