//! The faults, as values: each can be made on a store that runs and on the process of a holder, and healed again.
//!
//! What a fault does is done with the hooks of [`Store`] and its parts; one that a store has no hook for cannot be made
//! there, and says so.

mod between;
mod holder;
mod injection;
mod never;
mod servers;
mod store;
mod timing;
mod witness;

pub(crate) use between::{until_done_unheard, until_granted_unheard};
pub(crate) use injection::{ClientSetup, Ground, Injection, SideEffect};
pub(crate) use never::can_happen;
pub(crate) use timing::{FaultTiming, Lasting, Time, usual_lease};
pub(crate) use witness::Witness;

use crate::cannot::Cannot;
use crate::subject::Store;
use between::{Between, What};
use holder::OnHolder;
use leasehold_core::{ExpiryClock, Fault, HoldKind, Reach, Semantics};
use servers::OnServers;
use store::OnStore;

/// How this fault is made on this store, if it can be.
pub(crate) fn injection(
    fault: Fault,
    store: &dyn Store,
    semantics: &Semantics,
) -> Result<Box<dyn Injection>, Cannot> {
    let of_host = semantics.expiry_clock == ExpiryClock::Host;
    let with_holds = semantics.hold == HoldKind::Connection;
    Ok(match fault {
        Fault::None => Box::new(OnStore::Untouched),
        Fault::HolderKilled => Box::new(OnHolder::Killed),
        Fault::HolderPaused => Box::new(OnHolder::Paused),
        Fault::ExecutorStarved => Box::new(OnHolder::Starved),
        Fault::ClientSuspended => Box::new(OnHolder::SUSPENDED),
        Fault::ClientClockJumps => Box::new(OnHolder::CLOCK_JUMPS),
        Fault::HolderPartitioned => Box::new(Between::new(What::BlackHole)),
        Fault::AcquireReplyLost => Box::new(Between::new(What::ReplyLost)),
        Fault::StorePaused => Box::new(OnStore::Paused),
        Fault::StoreRestarted => Box::new(OnStore::Crashed { with_holds }),
        Fault::PowerLost if semantics.reach == Reach::Host => Box::new(OnHolder::PowerLost),
        Fault::PowerLost => Box::new(OnStore::PowerLost { with_holds }),
        Fault::RecordDeleted if semantics.reach == Reach::Process => Box::new(OnStore::RecordDeletedInside),
        Fault::RecordDeleted => Box::new(OnStore::RecordDeleted),
        Fault::DataLost => Box::new(OnStore::DataLost { with_holds }),
        Fault::FailOver => Box::new(OnServers::fail_over(store)),
        Fault::SplitBrain => Box::new(OnServers::split_brain(store)),
        Fault::MinorityDown => {
            Box::new(OnServers::minority_down(store, semantics.promises.under(Fault::MinorityDown))?)
        }
        Fault::QuorumLost => Box::new(OnServers::quorum_lost(store)),
        Fault::StoreClockForward if of_host => Box::new(OnHolder::HOST_CLOCK_FORWARD),
        Fault::StoreClockBack if of_host => Box::new(OnHolder::HOST_CLOCK_BACK),
        Fault::StoreClockForward => Box::new(OnStore::ClockForward),
        Fault::StoreClockBack => Box::new(OnStore::ClockBack),
        Fault::MemoryFull => Box::new(OnStore::MemoryFull),
        Fault::DiskFull => Box::new(OnStore::DiskFull),
        Fault::ConnectionKilled => Box::new(Between::new(What::Killed)),
        Fault::Pooler => Box::new(Between::new(What::Pooler)),
        Fault::NetworkFileSystem => Box::new(Between::new(What::NetworkFileSystem)),
    })
}
