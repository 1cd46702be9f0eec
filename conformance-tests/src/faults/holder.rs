//! Faults of the holder's process, and of the host that it runs on.

use super::{Claim, Ground, Injection, Lasting, Schedule, Setting, Time, scaled};
use crate::case::Verdict;
use crate::clock::{ShimmedClock, SteppedClock};
use crate::subject::{Cannot, Store};
use async_trait::async_trait;
use std::time::{Duration, Instant};

/// What is done to the holder's process alone.
pub(super) enum OnHolder {
    Killed,
    Paused,
    Starved,
}

/// Longer than the usual lease.
const STARVED: Duration = Duration::from_millis(2_000);

#[async_trait]
impl Injection for OnHolder {
    fn words(&self) -> &'static str {
        match self {
            Self::Killed => "the holder's process is killed (SIGKILL) while it works",
            Self::Paused => {
                "the holder's process is stopped (SIGSTOP) in the middle of its work, and goes on after its lease"
            }
            Self::Starved => "every thread of the holder's runtime is blocked for longer than the lease",
        }
    }

    fn schedule(&self) -> Schedule {
        Schedule::new(match self {
            Self::Killed => Lasting::Moment,
            Self::Paused => Lasting::SPELL,
            // Its end comes by itself.
            Self::Starved => Lasting::Spell(Time { least: STARVED, most: STARVED }),
        })
        .on_holder()
    }

    async fn inject(&mut self, ground: &mut Ground<'_>) -> Verdict {
        match self {
            Self::Killed => ground.holder.kill(),
            Self::Paused => ground.holder.pause(),
            Self::Starved => ground.holder.starve(scaled(STARVED)).await?,
        }
        Ok(())
    }

    async fn heal(&mut self, ground: &mut Ground<'_>) -> Verdict {
        if matches!(self, Self::Paused) {
            ground.holder.resume();
        }
        Ok(())
    }
}

/// The host of all clients, whose disk is the store, has no power any more.
pub(super) struct PowerLost;

#[async_trait]
impl Injection for PowerLost {
    fn words(&self) -> &'static str {
        "all processes of the host are killed, its disk keeps what was synced to it, and others come when the power is back"
    }

    fn schedule(&self) -> Schedule {
        Schedule::new(Lasting::Moment)
    }

    fn is_one_of_many(&self) -> bool {
        false
    }

    async fn prepare(&mut self, store: &dyn Store, schedule: &Schedule) -> Result<Setting, Cannot> {
        store.sync().await?;
        let mut setting = Setting::of(store, schedule);
        setting.healed = Some(store.address_for_holds_of(schedule.ttl));
        Ok(setting)
    }

    async fn inject(&mut self, ground: &mut Ground<'_>) -> Verdict {
        ground.kill_holder()?;
        ground.kill_others()?;
        Ok(ground.store.lose_power().await?)
    }
}

/// The holder's host sleeps: nothing in the process runs, its monotonic clock stands still, and `CLOCK_BOOTTIME` goes on.
/// The process is stopped, and a preloaded library hides from its monotonic clock that time has passed.
#[derive(Default)]
pub(super) struct Suspended {
    clock: Option<ShimmedClock>,
    since: Option<Instant>,
}

#[async_trait]
impl Injection for Suspended {
    fn words(&self) -> &'static str {
        "the holder's host sleeps: its process stands still and so does its monotonic clock; CLOCK_BOOTTIME goes on"
    }

    fn schedule(&self) -> Schedule {
        Schedule::new(Lasting::SPELL).on_holder()
    }

    fn claim(&self) -> Claim {
        Claim::Clocks
    }

    async fn prepare(&mut self, store: &dyn Store, schedule: &Schedule) -> Result<Setting, Cannot> {
        let clock = ShimmedClock::ahead(0)?;
        let mut setting = Setting::of(store, schedule);
        setting.holder_environment = clock.environment();
        self.clock = Some(clock);
        Ok(setting)
    }

    async fn inject(&mut self, ground: &mut Ground<'_>) -> Verdict {
        ground.holder.pause();
        self.since = Some(Instant::now());
        Ok(())
    }

    async fn heal(&mut self, ground: &mut Ground<'_>) -> Verdict {
        if let (Some(clock), Some(since)) = (&self.clock, self.since) {
            clock.hide(since.elapsed())?;
        }
        ground.holder.resume();
        Ok(())
    }
}

/// A wall clock that jumps: the holder's own, or that of a host whose processes are the store.
pub(super) struct ClockJumps {
    /// By how much, one after the other.
    jumps: Vec<i64>,
    of_host: bool,
    clock: Option<SteppedClock>,
}

const HOUR: i64 = 3600;
/// Between two jumps: renewals happen in it.
const BETWEEN: Duration = Duration::from_millis(700);

impl ClockJumps {
    pub(super) fn of_holder() -> Self {
        Self { jumps: vec![HOUR, -HOUR], of_host: false, clock: None }
    }

    pub(super) fn of_host(forward: bool) -> Self {
        Self { jumps: vec![if forward { HOUR } else { -HOUR }], of_host: true, clock: None }
    }
}

#[async_trait]
impl Injection for ClockJumps {
    fn words(&self) -> &'static str {
        match (self.of_host, self.jumps[0] > 0) {
            (false, _) => "the wall clock of the holder's process jumps an hour ahead, and then two back",
            (true, true) => {
                "the wall clock of all processes of the host jumps an hour ahead while the lock is held"
            }
            (true, false) => {
                "the wall clock of all processes of the host jumps an hour back while the lock is held"
            }
        }
    }

    fn schedule(&self) -> Schedule {
        let schedule = Schedule::new(Lasting::STATE);
        if self.of_host { schedule } else { schedule.on_holder() }
    }

    fn claim(&self) -> Claim {
        Claim::Clocks
    }

    async fn prepare(&mut self, store: &dyn Store, schedule: &Schedule) -> Result<Setting, Cannot> {
        let clock = SteppedClock::ahead(0)?;
        let mut setting = Setting::of(store, schedule);
        setting.holder_environment = clock.environment();
        if self.of_host {
            setting.others_environment = clock.environment();
        }
        self.clock = Some(clock);
        Ok(setting)
    }

    async fn inject(&mut self, _: &mut Ground<'_>) -> Verdict {
        let Some(clock) = &self.clock else { return Ok(()) };
        for (number, jump) in self.jumps.iter().enumerate() {
            if number > 0 {
                tokio::time::sleep(scaled(BETWEEN)).await;
            }
            clock.step_to(*jump)?;
        }
        Ok(())
    }

    async fn heal(&mut self, _: &mut Ground<'_>) -> Verdict {
        self.clock.as_ref().map_or(Ok(()), |clock| clock.step_to(0))
    }
}
