//! The signals that end a run: the first one interrupts it, a later one ends all waiting.

use leasehold_console::signals::Signals;
use rustix::process::Signal;
use std::time::{Duration, Instant};

/// The first signal, and whether another one has followed it.
#[derive(Debug, Default)]
pub(super) struct Interrupts {
    first: Option<(Signal, Instant)>,
    aborted: bool,
}

/// What came first: the work's result, or a signal.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum WaitResult<T> {
    /// The work is done.
    Done(T),
    /// The first signal came: the run is to end.
    Stop,
    /// A later signal has come: the end is not waited for either.
    Abort,
}

/// Signals that come closer together count as one: a terminal that is closed signals its group twice.
const SIGNAL_GAP: Duration = Duration::from_millis(300);

impl Interrupts {
    /// Waits for `work`, or for a signal. Returns at once if a later signal has come before.
    ///
    /// # Cancel safety
    ///
    /// As that of `work`, which is dropped when a signal comes.
    pub(super) async fn next<T>(
        &mut self,
        signals: &mut Signals,
        work: impl Future<Output = T>,
    ) -> WaitResult<T> {
        if self.aborted {
            return WaitResult::Abort;
        }
        match signals.unless_ended(work).await {
            Ok(done) => WaitResult::Done(done),
            Err(signal) => {
                self.record(signal, Instant::now());
                if self.aborted { WaitResult::Abort } else { WaitResult::Stop }
            }
        }
    }

    /// Finishes `work` despite a first signal. `None` if a later signal comes, or has come before.
    pub(super) async fn unless_aborted<T>(
        &mut self,
        signals: &mut Signals,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        let mut work = std::pin::pin!(work);
        loop {
            match self.next(signals, work.as_mut()).await {
                WaitResult::Done(done) => return Some(done),
                WaitResult::Stop => {}
                WaitResult::Abort => return None,
            }
        }
    }

    /// What ended the run.
    pub(super) fn signal(&self) -> Option<Signal> {
        self.first.map(|(signal, _)| signal)
    }

    pub(super) fn is_aborted(&self) -> bool {
        self.aborted
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

    #[test]
    fn signals_close_together_count_once_and_a_later_one_counts_again() {
        let (mut interrupts, start) = (Interrupts::default(), Instant::now());
        interrupts.record(Signal::HUP, start);
        interrupts.record(Signal::HUP, start + SIGNAL_GAP / 2);
        assert!(!interrupts.is_aborted());
        interrupts.record(Signal::INT, start + SIGNAL_GAP);
        assert!(interrupts.is_aborted());
        assert_eq!(interrupts.signal(), Some(Signal::HUP), "the first one is what ended it");
    }

    /// No other test of this program listens to this signal.
    #[tokio::test]
    async fn cleanup_goes_on_after_one_signal_and_ends_after_a_later_one() {
        let (mut signals, mut interrupts) = (Signals::listen().unwrap(), Interrupts::default());
        let ask = || kill_process(getpid(), Signal::USR1).unwrap();

        let mut heard = signal(SignalKind::user_defined1()).unwrap();
        ask();
        // The run polls for signals before it polls this stream.
        let cleaned = interrupts.unless_aborted(&mut signals, async { heard.recv().await });
        assert_eq!(cleaned.await, Some(Some(())));
        assert_eq!(interrupts.signal(), Some(Signal::USR1));

        // However long this machine takes between the two.
        interrupts.first = Some((Signal::USR1, Instant::now() + Duration::from_secs(3600)));
        ask();
        assert_eq!(
            interrupts.next(&mut signals, pending::<()>()).await,
            WaitResult::Stop,
            "in the same breath"
        );
        assert_eq!(interrupts.next(&mut signals, ready(7)).await, WaitResult::Done(7));

        interrupts.first = Some((Signal::USR1, Instant::now() - SIGNAL_GAP));
        ask();
        assert_eq!(interrupts.unless_aborted(&mut signals, pending::<()>()).await, None);
        assert_eq!(interrupts.next(&mut signals, ready(7)).await, WaitResult::Abort);
    }
}
