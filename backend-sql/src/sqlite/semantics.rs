use crate::lease::lease_semantics;
use leasehold_core::{ExpiryClock, Fault, Outcome, Promises, Reach, Semantics, WakeUp};
use std::time::Duration;

/// The longest pause between two polls of a waiter. A poll is a read, which holds up no writer.
const POLL_EVERY: Duration = Duration::from_millis(50);

/// What a file promises, where it is not what leases on a server do: for one host, on its monotonic clock.
pub(super) fn semantics(allow_network_fs: bool) -> Semantics {
    let mut semantics = lease_semantics("sqlite", "lease", false);
    let of_servers = semantics.promises;
    semantics.promises = Promises::new(|fault| match fault {
        // No wall clock is asked for a lease, and the one that is goes on during suspend.
        Fault::StoreClockForward | Fault::StoreClockBack => Outcome::Holds,
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
        | Fault::ConnectionKilled
        | Fault::Pooler => Outcome::NotApplicable,
        fault => of_servers.under(fault),
    });
    semantics.reach = Reach::Host;
    semantics.expiry_clock = ExpiryClock::Host;
    semantics.wake_up = WakeUp::Poll { at_most: POLL_EVERY };
    semantics
}
