//! Events of a client: for logs, metrics and alerts.

use crate::{Error, FencingToken, LockMode, LockName, Loss};
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// Receives the [events](Event) of a client. Called without any lock of ours, by the task that finds the event first: a
/// background task, or a caller that asks a guard for its status, or drops it. Return soon and do not block. A panic is
/// caught, and has no other effect than the message of the panic hook.
pub trait Observer: Debug + Send + Sync + 'static {
    /// An event happened.
    fn event(&self, event: &Event<'_>);
}

/// What happened to the lock `name`; `token` is that of its grant. [`ServerChanged`](Event::ServerChanged) is about no lock.
///
/// Counting them is enough to know what a client does. Each acquisition that passes the check of its arguments ends in
/// exactly one of [`Granted`](Event::Granted), [`NotGranted`](Event::NotGranted) and [`Cancelled`](Event::Cancelled), and
/// each grant in exactly one of [`Released`](Event::Released) and [`Lost`](Event::Lost), unless its guard is leaked.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the event says what its fields are")]
#[non_exhaustive]
pub enum Event<'a> {
    /// An acquisition waits: the lock is held, or other tasks of this client stand before it. At most once per acquisition, whose
    /// end says it again with `has_waited`.
    Waiting { name: &'a LockName, mode: LockMode },
    /// A lock was acquired, after a time counted from the call.
    Granted { name: &'a LockName, mode: LockMode, token: FencingToken, waited: Duration, has_waited: bool },
    /// An acquisition failed with the error that its caller gets, after a time counted from the call.
    NotGranted { name: &'a LockName, mode: LockMode, error: &'a Error, waited: Duration, has_waited: bool },
    /// An acquisition was dropped by its caller before it ended, after a time counted from the call.
    Cancelled { name: &'a LockName, mode: LockMode, waited: Duration, has_waited: bool },
    /// The store confirmed a renewal, or an extension. `margin` was left of the lease when the confirmation arrived: one that
    /// shrinks is the earliest warning there is; at zero the lock is lost.
    Renewed { name: &'a LockName, mode: LockMode, token: FencingToken, margin: Duration },
    /// The holder gave the lock back while it believed to hold it, by a release or by dropping its guard, after a time counted
    /// from the grant. The store has not confirmed it yet; a release that then fails with `Lost` is counted here.
    Released { name: &'a LockName, mode: LockMode, token: FencingToken, held: Duration },
    /// A lock that was held is lost, and why.
    Lost { name: &'a LockName, mode: LockMode, token: FencingToken, loss: &'a Loss },
    /// A renewal or an extension was answered with an error, such as the time-out of the backend. The lease goes on for
    /// `remaining`, and the keeper renews it again, unless it is a fixed one.
    RenewalFailed { name: &'a LockName, mode: LockMode, error: &'a Error, remaining: Duration },
    /// The store granted a lock after its acquisition had ended: dropped, or out of time. It is being released.
    LateGrant { name: &'a LockName },
    /// A release could not be confirmed, for this last failure. The lock is free when its lease ends.
    ReleaseUnconfirmed { name: &'a LockName, mode: LockMode, error: &'a Error },
    /// A waiter got no usable answer from the store, and goes on waiting. Told at once, and then at growing intervals while it
    /// gets none; `failing_for` is the time since the first failure.
    WaitFailed { name: &'a LockName, error: &'a Error, failing_for: Duration },
    /// A new connection led to another server than those before, as after a fail-over, or behind a balancer: it may not know of
    /// locks that are held. `before` and `now` are what the servers say they are. Told once for each server.
    ServerChanged { address: &'a str, before: &'a str, now: &'a str },
}

/// Writes each event to `tracing`, with target `leasehold`. Its message begins with a fixed word, and the lock is the
/// field `lock.name`, of the event or of the span of the acquisition.
///
/// | word | level | event |
/// |---|---|---|
/// | `lost` | error | [`Lost`](Event::Lost); with fields `lock.fencing_token` and `cause` |
/// | `renew_failed` | warn | [`RenewalFailed`](Event::RenewalFailed); with a field `remaining` |
/// | `release_unconfirmed` | warn | [`ReleaseUnconfirmed`](Event::ReleaseUnconfirmed) |
/// | `wait_failed` | warn | [`WaitFailed`](Event::WaitFailed); with a field `failing_for` |
/// | `server_changed` | warn | [`ServerChanged`](Event::ServerChanged), without a lock |
/// | `late_grant` | debug | [`LateGrant`](Event::LateGrant): a matter of course where a semaphore has waiters |
///
/// The default of a client; another [observer](crate::LockClientBuilder::with_observer) replaces it. Events that a caller
/// learns of (granted, released …) are not logged; the span `leasehold.acquire` has them.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct TracingObserver;

impl Observer for TracingObserver {
    fn event(&self, event: &Event<'_>) {
        use tracing::{debug, error, warn};
        match event {
            Event::Lost { name, token, loss, .. } => {
                let (token, cause) = (token.get(), loss.cause());
                error!(target: "leasehold", { lock.name = %name, lock.fencing_token = token, ?cause }, "lost: {loss}");
            }
            Event::RenewalFailed { name, error, remaining, .. } => {
                warn!(target: "leasehold", { lock.name = %name, ?remaining }, "renew_failed: {error}");
            }
            Event::LateGrant { name } => {
                debug!(target: "leasehold", { lock.name = %name }, "late_grant: its caller has gone");
            }
            Event::ReleaseUnconfirmed { name, error, .. } => {
                warn!(target: "leasehold", { lock.name = %name }, "release_unconfirmed: {error}");
            }
            Event::WaitFailed { name, error, failing_for } => {
                // The span of the acquisition has the name already.
                let is_in_span = tracing::Span::current().has_field("lock.name");
                let name = (!is_in_span).then(|| tracing::field::display(name));
                warn!(target: "leasehold", { lock.name = name, ?failing_for }, "wait_failed: {error}");
            }
            Event::ServerChanged { address, before, now } => {
                warn!(target: "leasehold", "server_changed: {address} is {now} now, and was {before}");
            }
            // The caller learns of the others.
            _ => {}
        }
    }
}

#[derive(Debug)]
pub(crate) struct Events(pub(crate) Arc<dyn Observer>);

impl Events {
    /// A panic of the observer ends here: the keeper may have other leases in its hands. The panic hook has reported it.
    pub(crate) fn tell(&self, event: &Event<'_>) {
        drop(catch_unwind(AssertUnwindSafe(|| self.0.event(event))));
    }
}
