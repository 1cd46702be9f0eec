use leasehold_core::{
    CrashBound, Fault, HoldKind, LossSignal, Outcome, Promises, Semantics, Sharing, WakeUp,
};
use std::time::Duration;

/// How often one asks who has no place in the server's own queue.
pub(super) const ASK_EVERY: Duration = Duration::from_millis(250);

/// What locked rows promise. The hold is the connection's.
pub(super) fn semantics(backend: &'static str) -> Semantics {
    let mut semantics =
        Semantics::lease(backend, "for-update", Promises::new(|fault| promise(backend, fault)));
    semantics.hold = HoldKind::Connection;
    semantics.sharing = Sharing::WriterFirst;
    semantics.crash_bound = CrashBound::Connection;
    semantics.loss_signal = LossSignal::Renewal;
    semantics.wake_up = WakeUp::Push { fallback: ASK_EVERY };
    semantics
}

fn promise(backend: &str, fault: Fault) -> Outcome {
    match fault {
        // PostgreSQL counts its time-outs by the wall clock, and ends transactions that lived a moment ago when it is set
        // back (timeout.c; seen with version 15).
        Fault::StoreClockForward | Fault::StoreClockBack if backend == "postgres" => Outcome::FencedOnly,
        Fault::None
        | Fault::HolderKilled
        | Fault::HolderPaused
        | Fault::ExecutorStarved
        | Fault::HolderPartitioned
        | Fault::AcquireReplyLost
        | Fault::StorePaused
        // No wall clock ends a hold; the token grows by the last one.
        | Fault::StoreClockForward
        | Fault::StoreClockBack
        | Fault::ClientClockJumps
        | Fault::ClientSuspended => Outcome::Holds,
        // The lock is gone with the connection, or no lock any more on a server that was replaced, and the holder hears of it
        // by its next renewal. The token is on the disk.
        Fault::StoreRestarted
        | Fault::PowerLost
        | Fault::ConnectionKilled
        | Fault::DataLost
        | Fault::FailOver => Outcome::FencedOnly,
        // Found out by the statement that locks, and refused.
        Fault::DiskFull | Fault::Pooler => Outcome::Unavailable,
        Fault::SplitBrain => Outcome::MayBreak,
        // To delete a locked row is to wait until it is released.
        Fault::RecordDeleted
        | Fault::MinorityDown
        | Fault::QuorumLost
        | Fault::MemoryFull
        | Fault::NetworkFileSystem => Outcome::NotApplicable,
    }
}
