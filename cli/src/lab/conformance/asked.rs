//! The signals that end a run: the first one interrupts it, a later one ends all waiting.

use crate::run::signals::Signals;
use rustix::process::Signal;
use std::time::{Duration, Instant};

/// The first signal, and whether another one has followed it.
#[derive(Debug, Default)]
pub(super) struct Asked {
    first: Option<(Signal, Instant)>,
    again: bool,
}

/// What came first: the work's result, or a signal.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard<T> {
    /// The work is done.
    Came(T),
    /// The first signal came: the run is to end.
    End,
    /// A later signal has come: the end is not waited for either.
    Again,
}

/// Signals that come closer together count as one: a terminal that is closed signals its group twice.
const APART: Duration = Duration::from_millis(300);

impl Asked {
    /// Waits for `work`, or for a signal. Returns at once if a later signal has come before.
    ///
    /// # Cancel safety
    ///
    /// As that of `work`, which is dropped when a signal comes.
    pub(super) async fn next<T>(&mut self, signals: &mut Signals, work: impl Future<Output = T>) -> Heard<T> {
        if self.again {
            return Heard::Again;
        }
        match signals.unless_ended(work).await {
            Ok(done) => Heard::Came(done),
            Err(signal) => {
                self.hear(signal, Instant::now());
                if self.again { Heard::Again } else { Heard::End }
            }
        }
    }

    /// Finishes `work` despite a first signal. `None` if a later signal comes, or has come before.
    pub(super) async fn unless_again<T>(
        &mut self,
        signals: &mut Signals,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        let mut work = std::pin::pin!(work);
        loop {
            match self.next(signals, work.as_mut()).await {
                Heard::Came(done) => return Some(done),
                Heard::End => {}
                Heard::Again => return None,
            }
        }
    }

    /// What ended the run.
    pub(super) fn signal(&self) -> Option<Signal> {
        self.first.map(|(signal, _)| signal)
    }

    pub(super) fn was_again(&self) -> bool {
        self.again
    }

    fn hear(&mut self, signal: Signal, now: Instant) {
        match self.first {
            Some((_, at)) => self.again |= now >= at + APART,
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
        let (mut asked, start) = (Asked::default(), Instant::now());
        asked.hear(Signal::HUP, start);
        asked.hear(Signal::HUP, start + APART / 2);
        assert!(!asked.was_again());
        asked.hear(Signal::INT, start + APART);
        assert!(asked.was_again());
        assert_eq!(asked.signal(), Some(Signal::HUP), "the first one is what ended it");
    }

    /// No other test of this program listens to this signal.
    #[tokio::test]
    async fn cleanup_goes_on_after_one_signal_and_ends_after_a_later_one() {
        let (mut signals, mut asked) = (Signals::listen().unwrap(), Asked::default());
        let ask = || kill_process(getpid(), Signal::USR1).unwrap();

        let mut heard = signal(SignalKind::user_defined1()).unwrap();
        ask();
        // The run polls for signals before it polls this stream.
        let tidied = asked.unless_again(&mut signals, async { heard.recv().await });
        assert_eq!(tidied.await, Some(Some(())));
        assert_eq!(asked.signal(), Some(Signal::USR1));

        // However long this machine takes between the two.
        asked.first = Some((Signal::USR1, Instant::now() + Duration::from_secs(3600)));
        ask();
        assert_eq!(asked.next(&mut signals, pending::<()>()).await, Heard::End, "in the same breath");
        assert_eq!(asked.next(&mut signals, ready(7)).await, Heard::Came(7));

        asked.first = Some((Signal::USR1, Instant::now() - APART));
        ask();
        assert_eq!(asked.unless_again(&mut signals, pending::<()>()).await, None);
        assert_eq!(asked.next(&mut signals, ready(7)).await, Heard::Again);
    }
}
