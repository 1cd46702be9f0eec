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
            // Nobody sets a clock back that is wrong by then.
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
        "no write of the store to a file succeeds (RLIMIT_FSIZE); then there is room again, and it is started anew"
    }

    fn schedule(&self) -> Schedule {
        Schedule::new(Lasting::STATE)
    }

    async fn prepare(&mut self, store: &dyn Store, schedule: &Schedule) -> Result<Setting, Cannot> {
        store.administrator()?;
        Ok(Setting::of(store, schedule))
    }

    async fn inject(&mut self, ground: &mut Ground<'_>) -> Verdict {
        Ok(ground.store.administrator()?.fill_disk(true).await?)
    }

    async fn heal(&mut self, ground: &mut Ground<'_>) -> Verdict {
        Ok(ground.store.administrator()?.fill_disk(false).await?)
    }
}

/// Everybody is behind a pooler that lends the sessions of the store for one transaction at a time.
#[derive(Default)]
pub(super) struct Pooler(Option<Box<dyn Any + Send>>);

#[async_trait]
impl Injection for Pooler {
    fn words(&self) -> &'static str {
        "all clients are behind a pooler that lends sessions for one transaction; then they go to the store itself"
    }

    fn schedule(&self) -> Schedule {
        Schedule::new(Lasting::STATE).there_from_the_start()
    }

    async fn prepare(&mut self, store: &dyn Store, schedule: &Schedule) -> Result<Setting, Cannot> {
        let (pooler, address) = store.administrator()?.behind_pooler().await?;
        self.0 = Some(pooler);
        let mut setting = Setting::through(address.clone(), address);
        setting.healed = Some(store.address_for_holds_of(schedule.ttl));
        Ok(setting)
    }

    async fn inject(&mut self, _: &mut Ground<'_>) -> Verdict {
        Ok(())
    }
}
