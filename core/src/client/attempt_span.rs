use super::Core;
use crate::LockName;
use tracing::{Span, field};

/// The span of one attempt. Five words long, and mostly seen by nobody: so a waiter keeps one word of it.
pub(super) struct AttemptSpan(Option<Box<Span>>);

impl AttemptSpan {
    pub(super) fn new(core: &Core, name: &LockName) -> Self {
        let span = tracing::info_span!(
            target: "leasehold",
            "leasehold.acquire",
            otel.kind = "client",
            lock.name = %name,
            lock.backend = core.semantics.backend,
            lock.mode = core.semantics.mode,
            lock.ttl_ms = field::Empty,
            lock.attempts = field::Empty,
            lock.outcome = field::Empty,
            lock.fencing_token = field::Empty,
        );
        // One that is disabled may still tell the `log` crate of itself; it does so here, as it begins and ends.
        Self((!span.is_disabled()).then(|| Box::new(span)))
    }

    pub(super) fn within<T>(&self, does: impl FnOnce() -> T) -> T {
        match self.get() {
            Some(span) => span.in_scope(does),
            None => does(),
        }
    }

    pub(super) fn get(&self) -> Option<&Span> {
        self.0.as_deref()
    }
}
