//! The faults, as values: each can be made on a store that runs and on the process of a holder, and healed again.
//!
//! What a fault does is done with the hooks of [`Store`] and its parts; one that a store has no hook for cannot be made
//! there, and says so.

mod administration;
mod holder;
mod network;
mod servers;
mod store;
mod witness;

pub(crate) use network::until_granted_unheard;
pub(crate) use witness::Witness;

use crate::case::Stop;
use crate::context::time_scale;
use crate::history::Recorder;
use crate::subject::{Cannot, Store};
use crate::worker::Worker;
use async_trait::async_trait;
use leasehold_core::{DistributedLock, ExpiryClock, Fault, HoldKind, LockName, Reach, Semantics};
use std::time::Duration;

/// A fault that can be made and healed.
#[async_trait]
pub(crate) trait Injection: Send {
    /// How it is made, in a sentence.
    fn words(&self) -> &'static str;

    /// When, and for how long.
    fn schedule(&self) -> Schedule;

    /// What it changes for all others in the same store.
    fn claim(&self) -> Claim {
        Claim::Nothing
    }

    /// False if it is all that happens to a store: nobody who uses it lives on, or it stands before all of them from the
    /// start.
    fn is_one_of_many(&self) -> bool {
        true
    }

    /// True if it ends connections to the store, as somebody must see who has one.
    fn ends_connections(&self) -> bool {
        false
    }

    /// What must be done before anybody has a connection: proxies, clocks, poolers. Answers how clients are to connect.
    async fn prepare(&mut self, store: &dyn Store, schedule: &Schedule) -> Result<Setting, Cannot> {
        Ok(Setting::of(store, schedule))
    }

    /// What must be done before the lock is taken: what a store is to forget must have a beginning.
    async fn before_the_hold(&mut self, ground: &mut Ground<'_>) -> Result<(), Stop> {
        let _ = ground;
        Ok(())
    }

    /// Makes it.
    async fn inject(&mut self, ground: &mut Ground<'_>) -> Result<(), Stop>;

    /// Waits until it has hit somebody, if it was made before there was anybody to hit: who wants this lock. `other` is a
    /// client that it does not hit.
    async fn has_struck(&mut self, other: &dyn DistributedLock, name: &LockName) -> Result<(), Stop> {
        let _ = (other, name);
        Ok(())
    }

    /// Undoes it.
    async fn heal(&mut self, ground: &mut Ground<'_>) -> Result<(), Stop> {
        let _ = ground;
        Ok(())
    }
}

/// What a fault changes for all that is done in a store, before or after it. Of two that claim anything, one store can meet
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    Nothing,
    /// By which clock processes run: it is chosen when they start.
    Clocks,
    /// Which server is the store: another one from then on.
    Primary,
}

/// What a fault is made on.
pub(crate) struct Ground<'a> {
    pub(crate) store: &'a dyn Store,
    /// The process of the holder, which may be that of all others too.
    pub(crate) holder: &'a mut Worker,
    /// That of the others, where it is known and another one.
    pub(crate) others: Option<&'a mut Worker>,
    pub(crate) name: &'a LockName,
    pub(crate) recorder: &'a Recorder,
}

impl Ground<'_> {
    /// Kills the holder in the course of another fault, which stands in the history for itself.
    fn kill_holder(&mut self) -> Result<(), Stop> {
        kill(self.holder, self.recorder)
    }

    /// Likewise all others.
    fn kill_others(&mut self) -> Result<(), Stop> {
        self.others.iter_mut().try_for_each(|others| kill(others, self.recorder))
    }
}

fn kill(worker: &mut Worker, recorder: &Recorder) -> Result<(), Stop> {
    recorder.injected(Fault::HolderKilled, Some(worker.process()))?;
    worker.kill();
    Ok(())
}

/// How the clients of a run connect.
#[derive(Debug)]
pub(crate) struct Setting {
    pub(crate) holder: String,
    pub(crate) others: String,
    /// How others connect that come anew when the fault is healed, in the place of those before.
    pub(crate) healed: Option<String>,
    pub(crate) holder_environment: Vec<(String, String)>,
    pub(crate) others_environment: Vec<(String, String)>,
}

/// When a fault is made, and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
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
    /// It lasts until somebody heals it. Only under such a one can a store be *unavailable*: what passes by itself is a
    /// delay.
    State(Time),
}

/// At least so long, and then until somebody else has the lock, if that comes soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Time {
    pub(crate) least: Duration,
    pub(crate) most: Duration,
}

impl Time {
    const fn new(least_ms: u64, most_ms: u64) -> Self {
        Self { least: Duration::from_millis(least_ms), most: Duration::from_millis(most_ms) }
    }
}

impl Lasting {
    fn scaled(self) -> Self {
        let longer = |time: Time| Time { least: scaled(time.least), most: scaled(time.most) };
        match self {
            Self::Moment => self,
            Self::Spell(time) => Self::Spell(longer(time)),
            Self::State(time) => Self::State(longer(time)),
        }
    }

    /// Longer than the usual lease; and than it takes a server to find out that a connection is dead, which some count
    /// in whole seconds.
    const SPELL: Self = Self::Spell(Time::new(1_900, 5_500));
    /// Longer than the usual lease and the interval at which waiters ask.
    const STATE: Self = Self::State(Time::new(2_600, 4_000));
}

