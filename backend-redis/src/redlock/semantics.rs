use leasehold_core::{Fault, Outcome, Promises, Semantics};

/// The promises of a majority of nodes. The nodes keep no queue and send no messages, because no node knows more than its own
/// part: waiters poll.
pub(super) fn semantics() -> Semantics {
    Semantics::lease("redis", "redlock", Promises::new(promise))
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
        | Fault::StorePaused
        | Fault::ConnectionKilled
        | Fault::ClientClockJumps
        | Fault::ClientSuspended
        | Fault::MinorityDown => Outcome::Holds,
        // The holder records keep others out until the lease would have ended.
        Fault::RecordDeleted => Outcome::Holds,
        // On all nodes at once. The grants are gone, and so are the last tokens; the next ones follow the clocks of the
        // nodes, which went on, and grow as long as these differ by less than the time between two grants.
        Fault::StoreRestarted | Fault::PowerLost | Fault::DataLost => Outcome::FencedOnly,
        // With an eviction policy other than `noeviction` on most nodes, which `check` warns of.
        Fault::MemoryFull => Outcome::FencedOnly,
        // On most nodes at once; one whose clock jumps is a node that has lost its locks, and is repaired.
        Fault::StoreClockForward => Outcome::FencedOnly,
        Fault::StoreClockBack => Outcome::Unavailable,
        Fault::DiskFull | Fault::QuorumLost => Outcome::Unavailable,
        // A replica in the place of a node is that node with a part of its memory lost: nodes are to have none.
        Fault::FailOver | Fault::SplitBrain | Fault::Pooler | Fault::NetworkFileSystem => {
            Outcome::NotApplicable
        }
    }
}
