use crate::time_scale::scaled;
use leasehold_core::Fault;
use std::time::Duration;

/// A fault, and how it is made on a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FaultSpec {
    pub(crate) fault: Fault,
    pub(crate) means: Means,
    pub(crate) lasts: Lasting,
    /// The lease of the holder.
    pub(crate) ttl: Duration,
}

/// What is done: [`FaultSpec::words`] says it in a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Means {
    Nothing,
    // To the holder's process, or to all processes of its host.
    KillHolder,
    StopHolder,
    StarveHolder,
    /// The holder's host sleeps: nothing in the process runs, its monotonic clock stands still, and `CLOCK_BOOTTIME` goes on.
    /// The process is stopped, and a preloaded library hides from its monotonic clock that time has passed.
    SuspendHolder,
    StepHolderClock,
    /// The wall clock of a host whose processes are the store, by so many seconds.
    StepHostClock(i64),
    CutHostPower,
    // Between clients and their store.
    BlackHole,
    LoseReply,
    EndConnections,
    /// Where no administrator can end them.
    CutConnections,
    /// All clients reach the store by something that is not made for it.
    Pooler,
    NetworkFileSystem,
    // To the store as a whole.
    StopStore,
    CrashStore,
    CutStorePower,
    DeleteRecord,
    /// Where no other process reaches the store.
    ForceRelease,
    LoseData,
    StepStoreClockForward,
    StepStoreClockBack,
    EvictEverything,
    FillDisk,
    // To some of its servers: replicas that take over, members that vote. A store with one
    // server has `KillStore` instead.
    FailOver,
    Supplant,
    KillLeader,
    StopLeader,
    /// None of them leads unless it must be.
    KillMinority,
    KillMajority,
    /// The one server, or all of them.
    KillStore,
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

/// What a fault changes for all that is done in a store, before or after it. A store meets at most one fault that has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SideEffect {
    None,
    /// By which clock processes run: it is chosen when they start.
    Clocks,
    /// Which server is the store: another one from then on.
    Primary,
}

impl FaultSpec {
    /// True if it is there before the lock is asked for.
    pub(crate) fn is_from_the_start(&self) -> bool {
        matches!(self.means, Means::LoseReply | Means::Pooler | Means::NetworkFileSystem)
    }

    /// What it changes beside the hold.
    pub(crate) fn side_effect(&self) -> SideEffect {
        match self.means {
            Means::SuspendHolder
            | Means::StepHolderClock
            | Means::StepHostClock(_)
            | Means::StepStoreClockForward
            | Means::StepStoreClockBack => SideEffect::Clocks,
            Means::FailOver | Means::Supplant => SideEffect::Primary,
            _ => SideEffect::None,
        }
    }

    /// False if it is all that happens to a store: nobody who uses it lives on, or it stands before all of them from the
    /// start.
    pub(crate) fn is_one_of_many(&self) -> bool {
        !matches!(self.means, Means::CutHostPower | Means::Pooler | Means::NetworkFileSystem)
    }

    /// True if it ends connections to the store, as somebody must see who has one. What the network ends, it ends.
    pub(crate) fn ends_connections(&self) -> bool {
        use Means::{CrashStore, CutStorePower, EndConnections, FailOver};
        matches!(self.means, EndConnections | CrashStore | CutStorePower | FailOver)
    }
}

impl Time {
    /// On this machine.
    pub(super) fn scaled(least_ms: u64, most_ms: u64) -> Self {
        let [least, most] = [least_ms, most_ms].map(|millis| scaled(Duration::from_millis(millis)));
        Self { least, most }
    }

    /// So long, whatever happens.
    pub(crate) const fn exactly(time: Duration) -> Self {
        Self { least: time, most: time }
    }
}

pub(super) const USUAL: Duration = Duration::from_millis(1_500);

/// The usual lease on this machine.
pub(crate) fn usual_lease() -> Duration {
    scaled(USUAL)
}
