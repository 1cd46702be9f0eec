use super::evidence::{ensure_killed, ensure_one_is_down, is_taken, until_done_unheard};
use super::spec::{FaultSpec, Means};
use super::table::{HOUR, STARVED};
use crate::clock::ProcessClock;
use crate::history::Recorder;
use crate::proxy::{Proxy, Traffic};
use crate::stop::{Stop, Verdict};
use crate::subject::Store;
use crate::time_scale::scaled;
use crate::worker::{Environment, Request, Worker};
use leasehold_core::{DistributedLock, Fault, LockName};
use std::any::Any;
use std::time::{Duration, Instant};

/// How long a client behind a proxy waits for a reply before it takes the request for lost.
const PATIENCE: Duration = Duration::from_millis(400);
/// Renewals happen between two jumps of a clock.
const BETWEEN_JUMPS: Duration = Duration::from_millis(700);
/// How long a holder is watched whose store has set its clock back, before it is killed.
const WATCHED: Duration = Duration::from_millis(600);
/// By how much the clocks of two primaries differ, where that can be chosen: who grants tokens by a clock of its own repeats
/// those of the other.
const APART: Duration = Duration::from_secs(5);

/// A fault that can be made and healed.
pub(crate) struct Injection {
    pub(crate) spec: FaultSpec,
    pub(crate) setup: ClientSetup,
    /// In front of the holder, and not of the others.
    proxy: Option<Proxy>,
    /// The bytes of replies before the fault.
    answered: u64,
    /// What stands in front of all clients, as long as it stands there.
    _stands: Option<Box<dyn Any + Send>>,
    clock: Option<ProcessClock>,
    asleep_since: Option<Instant>,
    /// The members that were killed or stopped.
    down: Vec<usize>,
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

/// How the clients of a run connect.
#[derive(Debug, Default)]
pub(crate) struct ClientSetup {
    pub(crate) holder: String,
    pub(crate) others: String,
    /// How others connect that come anew when the fault is healed, in the place of those before.
    pub(crate) healed: Option<String>,
    pub(crate) holder_environment: Environment,
    pub(crate) others_environment: Environment,
}

impl Injection {
    /// Does what must be done before anybody has a connection: proxies, clocks, poolers.
    pub(crate) async fn prepare(spec: FaultSpec, store: &dyn Store, lease: Duration) -> Result<Self, Stop> {
        let stands = prepare_store(spec.means, store).await?;
        let address = store.address_for_holds_of(lease);
        let mut this = Self {
            spec,
            setup: ClientSetup { holder: address.clone(), others: address, ..ClientSetup::default() },
            proxy: None,
            answered: 0,
            _stands: None,
            clock: None,
            asleep_since: None,
            down: Vec::new(),
        };
        let setup = &mut this.setup;
        match spec.means {
            Means::SuspendHolder | Means::StepHolderClock => {
                setup.holder_environment = this.clock.insert(ProcessClock::ahead(0)?).environment();
            }
            Means::StepHostClock(_) => {
                setup.holder_environment = this.clock.insert(ProcessClock::ahead(0)?).environment();
                setup.others_environment.clone_from(&setup.holder_environment);
            }
            Means::CutHostPower => setup.healed = Some(setup.others.clone()),
            Means::BlackHole | Means::LoseReply => this.prepare_proxy(store).await?,
            // No client is connected yet.
            Means::EndConnections => match end_connections(store).await {
                Err(Stop::Skipped(_)) => {
                    this.spec.means = Means::CutConnections;
                    this.prepare_proxy(store).await?;
                }
                ended => ended?,
            },
            _ => {}
        }
        if let Some((stands, address)) = stands {
            if [&store.address(), &this.setup.others].contains(&&address) {
                return Err(Stop::failed("nothing stands before the store: the address is its own"));
            }
            this.setup.healed = Some(std::mem::replace(&mut this.setup.others, address.clone()));
            (this.setup.holder, this._stands) = (address, Some(stands));
        }
        Ok(this)
    }

    async fn prepare_proxy(&mut self, store: &dyn Store) -> Result<(), Stop> {
        let (proxy, address) = store.proxied(scaled(PATIENCE)).await?;
        (self.proxy, self.setup.holder) = (Some(proxy), address);
        Ok(())
    }

