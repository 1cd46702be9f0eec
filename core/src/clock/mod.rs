//! Time as leases need it: monotonic, counting suspend, and replaceable by virtual time.

mod system;
mod virtual_time;

pub use system::SystemClock;
pub use virtual_time::RuntimeClock;

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

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
/// Arithmetic saturates: [`Moment::NEVER`] is later than everything, and nothing overflows into the past. The default is the
/// origin.
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
}
