use super::Core;
use super::withdrawal::Withdrawal;
use crate::observer::Event;
use crate::{Attempt, Busy, Claim, FencingToken, Moment, Result};
use futures_util::FutureExt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// A claim on its way to a grant. It knows what its attempts may have left in the store, and takes that back when it is
/// dropped: the whole of cancel safety, and of clean time-outs, is in its `Drop`.
#[derive(Debug)]
pub(super) struct PendingClaim<'a> {
    core: &'a Arc<Core>,
    runtime: Handle,
    claim: Claim,
    /// The call to the backend that is under way. Boxed and independent of this value, so that it can go on without it.
    call: Option<Call>,
    /// While the store may have granted it: [closing](crate::DistributedLock::close) waits for that, since a backend that is
    /// closed releases nothing.
    under_way: Option<TaskTrackerToken>,
    attempts: u32,
    /// True once the store has said that somebody else holds the lock.
    was_busy: bool,
    /// True if the store may have something of this claim: a grant whose reply was lost, a place in a queue.
    left_something: bool,
    /// When the last attempt was sent.
    sent_at: Moment,
    /// When the last attempt was sent that was answered `Busy`; the first one, until one is. Whatever the store hands
    /// over by itself, it granted later than that.
    waiting_since: Moment,
}

struct Call(Pin<Box<dyn Future<Output = Result<Attempt>> + Send>>);

/// A grant, as its attempt brought it.
#[derive(Clone, Copy)]
pub(super) struct Granted {
    pub(super) token: FencingToken,
    /// How long it lasts without a renewal: the ttl that was asked for, or less.
    pub(super) lease: Duration,
    /// A moment before the grant: from here on the lease is counted.
    pub(super) since: Moment,
    /// When the attempt was sent. Later than the grant if the store handed the lock over by itself.
    pub(super) sent_at: Moment,
}

/// What an attempt brought.
pub(super) enum Asked {
    Granted(Granted),
    Busy(Busy),
}

impl<'a> PendingClaim<'a> {
    pub(super) fn new(core: &'a Arc<Core>, runtime: Handle, claim: Claim) -> Self {
        Self {
            core,
            runtime,
            claim,
            call: None,
            under_way: None,
            attempts: 0,
            was_busy: false,
            left_something: false,
            sent_at: Moment::NEVER,
            waiting_since: Moment::NEVER,
        }
    }

    pub(super) fn core(&self) -> &'a Arc<Core> {
        self.core
    }

    pub(super) fn claim(&self) -> &Claim {
        &self.claim
    }

    /// How many attempts were [counted](Self::count_attempt).
    pub(super) fn attempts(&self) -> u32 {
        self.attempts
    }

    /// One more is to be made.
    pub(super) fn count_attempt(&mut self) {
        self.attempts += 1;
    }

    /// True once the store has said that somebody else holds the lock.
    pub(super) fn was_busy(&self) -> bool {
        self.was_busy
    }

    /// True if an attempt was begun and has no answer.
    pub(super) fn is_asking(&self) -> bool {
        self.call.is_some()
    }

    /// Makes one attempt. If this value is dropped meanwhile, the attempt goes on and is taken back.
    pub(super) fn poll_ask(&mut self, cx: &mut Context<'_>) -> Poll<Result<Asked>> {
        let mut call = self.call.take().unwrap_or_else(|| self.begin());
        // Not within this value while it is polled: one that panics is polled no more, and may have left something.
        let left_something = std::mem::replace(&mut self.left_something, true);
        let answer = call.0.as_mut().poll(cx);
        self.left_something = left_something;
        match answer {
            Poll::Ready(answer) => Poll::Ready(self.asked(answer)),
            Poll::Pending => {
                self.call = Some(call);
                Poll::Pending
            }
        }
    }

    fn begin(&mut self) -> Call {
        self.under_way.get_or_insert_with(|| self.core.background.token());
        self.sent_at = self.core.clock.now();
        self.waiting_since = self.waiting_since.min(self.sent_at);
        let (backend, claim) = (Arc::clone(&self.core.backend), self.claim.clone());
        Call(Box::pin(async move { backend.try_acquire(&claim).await }))
    }

    fn asked(&mut self, answer: Result<Attempt>) -> Result<Asked> {
        match answer {
            Ok(Attempt::Granted(grant)) => {
                self.left_something = true;
                let ttl = self.claim.ttl();
                let lease = grant.lease.map_or(ttl, |lease| lease.min(ttl));
                let by_this_attempt = if grant.handed_over { self.waiting_since } else { self.sent_at };
                let since = grant.since.unwrap_or(by_this_attempt);
                Ok(Asked::Granted(Granted { token: grant.token, lease, since, sent_at: self.sent_at }))
            }
            Ok(Attempt::Busy(busy)) => {
                self.under_way = None;
                self.was_busy = true;
                self.left_something |= busy.queued;
                self.waiting_since = self.sent_at;
                Ok(Asked::Busy(busy))
            }
            Err(error) => {
                // An error that is not an outage is the store's own word that nothing was done, and so is
                // "unavailable"; only an unknown outcome may have left something.
                self.left_something |= error.is_indeterminate();
                if !self.left_something {
                    self.under_way = None;
                }
                Err(error)
            }
        }
    }

    /// The grant has become a hold, which takes care of it from now on.
    pub(super) fn granted(mut self) -> (Claim, Handle) {
        self.left_something = false;
        (self.claim.clone(), self.runtime.clone())
    }
}

impl Drop for PendingClaim<'_> {
    fn drop(&mut self) {
        let Some(Call(call)) = self.call.take() else {
            if self.left_something {
                Withdrawal::of_pending(self.core, self.claim.clone()).in_background(&self.runtime);
            }
            return;
        };
        let (core, runtime, claim) = (Arc::clone(self.core), self.runtime.clone(), self.claim.clone());
        // Made before the answer: it outlives this task, should the runtime end.
        let withdrawal = Withdrawal::of_pending(&core, claim.clone());
        let rest = async move {
            // Whatever has become of it, a panic of the backend too: the release follows.
            if let Ok(Ok(Attempt::Granted(_))) = AssertUnwindSafe(call).catch_unwind().await {
                core.tell(&Event::LateGrant { name: claim.name() });
            }
            withdrawal.in_background(&runtime);
        };
        self.runtime.spawn(self.core.background.track_future(rest));
    }
}

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Call")
    }
}
