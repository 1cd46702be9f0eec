use crate::context::Context;
use crate::keeper::GrantedLease;
use crate::observer::Event;
use crate::{Claim, LockMode, LockName, Moment, Result};
use std::time::Duration;
use tracing::{Span, field};

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

/// The events of one acquisition.
pub(super) struct AcquisitionEvents<'a> {
    context: &'a Context,
    name: LockName,
    mode: LockMode,
    since: Moment,
    has_waited: bool,
    has_ended: bool,
}

impl<'a> AcquisitionEvents<'a> {
    /// `None` if the client has no observer: then nothing is measured.
    pub(super) fn new(context: &'a Context, claim: &Claim) -> Option<Self> {
        context.events.are_observed().then(|| Self {
            since: context.clock.now(),
            context,
            name: claim.name().clone(),
            mode: claim.mode(),
            has_waited: false,
            has_ended: false,
        })
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

/// The caller dropped the acquisition.
impl Drop for AcquisitionEvents<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            let Self { ref name, mode, has_waited, .. } = *self;
            self.context.events.tell(&Event::Cancelled { name, mode, waited: self.waited(), has_waited });
        }
    }
}
