use super::{Clock, Moment, Sleep};
use pin_project_lite::pin_project;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// How late a sleeper may notice that the host was suspended: the runtime's timers stop with the machine, the lease
/// does not.
const NOTICE_SUSPEND: Duration = Duration::from_secs(1);

/// The clock of production: on Linux `CLOCK_BOOTTIME`, which goes on during suspend and never follows the wall clock
/// (`clock_gettime(2)`). Rust's `Instant` is `CLOCK_MONOTONIC` there and stops during suspend, so a laptop that slept
/// through its lease would still believe it holds (rust-lang/rust#87906).
///
/// Elsewhere it is `CLOCK_MONOTONIC`. Neither counts a pause of the whole machine by its hypervisor: only the fencing
/// token survives that.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock {
    _private: (),
}

impl SystemClock {
    /// The clock of this host.
    pub fn new() -> Self {
        Self::default()
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
        Box::pin(Until { moment, nap: None })
    }
}

pin_project! {
    // No async block, which would have a word to say how far it is: whoever waits keeps one of these.
    struct Until {
        moment: Moment,
        #[pin]
        nap: Option<tokio::time::Sleep>,
    }
}

impl Future for Until {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut this = self.project();
        loop {
            if let Some(nap) = this.nap.as_mut().as_pin_mut() {
                ready!(nap.poll(context));
            }
            let left = this.moment.since(SystemClock::new().now());
            if left.is_zero() {
                return Poll::Ready(());
            }
            this.nap.set(Some(tokio::time::sleep(left.min(NOTICE_SUSPEND))));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_clock_does_not_go_back() {
        let clock = SystemClock::new();
        let first = clock.now();
        assert!(clock.now() >= first);
    }

    #[tokio::test]
    async fn a_sleep_ends_when_it_is_over_and_not_before() {
        let clock = SystemClock::new();
        let end = clock.now().plus(Duration::from_millis(20));
        tokio::time::timeout(Duration::from_secs(10), clock.sleep_until(end)).await.unwrap();
        assert!(clock.now() >= end);
        let never = tokio::time::timeout(Duration::from_millis(20), clock.sleep_until(Moment::NEVER));
        assert!(never.await.is_err());
    }
}
