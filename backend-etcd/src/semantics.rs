use leasehold_core::{
    Fairness, Fault, LossSignal, Outcome, Promises, Semantics, Sharing, TokenClass, WakeUp,
};
use std::time::Duration;

/// The interval at which a waiter asks whether it is first, and extends the lease of its key.
const FALLBACK: Duration = Duration::from_secs(5);

/// The promises of a cluster, or of one member alone.
pub(crate) fn semantics() -> Semantics {
    let mut semantics = Semantics::lease("etcd", "lease", Promises::new(promise));
    semantics.fairness = Fairness::Fifo;
    semantics.sharing = Sharing::Fifo;
    semantics.wake_up = WakeUp::Push { fallback: FALLBACK };
    semantics.loss_signal = LossSignal::Push;
    semantics.token = TokenClass::Stored;
    semantics
}

/// Complete on purpose, without a catch-all: a new fault is to be thought about.
fn promise(fault: Fault) -> Outcome {
    match fault {
        Fault::None
        | Fault::HolderKilled
        | Fault::HolderPaused
        | Fault::ExecutorStarved
        | Fault::HolderPartitioned
        | Fault::AcquireReplyLost
        | Fault::ConnectionKilled
        | Fault::ClientClockJumps
        | Fault::ClientSuspended => Outcome::Holds,
        // Leases are counted by a clock that stands still in no pause and jumps with no date.
        Fault::StorePaused | Fault::StoreClockForward | Fault::StoreClockBack => Outcome::Holds,
        // An acknowledged write is on the disks of a majority. A member that starts counts leases anew.
        Fault::StoreRestarted | Fault::PowerLost | Fault::MinorityDown => Outcome::Holds,
        // Before 3.5.13 a leader that was replaced may still end leases that live (etcd 15247). The version is not known when
        // this is asked.
        Fault::FailOver | Fault::SplitBrain => Outcome::FencedOnly,
        // The deletion of a holder's key frees the lock. The next grant has a larger token.
        Fault::RecordDeleted => Outcome::FencedOnly,
        // Revisions are counted from the beginning again.
        Fault::DataLost => Outcome::MayBreak,
        Fault::QuorumLost | Fault::DiskFull => Outcome::Unavailable,
        // Nothing is evicted: a member without memory is one that is down.
        Fault::MemoryFull | Fault::Pooler | Fault::NetworkFileSystem => Outcome::NotApplicable,
    }
}