    /// Does what must be done before the lock is taken: what a store is to forget must have a beginning.
    pub(crate) async fn before_the_hold(&mut self, ground: &mut Ground<'_>) -> Verdict {
        match self.spec.means {
            // The reply that is lost is to be that of the acquisition, and not of a greeting.
            Means::LoseReply => ground.holder.order(Request::WarmUp(ground.name.clone())).await?,
            Means::CutStorePower => ground.store.sync().await?,
            Means::FailOver | Means::Supplant => ground.store.replicas()?.cut_off(ground.name).await?,
            _ => {}
        }
        Ok(())
    }

    /// Makes the fault. It stands in the history from just before, and is over there if it could be made only by half.
    pub(crate) async fn inject(&mut self, ground: &mut Ground<'_>) -> Verdict {
        ground.recorder.injected(self.spec.fault, self.target(ground.holder))?;
        let done = self.make(ground).await;
        if done.is_err() {
            self.record_end(ground)?;
        }
        done
    }

    /// Heals the fault. It stands in the history until just after.
    pub(crate) async fn heal(&mut self, ground: &mut Ground<'_>) -> Verdict {
        self.undo(ground).await?;
        self.record_end(ground)
    }

    fn record_end(&self, ground: &Ground<'_>) -> Verdict {
        // The dead stay dead.
        if self.spec.fault == Fault::HolderKilled {
            return Ok(());
        }
        Ok(ground.recorder.healed(self.spec.fault, self.target(ground.holder))?)
    }

    /// True if no process but the holder's feels it.
    pub(crate) fn hits_holder_alone(&self) -> bool {
        use Means::{KillHolder, StarveHolder, StepHolderClock, StopHolder, SuspendHolder};
        matches!(self.spec.means, KillHolder | StopHolder | StarveHolder | SuspendHolder | StepHolderClock)
            || self.setup.holder != self.setup.others
    }

    fn target(&self, holder: &Worker) -> Option<u32> {
        self.hits_holder_alone().then(|| holder.process())
    }

    async fn make(&mut self, ground: &mut Ground<'_>) -> Verdict {
        let store = ground.store;
        match self.spec.means {
            Means::Nothing | Means::Pooler | Means::NetworkFileSystem => {}
            Means::KillHolder => ground.holder.kill(),
            Means::StopHolder => ground.holder.pause(),
            Means::StarveHolder => ground.holder.order(Request::Starve(scaled(STARVED))).await?,
            Means::SuspendHolder => {
                ground.holder.pause();
                self.asleep_since = Some(Instant::now());
            }
            Means::StepHolderClock => {
                self.set_clock_ahead(HOUR)?;
                tokio::time::sleep(scaled(BETWEEN_JUMPS)).await;
                self.set_clock_ahead(-HOUR)?;
            }
            Means::StepHostClock(seconds) => self.set_clock_ahead(seconds)?,
            Means::CutHostPower => {
                kill(ground.holder, ground.recorder)?;
                ground.others.iter_mut().try_for_each(|others| kill(others, ground.recorder))?;
                store.lose_power().await?;
            }
            Means::BlackHole => self.set_traffic(Traffic::BlackHole),
            Means::LoseReply => {
                self.answered = self.proxy.as_ref().map_or(0, Proxy::reply_bytes);
                self.set_traffic(Traffic::HoldReplies);
            }
            Means::EndConnections => end_connections(store).await?,
            Means::CutConnections => self.cut(),
            Means::StopStore => store.pause().await?,
            Means::CrashStore => store.crash().await?,
            Means::CutStorePower => store.lose_power().await?,
            Means::DeleteRecord => store.delete(ground.name).await?,
            Means::ForceRelease => ground.holder.order(Request::ForceRelease(ground.name.clone())).await?,
            Means::LoseData => store.lose_data().await?,
            Means::StepStoreClockForward => store.administrator()?.set_clock_ahead(HOUR).await?,
            Means::StepStoreClockBack => {
                store.administrator()?.set_clock_ahead(-HOUR).await?;
                tokio::time::sleep(scaled(WATCHED)).await;
                kill(ground.holder, ground.recorder)?;
            }
            Means::EvictEverything => store.administrator()?.evict_everything().await?,
            Means::FillDisk => store.administrator()?.fill_disk(true).await?,
            Means::FailOver => store.replicas()?.fail_over(ground.name).await?,
            Means::Supplant => store.replicas()?.supplant(ground.name).await?,
            Means::StopLeader => {
                let members = store.members()?;
                self.down = vec![members.leader_of(members.count()).await?];
                members.pause(self.down[0]).await?;
            }
            Means::KillLeader | Means::KillMinority | Means::KillMajority => self.kill_members(store).await?,
            Means::KillStore => {
                store.kill().await?;
                ensure_one_is_down(store).await?;
            }
        }
        Ok(())
    }

