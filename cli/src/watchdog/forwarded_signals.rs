//! The signals that are passed on to the command, each once.
//!
//! A service manager may signal a whole control group: `leasehold`, the watchdog and the command. So a signal that has reached the watchdog
//! has reached a command of the same control group too, and is not passed on. A search by name or by command line
//! finds the watchdog never: both have no word of `leasehold`'s or of the command's. A search by the path of the program (`killall /path`) finds
//! it too, and then the signal is lost.

use leasehold::client::Moment;
use rustix::process::Signal;
use std::time::Duration;

/// For how long a signal is kept back: who signals a group signals one process after the other, and `leasehold` may be the first.
const KEPT_BACK: Duration = Duration::from_millis(50);

/// For how long it is known that a signal came to this process: `leasehold` may be the last.
const REMEMBERED: Duration = Duration::from_secs(5);

/// Signals on their way to the command.
#[derive(Debug, Default)]
pub(super) struct ForwardedSignals {
    /// The signals to be passed on, each with its time.
    due: Vec<(Signal, Moment)>,
    /// The signals that this process has received, each with the end of its validity.
    received: Vec<(Signal, Moment)>,
}

impl ForwardedSignals {
    /// `leasehold` wants this one passed on.
    pub(super) fn pass_on(&mut self, signal: Signal, now: Moment) {
        if self.due.iter().all(|(due, _)| *due != signal) {
            self.due.push((signal, now.plus(KEPT_BACK)));
        }
    }

    /// This one has come to the watchdog.
    pub(super) fn received(&mut self, signal: Signal, now: Moment) {
        self.received.push((signal, now.plus(REMEMBERED)));
    }

    /// The signals for which it is time, in their order, without those that the command has got by itself.
    pub(super) fn take_due(&mut self, now: Moment) -> Vec<Signal> {
        self.received.retain(|(_, until)| now < *until);
        let Self { due, received } = self;
        due.retain(|(signal, _)| match received.iter().position(|(one, _)| one == signal) {
            Some(at) => {
                received.swap_remove(at);
                false
            }
            None => true,
        });
        let is_due = |(_, at): &(Signal, Moment)| now >= *at;
        let taken = due.iter().copied().filter(is_due).map(|(signal, _)| signal).collect();
        due.retain(|one| !is_due(one));
        taken
    }

    /// When to look again.
    pub(super) fn next(&self) -> Moment {
        self.due.iter().map(|(_, at)| *at).min().unwrap_or(Moment::NEVER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Moment {
        Moment::since_origin(Duration::from_millis(millis))
    }

    #[test]
    fn signal_to_leasehold_alone_is_passed_on_once_after_a_moment() {
        let mut signals = ForwardedSignals::default();
        signals.pass_on(Signal::TERM, at(0));
        signals.pass_on(Signal::TERM, at(10));
        assert_eq!((signals.next(), signals.take_due(at(49))), (at(50), vec![]));
        assert_eq!(signals.take_due(at(50)), [Signal::TERM]);
        assert_eq!((signals.next(), signals.take_due(at(99))), (Moment::NEVER, vec![]));
        signals.pass_on(Signal::TERM, at(100));
        assert_eq!(signals.take_due(at(150)), [Signal::TERM]);
    }

    #[test]
    fn signal_to_the_whole_control_group_is_not_passed_on_in_either_order() {
        let mut signals = ForwardedSignals::default();
        signals.pass_on(Signal::TERM, at(0));
        signals.pass_on(Signal::USR1, at(0));
        signals.received(Signal::TERM, at(20));
        assert_eq!(signals.take_due(at(60)), [Signal::USR1]);
        signals.received(Signal::INT, at(100));
        assert_eq!(signals.take_due(at(900)), []);
        signals.pass_on(Signal::INT, at(1_000));
        assert_eq!(signals.take_due(at(1_050)), []);
        // The next one is another.
        signals.pass_on(Signal::INT, at(1_060));
        assert_eq!(signals.take_due(at(1_110)), [Signal::INT]);
    }

    #[test]
    fn signal_that_came_to_the_watchdog_long_ago_stops_none() {
        let mut signals = ForwardedSignals::default();
        signals.received(Signal::TERM, at(0));
        signals.pass_on(Signal::TERM, at(6_000));
        assert_eq!(signals.take_due(at(6_050)), [Signal::TERM]);
    }
}
