use super::{Clock, Moment, Sleep};
use std::time::Duration;

/// A sleeper notices within this time that the host was suspended: the runtime's timers stop with the machine, a lease does
/// not.
const NOTICE_SUSPEND: Duration = Duration::from_secs(1);

/// The clock of production: on Linux `CLOCK_BOOTTIME`, which goes on during suspend and never follows the wall clock
/// (`clock_gettime(2)`), unlike Rust's `Instant` (rust-lang/rust#87906). Elsewhere it is `CLOCK_MONOTONIC`. Neither counts a
/// pause of the whole machine by its hypervisor: only the fencing token survives that.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct SystemClock;

impl SystemClock {
    /// The clock of this host.
    pub fn new() -> Self {
        Self
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Moment {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        const ID: rustix::time::ClockId = rustix::time::ClockId::Boottime;
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        const ID: rustix::time::ClockId = rustix::time::ClockId::Monotonic;
        let time = rustix::time::clock_gettime(ID);
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or(0);
        Moment::since_origin(Duration::new(seconds, nanoseconds))
    }

    fn sleep_until(&self, moment: Moment) -> Sleep {
        if moment == Moment::NEVER {
            return Box::pin(std::future::pending());
        }
        Box::pin(async move {
            loop {
                let left = moment.since(Self.now());
                if left.is_zero() {
                    return;
                }
                tokio::time::sleep(left.min(NOTICE_SUSPEND)).await;
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_does_not_go_back() {
        let clock = SystemClock::new();
        let first = clock.now();
        assert!(clock.now() >= first);
    }

    #[tokio::test]
    async fn sleep_ends_at_its_moment_and_not_before() {
        let clock = SystemClock::new();
        let end = clock.now().plus(Duration::from_millis(20));
        tokio::time::timeout(Duration::from_secs(10), clock.sleep_until(end)).await.unwrap();
        assert!(clock.now() >= end);
        let never = tokio::time::timeout(Duration::from_millis(20), clock.sleep_until(Moment::NEVER));
        assert!(never.await.is_err());
    }
}
