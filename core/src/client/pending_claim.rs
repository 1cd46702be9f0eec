//! What an acquisition may leave in the store, and its removal when it is dropped.

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
    /// The longest ttl of an attempt, until the store has granted one and the waiter has seen it: a lock that is handed to a waiter
    /// which has ended is free soon.
    max_waiting_ttl: Duration,
    in_store: InStore,
    /// The request that is under way. Independent of this value, so that it can go on without it.
    request: Option<BoxFuture<'static, Result<Attempt>>>,
    /// Held while `in_store` does not rule a grant out: closing the client waits for it, because a backend that is closed
    /// releases nothing.
    keeps_backend_open: Option<TaskTrackerToken>,
    pub(super) attempts: u32,
    /// The ttl of the last attempt, and when it was sent.
    sent_ttl: Duration,
    sent_at: Moment,
    /// The lease of a hand-over is counted from here: the send of the last attempt that was answered `Busy`, or of the first attempt.
    waiting_since: Moment,
}

/// What the store may have of a claim. An answer is about its own request alone: an earlier one may still be carried out.
#[derive(Clone, Copy, Debug, PartialEq)]
enum InStore {
    /// Nothing: no request was sent, or none of them has changed anything.
    Nothing,
    /// No grant: another owner holds the lock. An entry in the store's queue may remain, and an earlier request of unknown outcome.
    Leftover,
    /// Perhaps a grant: a request is under way, has panicked, or has an unknown outcome; or a leftover may have been granted since.
    MayBeGranted,
    /// A grant, which was seen. No answer since then says that another owner holds the lock.
    Granted,
}

impl InStore {
    /// What the store may have after the answer to one more request.
    fn after(self, answer: &Result<Attempt>) -> Self {
        match (self, answer) {
            (_, Ok(Attempt::Granted(_))) => Self::Granted,
            (Self::Nothing, Ok(Attempt::Busy(busy))) if !busy.queued => Self::Nothing,
            (_, Ok(Attempt::Busy(_))) => Self::Leftover,
            // Every error but an unknown outcome says that its request changed nothing.
            (Self::Nothing, Err(error)) if !error.is_indeterminate() => Self::Nothing,
            (Self::Granted, Err(_)) => Self::Granted,
            (Self::Nothing | Self::Leftover | Self::MayBeGranted, Err(_)) => Self::MayBeGranted,
        }
    }
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
            in_store: InStore::Nothing,
            request: None,
            keeps_backend_open: None,
            attempts: 0,
            sent_ttl: Duration::ZERO,
            sent_at: Moment::NEVER,
            waiting_since: Moment::NEVER,
        }
    }

    /// Makes one attempt. If this future is dropped, the request stays with this value.
    pub(super) async fn attempt(&mut self) -> Result<Attempt> {
        // A close that comes before the token does not wait for this request, so the client must still be open after it.
        self.keeps_backend_open.get_or_insert_with(|| self.context.background.token());
        self.context.check_open()?;
        self.attempts += 1;
        self.sent_at = self.context.clock.now();
        self.waiting_since = self.waiting_since.min(self.sent_at);
        let before = std::mem::replace(&mut self.in_store, InStore::MayBeGranted);
        let ttl = self.claim.ttl();
        self.sent_ttl = if before == InStore::Granted { ttl } else { ttl.min(self.max_waiting_ttl) };
        let claim = self.claim.clone().with_ttl(self.sent_ttl);
        let backend = Arc::clone(&self.context.backend);
        self.request = Some(Box::pin(async move { backend.try_acquire(&claim).await }));
        let answer = poll_fn(|cx| poll_request(&mut self.request, cx)).await;
        self.in_store = before.after(&answer);
        if matches!(self.in_store, InStore::Nothing | InStore::Leftover) {
            self.keeps_backend_open = None;
        }
        if let Ok(Attempt::Busy(_)) = answer {
            self.waiting_since = self.sent_at;
        }
        answer
    }

    /// True while the last attempt has no answer.
    pub(super) fn is_unanswered(&self) -> bool {
        self.request.is_some()
    }

    /// True if the last attempt did not ask for the whole ttl. Once it is granted, the next one does.
    pub(super) fn asked_for_less(&self) -> bool {
        self.sent_ttl < self.claim.ttl()
    }

    /// The lease of a grant that the last attempt was answered with.
    pub(super) fn granted_lease(&self, grant: &Grant) -> GrantedLease {
        let ttl = self.claim.ttl();
        GrantedLease {
            token: grant.token,
            length: grant.lease.map_or(ttl, |lease| lease.min(ttl)),
            since: if grant.handed_over { self.waiting_since } else { self.sent_at },
            asked_at: self.sent_at,
            renewed_soon: grant.renewed_soon,
        }
    }

    /// Gives the grant to a hold, which releases it from now on.
    pub(super) fn into_hold(mut self) -> (Claim, Handle) {
        self.in_store = InStore::Nothing;
        (self.claim.clone(), self.runtime.clone())
    }
}

impl Drop for PendingClaim<'_> {
    fn drop(&mut self) {
        if self.in_store == InStore::Nothing {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Busy, Error, ErrorKind, FencingToken};

    #[test]
    fn answer_removes_no_trace_of_earlier_requests() {
        use InStore::*;
        let fails_with = |kind| Err(Error::new(kind, "injected"));
        let answers = [
            Ok(Attempt::Granted(Grant::new(FencingToken::new(1)))),
            Ok(Attempt::Busy(Busy::new())),
            Ok(Attempt::Busy(Busy::new().with_place_in_queue())),
            fails_with(ErrorKind::Unavailable),
            fails_with(ErrorKind::Indeterminate),
        ];
        for (before, after) in [
            (Nothing, [Granted, Nothing, Leftover, Nothing, MayBeGranted]),
            (Leftover, [Granted, Leftover, Leftover, MayBeGranted, MayBeGranted]),
            (MayBeGranted, [Granted, Leftover, Leftover, MayBeGranted, MayBeGranted]),
            (Granted, [Granted, Leftover, Leftover, Granted, Granted]),
        ] {
            assert_eq!(answers.each_ref().map(|answer| before.after(answer)), after, "from {before:?}");
        }
    }
}
