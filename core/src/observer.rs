//! Where events go that belong to no caller.

use crate::{Error, FencingToken, LockName, Loss};
use std::fmt::Debug;
use std::time::Duration;

/// Is told what happens in the background, where no caller waits for a result. Called without any lock of ours by
/// whoever finds it first: a task in the background, or who asks a guard for its status, or drops it. Return soon, do not
/// block. A panic in it is caught, and nothing else comes of it than what the panic hook says.
pub trait Observer: Debug + Send + Sync + 'static {
    /// Something happened.
    fn event(&self, event: &Event<'_>);
}

/// What happened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A lock that was held is held no longer.
    Lost {
        /// The lock.
        name: &'a LockName,
        /// Its token.
        token: FencingToken,
        /// Why.
        loss: &'a Loss,
    },
    /// A renewal was not confirmed; the lease goes on for `remaining`, and the keeper asks again.
    RenewalTrouble {
        /// The lock.
        name: &'a LockName,
        /// What the store said, or that it said nothing.
        error: &'a Error,
        /// What is left of the lease.
        remaining: Duration,
    },
    /// The store granted a lock to somebody who had left; it is being released.
    LateGrant {
        /// The lock.
        name: &'a LockName,
    },
    /// A release could not be confirmed; the lock is free when its lease ends.
    ReleaseUnconfirmed {
        /// The lock.
        name: &'a LockName,
        /// The last failure.
        error: &'a Error,
    },
    /// A waiter got no answer from the store, and goes on waiting.
    WaitTrouble {
        /// The lock.
        name: &'a LockName,
        /// What went wrong.
        error: &'a Error,
    },
}

/// The default observer: an event of `tracing`, with target `leasehold`, for each. Its message begins with a word that
/// stays, and the lock is the field `lock.name`.
///
/// | word | level | event |
/// |---|---|---|
/// | `lost` | error | [`Lost`](Event::Lost); with fields `lock.fencing_token` and `cause` |
/// | `renew_failed` | warn | [`RenewalTrouble`](Event::RenewalTrouble); with a field `remaining` |
/// | `release_unconfirmed` | warn | [`ReleaseUnconfirmed`](Event::ReleaseUnconfirmed) |
/// | `wait_trouble` | warn | [`WaitTrouble`](Event::WaitTrouble) |
/// | `late_grant` | info | [`LateGrant`](Event::LateGrant) |
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct TracingObserver;

impl Observer for TracingObserver {
    fn event(&self, event: &Event<'_>) {
        use tracing::{error, info, warn};
        match event {
            Event::Lost { name, token, loss } => {
                let (token, cause) = (token.get(), loss.cause());
                error!(target: "leasehold", { lock.name = %name, lock.fencing_token = token, ?cause }, "lost: {loss}");
            }
            Event::RenewalTrouble { name, error, remaining } => {
                warn!(target: "leasehold", { lock.name = %name, ?remaining }, "renew_failed: {error}");
            }
            Event::LateGrant { name } => {
                info!(target: "leasehold", { lock.name = %name }, "late_grant: nobody waits for it any more");
            }
            Event::ReleaseUnconfirmed { name, error } => {
                warn!(target: "leasehold", { lock.name = %name }, "release_unconfirmed: {error}");
            }
            Event::WaitTrouble { name, error } => {
                warn!(target: "leasehold", { lock.name = %name }, "wait_trouble: {error}");
            }
        }
    }
}
