use crate::context::Context;
use crate::keeper::GrantedLease;
use crate::observer::Event;
use crate::{Claim, Error, LockMode, LockName, Moment, Result};
use std::time::Duration;
use tracing::{Span, field};

/// The least and the longest time between two events about the same wait.
const EVENT_INTERVAL: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(60));

/// The span of one acquisition, and the fields that [`record`] fills in.
pub(super) fn span(context: &Context, name: &LockName) -> Span {
    tracing::info_span!(
        target: "leasehold",
        "leasehold.acquire",
        otel.kind = "client",
        lock.name = %name,
        lock.backend = context.semantics.backend,
        lock.mode = context.semantics.mode,
        lock.ttl_ms = field::Empty,
        lock.attempts = field::Empty,
        lock.outcome = field::Empty,
        lock.fencing_token = field::Empty,
    )
}

pub(super) fn record(span: &Span, claim: &Claim, attempts: u32, outcome: &Result<GrantedLease>) {
    span.record("lock.attempts", attempts).record("lock.ttl_ms", claim.ttl_millis());
    match outcome {
        Ok(grant) => span.record("lock.outcome", "acquired").record("lock.fencing_token", grant.token.get()),
        Err(error) => span.record("lock.outcome", error.kind().code()),
    };
}

pub(super) struct AcquisitionEvents<'a> {
    context: &'a Context,
    name: LockName,
    mode: LockMode,
    since: Moment,
    has_waited: bool,
    has_ended: bool,
}

impl<'a> AcquisitionEvents<'a> {
    pub(super) fn new(context: &'a Context, claim: &Claim) -> Self {
        Self {
            since: context.clock.now(),
            context,
            name: claim.name().clone(),
            mode: claim.mode(),
            has_waited: false,
            has_ended: false,
        }
    }

    pub(super) fn waits(&mut self) {
        if !std::mem::replace(&mut self.has_waited, true) {
            self.context.events.tell(&Event::Waiting { name: &self.name, mode: self.mode });
        }
    }

    pub(super) fn ended(&mut self, outcome: &Result<GrantedLease>) {
        self.has_ended = true;
        let Self { ref name, mode, has_waited, .. } = *self;
        let waited = self.waited();
        self.context.events.tell(&match outcome {
            Ok(grant) => Event::Granted { name, mode, token: grant.token, waited, has_waited },
            Err(error) => Event::NotGranted { name, mode, error, waited, has_waited },
        });
    }

    fn waited(&self) -> Duration {
        self.context.clock.now().since(self.since)
    }
}

/// What went wrong since the store last answered a waiter.
#[derive(Default)]
pub(super) struct WaitFailures {
    error: Option<Error>,
    since: Option<Moment>,
    /// No event is sent before: also when the store answers now and then.
    silent_until: Moment,
}

impl WaitFailures {
    /// One more. An unknown outcome is kept in front of later failures: that the last request was not applied says nothing about
    /// the one before.
    pub(super) fn note(&mut self, error: Error, context: &Context, name: &LockName) {
        let now = context.clock.now();
        let failing_for = now.since(*self.since.get_or_insert(now));
        if now >= self.silent_until {
            let (least, longest) = EVENT_INTERVAL;
            self.silent_until = now.plus(failing_for.clamp(least, longest));
            context.events.tell(&Event::WaitFailed { name, error: &error, failing_for });
        }
        self.error = self.error.take().filter(Error::is_indeterminate).or(Some(error));
    }

    /// The store answered.
    pub(super) fn clear(&mut self) {
        (self.error, self.since) = (None, None);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.error.is_none()
    }

    /// The failure to answer with at the deadline.
    pub(super) fn take(&mut self) -> Option<Error> {
        self.error.take()
    }
}

/// The caller dropped the acquisition.
impl Drop for AcquisitionEvents<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            let Self { ref name, mode, has_waited, .. } = *self;
            self.context.events.tell(&Event::Cancelled { name, mode, waited: self.waited(), has_waited });
        }
    }
}
