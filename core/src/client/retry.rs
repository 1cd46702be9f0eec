//! The retry schedule: when a waiter asks again if nothing wakes it.

use crate::{Moment, WakeUp};
use std::time::Duration;

/// The first pause of a waiter that polls, and the rest between a hint and the question after [`FREE_WAKE_UPS`].
const FIRST_PAUSE: Duration = Duration::from_millis(5);
/// Hints in a row that are followed at once. After them a pause is kept, so that a backend whose hint is always ready does
/// not make the client spin.
const FREE_WAKE_UPS: u32 = 3;

/// When one waiter asks again.
///
/// * Where waiters poll, pauses are jittered and grow up to the bound of the backend.
/// * Where waiters are told, one question in each interval guards against a lost message. Its phase is drawn once: pauses
///   counted from the last answer would keep waiters in step after a stall of the store.
#[derive(Debug)]
pub(super) struct RetrySchedule {
    longest: Duration,
    /// The longest next pause where waiters poll, `None` where they are told.
    growing: Option<Duration>,
    /// A moment at which the interval begins.
    phase: Option<Moment>,
    wake_ups_in_a_row: u32,
}

impl RetrySchedule {
    pub(super) fn new(wake_up: WakeUp) -> Self {
        let (longest, growing) = match wake_up {
            WakeUp::Poll { at_most } => (at_most, Some(FIRST_PAUSE.min(at_most))),
            WakeUp::Look { fallback, .. } | WakeUp::Push { fallback } => (fallback, None),
        };
        Self { longest, growing, phase: None, wake_ups_in_a_row: 0 }
    }

    /// The next pause. With `ends_in`, the time until the present lease ends by itself, it is no longer than that and a
    /// little jitter: waiters that all know the end of a dead holder's lease do not come at one instant.
    pub(super) fn pause(&mut self, now: Moment, ends_in: Option<Duration>) -> Duration {
        let pause = if let Some(longest) = self.growing {
            self.growing = Some(longest.saturating_mul(2).min(self.longest));
            between(longest / 4, longest)
        } else {
            let phase = *self.phase.get_or_insert_with(|| now.plus(between(self.longest / 4, self.longest)));
            to_next_period(phase, self.longest, now)
        };
        match ends_in {
            Some(ends_in) => pause.min(ends_in.saturating_add(between(Duration::ZERO, self.longest / 4))),
            None => pause,
        }
    }

    /// The least time to the next question after a hint.
    pub(super) fn after_wake_up(&mut self) -> Duration {
        self.wake_ups_in_a_row = self.wake_ups_in_a_row.saturating_add(1);
        if self.wake_ups_in_a_row <= FREE_WAKE_UPS { Duration::ZERO } else { FIRST_PAUSE }
    }

    /// A whole pause went by without a hint.
    pub(super) fn slept(&mut self) {
        self.wake_ups_in_a_row = 0;
    }
}

/// From now to the next of the moments that begin with `first` and follow each other at this interval. A moment that is
/// now is over.
fn to_next_period(first: Moment, interval: Duration, now: Moment) -> Duration {
    if now < first {
        return first.since(now);
    }
    let elapsed = now.since(first).as_nanos().checked_rem(interval.as_nanos()).unwrap_or(0);
    interval.saturating_sub(Duration::from_nanos(u64::try_from(elapsed).unwrap_or(u64::MAX)))
}

