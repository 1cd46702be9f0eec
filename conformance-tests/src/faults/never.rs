//! Faults that cannot happen to a store, and why not. What could happen and cannot be made on this machine is another thing.

use crate::cannot::Cannot;
use crate::subject::Subject;
use leasehold_core::{Fault, Outcome, Reach, Semantics};

/// # Errors
///
/// Why this fault never happens to this subject.
pub(crate) fn can_happen(subject: &dyn Subject, semantics: &Semantics, fault: Fault) -> Result<(), Cannot> {
    match semantics.promises.under(fault) {
        Outcome::NotApplicable => Err(Cannot::new(why_not(semantics.reach, fault))),
        _ => subject.can_meet(fault),
    }
}

/// Why a backend of this reach may say of a fault that it does not happen.
fn why_not(reach: Reach, fault: Fault) -> &'static str {
    match (reach, fault) {
        (Reach::Process, _) => "the lock is in the memory of its only process, and ends with it",
        (Reach::Host, Fault::StorePaused | Fault::StoreRestarted) => {
            "the store is a file, without a process of its own: it stands still, and ends, with its holder"
        }
        (Reach::Host, _) => "the store is a file on the disk of this host, without a server",
        (_, Fault::RecordDeleted) => "the row of a held lock is locked: nobody can delete it",
        (_, Fault::FailOver | Fault::SplitBrain) => "there is no replica that could take over",
        (_, Fault::MinorityDown | Fault::QuorumLost) => "it is one server: there is nobody to be a majority",
        (_, Fault::MemoryFull) => "it throws nothing away for want of memory; a server without any is down",
        (_, Fault::Pooler) => "its clients keep a connection of their own, and no pooler lends it",
        (_, Fault::NetworkFileSystem) => "its clients open no file",
        _ => "the backend says that it cannot happen",
    }
}
