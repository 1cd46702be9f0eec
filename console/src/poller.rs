//! Asking a store again and again, for a verb that goes on until a signal comes.

use crate::exit::ended_by;
use crate::signals::Signals;
use crate::{Console, Failure};
use leasehold::{ErrorKind, Result};
use std::time::Duration;

/// The time between two requests.
const INTERVAL: Duration = Duration::from_secs(1);

/// Asks once a second, the first time at once.
#[derive(Debug)]
pub struct Poller {
    console: Console,
    signals: Signals,
    /// What the verb is doing, for the warning of an outage.
    doing: String,
    /// True if an outage may pass before the store has answered, too.
    awaits_store: bool,
    has_answered: bool,
    is_failing: bool,
    pause: Duration,
}

impl Poller {
    /// For a verb that is doing this.
    ///
    /// # Errors
    ///
    /// If the system lets nobody listen to signals.
    pub fn new(console: Console, doing: String, awaits_store: bool) -> Result<Self, Failure> {
        let signals = Signals::listen()?;
        let pause = Duration::ZERO;
        Ok(Self { console, signals, doing, awaits_store, has_answered: false, is_failing: false, pause })
    }

    /// The next answer; `None` during a failure that may pass, which is told once: an outage, or a refusal by a store that has answered
    /// before, such as while a password is changed.
    ///
    /// # Errors
    ///
    /// Any other failure; and, without a word, a signal that asks to end.
    pub async fn next<T>(&mut self, request: impl Future<Output = Result<T>>) -> Result<Option<T>, Failure> {
        let pause = std::mem::replace(&mut self.pause, INTERVAL);
        let later = async {
            tokio::time::sleep(pause).await;
            request.await
        };
        let error = match self.signals.unless_ended(later).await {
            Ok(Ok(answer)) => {
                (self.has_answered, self.is_failing) = (true, false);
                return Ok(Some(answer));
            }
            Ok(Err(error)) => error,
            Err(signal) => {
                self.console.end_progress();
                return Err(Failure::silent(ended_by(signal)));
            }
        };
        let is_refusal = matches!(error.kind(), ErrorKind::Denied | ErrorKind::Misconfigured);
        let passes = match self.has_answered {
            true => error.is_outage() || is_refusal,
            false => error.is_outage() && self.awaits_store,
        };
        if !passes {
            return Err(error.into());
        }
        if !std::mem::replace(&mut self.is_failing, true) {
            self.console.warn(format_args!("{}: {error}", self.doing), error.help());
        }
        Ok(None)
    }

    /// The next request is sent within this time.
    pub fn hurry(&mut self, within: Duration) {
        self.pause = self.pause.min(within);
    }
}
