use crate::lease::lease_semantics;
use leasehold_core::{CrashBound, Fault, HoldKind, LossSignal, Outcome, Promises, Semantics, WakeUp};
use std::time::Duration;

/// How often one asks who has no place in the server's own queue.
pub(super) const ASK_EVERY: Duration = Duration::from_millis(250);

/// What locked rows promise, where it is not what leases do. The hold is the connection's.
pub(super) fn semantics(backend: &'static str) -> Semantics {
    let mut semantics = lease_semantics(backend, "for-update", true);
    let of_leases = semantics.promises;
    semantics.promises = Promises::new(|fault| match fault {
        // PostgreSQL counts its time-outs by the wall clock, and ends transactions that lived a moment ago when it is set
        // back (timeout.c; seen with version 15).
        Fault::StoreClockForward | Fault::StoreClockBack if backend == "postgres" => Outcome::FencedOnly,
        // No wall clock ends a hold; the token grows by the last one.
        Fault::StoreClockForward | Fault::StoreClockBack => Outcome::Holds,
        // The lock is gone with the connection, or no lock any more on a server that was replaced, and the holder hears of it
        // by its next renewal. The token is on the disk.
        Fault::StoreRestarted
        | Fault::PowerLost
        | Fault::ConnectionKilled
        | Fault::DataLost
        | Fault::FailOver => Outcome::FencedOnly,
        // Found out by the statement that locks, and refused.
        Fault::Pooler => Outcome::Unavailable,
        // To delete a locked row is to wait until it is released.
        Fault::RecordDeleted => Outcome::NotApplicable,
        fault => of_leases.under(fault),
    });
    semantics.hold = HoldKind::Connection;
    semantics.crash_bound = CrashBound::Connection;
    semantics.loss_signal = LossSignal::Renewal;
    semantics.wake_up = WakeUp::Push { fallback: ASK_EVERY };
    semantics
}
