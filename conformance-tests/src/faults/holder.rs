//! Faults of the holder's process, and of the host that it runs on.

use super::injection::{ClientSetup, Ground, Injection, SideEffect};
use super::timing::{FaultTiming, Lasting, Time};
use crate::cannot::Cannot;
use crate::clock::{ShimmedClock, SteppedClock};
use crate::stop::Verdict;
use crate::subject::Store;
use crate::time_scale::scaled;
use crate::worker::ClientRequest;
use async_trait::async_trait;
use std::time::{Duration, Instant};

/// What is done to the holder's process, or to all processes of its host.
pub(super) enum OnHolder {
    Killed,
    Paused,
    Starved,
    /// The host of all clients, whose disk is the store, has no power any more.
    PowerLost,
    /// The holder's host sleeps: nothing in the process runs, its monotonic clock stands still, and `CLOCK_BOOTTIME` goes on.
    /// The process is stopped, and a preloaded library hides from its monotonic clock that time has passed.
    Suspended {
        clock: Option<ShimmedClock>,
        since: Option<Instant>,
    },
    /// A wall clock jumps, by so many seconds one after the other: the holder's own, or that of a host whose processes are the
    /// store.
    ClockJumps {
        jumps: &'static [i64],
        of_host: bool,
        clock: Option<SteppedClock>,
    },
}

/// Longer than the usual lease.
const STARVED: Duration = Duration::from_millis(2_000);
/// Renewals happen between two jumps of a clock.
const BETWEEN_JUMPS: Duration = Duration::from_millis(700);
const HOUR: i64 = 3600;

impl OnHolder {
    pub(super) const SUSPENDED: Self = Self::Suspended { clock: None, since: None };
    pub(super) const CLOCK_JUMPS: Self =
        Self::ClockJumps { jumps: &[HOUR, -HOUR], of_host: false, clock: None };
    pub(super) const HOST_CLOCK_FORWARD: Self =
        Self::ClockJumps { jumps: &[HOUR], of_host: true, clock: None };
    pub(super) const HOST_CLOCK_BACK: Self = Self::ClockJumps { jumps: &[-HOUR], of_host: true, clock: None };
}

#[async_trait]
impl Injection for OnHolder {
    fn words(&self) -> &'static str {
        match self {
            Self::Killed => "the holder's process is killed (SIGKILL) while it works",
            Self::Paused => {
                "the holder's process is stopped (SIGSTOP) in the middle of its work, and goes on after its lease"
            }
            Self::Starved => "every thread of the holder's runtime is blocked for longer than the lease",
            Self::PowerLost => {
                "all processes of the host are killed, its disk keeps what was synced to it, and others come when the power is back"
            }
            Self::Suspended { .. } => {
                "the holder's host sleeps: its process stands still and so does its monotonic clock; CLOCK_BOOTTIME goes on"
            }
            Self::ClockJumps { of_host: false, .. } => {
                "the wall clock of the holder's process jumps an hour ahead, and then two back"
            }
            Self::ClockJumps { jumps: [HOUR], .. } => {
                "the wall clock of all processes of the host jumps an hour ahead while the lock is held"
            }
            Self::ClockJumps { .. } => {
                "the wall clock of all processes of the host jumps an hour back while the lock is held"
            }
        }
    }

    fn timing(&self) -> FaultTiming {
        match self {
            Self::Killed => FaultTiming::new(Lasting::Moment).on_holder(),
            Self::Paused | Self::Suspended { .. } => FaultTiming::new(Lasting::SPELL).on_holder(),
            // Its end comes by itself.
            Self::Starved => FaultTiming::new(Lasting::Spell(Time::exactly(STARVED))).on_holder(),
            Self::PowerLost => FaultTiming::new(Lasting::Moment),
            Self::ClockJumps { of_host: true, .. } => FaultTiming::new(Lasting::STATE),
            Self::ClockJumps { .. } => FaultTiming::new(Lasting::STATE).on_holder(),
        }
    }

    fn side_effect(&self) -> SideEffect {
        match self {
            Self::Suspended { .. } | Self::ClockJumps { .. } => SideEffect::Clocks,
            _ => SideEffect::None,
        }
    }

    fn is_one_of_many(&self) -> bool {
        !matches!(self, Self::PowerLost)
    }

    async fn prepare(&mut self, store: &dyn Store, lease: Duration) -> Result<ClientSetup, Cannot> {
        let mut setup = ClientSetup::direct(store, lease);
        match self {
            Self::PowerLost => {
                store.sync().await?;
                setup.healed = Some(store.address_for_holds_of(lease));
            }
            Self::Suspended { clock, .. } => {
                setup.holder_environment = clock.insert(ShimmedClock::ahead(0)?).environment();
            }
            Self::ClockJumps { clock, of_host, .. } => {
                setup.holder_environment = clock.insert(SteppedClock::ahead(0)?).environment();
                if *of_host {
                    setup.others_environment.clone_from(&setup.holder_environment);
                }
            }
            _ => {}
        }
        Ok(setup)
    }

    async fn inject(&mut self, ground: &mut Ground<'_>) -> Verdict {
        match self {
            Self::Killed => ground.holder.kill(),
            Self::Paused => ground.holder.pause(),
            Self::Starved => ground.holder.order(ClientRequest::Starve(scaled(STARVED))).await?,
            Self::PowerLost => {
                ground.kill_holder()?;
                ground.kill_others()?;
                ground.store.lose_power().await?;
            }
            Self::Suspended { since, .. } => {
                ground.holder.pause();
                *since = Some(Instant::now());
            }
            Self::ClockJumps { jumps, clock: Some(clock), .. } => {
                for (number, jump) in jumps.iter().enumerate() {
                    if number > 0 {
                        tokio::time::sleep(scaled(BETWEEN_JUMPS)).await;
                    }
                    clock.step_to(*jump)?;
                }
            }
            Self::ClockJumps { clock: None, .. } => {}
        }
        Ok(())
    }

    async fn heal(&mut self, ground: &mut Ground<'_>) -> Verdict {
        match self {
            Self::Paused => ground.holder.resume(),
            Self::Suspended { clock, since } => {
                if let (Some(clock), Some(since)) = (clock, since) {
                    clock.hide(since.elapsed())?;
                }
                ground.holder.resume();
            }
            Self::ClockJumps { clock: Some(clock), .. } => clock.step_to(0)?,
            _ => {}
        }
        Ok(())
    }
}
