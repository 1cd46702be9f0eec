use crate::WakeUp;
use std::time::Duration;

/// The first pause of a waiter that asks by itself.
const FIRST: Duration = Duration::from_millis(5);
/// So many wake-ups in a row that brought nothing are taken as they come; after them a pause is kept, so that a
/// backend whose hint is always ready does not spin.
const FREE_WAKE_UPS: u32 = 3;

/// When a waiter asks again if nobody wakes it: jittered pauses that grow up to the bound of the backend.
#[derive(Debug)]
pub(super) struct Pace {
    at_most: Duration,
    next: Duration,
    vain_wake_ups: u32,
}

impl Pace {
    pub(super) fn new(wake_up: WakeUp) -> Self {
        let at_most = wake_up.bound();
        let next = match wake_up {
            WakeUp::Poll { .. } => FIRST.min(at_most),
            WakeUp::Push { .. } => at_most,
        };
        Self { at_most, next, vain_wake_ups: 0 }
    }

    /// The next pause. With `ends_in`, the time until the present lease ends by itself, it is no longer than that and a
    /// little jitter: waiters that all know the end of a dead holder's lease must not come at the same instant.
    pub(super) fn pause(&mut self, ends_in: Option<Duration>) -> Duration {
        let pause = between(self.next / 4, self.next);
        self.next = (self.next * 2).min(self.at_most);
        match ends_in {
            Some(ends_in) if ends_in < pause => ends_in + between(Duration::ZERO, self.at_most / 4),
            _ => pause,
        }
    }

    /// The shortest time to the next question after a wake-up.
    pub(super) fn after_wake_up(&mut self) -> Duration {
        self.vain_wake_ups += 1;
        if self.vain_wake_ups <= FREE_WAKE_UPS { Duration::ZERO } else { FIRST }
    }

    pub(super) fn nobody_woke(&mut self) {
        self.vain_wake_ups = 0;
    }
}

fn between(low: Duration, high: Duration) -> Duration {
    low + high.saturating_sub(low).mul_f64(fastrand::f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLL: WakeUp = WakeUp::Poll { at_most: Duration::from_millis(100) };

    #[test]
    fn pauses_grow_to_the_bound_and_not_past_it() {
        let mut pace = Pace::new(POLL);
        assert!(pace.pause(None) <= FIRST);
        for _ in 0..100 {
            assert!(pace.pause(None) <= Duration::from_millis(100));
        }
        assert!(pace.pause(None) >= Duration::from_millis(25));
    }

    #[test]
    fn the_end_of_the_lease_is_not_slept_over() {
        let mut pace = Pace::new(WakeUp::Push { fallback: Duration::from_secs(10) });
        let end = Duration::from_millis(1);
        for _ in 0..100 {
            assert!(pace.pause(Some(end)) <= end + Duration::from_millis(2500));
        }
    }

    #[test]
    fn a_hint_that_is_always_ready_does_not_spin() {
        let mut pace = Pace::new(POLL);
        let pauses: Vec<Duration> = (0..5).map(|_| pace.after_wake_up()).collect();
        assert_eq!(pauses, [Duration::ZERO, Duration::ZERO, Duration::ZERO, FIRST, FIRST]);
    }
}
