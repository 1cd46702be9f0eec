//! Which faults a store can meet, and by what means.

use super::spec::{FaultSpec, Lasting, Means, Time, USUAL};
use crate::stop::Stop;
use crate::subject::{Store, Subject};
use crate::time_scale::scaled;
use leasehold_core::{ExpiryClock, Fault, HoldKind, Outcome, Reach, Semantics};
use std::time::Duration;

/// A lease whose third outlasts the start of a server and the first attempt of another client.
const MEDIUM: Duration = Duration::from_millis(4_500);
/// A lease that outlasts an election or a fail-over.
const LONG: Duration = Duration::from_millis(7_500);
/// A lease a third of which outlasts a new start without data.
const OUTLASTS_A_NEW_START: Duration = Duration::from_secs(12);
/// Longer than the usual lease.
pub(super) const STARVED: Duration = Duration::from_secs(2);
pub(super) const HOUR: i64 = 3600;

/// How this fault is made on this store, if it can be.
pub(crate) fn spec_of(fault: Fault, store: &dyn Store, semantics: &Semantics) -> Result<FaultSpec, Stop> {
    use Lasting::{Moment, Spell, State};
    // Longer than the usual lease; and than it takes a server to find out that a connection is dead, which some count in whole
    // seconds.
    let spell = Spell(Time::scaled(1_900, 5_500));
    // Longer than the usual lease and the interval at which waiters ask.
    let state = State(Time::scaled(2_600, 4_000));
    let of_host = semantics.expiry_clock == ExpiryClock::Host;
    let (replicas, members) = (store.replicas().is_ok(), store.members().is_ok());
    let elects = members && !replicas;
    // Servers need a moment to start, and others a moment to ask; the holder's next renewal is to come after that. Holds that
    // are connections end with the server; their holder is to hear of it only when the store has long been back: a database
    // that is made anew takes seconds.
    let (restart, new_start) = match semantics.hold {
        HoldKind::Connection => (LONG, OUTLASTS_A_NEW_START),
        _ => (MEDIUM, MEDIUM),
    };
    // A store with replicas of its own has to find out that its primary is gone; a replica that is added is told to take over.
    let take_over = if replicas { LONG } else { MEDIUM };
    let elected = Spell(Time::scaled(2_500, 2_500));
    let (means, lasts, lease) = match fault {
        Fault::None => (Means::Nothing, Moment, USUAL),
        Fault::HolderKilled => (Means::KillHolder, Moment, USUAL),
        Fault::HolderPaused => (Means::StopHolder, spell, USUAL),
        // Its end comes by itself.
        Fault::ExecutorStarved => (Means::StarveHolder, Spell(Time::exactly(scaled(STARVED))), USUAL),
        Fault::ClientSuspended => (Means::SuspendHolder, spell, USUAL),
        Fault::ClientClockJumps => (Means::StepHolderClock, state, USUAL),
        Fault::HolderPartitioned => (Means::BlackHole, spell, USUAL),
        Fault::AcquireReplyLost => (Means::LoseReply, Moment, USUAL),
        Fault::ConnectionKilled => (Means::EndConnections, Moment, MEDIUM),
        Fault::Pooler => (Means::Pooler, state, USUAL),
        Fault::NetworkFileSystem => (Means::NetworkFileSystem, state, USUAL),
        Fault::StorePaused => (Means::StopStore, spell, USUAL),
        Fault::StoreRestarted => (Means::CrashStore, Moment, restart),
        Fault::PowerLost if semantics.reach == Reach::Host => (Means::CutHostPower, Moment, USUAL),
        Fault::PowerLost => (Means::CutStorePower, Moment, restart),
        Fault::RecordDeleted if semantics.reach == Reach::Process => (Means::ForceRelease, Moment, MEDIUM),
        Fault::RecordDeleted => (Means::DeleteRecord, Moment, MEDIUM),
        Fault::DataLost => (Means::LoseData, Moment, new_start),
        Fault::StoreClockForward if of_host => (Means::StepHostClock(HOUR), state, USUAL),
        Fault::StoreClockBack if of_host => (Means::StepHostClock(-HOUR), state, USUAL),
        Fault::StoreClockForward => (Means::StepStoreClockForward, Moment, MEDIUM),
        Fault::StoreClockBack => (Means::StepStoreClockBack, state, USUAL),
        Fault::MemoryFull => (Means::EvictEverything, Moment, MEDIUM),
        Fault::DiskFull => (Means::FillDisk, state, USUAL),
        Fault::FailOver if elects => (Means::KillLeader, elected, LONG),
        Fault::FailOver => (Means::FailOver, Moment, take_over),
        Fault::SplitBrain if elects => (Means::StopLeader, elected, LONG),
        Fault::SplitBrain => (Means::Supplant, Spell(Time::scaled(0, 6_000)), take_over),
        // The one that is down is the primary of the name: that is the worst of them.
        Fault::MinorityDown if replicas => (Means::FailOver, Moment, LONG),
        Fault::MinorityDown if members => (Means::KillMinority, state, LONG),
        // A store that promises `Unavailable` counts its one server as the minority.
        Fault::MinorityDown if semantics.promises.under(fault) == Outcome::Unavailable => {
            (Means::KillStore, state, USUAL)
        }
        Fault::MinorityDown => {
            return Err(Stop::skipped("one server alone has no minority that it could spare"));
        }
        Fault::QuorumLost if members => (Means::KillMajority, state, USUAL),
        Fault::QuorumLost => (Means::KillStore, state, USUAL),
    };
    Ok(FaultSpec { fault, means, lasts, ttl: scaled(lease) })
}

