use crate::duration::Nanos;
use crate::{Moment, WakeUp};
use std::time::Duration;

/// The first pause of a waiter that asks by itself.
const FIRST: Duration = Duration::from_millis(5);
/// So many wake-ups in a row that brought nothing are taken as they come; after them a pause is kept, so that a
/// backend whose hint is always ready does not spin.
const FREE_WAKE_UPS: u32 = 3;

/// When a waiter asks again if nobody wakes it. Small on purpose: whoever waits keeps one.
#[derive(Debug)]
pub(super) struct Pace(Rhythm);

/// In each of them, how many wake-ups in a row brought nothing: beside it that would take twice the room.
#[derive(Debug)]
enum Rhythm {
    /// For a waiter that must look by itself: jittered pauses that grow up to the bound of the backend.
    Growing { vain_wake_ups: u32, next: Nanos },
    /// For a waiter that is told, by the store or by a look of its process, and asks only in case the word was lost:
    /// one question in each interval, at a beat of its own that is drawn once. A pause drawn anew each time would ask
    /// 1.6 times as often, and one that is counted from the last answer would keep together for ever all whom one
    /// wake-up, or one stall of the store, has brought together. `NEVER` until it is drawn.
    Beat { vain_wake_ups: u32, first: Moment },
}

impl Pace {
    pub(super) fn new(wake_up: WakeUp) -> Self {
        Self(match wake_up {
            WakeUp::Poll { at_most } => Rhythm::Growing { vain_wake_ups: 0, next: FIRST.min(at_most).into() },
            WakeUp::Look { .. } | WakeUp::Push { .. } => {
                Rhythm::Beat { vain_wake_ups: 0, first: Moment::NEVER }
            }
        })
    }

    /// The next pause, no longer than the bound. With `ends_in`, the time until the present lease ends by itself, it is no
    /// longer than that and a little jitter: waiters that all know the end of a dead holder's lease must not come at the
    /// same instant. The bound is not kept here: it is that of `wake_up`, the same for all waiters of a client.
    pub(super) fn pause(&mut self, wake_up: WakeUp, now: Moment, ends_in: Option<Duration>) -> Duration {
        let at_most = longest(wake_up);
        let pause = match &mut self.0 {
            Rhythm::Growing { next, .. } => {
                let longest = Duration::from(*next);
                *next = longest.saturating_mul(2).min(at_most).into();
                between(longest / 4, longest)
            }
            Rhythm::Beat { first, .. } => {
                if *first == Moment::NEVER {
                    *first = now.plus(between(at_most / 4, at_most));
                }
                to_next_beat(*first, at_most, now)
            }
        };
        match ends_in {
            Some(ends_in) => pause.min(ends_in.saturating_add(between(Duration::ZERO, at_most / 4))),
            None => pause,
        }
    }

    /// The shortest time to the next question after a wake-up.
    pub(super) fn after_wake_up(&mut self) -> Duration {
        let vain = self.vain_wake_ups();
        *vain = vain.saturating_add(1);
        if *vain <= FREE_WAKE_UPS { Duration::ZERO } else { FIRST }
    }

    pub(super) fn nobody_woke(&mut self) {
        *self.vain_wake_ups() = 0;
    }

    fn vain_wake_ups(&mut self) -> &mut u32 {
        let (Rhythm::Growing { vain_wake_ups, .. } | Rhythm::Beat { vain_wake_ups, .. }) = &mut self.0;
        vain_wake_ups
    }
}

/// The longest pause.
fn longest(wake_up: WakeUp) -> Duration {
    match wake_up {
        WakeUp::Look { fallback, .. } => fallback,
        told_or_not => told_or_not.bound(),
    }
}

/// From now to the next of the moments that begin with `first` and follow each other at this interval. A beat that is now
/// is the one that was just kept.
fn to_next_beat(first: Moment, interval: Duration, now: Moment) -> Duration {
    if now < first {
        return first.since(now);
    }
    let since_beat = now.since(first).as_nanos().checked_rem(interval.as_nanos()).unwrap_or(0);
    interval.saturating_sub(Duration::from_nanos(u64::try_from(since_beat).unwrap_or(u64::MAX)))
}

