//! How late this machine is: a timer beside all cases, which is to fire every five milliseconds.

use crate::time_scale::{SLACK, scaled, stretch};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant};

const INTERVAL: Duration = Duration::from_millis(5);
/// What an idle machine takes longer.
const USUAL: Duration = Duration::from_millis(1);
/// Longer than any case.
const KEPT: Duration = Duration::from_secs(3_600);
/// How long the timer fires before the first case begins.
const FIRST_LOOK: Duration = Duration::from_millis(250);

/// When the timer fired too late, and how late it was.
static LATE: Mutex<VecDeque<(Instant, Duration)>> = Mutex::new(VecDeque::new());

/// Starts the timer, once in a process, and waits for its first look. On a machine that is late by then, everything takes longer
/// from now on.
pub(crate) fn watch() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        std::thread::spawn(fire_for_ever);
        let start = Instant::now();
        std::thread::sleep(FIRST_LOOK);
        if !Lateness::since(start, FIRST_LOOK).is_on_time() {
            stretch(true);
        }
    });
}

fn fire_for_ever() {
    loop {
        let start = Instant::now();
        std::thread::sleep(INTERVAL);
        let (now, took) = (Instant::now(), start.elapsed());
        let mut late = lock();
        late.push_back((now, took.saturating_sub(INTERVAL + USUAL)));
        while late.front().is_some_and(|(fired, _)| now - *fired > KEPT) {
            late.pop_front();
        }
    }
}

fn lock() -> MutexGuard<'static, VecDeque<(Instant, Duration)>> {
    LATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How late the timer was while a case ran.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lateness {
    /// By how much in all.
    pub(crate) in_all: Duration,
    /// The most in any window.
    pub(crate) most: Duration,
    pub(crate) window: Duration,
}

impl Lateness {
    /// Since then, in windows as long as the room that cases leave to a busy machine.
    pub(crate) fn of_a_case(start: Instant) -> Self {
        Self::since(start, scaled(SLACK))
    }

    fn since(start: Instant, window: Duration) -> Self {
        let samples: Vec<(Instant, Duration)> =
            lock().iter().rev().take_while(|(fired, _)| *fired >= start).copied().collect();
        Self {
            in_all: samples.iter().map(|(_, late)| *late).sum(),
            most: most_within(&samples, window),
            window,
        }
    }

    /// What was seen, after the reason not to judge it.
    pub(crate) fn told(self, seen: &str) -> String {
        format!("this machine was late by {:?} in {:?}: {seen}", self.most, self.window)
    }

    /// True if a chain of steps took little longer than on an idle machine.
    pub(crate) fn is_on_time(self) -> bool {
        self.most * 6 <= self.window
    }

    /// True if no bound can be judged: the machine was away for more than a third of some window.
    pub(crate) fn is_too_late(self) -> bool {
        self.most * 3 > self.window
    }
}

/// The most that was lost within any window. The samples begin with the last.
fn most_within(samples: &[(Instant, Duration)], window: Duration) -> Duration {
    let (mut most, mut sum, mut first) = (Duration::ZERO, Duration::ZERO, 0);
    for (fired, late) in samples {
        sum += *late;
        while samples[first].0 - *fired > window {
            sum -= samples[first].1;
            first += 1;
        }
        most = most.max(sum);
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_is_that_of_the_worst_window() {
        let (now, ms) = (Instant::now() + Duration::from_secs(10), Duration::from_millis);
        let late = [(0, 1), (100, 20), (150, 30), (600, 5), (3_000, 45)];
        let samples = late.map(|(before, by)| (now - ms(before), ms(by)));
        assert_eq!(most_within(&samples, ms(100)), ms(50));
        assert_eq!(most_within(&samples, ms(40)), ms(45));
        assert_eq!(most_within(&samples, ms(1_000)), ms(56));
        assert_eq!(most_within(&[], ms(100)), Duration::ZERO);
    }

    #[test]
    fn machine_that_loses_a_third_of_a_window_is_too_late() {
        let of = |most| Lateness {
            most: Duration::from_millis(most),
            window: Duration::from_millis(600),
            ..Lateness::default()
        };
        let judged = |most: u64| (of(most).is_on_time(), of(most).is_too_late());
        assert_eq!(
            [100, 101, 200, 201].map(judged),
            [(true, false), (false, false), (false, false), (false, true)]
        );
    }
}
