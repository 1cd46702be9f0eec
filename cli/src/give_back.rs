//! Giving a lock back, at the end of `run`, of `hold` and of a term.

use crate::lock_request::LockRequest;
use leasehold::semantics::HoldKind;
use leasehold::{DistributedLock, Error, ErrorKind, LockGuard, Loss, LossCause};
use leasehold_console::signals::Signals;
use leasehold_console::{Console, OpenStore};
use std::time::Duration;

/// Timeout of the last requests to a store that may give no answer.
pub(crate) const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

/// The same after `max_hold`, when the store is in no trouble.
const CLOSE_TIMEOUT_AT_MAX_HOLD: Duration = Duration::from_secs(5);

/// What the store said when the lock was given back.
#[derive(Debug)]
pub(crate) enum Released {
    Confirmed,
    Lost(Loss),
    Unconfirmed(Error),
    /// It was not given back at all: what was stopped under it lives on.
    LeftToLease,
}

/// Gives the lock back.
///
/// The wait for the store is cut to [`CLOSE_TIMEOUT`] in a `hurry`, when the command was stopped, most likely because the store does
/// not answer; and after a signal that asks to end, because where the store keeps no lease, the rest of `hold_at_least` is
/// waited for here, and that may be minutes.
pub(crate) async fn give_back(
    store: &OpenStore,
    request: &LockRequest,
    guard: LockGuard,
    hold_at_least: Duration,
    hurry: bool,
    signals: &mut Signals,
    console: Console,
) -> Released {
    let lingers = !hold_at_least.is_zero() && store.locks.semantics().hold != HoldKind::Lease;
    let answer = tokio::select! {
        biased;
        answer = guard.release() => answer,
        () = end_of_patience(hurry, signals) => Err(not_waited_for(hurry, lingers)),
    };
    match answer {
        Ok(()) => {
            console.detail(format_args!("released {request}"));
            Released::Confirmed
        }
        Err(error) => match error.loss() {
            Some(loss) => Released::Lost(loss.clone()),
            None => Released::Unconfirmed(error),
        },
    }
}

/// One signal may be the one that ended the command, a moment late: there is time for a release after it.
async fn end_of_patience(hurry: bool, signals: &mut Signals) {
    if !hurry {
        // Ready with a signal only.
        let _ = signals.unless_ended(std::future::pending::<()>()).await;
    }
    tokio::time::sleep(CLOSE_TIMEOUT).await;
}

fn not_waited_for(hurry: bool, lingers: bool) -> Error {
    let why = match (hurry, lingers) {
        (true, _) => "the store did not answer",
        (false, true) => "a signal ended the wait for --hold-at-least",
        (false, false) => "a signal ended the wait for the store",
    };
    Error::new(ErrorKind::Indeterminate, why)
}

impl Released {
    pub(crate) fn loss(&self) -> Option<Loss> {
        match self {
            Self::Lost(loss) => Some(loss.clone()),
            Self::Confirmed | Self::Unconfirmed(_) | Self::LeftToLease => None,
        }
    }

    /// Before this process ends: what is left in the store, of a lock that was lost too, is taken back in the background, and a moment
    /// for that costs nobody anything.
    pub(crate) async fn settle(&self, store: &OpenStore) {
        let timeout = match self {
            Self::Confirmed | Self::LeftToLease => return,
            Self::Lost(loss) if loss.cause() == LossCause::MaxHold => CLOSE_TIMEOUT_AT_MAX_HOLD,
            Self::Lost(_) | Self::Unconfirmed(_) => CLOSE_TIMEOUT,
        };
        let _ = tokio::time::timeout(timeout, store.locks.close()).await;
    }

    /// Warns if the release was not confirmed. `LeftToLease` is reported elsewhere, with the processes that live on.
    pub(crate) fn warn(&self, store: &OpenStore, request: &LockRequest, console: Console) {
        if let Self::Unconfirmed(error) = self {
            let message = format!("the release of {request} was not confirmed: {error}");
            let free = match store.locks.semantics().hold {
                HoldKind::Lease => "it is free when its lease ends at the latest",
                _ => "it is free when the store sees that this process has ended",
            };
            console.warn(message, Some(free));
        }
    }
}
