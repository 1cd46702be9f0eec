use crate::{FencingToken, LockName, Loss, Result};
use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// The hold behind a [`LockGuard`](crate::LockGuard): the life of one grant. [`LockClient`](crate::LockClient)
/// makes these for every backend; implement it only to put another lock library behind
/// [`DistributedLock`](crate::DistributedLock).
pub trait Hold: Debug + Send + Sync + 'static {
    /// The lock.
    fn name(&self) -> &LockName;

    /// The token of the grant, also after its end.
    fn token(&self) -> FencingToken;

    /// The state now, computed from the clock at this call: a flag that a task sets is wrong while that task does not
    /// run. Sticky: a hold that was lost or released stays so.
    fn status(&self) -> HoldStatus;

    /// Ready when the hold is over, by a timer of its own if nothing else tells: its loss, or `None` if it was released.
    fn ended(self: Arc<Self>) -> Pin<Box<dyn Future<Output = Option<Loss>> + Send>>;

    /// See [`LockGuard::extend`](crate::LockGuard::extend).
    fn extend(self: Arc<Self>, ttl: Duration) -> Pin<Box<dyn Future<Output = Result<()>> + Send>>;

    /// See [`LockGuard::release`](crate::LockGuard::release). Goes on in the background if it is dropped.
    fn release(self: Arc<Self>) -> Pin<Box<dyn Future<Output = Result<()>> + Send>>;

    /// The guard was dropped. Must not block, must not panic, and must do without a runtime.
    fn abandon(self: Arc<Self>);
}

/// The state of a hold at one moment.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_enums, reason = "complete: a hold lasts, was lost, or was given back")]
pub enum HoldStatus {
    /// Held.
    Held {
        /// For how long it is held even if the store never answers again.
        remaining: Duration,
        /// True if the last renewal was not confirmed.
        at_risk: bool,
    },
    /// Lost, and why.
    Lost(Loss),
    /// Given back by its holder.
    Released,
}