fn between(low: Duration, high: Duration) -> Duration {
    low + high.saturating_sub(low).mul_f64(fastrand::f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLL: WakeUp = WakeUp::Poll { at_most: Duration::from_millis(100) };
    const INTERVAL: Duration = Duration::from_millis(500);
    const PUSH: WakeUp = WakeUp::Push { fallback: INTERVAL };

    struct Waiter {
        wake_up: WakeUp,
        pace: Pace,
    }

    impl Waiter {
        fn new(wake_up: WakeUp) -> Self {
            Self { wake_up, pace: Pace::new(wake_up) }
        }

        fn pause(&mut self, now: Moment, ends_in: Option<Duration>) -> Duration {
            self.pace.pause(self.wake_up, now, ends_in)
        }
    }

    #[test]
    fn pauses_grow_to_the_bound_and_not_past_it() {
        let mut pace = Waiter::new(POLL);
        assert!(pace.pause(Moment::ORIGIN, None) <= FIRST);
        for _ in 0..100 {
            assert!(pace.pause(Moment::ORIGIN, None) <= Duration::from_millis(100));
        }
        assert!(pace.pause(Moment::ORIGIN, None) >= Duration::from_millis(25));
    }

    #[test]
    fn the_end_of_the_lease_is_not_slept_over() {
        let end = Duration::from_millis(1);
        for wake_up in [POLL, WakeUp::Push { fallback: Duration::from_secs(10) }] {
            let mut pace = Waiter::new(wake_up);
            for _ in 0..100 {
                assert!(pace.pause(Moment::ORIGIN, Some(end)) <= end + wake_up.bound() / 4);
            }
        }
    }

    /// Each answer takes its time, and that is no reason to ask more often, or less.
    #[test]
    fn who_is_told_asks_once_in_an_interval_and_not_more() {
        for answer in [Duration::ZERO, Duration::from_millis(3), INTERVAL - Duration::from_nanos(1)] {
            let mut pace = Waiter::new(PUSH);
            let start = Moment::ORIGIN.plus(pace.pause(Moment::ORIGIN, None));
            let mut now = start;
            for _ in 0..1000 {
                now = now.plus(answer);
                let pause = pace.pause(now, None);
                assert!(pause <= INTERVAL, "{pause:?}");
                now = now.plus(pause);
            }
            assert_eq!(now.since(start), INTERVAL * 1000);
        }
    }

    #[test]
    fn a_wake_up_adds_its_own_question_and_no_other() {
        let mut pace = Waiter::new(PUSH);
        let beat = Moment::ORIGIN.plus(pace.pause(Moment::ORIGIN, None));
        for woken_after in [1, 250, 499].map(Duration::from_millis) {
            let now = beat.plus(woken_after);
            assert_eq!(now.plus(pace.pause(now, None)), beat.plus(INTERVAL));
        }
    }

    /// All ask for the first time at once, and a stalled store answers all at once; both times they part again.
    #[test]
    fn who_was_brought_together_is_spread_over_the_interval_again() {
        let mut paces: Vec<Waiter> = (0..400).map(|_| Waiter::new(PUSH)).collect();
        let mut at_once = |now: Moment| {
            let mut pauses: Vec<Duration> = paces.iter_mut().map(|pace| pace.pause(now, None)).collect();
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
    fn a_lease_that_never_ends_overflows_nothing() {
        for wake_up in [POLL, PUSH] {
            let mut pace = Waiter::new(wake_up);
            for _ in 0..100 {
                assert!(pace.pause(Moment::ORIGIN, Some(Duration::MAX)) <= wake_up.bound());
            }
        }
    }

    #[test]
    fn without_an_interval_there_is_no_pause() {
        let mut pace = Waiter::new(WakeUp::Push { fallback: Duration::ZERO });
        for seconds in 0..3 {
            let now = Moment::since_origin(Duration::from_secs(seconds));
            assert_eq!(pace.pause(now, None), Duration::ZERO);
        }
    }

    #[test]
    fn a_hint_that_is_always_ready_does_not_spin() {
        let mut pace = Pace::new(POLL);
        let pauses: Vec<Duration> = (0..5).map(|_| pace.after_wake_up()).collect();
        assert_eq!(pauses, [Duration::ZERO, Duration::ZERO, Duration::ZERO, FIRST, FIRST]);
    }

    #[test]
    fn who_was_let_sleep_may_be_woken_again_at_once() {
        let mut pace = Pace::new(POLL);
        let last = (0..5).map(|_| pace.after_wake_up()).last();
        assert_eq!(last, Some(FIRST));
        pace.nobody_woke();
        assert_eq!(pace.after_wake_up(), Duration::ZERO);
    }
}
