//! Faults that an administrator makes, or ought to have prevented: clocks, memory, disks, poolers.

use super::{Claim, Ground, Injection, Lasting, Schedule, Setting, scaled};
use crate::case::Verdict;
use crate::subject::{Cannot, Store};
use async_trait::async_trait;
use std::any::Any;
use std::time::Duration;

const HOUR: i64 = 3600;

/// The wall clock of the store jumps.
pub(super) struct StoreClock {
    forward: bool,
}

impl StoreClock {
    pub(super) fn forward() -> Self {
        Self { forward: true }
    }

    pub(super) fn back() -> Self {
        Self { forward: false }
    }
}

/// How long a holder is watched whose store has set its clock back, before it is killed.
const WATCHED: Duration = Duration::from_millis(600);

#[async_trait]
impl Injection for StoreClock {
    fn words(&self) -> &'static str {
        match self.forward {
            true => "the wall clock of the store jumps an hour ahead while the lock is held",
            false => "the wall clock of the store jumps an hour back; a moment later the holder is killed",
        }
    }

    fn schedule(&self) -> Schedule {
        match self.forward {
            true => Schedule::new(Lasting::Moment).patient(),
            false => Schedule::new(Lasting::STATE),
        }
    }

    fn claim(&self) -> Claim {
        Claim::Clocks
    }

    async fn prepare(&mut self, store: &dyn Store, schedule: &Schedule) -> Result<Setting, Cannot> {
        store.administrator()?.step_clock(0).await?;
        Ok(Setting::of(store, schedule))
    }

    async fn inject(&mut self, ground: &mut Ground<'_>) -> Verdict {
        let administrator = ground.store.administrator()?;
        if self.forward {
            return Ok(administrator.step_clock(HOUR).await?);
        }
        administrator.step_clock(-HOUR).await?;
        tokio::time::sleep(scaled(WATCHED)).await;
        ground.kill_holder()
    }

    async fn heal(&mut self, ground: &mut Ground<'_>) -> Verdict {
        match self.forward {
            // A clock that was set forward is not set back.
            true => Ok(()),
            false => Ok(ground.store.administrator()?.step_clock(0).await?),
        }
    }
}

/// The store throws away all that it keeps, for want of memory.
pub(super) struct MemoryFull;

#[async_trait]
impl Injection for MemoryFull {
    fn words(&self) -> &'static str {
        "the store runs out of memory, and may evict what it likes: it evicts everything"
    }

    fn schedule(&self) -> Schedule {
        Schedule::new(Lasting::Moment).patient()
    }

    async fn prepare(&mut self, store: &dyn Store, schedule: &Schedule) -> Result<Setting, Cannot> {
        store.administrator()?;
        Ok(Setting::of(store, schedule))
    }

    async fn inject(&mut self, ground: &mut Ground<'_>) -> Verdict {
        Ok(ground.store.administrator()?.evict_everything().await?)
    }
}

/// Nothing can be written to the store's disk.
pub(super) struct DiskFull;

#[async_trait]
impl Injection for DiskFull {
    fn words(&self) -> &'static str {
        "the store has no room for what it wants to write; then there is room again, and a server is started anew"
    }

    fn schedule(&self) -> Schedule {
        Schedule::new(Lasting::STATE)
    }

    async fn prepare(&mut self, store: &dyn Store, schedule: &Schedule) -> Result<Setting, Cannot> {
        store.administrator()?.prepare_disk().await?;
        Ok(Setting::of(store, schedule))
    }

    async fn inject(&mut self, ground: &mut Ground<'_>) -> Verdict {
        Ok(ground.store.administrator()?.fill_disk(true).await?)
    }

    async fn heal(&mut self, ground: &mut Ground<'_>) -> Verdict {
        Ok(ground.store.administrator()?.fill_disk(false).await?)
    }
}

/// Everybody reaches the store by something that is not made for it.
pub(super) struct Behind {
    what: Between,
    /// As long as it stands there.
    stands: Option<Box<dyn Any + Send>>,
}

/// What stands between the store and its clients.
#[derive(Clone, Copy)]
pub(super) enum Between {
    Pooler,
    NetworkFileSystem,
}

impl Behind {
    pub(super) fn a(what: Between) -> Self {
        Self { what, stands: None }
    }
}

#[async_trait]
impl Injection for Behind {
    fn words(&self) -> &'static str {
        match self.what {
            Between::Pooler => {
                "all clients are behind a pooler that lends sessions for one transaction; then they go to the store itself"
            }
            Between::NetworkFileSystem => {
                "all clients see the file by FUSE (bindfs), as what sshfs mounts or a virtual machine shares; then where it is"
            }
        }
    }

    fn schedule(&self) -> Schedule {
        Schedule::new(Lasting::STATE).there_from_the_start()
    }

    fn is_one_of_many(&self) -> bool {
        false
    }

    async fn prepare(&mut self, store: &dyn Store, schedule: &Schedule) -> Result<Setting, Cannot> {
        let administrator = store.administrator()?;
        let (stands, address) = match self.what {
            Between::Pooler => administrator.behind_pooler().await?,
            Between::NetworkFileSystem => administrator.behind_network_file_system().await?,
        };
        if [store.address(), store.address_for_holds_of(schedule.ttl)].contains(&address) {
            return Err(Cannot::failed("nothing stands before the store: the address is its own"));
        }
        self.stands = Some(stands);
        let mut setting = Setting::through(address.clone(), address);
        setting.healed = Some(store.address_for_holds_of(schedule.ttl));
        Ok(setting)
    }

    async fn inject(&mut self, _: &mut Ground<'_>) -> Verdict {
        Ok(())
    }
}
