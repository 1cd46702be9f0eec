use leasehold_core::{Fault, Outcome, Promises, Semantics, Sharing, WakeUp};
use std::time::Duration;

/// The longest time between two polls of a name without messages. A poll reads rows by the primary key.
pub(crate) const POLL_AT_MOST: Duration = Duration::from_millis(100);

/// The interval at which the first waiter of a name asks by itself, and of polls of a name whose release sends a message.
pub(crate) const FALLBACK: Duration = Duration::from_millis(500);

/// What leases in rows promise, by the clock of a server.
pub(crate) fn lease_semantics(backend: &'static str, mode: &'static str, sends_messages: bool) -> Semantics {
    let mut semantics = Semantics::lease(backend, mode, Promises::new(promise));
    semantics.sharing = Sharing::WriterFirst;
    semantics.wake_up = match sends_messages {
        true => WakeUp::Push { fallback: FALLBACK },
        false => WakeUp::Look { at_most: POLL_AT_MOST, fallback: FALLBACK },
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
