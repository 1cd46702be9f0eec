use super::{Hold, HoldStatus};
use crate::{Error, ErrorKind, FencingToken, LockName, Loss, Result};
use std::fmt;
use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The view of a hold that can be cloned and sent anywhere. It keeps nothing held: the
/// [`LockGuard`](crate::LockGuard) does.
#[derive(Clone)]
pub struct Lease(Arc<dyn Hold>);

/// How sure a holder can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "complete: sure, not quite sure, and over")]
pub enum Health {
    /// Held, and no renewal has failed or is overdue since the last confirmation.
    Held,
    /// Held until [`remaining`](Lease::remaining) is over, but the last renewal was not confirmed. Finish or stop.
    AtRisk,
    /// Not held any more: lost or released.
    Ended,
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Held => "held",
            Self::AtRisk => "at risk",
            Self::Ended => "ended",
        })
    }
}

impl Lease {
    pub(super) fn new(hold: Arc<dyn Hold>) -> Self {
        Self(hold)
    }

    pub(crate) fn hold(&self) -> &Arc<dyn Hold> {
        &self.0
    }

    /// The name of the lock.
    pub fn name(&self) -> &LockName {
        self.0.name()
    }

    /// The slot, if this is a permit of a [`Semaphore`](crate::Semaphore): counted from zero, and below the number of permits.
    pub fn slot(&self) -> Option<u32> {
        self.name().slot()
    }

    /// The fencing token, to be passed to what the lock protects. Reading it *is* the liveness check: there is no
    /// token for a lock that is not held.
    ///
    /// # Errors
    ///
    /// [`Lost`](ErrorKind::Lost) once the lock is not held any more.
    pub fn token(&self) -> Result<FencingToken> {
        match self.0.status() {
            HoldStatus::Held { .. } => Ok(self.0.token()),
            HoldStatus::Lost(loss) => Err(loss.into()),
            HoldStatus::Released => Err(released()),
        }
    }

    /// True while the lock is certainly held, by the clock at this call, whether or not any task has run. Once false,
    /// it stays false.
    pub fn is_held(&self) -> bool {
        self.health() != Health::Ended
    }

    /// How sure the holder can be now.
    pub fn health(&self) -> Health {
        match self.0.status() {
            HoldStatus::Held { at_risk: false, .. } => Health::Held,
            HoldStatus::Held { at_risk: true, .. } => Health::AtRisk,
            HoldStatus::Lost(_) | HoldStatus::Released => Health::Ended,
        }
    }

    /// For how long the lock is held even if the store never answers again; zero when it is over.
    pub fn remaining(&self) -> Duration {
        match self.0.status() {
            HoldStatus::Held { remaining, .. } => remaining,
            HoldStatus::Lost(_) | HoldStatus::Released => Duration::ZERO,
        }
    }

    /// The loss, if the lock was lost.
    pub fn loss(&self) -> Option<Loss> {
        match self.0.status() {
            HoldStatus::Lost(loss) => Some(loss),
            HoldStatus::Held { .. } | HoldStatus::Released => None,
        }
    }

    /// Waits until the lock is lost, and says why. Ready no later than the local deadline if the task that awaits it
    /// can run, or up to 1 s later if the host was suspended meanwhile; at once if it is lost already, never after a
    /// deliberate release.
    ///
    /// # Cancel safety
    ///
    /// Safe to drop and to call again, also from several tasks.
    pub async fn lost(&self) -> Loss {
        match self.ended().await {
            Some(loss) => loss,
            None => pending().await,
        }
    }

    /// Waits until the hold is over: its loss, as [`lost`](Self::lost), or `None` once it was released. For a
    /// [`Hold`](crate::Hold) around another.
    ///
    /// # Cancel safety
    ///
    /// Safe to drop and to call again, also from several tasks.
    pub async fn ended(&self) -> Option<Loss> {
        Arc::clone(&self.0).ended().await
    }

    /// A token that is cancelled when the lock is lost or released, for code that is stopped by such a token. A task of its
    /// own cancels it, no later than [`lost`](Self::lost) is ready; for a check without delay ask
    /// [`is_held`](Self::is_held).
    ///
    /// # Panics
    ///
    /// Outside a Tokio runtime.
    pub fn cancellation_token(&self) -> CancellationToken {
        let (token, lease) = (CancellationToken::new(), self.clone());
        let cancel = token.clone().drop_guard();
        tokio::spawn(async move {
            lease.ended().await;
            drop(cancel);
        });
        token
    }

    /// Runs `work` for as long as the lock is held. When it is lost, `work` is not polled again and is dropped.
    ///
    /// It cannot stop what does not await, nor what `work` has spawned or sent.
    ///
    /// # Errors
    ///
    /// [`Lost`](ErrorKind::Lost) if the lock was lost or released before `work` was done. Also if it was lost in the last
    /// step of `work`: its output is dropped then. A release may be the last step.
    ///
    /// # Cancel safety
    ///
    /// As safe as `work` is.
    pub async fn protect<F: Future>(&self, work: F) -> Result<F::Output> {
        let mut ended = pin!(Arc::clone(&self.0).ended());
        let mut work = pin!(work);
        poll_fn(|cx| {
            // `ended` is polled before the look at the status: an end from now on wakes this task, and an earlier one is seen.
            if let Poll::Ready(end) = ended.as_mut().poll(cx) {
                return Poll::Ready(Err(end.map_or_else(released, Error::from)));
            }
            // The status asks the clock: after a pause, `work` may be woken before the timer of `ended` is.
            if let Err(ended) = self.token() {
                return Poll::Ready(Err(ended));
            }
            // The status is asked once more: the last step of `work` may have taken longer than the lease.
            work.as_mut().poll(cx).map(|output| self.loss().map_or(Ok(output), |loss| Err(loss.into())))
        })
        .await
    }
}

pub(crate) fn released() -> Error {
    Error::new(ErrorKind::Lost, "the lock was released").with_help("acquire a new guard to go on")
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The status is left out: the first look that finds a loss tells the observer, which may hold the lock of the log that
        // this is written to.
        f.debug_struct("Lease")
            .field("name", self.name())
            .field("token", &self.0.token())
            .finish_non_exhaustive()
    }
}
