use leasehold_core::{ExpiryClock, Fault, Outcome, Promises, Reach, Semantics, Sharing, WakeUp};
use std::time::Duration;

/// The longest pause between two polls of a waiter. A poll is a read, which holds up no writer.
const POLL_EVERY: Duration = Duration::from_millis(50);

/// The promises of SQLite: for one host, on its monotonic clock.
pub(super) fn semantics(allow_network_fs: bool) -> Semantics {
    let promises = Promises::new(|fault| promise(fault, allow_network_fs));
    let mut semantics = Semantics::lease("sqlite", "lease", promises);
    semantics.reach = Reach::Host;
    semantics.expiry_clock = ExpiryClock::Host;
    semantics.sharing = Sharing::WriterFirst;
    semantics.wake_up = WakeUp::Poll { at_most: POLL_EVERY };
    semantics
}

fn promise(fault: Fault, allow_network_fs: bool) -> Outcome {
    match fault {
        Fault::None
        | Fault::HolderKilled
        | Fault::HolderPaused
        | Fault::ExecutorStarved
        // Every commit is on the disk before it is answered, and the leases of the earlier boot are over.
        | Fault::PowerLost
        // No wall clock is asked for a lease, and the one that is goes on during suspend.
        | Fault::StoreClockForward
        | Fault::StoreClockBack
        | Fault::ClientClockJumps
        | Fault::ClientSuspended => Outcome::Holds,
        // The next grant comes at once and the holder's next renewal later; the token is seeded by the time.
        Fault::RecordDeleted | Fault::DataLost => Outcome::FencedOnly,
        Fault::DiskFull => Outcome::Unavailable,
        // Refused, unless the user knows better than statfs.
        Fault::NetworkFileSystem if allow_network_fs => Outcome::MayBreak,
        Fault::NetworkFileSystem => Outcome::Unavailable,
        // There is no server: the file is read and written by the processes that want the lock.
        Fault::HolderPartitioned
        | Fault::AcquireReplyLost
        | Fault::StorePaused
        | Fault::StoreRestarted
        | Fault::FailOver
        | Fault::SplitBrain
        | Fault::MinorityDown
        | Fault::QuorumLost
        | Fault::MemoryFull
        | Fault::ConnectionKilled
        | Fault::Pooler => Outcome::NotApplicable,
    }
}