impl Setting {
    /// Everybody connects to the store itself.
    pub(crate) fn of(store: &dyn Store, schedule: &Schedule) -> Self {
        let address = store.address_for_holds_of(schedule.ttl);
        Self::through(address.clone(), address)
    }

    /// The holder connects differently.
    pub(crate) fn through(holder: String, others: String) -> Self {
        Self { holder, others, healed: None, holder_environment: Vec::new(), others_environment: Vec::new() }
    }
}

impl Schedule {
    /// Made while a lease of the usual length is held.
    pub(crate) fn new(lasts: Lasting) -> Self {
        Self { ttl: scaled(SHORT), from_the_start: false, hits_holder: false, lasts: lasts.scaled() }
    }

    /// Of this lease, whatever it takes to see the most of the fault.
    pub(crate) fn with_lease(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    pub(crate) fn on_holder(mut self) -> Self {
        self.hits_holder = true;
        self
    }

    pub(crate) fn there_from_the_start(mut self) -> Self {
        self.from_the_start = true;
        self
    }

    /// Uses a lease whose third outlasts the start of a server and the first attempt of another client.
    pub(crate) fn patient(mut self) -> Self {
        self.ttl = scaled(MEDIUM);
        self
    }

    /// Uses a lease that outlasts an election or a fail-over.
    pub(crate) fn long(mut self) -> Self {
        self.ttl = scaled(LONG);
        self
    }
}

/// The usual lease.
const SHORT: Duration = Duration::from_millis(1_500);
const MEDIUM: Duration = Duration::from_millis(4_500);
const LONG: Duration = Duration::from_millis(7_500);

/// The usual lease on this machine.
pub(crate) fn usual_lease() -> Duration {
    scaled(SHORT)
}

/// On a machine that takes longer for everything.
pub(crate) fn scaled(time: Duration) -> Duration {
    time.mul_f64(time_scale())
}

/// How this fault is made on this store, if it can be.
pub(crate) fn injection(
    fault: Fault,
    store: &dyn Store,
    semantics: &Semantics,
) -> Result<Box<dyn Injection>, Cannot> {
    use {administration as admin, holder::OnHolder, servers::Servers, store::OnStore};
    let of_host = semantics.expiry_clock == ExpiryClock::Host;
    let with_holds = semantics.hold == HoldKind::Connection;
    Ok(match fault {
        Fault::None => Box::new(Nothing),
        Fault::HolderKilled => Box::new(OnHolder::Killed),
        Fault::HolderPaused => Box::new(OnHolder::Paused),
        Fault::ExecutorStarved => Box::new(OnHolder::Starved),
        Fault::ClientSuspended => Box::new(holder::Suspended::default()),
        Fault::ClientClockJumps => Box::new(holder::ClockJumps::of_holder()),
        Fault::HolderPartitioned => Box::new(network::BlackHole::default()),
        Fault::AcquireReplyLost => Box::new(network::ReplyLost::default()),
        Fault::StorePaused => Box::new(OnStore::Paused),
        Fault::StoreRestarted => Box::new(OnStore::Crashed { with_holds }),
        Fault::PowerLost if semantics.reach == Reach::Host => Box::new(holder::PowerLost),
        Fault::PowerLost => Box::new(OnStore::PowerLost { with_holds }),
        Fault::RecordDeleted if semantics.reach == Reach::Process => Box::new(OnStore::RecordDeletedInside),
        Fault::RecordDeleted => Box::new(OnStore::RecordDeleted),
        Fault::DataLost => Box::new(OnStore::DataLost { with_holds }),
        Fault::FailOver => Box::new(Servers::fail_over(store)),
        Fault::SplitBrain => Box::new(Servers::split_brain(store)),
        Fault::MinorityDown => {
            Box::new(Servers::minority_down(store, semantics.promises.under(Fault::MinorityDown))?)
        }
        Fault::QuorumLost => Box::new(Servers::quorum_lost(store)),
        Fault::StoreClockForward if of_host => Box::new(holder::ClockJumps::of_host(true)),
        Fault::StoreClockBack if of_host => Box::new(holder::ClockJumps::of_host(false)),
        Fault::StoreClockForward => Box::new(admin::StoreClock::forward()),
        Fault::StoreClockBack => Box::new(admin::StoreClock::back()),
        Fault::MemoryFull => Box::new(admin::MemoryFull),
        Fault::DiskFull => Box::new(admin::DiskFull),
        Fault::ConnectionKilled => Box::new(network::Killed::default()),
        Fault::Pooler => Box::new(admin::Behind::a(admin::Between::Pooler)),
        Fault::NetworkFileSystem => Box::new(admin::Behind::a(admin::Between::NetworkFileSystem)),
    })
}

/// The fault that is none: the holder holds for longer than its lease, and is renewed.
struct Nothing;

#[async_trait]
impl Injection for Nothing {
    fn words(&self) -> &'static str {
        "nothing: a holder works for longer than its lease, while others want the lock"
    }

    fn schedule(&self) -> Schedule {
        Schedule::new(Lasting::Moment)
    }

    async fn inject(&mut self, _: &mut Ground<'_>) -> Result<(), Stop> {
        Ok(())
    }
}