    async fn undo(&mut self, ground: &mut Ground<'_>) -> Verdict {
        let store = ground.store;
        match self.spec.means {
            Means::StopHolder => ground.holder.resume(),
            Means::SuspendHolder => {
                if let (Some(clock), Some(since)) = (&self.clock, self.asleep_since) {
                    clock.hide(since.elapsed())?;
                }
                ground.holder.resume();
            }
            Means::StepHolderClock | Means::StepHostClock(_) => self.set_clock_ahead(0)?,
            Means::BlackHole => self.set_traffic(Traffic::Pass),
            Means::LoseReply => {
                self.cut();
                self.set_traffic(Traffic::Pass);
            }
            Means::StopStore => store.resume().await?,
            // A clock that was set forward is not set back.
            Means::StepStoreClockBack => store.administrator()?.set_clock_ahead(0).await?,
            Means::FillDisk => store.administrator()?.fill_disk(false).await?,
            Means::Supplant => store.replicas()?.revive().await?,
            Means::StopLeader => store.members()?.resume(self.down[0]).await?,
            Means::KillLeader | Means::KillMinority | Means::KillMajority => {
                for member in &self.down {
                    store.members()?.restart(*member, true).await?;
                }
            }
            Means::KillStore => store.restart(true).await?,
            _ => {}
        }
        Ok(())
    }

    /// Waits until it has hit somebody, if it was made before there was anybody to hit: who wants this lock. `other` is a
    /// client that it does not hit.
    pub(crate) async fn has_struck(&mut self, other: &dyn DistributedLock, name: &LockName) -> Verdict {
        let proxy = self.proxy.as_ref().filter(|_| self.spec.means == Means::LoseReply);
        let Some(proxy) = proxy else { return Ok(()) };
        until_done_unheard(proxy, self.answered, (other, name), is_taken).await
    }

    /// Kills the leader alone, or as many as the fault takes, the leader last.
    async fn kill_members(&mut self, store: &dyn Store) -> Verdict {
        let members = store.members()?;
        let leader = members.leader_of(members.count()).await?;
        let leader_last = (0..members.count()).filter(|member| *member != leader).chain([leader]);
        self.down = match self.spec.means {
            Means::KillLeader => vec![leader],
            Means::KillMinority => leader_last.take(members.count() / 2).collect(),
            _ => leader_last.take(members.count() / 2 + 1).collect(),
        };
        for member in &self.down {
            members.kill(*member).await?;
        }
        ensure_killed(members, &self.down).await
    }

    fn set_clock_ahead(&self, seconds: i64) -> Verdict {
        self.clock.iter().try_for_each(|clock| clock.set_ahead(seconds))
    }

    fn set_traffic(&self, traffic: Traffic) {
        self.proxy.iter().for_each(|proxy| proxy.set(traffic));
    }

    fn cut(&self) {
        self.proxy.iter().map(Proxy::cut).for_each(drop);
    }
}

/// Afterwards the store may have another address. Answers what stands in front of it from now on, and at which address.
async fn prepare_store(
    means: Means,
    store: &dyn Store,
) -> Result<Option<(Box<dyn Any + Send>, String)>, Stop> {
    match means {
        Means::CutHostPower => store.sync().await?,
        Means::Pooler => return store.administrator()?.behind_pooler().await.map(Some),
        Means::NetworkFileSystem => {
            return store.administrator()?.behind_network_file_system().await.map(Some);
        }
        Means::StepStoreClockForward | Means::StepStoreClockBack => {
            store.administrator()?.set_clock_ahead(0).await?;
        }
        Means::EvictEverything => store.administrator().map(drop)?,
        Means::FillDisk => store.administrator()?.prepare_disk().await?,
        Means::FailOver => store.replicate(Duration::ZERO).await?,
        Means::Supplant => store.replicate(APART).await?,
        _ => {}
    }
    Ok(None)
}

async fn end_connections(store: &dyn Store) -> Result<(), Stop> {
    store.administrator()?.kill_connections().await
}

/// Kills a process in the course of another fault, which stands in the history for itself.
fn kill(worker: &mut Worker, recorder: &Recorder) -> Verdict {
    recorder.injected(Fault::HolderKilled, Some(worker.process()))?;
    worker.kill();
    Ok(())
}
