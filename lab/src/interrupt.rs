//! The signals that end a run: the first one interrupts it, a later one ends all waiting.

use leasehold_console::Failure;
use leasehold_console::signals::Signals;
use rustix::process::Signal;
use std::time::{Duration, Instant};

/// Signals that come closer together count as one: a terminal that is closed signals its group twice.
const SIGNAL_GAP: Duration = Duration::from_millis(300);

/// The signals that reach this process; the first one that ends it, and whether another one has followed.
#[derive(Debug)]
pub(crate) struct Interrupts {
    signals: Signals,
    first: Option<(Signal, Instant)>,
    aborted: bool,
}

/// What came first: the work's result, or a signal.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum WaitResult<T> {
    /// The work is done.
    Done(T),
    /// The first signal came: the run is to end.
    Stop,
    /// A later signal has come: the end is not waited for either.
    Abort,
}

/// Why a run ended before it was done.
pub(crate) enum EarlyEnd {
    Interrupted(Signal),
    Failed(Failure),
}

impl<E: Into<Failure>> From<E> for EarlyEnd {
    fn from(failure: E) -> Self {
        Self::Failed(failure.into())
    }
}

impl Interrupts {
    /// Listens, from now on: to be called before the first lock, so that what is interrupted is tidied up.
    pub(crate) fn listen() -> Result<Self, Failure> {
        Ok(Self { signals: Signals::listen()?, first: None, aborted: false })
    }

    /// Waits for `work`, or for a signal. Returns at once if a later signal has come before.
    ///
    /// # Cancel safety
    ///
    /// As that of `work`, which is dropped when a signal comes.
    pub(crate) async fn next<T>(&mut self, work: impl Future<Output = T>) -> WaitResult<T> {
        if self.aborted {
            return WaitResult::Abort;
        }
        match self.signals.unless_ended(work).await {
            Ok(done) => WaitResult::Done(done),
            Err(signal) => {
                self.record(signal, Instant::now());
                if self.aborted { WaitResult::Abort } else { WaitResult::Stop }
            }
        }
    }

    /// Drops `work` at any signal; does not begin it after one, which may have come during a clean-up.
    pub(crate) async fn unless_ended<T>(&mut self, work: impl Future<Output = T>) -> Result<T, EarlyEnd> {
        self.check()?;
        let WaitResult::Done(done) = self.next(work).await else {
            return Err(EarlyEnd::Interrupted(self.signal().unwrap_or(Signal::INT)));
        };
        Ok(done)
    }

    /// An error if a signal has come.
    pub(crate) fn check(&self) -> Result<(), EarlyEnd> {
        self.signal().map_or(Ok(()), |signal| Err(EarlyEnd::Interrupted(signal)))
    }

    /// Finishes `work` despite a first signal. `None` if a later signal comes, or has come before.
    pub(crate) async fn unless_aborted<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = std::pin::pin!(work);
        loop {
            match self.next(work.as_mut()).await {
                WaitResult::Done(done) => return Some(done),
                WaitResult::Stop => {}
                WaitResult::Abort => return None,
            }
        }
    }

    /// What ended the run.
    pub(crate) fn signal(&self) -> Option<Signal> {
        self.first.map(|(signal, _)| signal)
    }

    fn record(&mut self, signal: Signal, now: Instant) {
        match self.first {
            Some((_, at)) => self.aborted |= now >= at + SIGNAL_GAP,
            None => self.first = Some((signal, now)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{getpid, kill_process};
    use std::future::{pending, ready};
    use tokio::signal::unix::{SignalKind, signal};

    #[tokio::test]
    async fn signals_close_together_count_once_and_a_later_one_counts_again() {
        let (mut interrupts, start) = (Interrupts::listen().unwrap(), Instant::now());
        interrupts.record(Signal::HUP, start);
        interrupts.record(Signal::HUP, start + SIGNAL_GAP / 2);
        assert!(!interrupts.aborted);
        interrupts.record(Signal::INT, start + SIGNAL_GAP);
        assert!(interrupts.aborted);
        assert_eq!(interrupts.signal(), Some(Signal::HUP), "the first one is what ended it");
    }

    /// No other test of this program listens to this signal.
    #[tokio::test]
    async fn cleanup_goes_on_after_one_signal_and_ends_after_a_later_one() {
        let mut interrupts = Interrupts::listen().unwrap();
        let ask = || kill_process(getpid(), Signal::USR1).unwrap();

        let mut heard = signal(SignalKind::user_defined1()).unwrap();
        ask();
        // The run polls for signals before it polls this stream.
        let cleaned = interrupts.unless_aborted(async { heard.recv().await });
        assert_eq!(cleaned.await, Some(Some(())));
        assert_eq!(interrupts.signal(), Some(Signal::USR1));
        let next = interrupts.unless_ended(ready(7)).await;
        assert!(next.is_err(), "work was begun after a signal that came during a clean-up");

        // However long this machine takes between the two.
        interrupts.first = Some((Signal::USR1, Instant::now() + Duration::from_secs(3600)));
        ask();
        assert_eq!(interrupts.next(pending::<()>()).await, WaitResult::Stop, "in the same breath");
        assert_eq!(interrupts.next(ready(7)).await, WaitResult::Done(7));

        interrupts.first = Some((Signal::USR1, Instant::now() - SIGNAL_GAP));
        ask();
        assert_eq!(interrupts.unless_aborted(pending::<()>()).await, None);
        assert_eq!(interrupts.next(ready(7)).await, WaitResult::Abort);
    }
}