impl FaultSpec {
    /// How it is made, in a sentence.
    pub(crate) fn words(&self) -> &'static str {
        match self.means {
            Means::Nothing => "nothing: a holder works for longer than its lease, and others wait",
            Means::KillHolder => "the holder's process is killed (SIGKILL) while it works",
            Means::StopHolder => "the holder's process is stopped (SIGSTOP) for longer than its lease",
            Means::StarveHolder => {
                "every thread of the holder's runtime is blocked for longer than the lease"
            }
            Means::SuspendHolder => "the holder's host sleeps; only its CLOCK_BOOTTIME goes on",
            Means::StepHolderClock => "the wall clock of the holder jumps an hour ahead, and then two back",
            Means::StepHostClock(HOUR) => "the wall clock of all processes of the host jumps an hour ahead",
            Means::StepHostClock(_) => "the wall clock of all processes of the host jumps an hour back",
            Means::CutHostPower => "the host loses its power: its disk keeps what was synced to it",
            Means::BlackHole => "nothing passes between holder and store, and no connection is closed",
            Means::LoseReply => "the store grants, and the reply is lost with its connection",
            Means::EndConnections => "an administrator ends the connections of all clients at once",
            Means::CutConnections => "the network ends every connection of the holder",
            Means::Pooler => "all clients are behind a pooler that lends sessions for one transaction",
            Means::NetworkFileSystem => "all clients see the file through a shared folder (FUSE, bindfs)",
            Means::StopStore => "the store is stopped (SIGSTOP) for longer than the lease, and goes on",
            Means::CrashStore => "the store is killed (SIGKILL) and started again as it is usually set up",
            Means::CutStorePower => "the store is killed and started again with what it had synced",
            Means::DeleteRecord | Means::ForceRelease => "an administrator deletes the record of the lock",
            Means::LoseData => "everything in the store is lost",
            Means::StepStoreClockForward => "the wall clock of the store jumps an hour ahead",
            Means::StepStoreClockBack => "the store's wall clock jumps an hour back; the holder is killed",
            Means::EvictEverything => "the store runs out of memory, and evicts everything",
            Means::FillDisk => "the store has no room to write; then there is, and it is started anew",
            Means::FailOver => "the primary is killed; a replica that was cut off before takes over",
            Means::Supplant => "the primary stops, a replica that was cut off takes over, and it goes on",
            Means::KillLeader => "the leader is killed (SIGKILL), and another one elected",
            Means::StopLeader => "the leader is stopped (SIGSTOP), another one elected, and it goes on",
            Means::KillMinority => "as many servers are killed as can be spared",
            Means::KillMajority => "a majority of the servers is killed, and started again later",
            Means::KillStore => "the store is killed (SIGKILL), and started again later with its data",
        }
    }
}

/// The error is the reason why this fault never happens to this subject. What could happen and cannot be made on this
/// machine is another thing.
pub(crate) fn can_happen(subject: &dyn Subject, semantics: &Semantics, fault: Fault) -> Result<(), Stop> {
    match semantics.promises.under(fault) {
        Outcome::NotApplicable => Err(Stop::skipped(why_not(semantics.reach, fault))),
        _ => subject.can_meet(fault),
    }
}

/// Why a backend of this reach may say of a fault that it does not happen.
fn why_not(reach: Reach, fault: Fault) -> &'static str {
    match (reach, fault) {
        (Reach::Process, _) => "the lock is in the memory of its only process, and ends with it",
        (Reach::Host, _) => "the store is a file on the disk of this host, without a server",
        (_, Fault::RecordDeleted) => "the row of a held lock is locked: nobody can delete it",
        (_, Fault::FailOver | Fault::SplitBrain) => "there is no replica that could take over",
        (_, Fault::MinorityDown | Fault::QuorumLost) => "it is one server: there is nobody to be a majority",
        (_, Fault::MemoryFull) => "it throws nothing away for want of memory; a server without any is down",
        (_, Fault::Pooler) => "its clients keep a connection of their own, and no pooler lends it",
        (_, Fault::NetworkFileSystem) => "its clients open no file",
        _ => "the backend says that it cannot happen",
    }
}
