//! Faults of the store as a whole: of its process, of what it keeps, and of the machine under it.

use super::injection::{ClientSetup, Ground, Injection, SideEffect};
use super::timing::{FaultTiming, Lasting};
use crate::cannot::Cannot;
use crate::stop::{Stop, Verdict};
use crate::subject::Store;
use crate::time_scale::scaled;
use crate::worker::ClientRequest;
use async_trait::async_trait;
use std::time::Duration;

/// What is done to the store as a whole.
pub(super) enum OnStore {
    /// Nothing: the holder holds for longer than its lease, and is renewed.
    Untouched,
    Paused,
    /// Holds that are connections end with it.
    Crashed {
        with_holds: bool,
    },
    PowerLost {
        with_holds: bool,
    },
    RecordDeleted,
    /// Where no other process reaches the store.
    RecordDeletedInside,
    DataLost {
        with_holds: bool,
    },
    ClockForward,
    ClockBack,
    MemoryFull,
    DiskFull,
}

/// A lease a third of which outlasts a new start without data.
const OUTLASTS_A_NEW_START: Duration = Duration::from_secs(12);

/// By how many seconds the clock jumps.
const HOUR: i64 = 3600;

/// How long a holder is watched whose store has set its clock back, before it is killed.
const WATCHED: Duration = Duration::from_millis(600);

#[async_trait]
impl Injection for OnStore {
    fn words(&self) -> &'static str {
        match self {
            Self::Untouched => {
                "nothing: a holder works for longer than its lease, while others want the lock"
            }
            Self::Paused => "the store is stopped (SIGSTOP) for longer than the lease, and goes on",
            Self::Crashed { .. } => {
                "the store is killed (SIGKILL) and started again as it is usually set up, with what it had written"
            }
            Self::PowerLost { .. } => {
                "the store is killed and started again with what it had synced to its disk"
            }
            Self::RecordDeleted | Self::RecordDeletedInside => {
                "an administrator deletes the record of the held lock"
            }
            Self::DataLost { .. } => "everything in the store is lost",
            Self::ClockForward => "the wall clock of the store jumps an hour ahead while the lock is held",
            Self::ClockBack => {
                "the wall clock of the store jumps an hour back; a moment later the holder is killed"
            }
            Self::MemoryFull => {
                "the store runs out of memory, and may evict what it likes: it evicts everything"
            }
            Self::DiskFull => {
                "the store has no room for what it wants to write; then there is room again, and a server is started anew"
            }
        }
    }

    fn timing(&self) -> FaultTiming {
        let moment = FaultTiming::new(Lasting::Moment);
        match self {
            Self::Untouched => moment,
            Self::Paused => FaultTiming::new(Lasting::SPELL),
            Self::ClockBack | Self::DiskFull => FaultTiming::new(Lasting::STATE),
            // Its holder is to hear of it only when the store has long been back: a database that is made anew takes
            // seconds.
            Self::DataLost { with_holds: true } => moment.with_lease(scaled(OUTLASTS_A_NEW_START)),
            Self::Crashed { with_holds: true } | Self::PowerLost { with_holds: true } => moment.long(),
            // Servers need a moment to start, and others a moment to ask; the holder's next renewal is to come after that.
            _ => moment.patient(),
        }
    }

    fn side_effect(&self) -> SideEffect {
        match self {
            Self::ClockForward | Self::ClockBack => SideEffect::Clocks,
            _ => SideEffect::None,
        }
    }

    fn ends_connections(&self) -> bool {
        matches!(self, Self::Crashed { .. } | Self::PowerLost { .. })
    }

    async fn prepare(&mut self, store: &dyn Store, lease: Duration) -> Result<ClientSetup, Cannot> {
        match self {
            Self::ClockForward | Self::ClockBack => store.administrator()?.step_clock(0).await?,
            Self::MemoryFull => store.administrator().map(drop)?,
            Self::DiskFull => store.administrator()?.prepare_disk().await?,
            _ => {}
        }
        Ok(ClientSetup::direct(store, lease))
    }

    async fn before_the_hold(&mut self, ground: &mut Ground<'_>) -> Verdict {
        if matches!(self, Self::PowerLost { .. }) {
            ground.store.sync().await?;
        }
        Ok(())
    }

    async fn inject(&mut self, ground: &mut Ground<'_>) -> Verdict {
        match self {
            Self::Untouched => {}
            Self::Paused => ground.store.pause().await?,
            Self::Crashed { .. } => ground.store.crash().await?,
            Self::PowerLost { .. } => ground.store.lose_power().await?,
            Self::RecordDeleted => match ground.store.delete(ground.name).await {
                // Among random faults, another may have ended the hold just before.
                Err(nobody) if nobody.is_absent() => return Err(Stop::Skipped(nobody.to_string())),
                deleted => deleted?,
            },
            Self::RecordDeletedInside => {
                ground.holder.order(ClientRequest::ForceRelease(ground.name.clone())).await?;
            }
            Self::DataLost { .. } => ground.store.lose_data().await?,
            Self::ClockForward => ground.store.administrator()?.step_clock(HOUR).await?,
            Self::ClockBack => {
                ground.store.administrator()?.step_clock(-HOUR).await?;
                tokio::time::sleep(scaled(WATCHED)).await;
                ground.kill_holder()?;
            }
            Self::MemoryFull => ground.store.administrator()?.evict_everything().await?,
            Self::DiskFull => ground.store.administrator()?.fill_disk(true).await?,
        }
        Ok(())
    }

    async fn heal(&mut self, ground: &mut Ground<'_>) -> Verdict {
        match self {
            Self::Paused => ground.store.resume().await?,
            Self::ClockBack => ground.store.administrator()?.step_clock(0).await?,
            Self::DiskFull => ground.store.administrator()?.fill_disk(false).await?,
            // A clock that was set forward is not set back.
            _ => {}
        }
        Ok(())
    }
}
