use leasehold_core::{
    CrashBound, Fairness, Fault, HoldKind, LossSignal, Outcome, Promises, Semantics, TokenClass, WakeUp,
};
use std::time::Duration;

/// How long a waiter that hears nothing waits before it looks whether the node in front is still there. The client sets its
/// watches anew after a lost connection, and the server then tells what has happened meanwhile; claims of one process tell
/// each other; and a look that had no answer is made again by itself ([`News`](crate::news::News)). So this is for what nobody
/// has thought of.
const FALLBACK: Duration = Duration::from_secs(5);

/// What an ensemble promises in sessions of this length.
pub(crate) fn semantics(session_timeout: Duration) -> Semantics {
    let mut semantics = Semantics::lease("zookeeper", "session", Promises::new(promise));
    semantics.hold = HoldKind::Session;
    semantics.fairness = Fairness::Fifo;
    semantics.wake_up = WakeUp::Push { fallback: FALLBACK };
    semantics.loss_signal = LossSignal::Push;
    semantics.crash_bound = CrashBound::Session;
    semantics.session_timeout = Some(session_timeout);
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
        // Sessions are counted by a clock that stands still in no pause and jumps with no date.
        Fault::StorePaused | Fault::StoreClockForward | Fault::StoreClockBack => Outcome::Holds,
        // What is acknowledged is on the disks of a majority, sessions too; a leader that lost it cannot write.
        Fault::StoreRestarted
        | Fault::PowerLost
        | Fault::FailOver
        | Fault::SplitBrain
        | Fault::MinorityDown => Outcome::Holds,
        // Whoever deletes a holder's node frees the lock. The holder is told at once, the next one has a larger token.
        Fault::RecordDeleted => Outcome::FencedOnly,
        // Transactions are counted from the beginning again.
        Fault::DataLost => Outcome::MayBreak,
        // No session ends while there is nobody to end it.
        Fault::QuorumLost | Fault::DiskFull => Outcome::Unavailable,
        // Nothing is evicted: a server without memory is one that is down.
        Fault::MemoryFull | Fault::Pooler | Fault::NetworkFileSystem => Outcome::NotApplicable,
    }
}
