//! Faults of the store's process and of what it keeps.

use super::{Ground, Injection, Lasting, Schedule, scaled};
use crate::case::{Stop, Verdict};
use async_trait::async_trait;
use std::time::Duration;

/// What is done to the store as a whole.
pub(super) enum OnStore {
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
}

/// A lease a third of which outlasts that.
const MADE_ANEW: Duration = Duration::from_secs(12);

#[async_trait]
impl Injection for OnStore {
    fn words(&self) -> &'static str {
        match self {
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
        }
    }

    fn schedule(&self) -> Schedule {
        match self {
            Self::Paused => Schedule::new(Lasting::SPELL),
            // Its holder is to hear of it only when the store has long been back: a database that is made anew takes
            // seconds.
            Self::DataLost { with_holds: true } => {
                Schedule::new(Lasting::Moment).with_lease(scaled(MADE_ANEW))
            }
            Self::Crashed { with_holds: true } | Self::PowerLost { with_holds: true } => {
                Schedule::new(Lasting::Moment).long()
            }
            // Servers need a moment to start, and others a moment to ask; the holder's next renewal is to come after that.
            _ => Schedule::new(Lasting::Moment).patient(),
        }
    }

    fn ends_connections(&self) -> bool {
        matches!(self, Self::Crashed { .. } | Self::PowerLost { .. })
    }

    async fn before_the_hold(&mut self, ground: &mut Ground<'_>) -> Verdict {
        if matches!(self, Self::PowerLost { .. }) {
            ground.store.sync().await?;
        }
        Ok(())
    }

    async fn inject(&mut self, ground: &mut Ground<'_>) -> Verdict {
        match self {
            Self::Paused => ground.store.pause().await?,
            Self::Crashed { .. } => ground.store.crash().await?,
            Self::PowerLost { .. } => ground.store.lose_power().await?,
            Self::RecordDeleted => match ground.store.delete(ground.name).await {
                // Among random faults, another may have ended the hold just before.
                Err(nobody) if nobody.is_absent() => return Err(Stop::Skipped(nobody.to_string())),
                deleted => deleted?,
            },
            Self::RecordDeletedInside => ground.holder.force_release(ground.name).await?,
            Self::DataLost { .. } => ground.store.lose_data().await?,
        }
        Ok(())
    }

    async fn heal(&mut self, ground: &mut Ground<'_>) -> Verdict {
        if matches!(self, Self::Paused) {
            ground.store.resume().await?;
        }
        Ok(())
    }
}
