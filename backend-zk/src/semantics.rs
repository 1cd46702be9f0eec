use leasehold_core::{
    CrashBound, Fairness, Fault, HoldKind, LossSignal, Outcome, Promises, Semantics, Sharing, TokenClass,
    WakeUp,
};
use std::time::Duration;

/// The interval at which a waiter without a notification asks whether its blocker still exists. The client library sets watches
/// again after a reconnect, and the server then tells of what was missed. So this serves waiters beyond the limit of watches.
const FALLBACK: Duration = Duration::from_secs(5);

pub(crate) fn semantics(session_timeout: Duration) -> Semantics {
    let mut semantics = Semantics::lease("zookeeper", "session", Promises::new(promise));
    semantics.hold = HoldKind::Session;
    semantics.fairness = Fairness::Fifo;
    semantics.sharing = Sharing::Fifo;
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
        // An acknowledged write is on the disks of a majority, sessions too. A leader that lost its majority cannot write.
        Fault::StoreRestarted
        | Fault::PowerLost
        | Fault::FailOver
        | Fault::SplitBrain
        | Fault::MinorityDown => Outcome::Holds,
        // The deletion of a holder's node frees the lock. The next grant has a larger token.
        Fault::RecordDeleted => Outcome::FencedOnly,
        // Transactions are counted from the beginning again.
        Fault::DataLost => Outcome::MayBreak,
        // Sessions end only by a leader's decision.
        Fault::QuorumLost | Fault::DiskFull => Outcome::Unavailable,
        // Nothing is evicted: a server without memory is one that is down.
        Fault::MemoryFull | Fault::Pooler | Fault::NetworkFileSystem => Outcome::NotApplicable,
    }
}