pub(super) fn between(low: Duration, high: Duration) -> Duration {
    low + high.saturating_sub(low).mul_f64(fastrand::f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLL: WakeUp = WakeUp::Poll { at_most: Duration::from_millis(100) };
    const INTERVAL: Duration = Duration::from_millis(500);
    const PUSH: WakeUp = WakeUp::Push { fallback: INTERVAL };

    #[test]
    fn polling_pauses_grow_to_the_bound_and_not_past_it() {
        let mut schedule = RetrySchedule::new(POLL);
        assert!(schedule.pause(Moment::ORIGIN, None) <= FIRST_PAUSE);
        for _ in 0..100 {
            assert!(schedule.pause(Moment::ORIGIN, None) <= Duration::from_millis(100));
        }
        assert!(schedule.pause(Moment::ORIGIN, None) >= Duration::from_millis(25));
    }

    #[test]
    fn pause_ends_soon_after_the_end_of_the_lease() {
        let end = Duration::from_millis(1);
        for wake_up in [POLL, WakeUp::Push { fallback: Duration::from_secs(10) }] {
            let mut schedule = RetrySchedule::new(wake_up);
            for _ in 0..100 {
                assert!(schedule.pause(Moment::ORIGIN, Some(end)) <= end + wake_up.bound() / 4);
            }
        }
    }

    /// The time that an answer takes does not lengthen the interval.
    #[test]
    fn waiter_of_a_store_that_wakes_it_asks_once_in_each_interval() {
        for answer in [Duration::ZERO, Duration::from_millis(3), INTERVAL - Duration::from_nanos(1)] {
            let mut schedule = RetrySchedule::new(PUSH);
            let start = Moment::ORIGIN.plus(schedule.pause(Moment::ORIGIN, None));
            let mut now = start;
            for _ in 0..1000 {
                now = now.plus(answer);
                let pause = schedule.pause(now, None);
                assert!(pause <= INTERVAL, "{pause:?}");
                now = now.plus(pause);
            }
            assert_eq!(now.since(start), INTERVAL * 1000);
        }
    }

    #[test]
    fn wake_up_does_not_move_the_next_period() {
        let mut schedule = RetrySchedule::new(PUSH);
        let period = Moment::ORIGIN.plus(schedule.pause(Moment::ORIGIN, None));
        for woken_after in [1, 250, 499].map(Duration::from_millis) {
            let now = period.plus(woken_after);
            assert_eq!(now.plus(schedule.pause(now, None)), period.plus(INTERVAL));
        }
    }

    /// All waiters ask for the first time at one moment, and a stalled store answers all of them at another.
    #[test]
    fn waiters_that_a_stall_brought_together_spread_over_the_interval() {
        let mut schedules: Vec<_> = (0..400).map(|_| RetrySchedule::new(PUSH)).collect();
        let mut at_once = |now: Moment| {
            let mut pauses: Vec<Duration> =
                schedules.iter_mut().map(|schedule| schedule.pause(now, None)).collect();
            pauses.sort();
            pauses
        };
        let first = at_once(Moment::ORIGIN);
        assert!(first[0] >= INTERVAL / 4, "asked again at once: {:?}", first[0]);
        let stalled = at_once(Moment::since_origin(Duration::from_secs(7)));
        for pauses in [first, stalled] {
            let middle_half = pauses[300] - pauses[100];
            assert!(middle_half > INTERVAL / 4, "half of them within {middle_half:?}");
        }
    }

    #[test]
    fn endless_lease_overflows_nothing() {
        for wake_up in [POLL, PUSH] {
            let mut schedule = RetrySchedule::new(wake_up);
            for _ in 0..100 {
                assert!(schedule.pause(Moment::ORIGIN, Some(Duration::MAX)) <= wake_up.bound());
            }
        }
    }

    #[test]
    fn interval_of_zero_gives_no_pause() {
        let mut schedule = RetrySchedule::new(WakeUp::Push { fallback: Duration::ZERO });
        for seconds in 0..3 {
            let now = Moment::since_origin(Duration::from_secs(seconds));
            assert_eq!(schedule.pause(now, None), Duration::ZERO);
        }
    }

    #[test]
    fn hint_that_is_always_ready_is_slowed_down_until_a_pause_was_slept() {
        let mut schedule = RetrySchedule::new(POLL);
        let pauses: Vec<Duration> = (0..5).map(|_| schedule.after_wake_up()).collect();
        assert_eq!(pauses, [Duration::ZERO, Duration::ZERO, Duration::ZERO, FIRST_PAUSE, FIRST_PAUSE]);
        schedule.slept();
        assert_eq!(schedule.after_wake_up(), Duration::ZERO);
    }
}
