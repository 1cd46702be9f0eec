//! Time as leases need it: monotonic, counting suspend, and replaceable by virtual time.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;
use tokio::time::Instant;

/// A wait that ends at a [`Moment`].
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The source of time for every lease decision. Never a wall clock.
pub trait Clock: Debug + Send + Sync + 'static {
    /// Now. Never goes back.
    fn now(&self) -> Moment;

    /// Ends at the moment or soon after it, at once if it has passed, never for [`Moment::NEVER`].
    fn sleep_until(&self, moment: Moment) -> Sleep;
}

/// A point in time of one [`Clock`], in nanoseconds since that clock's origin.
///
/// Arithmetic saturates: [`Moment::NEVER`] is later than everything. The default is the origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// The origin of its clock.
    pub const ORIGIN: Self = Self(0);
    /// A moment that does not come.
    pub const NEVER: Self = Self(u64::MAX);

    /// The moment that is `elapsed` after the clock's origin.
    pub fn since_origin(elapsed: Duration) -> Self {
        Self::ORIGIN.plus(elapsed)
    }

    pub(crate) const fn nanos(self) -> u64 {
        self.0
    }

    /// The moment that is later by `duration`; [`NEVER`](Self::NEVER) if it is out of range.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// From `earlier` to this moment; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        if self == Self::NEVER {
            return Duration::MAX;
        }
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// A sleeper notices a suspend of the host within this time: the timers of the runtime stop with the host, a lease does not.
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
        Moment::since_origin(rustix::time::clock_gettime(ID).try_into().unwrap_or_default())
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

/// The clock of the runtime: under `tokio::time::pause` it is virtual time, so that a test waits hours in
/// microseconds and every race has one outcome.
///
/// It is unfit for production, because it stops while the host is suspended.
#[derive(Clone, Copy, Debug)]
pub struct RuntimeClock {
    origin: Instant,
}

impl RuntimeClock {
    /// A clock whose origin is now.
    pub fn new() -> Self {
        Self { origin: Instant::now() }
    }
}

impl Default for RuntimeClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for RuntimeClock {
    fn now(&self) -> Moment {
        Moment::since_origin(self.origin.elapsed())
    }

    fn sleep_until(&self, moment: Moment) -> Sleep {
        let left = moment.since(self.now());
        Box::pin(async move {
            match Instant::now().checked_add(left) {
                Some(end) => tokio::time::sleep_until(end).await,
                None => std::future::pending().await,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_instead_of_overflowing() {
        assert_eq!(Moment::ORIGIN.plus(Duration::MAX), Moment::NEVER);
        assert_eq!(Moment::NEVER.plus(Duration::from_secs(1)), Moment::NEVER);
        assert_eq!(Moment::ORIGIN.since(Moment::NEVER), Duration::ZERO);
        assert_eq!(Moment::NEVER.since(Moment::ORIGIN), Duration::MAX);
    }

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
