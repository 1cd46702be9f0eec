use super::cleanup::Cleanup;
use super::hold::poll_request;
use crate::context::Context;
use crate::keeper::GrantedLease;
use crate::observer::Event;
use crate::{Attempt, Claim, Grant, Moment, Result};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// A claim on its way to a grant. It knows what its attempts may have left in the store, and removes that when it is
/// dropped: all that an acquisition may leave in the store is removed in its `Drop`.
pub(super) struct PendingClaim<'a> {
    context: &'a Arc<Context>,
    runtime: Handle,
    /// Its ttl is that of the hold.
    pub(super) claim: Claim,
    /// The longest ttl of an attempt, until the store has granted one and the waiter has seen it.
    max_waiting_ttl: Duration,
    /// True from a grant that was seen until the store says that another owner holds the lock.
    is_granted: bool,
    /// The request that is under way. Independent of this value, so that it can go on without it.
    request: Option<BoxFuture<'static, Result<Attempt>>>,
    /// True from the send of a request until its answer, also after the request has panicked and is gone.
    pub(super) is_asking: bool,
    /// Held from the send of a request until an answer rules a grant out: closing the client waits for it, because a backend
    /// that is closed releases nothing. A claim that waits in the store's own queue does not hold it.
    under_way: Option<TaskTrackerToken>,
    pub(super) attempts: u32,
    /// True once the store has said that another owner holds the lock.
    pub(super) was_busy: bool,
    /// True if an answered request may have left something: a grant, also one whose reply was lost, or an entry in a queue.
    left_something: bool,
    /// When the last attempt was sent.
    sent_at: Moment,
    /// A hand-over is counted from here: the send of the last attempt that was answered `Busy`, or of the first attempt.
    waiting_since: Moment,
}

impl<'a> PendingClaim<'a> {
    pub(super) fn new(
        context: &'a Arc<Context>,
        runtime: Handle,
        claim: Claim,
        max_waiting_ttl: Duration,
    ) -> Self {
        Self {
            context,
            runtime,
            claim,
            max_waiting_ttl,
            is_granted: false,
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

    /// Makes one attempt. If this future is dropped, the request stays with this value.
    pub(super) async fn attempt(&mut self) -> Result<Attempt> {
        self.under_way.get_or_insert_with(|| self.context.background.token());
        // Not before: a close that has not seen the token does not wait for this request.
        self.context.check_open()?;
        self.attempts += 1;
        self.is_asking = true;
        self.sent_at = self.context.clock.now();
        self.waiting_since = self.waiting_since.min(self.sent_at);
        let (backend, ttl) = (Arc::clone(&self.context.backend), self.ttl());
        let claim = self.claim.clone().with_ttl(ttl);
        self.request = Some(Box::pin(async move { backend.try_acquire(&claim).await }));
        let answer = poll_fn(|cx| poll_request(&mut self.request, cx)).await;
        self.is_asking = false;
        match &answer {
            Ok(Attempt::Granted(_)) => self.left_something = true,
            Ok(Attempt::Busy(busy)) => {
                self.is_granted = false;
                self.under_way = None;
                self.was_busy = true;
                self.left_something |= busy.queued;
                self.waiting_since = self.sent_at;
            }
            Err(error) => {
                // Every other error says that this request changed nothing.
                self.left_something |= error.is_indeterminate();
                if !self.left_something {
                    self.under_way = None;
                }
            }
        }
        answer
    }

    /// The ttl of the next attempt.
    fn ttl(&self) -> Duration {
        let ttl = self.claim.ttl();
        if self.is_granted { ttl } else { ttl.min(self.max_waiting_ttl) }
    }

    /// Notes a grant: the next attempt asks for the whole ttl. True if this grant was shorter than that.
    pub(super) fn note_grant(&mut self) -> bool {
        let was_short = self.ttl() < self.claim.ttl();
        self.is_granted = true;
        was_short
    }

    /// The lease of a grant that the last attempt was answered with.
    pub(super) fn granted_lease(&self, grant: &Grant) -> GrantedLease {
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
        let cleanup = Cleanup::new(self.context, self.claim.clone(), false, None);
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
