use crate::servers::SINGLE;
use leasehold_core::{Fairness, Fault, Outcome, Promises, Semantics, Sharing, WakeUp};
use std::time::Duration;

/// The interval at which a waiter shows that it is still there, and looks whether it was handed the lock without hearing
/// of it. Four of them missed, and it has lost its place: two seconds, in the scripts.
pub(crate) const HEARTBEAT: Duration = Duration::from_millis(500);

/// What is promised in a mode.
pub(crate) fn semantics(mode: &'static str) -> Semantics {
    let promises = Promises::new(if mode == SINGLE { promise } else { promise_of_several });
    let mut semantics = Semantics::lease("redis", mode, promises);
    semantics.fairness = Fairness::Fifo;
    semantics.sharing = Sharing::Fifo;
    semantics.wake_up = WakeUp::Push { fallback: HEARTBEAT };
    semantics
}

/// What a majority of independent nodes promises: the same for faults of most nodes at once, and all for faults of fewer. The nodes
/// keep no queue and send no messages, because no node knows more than its own part: waiters poll.
pub(crate) fn redlock() -> Semantics {
    let promise_of_majority = |fault| match fault {
        Fault::MinorityDown => Outcome::Holds,
        fault => promise(fault),
    };
    Semantics::lease("redis", "redlock", Promises::new(promise_of_majority))
}

/// Replicas follow their primary at some distance, and one takes over when it fails: also with `wait_replicas`, which
/// makes it unlikely that the one that takes over lacks a grant, and not impossible.
fn promise_of_several(fault: Fault) -> Outcome {
    match fault {
        // The lost grants' tokens are lost as well; the new primary's follow its clock, which is later, unless the two
        // clocks differ by more than the fail-over took. The node that is down may be a primary.
        Fault::FailOver | Fault::MinorityDown => Outcome::FencedOnly,
        // Two primaries grant at the same time, each by its own clock.
        Fault::SplitBrain => Outcome::MayBreak,
        fault => promise(fault),
    }
}

/// What one server promises. Complete on purpose, without a catch-all: a new fault is to be thought about.
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
        | Fault::ClientSuspended => Outcome::Holds,
        // The holder record keeps others out until the lease would have ended.
        Fault::RecordDeleted => Outcome::Holds,
        // The grants are gone, and so is the last token; the next ones follow the server's clock, which went on.
        Fault::StoreRestarted | Fault::PowerLost | Fault::DataLost => Outcome::FencedOnly,
        // With an eviction policy other than `noeviction`, which `check` warns of; without one, nothing new is granted.
        Fault::MemoryFull => Outcome::FencedOnly,
        // Expiry follows the server's wall clock: ahead, leases end early; back, those of dead holders end late.
        Fault::StoreClockForward => Outcome::FencedOnly,
        Fault::StoreClockBack => Outcome::Unavailable,
        Fault::DiskFull | Fault::MinorityDown | Fault::QuorumLost => Outcome::Unavailable,
        Fault::FailOver | Fault::SplitBrain | Fault::Pooler | Fault::NetworkFileSystem => {
            Outcome::NotApplicable
        }
    }
}
