use super::cleanup::Cleanup;
use crate::context::Context;
use crate::keeper::GrantedLease;
use crate::observer::Event;
use crate::{Attempt, Busy, Claim, Grant, Moment, Result};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::Poll;
use tokio::runtime::Handle;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// A claim on its way to a grant. It knows what its attempts may have left in the store, and removes that when it is
/// dropped: all of cancel safety, and of clean time-outs, is in its `Drop`.
pub(super) struct PendingClaim<'a> {
    context: &'a Arc<Context>,
    runtime: Handle,
    claim: Claim,
    /// The request that is under way. Independent of this value, so that it can go on without it.
    request: Option<BoxFuture<'static, Result<Attempt>>>,
    /// True from the send of a request until its answer, also after the request has panicked and is gone.
    is_asking: bool,
    /// Held while the store may have granted the claim: closing the client waits for it, because a backend that is closed
    /// releases nothing.
    under_way: Option<TaskTrackerToken>,
    attempts: u32,
    /// True once the store has said that another owner holds the lock.
    was_busy: bool,
    /// True if an earlier request may have left something: a grant whose reply was lost, an entry in a queue.
    left_something: bool,
    /// When the last attempt was sent.
    sent_at: Moment,
    /// A hand-over is counted from here: the send of the last attempt that was answered `Busy`, or of the first attempt.
    waiting_since: Moment,
}

/// The answer to one attempt.
pub(super) enum AttemptOutcome {
    Granted(GrantedLease),
    Busy(Busy),
}

impl<'a> PendingClaim<'a> {
    pub(super) fn new(context: &'a Arc<Context>, runtime: Handle, claim: Claim) -> Self {
        Self {
            context,
            runtime,
            claim,
            request: None,
            is_asking: false,
            under_way: None,
            attempts: 0,
            was_busy: false,
            left_something: false,
            sent_at: Moment::NEVER,
            waiting_since: Moment::NEVER,
        }
    }

    pub(super) fn claim(&self) -> &Claim {
        &self.claim
    }

    pub(super) fn attempts(&self) -> u32 {
        self.attempts
    }

    pub(super) fn was_busy(&self) -> bool {
        self.was_busy
    }

    /// True if an attempt was sent and has no answer.
    pub(super) fn is_asking(&self) -> bool {
        self.is_asking
    }

    /// Makes one attempt. If this future is dropped, the request stays with this value.
    pub(super) async fn attempt(&mut self) -> Result<AttemptOutcome> {
        self.send();
        let answer = poll_fn(|cx| {
            // Taken out while it is polled: a request that panics is not polled again.
            let Some(mut request) = self.request.take() else { return Poll::Pending };
            let answer = request.as_mut().poll(cx);
            if answer.is_pending() {
                self.request = Some(request);
            }
            answer
        });
        let answer = answer.await;
        self.answered(answer)
    }

    fn send(&mut self) {
        self.attempts += 1;
        self.is_asking = true;
        self.under_way.get_or_insert_with(|| self.context.background.token());
        self.sent_at = self.context.clock.now();
        self.waiting_since = self.waiting_since.min(self.sent_at);
        let (backend, claim) = (Arc::clone(&self.context.backend), self.claim.clone());
        self.request = Some(Box::pin(async move { backend.try_acquire(&claim).await }));
    }

    fn answered(&mut self, answer: Result<Attempt>) -> Result<AttemptOutcome> {
        self.is_asking = false;
        match answer {
            Ok(Attempt::Granted(grant)) => {
                self.left_something = true;
                Ok(AttemptOutcome::Granted(self.granted_lease(&grant)))
            }
            Ok(Attempt::Busy(busy)) => {
                self.under_way = None;
                self.was_busy = true;
                self.left_something |= busy.queued;
                self.waiting_since = self.sent_at;
                Ok(AttemptOutcome::Busy(busy))
            }
            Err(error) => {
                // Every other error says that this request changed nothing.
                self.left_something |= error.is_indeterminate();
                if !self.left_something {
                    self.under_way = None;
                }
                Err(error)
            }
        }
    }

    fn granted_lease(&self, grant: &Grant) -> GrantedLease {
        let ttl = self.claim.ttl();
        GrantedLease {
            token: grant.token,
            length: grant.lease.map_or(ttl, |lease| lease.min(ttl)),
            since: if grant.handed_over { self.waiting_since } else { self.sent_at },
            asked_at: self.sent_at,
        }
    }

    /// Gives the grant to a hold, which releases it from now on.
    pub(super) fn into_hold(mut self) -> (Claim, Handle) {
        self.left_something = false;
        (self.claim.clone(), self.runtime.clone())
    }
}

impl Drop for PendingClaim<'_> {
    fn drop(&mut self) {
        if !self.left_something && !self.is_asking {
            return;
        }
        let cleanup = Cleanup::of_pending(self.context, self.claim.clone());
        let Some(request) = self.request.take() else {
            return cleanup.run_in_background(&self.runtime);
        };
        let (context, runtime) = (Arc::clone(self.context), self.runtime.clone());
        let name = self.claim.name().clone();
        let rest = async move {
            // The release follows whatever the request brings, a panic of the backend too.
            if let Ok(Ok(Attempt::Granted(_))) = AssertUnwindSafe(request).catch_unwind().await {
                context.events.tell(&Event::LateGrant { name: &name });
            }
            cleanup.run_in_background(&runtime);
        };
        // A runtime that has ended drops this at once, and `Drop for Cleanup` takes over.
        self.runtime.spawn(self.context.background.track_future(rest));
    }
}
