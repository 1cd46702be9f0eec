use crate::time_scale::scaled;
use std::time::Duration;

/// When a fault is made, and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FaultTiming {
    /// The lease of the holder.
    pub(crate) ttl: Duration,
    /// True if it is there before the lock is asked for.
    pub(crate) from_the_start: bool,
    /// True if it hits the holder's process, and not all alike.
    pub(crate) hits_holder: bool,
    pub(crate) lasts: Lasting,
}

/// How long a fault lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lasting {
    /// It is over as soon as it is made; what comes of it is watched for a lease.
    Moment,
    /// It passes by itself.
    Spell(Time),
    /// It lasts until it is healed. Only under such a fault can a store be *unavailable*: what passes by itself is a delay.
    State(Time),
}

/// At least so long, and then until another client has the lock, if that comes soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Time {
    pub(crate) least: Duration,
    pub(crate) most: Duration,
}

impl Time {
    pub(super) const fn new(least_ms: u64, most_ms: u64) -> Self {
        Self { least: Duration::from_millis(least_ms), most: Duration::from_millis(most_ms) }
    }

    /// So long, whatever happens.
    pub(crate) const fn exactly(time: Duration) -> Self {
        Self { least: time, most: time }
    }
}

impl Lasting {
    /// Longer than the usual lease; and than it takes a server to find out that a connection is dead, which some count
    /// in whole seconds.
    pub(super) const SPELL: Self = Self::Spell(Time::new(1_900, 5_500));
    /// Longer than the usual lease and the interval at which waiters ask.
    pub(super) const STATE: Self = Self::State(Time::new(2_600, 4_000));

    fn scaled(self) -> Self {
        let longer = |time: Time| Time { least: scaled(time.least), most: scaled(time.most) };
        match self {
            Self::Moment => self,
            Self::Spell(time) => Self::Spell(longer(time)),
            Self::State(time) => Self::State(longer(time)),
        }
    }
}

impl FaultTiming {
    /// Made while a lease of the usual length is held.
    pub(super) fn new(lasts: Lasting) -> Self {
        Self { ttl: usual_lease(), from_the_start: false, hits_holder: false, lasts: lasts.scaled() }
    }

    /// Of this lease, whatever it takes to see the most of the fault.
    pub(crate) fn with_lease(self, ttl: Duration) -> Self {
        Self { ttl, ..self }
    }

    pub(super) fn on_holder(self) -> Self {
        Self { hits_holder: true, ..self }
    }

    pub(super) fn there_from_the_start(self) -> Self {
        Self { from_the_start: true, ..self }
    }

    /// Uses a lease whose third outlasts the start of a server and the first attempt of another client.
    pub(super) fn patient(self) -> Self {
        self.with_lease(scaled(MEDIUM))
    }

    /// Uses a lease that outlasts an election or a fail-over.
    pub(super) fn long(self) -> Self {
        self.with_lease(scaled(LONG))
    }
}

const SHORT: Duration = Duration::from_millis(1_500);
const MEDIUM: Duration = Duration::from_millis(4_500);
const LONG: Duration = Duration::from_millis(7_500);

/// The usual lease on this machine.
pub(crate) fn usual_lease() -> Duration {
    scaled(SHORT)
}
