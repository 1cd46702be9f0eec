use leasehold_core::{Fault, Outcome, Promises, Semantics, WakeUp};
use std::time::Duration;

/// How long what is waited for is not looked at, at most, where nobody tells. A look is one read by the primary key.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The same where waiters are told, and every message is lost; and how often each of them asks for itself.
const LOOK_ANYWAY: Duration = Duration::from_millis(500);

/// What leases in rows of a server promise, by its own clock.
pub(crate) fn of_leases(backend: &'static str, mode: &'static str, has_bell: bool) -> Semantics {
    let mut semantics = Semantics::lease(backend, mode, Promises::new(promise));
    semantics.wake_up = match has_bell {
        true => WakeUp::Push { fallback: LOOK_ANYWAY },
        false => WakeUp::Look { at_most: LOOK_EVERY, fallback: LOOK_ANYWAY },
    };
    semantics
}

fn promise(fault: Fault) -> Outcome {
    match fault {
        Fault::None
        | Fault::HolderKilled
        | Fault::HolderPaused
        | Fault::ExecutorStarved
        | Fault::HolderPartitioned
        | Fault::AcquireReplyLost
        | Fault::StorePaused
        | Fault::StoreRestarted
        // If commits are on the disk before they are answered; `check` looks for settings by which they are not.
        | Fault::PowerLost
        | Fault::ClientClockJumps
        | Fault::ClientSuspended
        // A lease is not the connection's, and every statement is a transaction of its own.
        | Fault::ConnectionKilled
        | Fault::Pooler => Outcome::Holds,
        // The next grant may come before the holder's next renewal; the token is seeded by the time.
        Fault::RecordDeleted | Fault::DataLost | Fault::FailOver | Fault::StoreClockForward => Outcome::FencedOnly,
        // Leases last longer by as much; nobody gets what is held.
        Fault::StoreClockBack | Fault::DiskFull => Outcome::Unavailable,
        Fault::SplitBrain => Outcome::MayBreak,
        Fault::MinorityDown | Fault::QuorumLost | Fault::MemoryFull | Fault::NetworkFileSystem => {
            Outcome::NotApplicable
        }
    }
}
