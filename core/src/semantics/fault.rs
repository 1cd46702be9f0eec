use serde::{Deserialize, Serialize, Serializer};

/// Declares the faults, and the table of all of them, from one list.
macro_rules! faults {
    ($($(#[$doc:meta])* $fault:ident,)*) => {
        /// A fault that a lock can meet: one row of the table that every backend fills in.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        #[expect(clippy::exhaustive_enums, reason = "a new fault breaks the build of backends until they answer")]
        pub enum Fault {
            $($(#[$doc])* $fault,)*
        }

        impl Fault {
            /// All of them, in the order of the table.
            pub const ALL: [Self; 24] = [$(Self::$fault,)*];
        }
    };
}

faults! {
    /// None at all.
    None,
    /// The holder's process is killed.
    HolderKilled,
    /// The holder's process is stopped for longer than its lease, and goes on.
    HolderPaused,
    /// The holder's executor is blocked for longer than the lease.
    ExecutorStarved,
    /// Nothing passes between holder and store for longer than the lease.
    HolderPartitioned,
    /// The reply to an acquisition is lost.
    AcquireReplyLost,
    /// The store is stopped for longer than the lease, and goes on.
    StorePaused,
    /// The store's process is killed and started again with what it had written.
    StoreRestarted,
    /// The store's machine loses power.
    PowerLost,
    /// An administrator deletes one lock's record.
    RecordDeleted,
    /// Everything in the store is deleted.
    DataLost,
    /// A replica takes over from a primary that had not sent it everything.
    FailOver,
    /// A client talks to a primary that was replaced.
    SplitBrain,
    /// A minority of the store's nodes is down.
    MinorityDown,
    /// A majority of the store's nodes is down.
    QuorumLost,
    /// The store's wall clock jumps ahead by more than the lease.
    StoreClockForward,
    /// The store's wall clock jumps back.
    StoreClockBack,
    /// A client's wall clock jumps.
    ClientClockJumps,
    /// The client's host is suspended and wakes up after the lease.
    ClientSuspended,
    /// The store runs out of memory and evicts what it may.
    MemoryFull,
    /// The store's disk is full.
    DiskFull,
    /// An administrator ends the client's connections.
    ConnectionKilled,
    /// A pooler stands between client and store and hands connections on.
    Pooler,
    /// The store's files lie on a network file system.
    NetworkFileSystem,
}

/// The promise of a backend under a [`Fault`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(clippy::exhaustive_enums, reason = "complete: the verdicts of the comparison")]
pub enum Outcome {
    /// One owner in the store; every holder knows in time when it may no longer be sure. Effects of a holder that was
    /// paused need the token, on every store there is.
    Holds,
    /// Two owners are possible, and their tokens still grow: a resource that checks them is safe.
    FencedOnly,
    /// The lock cannot be acquired until the fault is healed, and has one owner at most.
    Unavailable,
    /// Two owners are possible, and tokens may repeat.
    MayBreak,
    /// Cannot happen here.
    NotApplicable,
}

/// The promise under every fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promises([Outcome; Fault::ALL.len()]);

impl Promises {
    /// The table of this function.
    pub fn new(promise: impl Fn(Fault) -> Outcome) -> Self {
        Self(Fault::ALL.map(promise))
    }

    /// The promise under this fault.
    pub fn under(&self, fault: Fault) -> Outcome {
        self.0[fault as usize]
    }

    /// The table, row by row.
    pub fn iter(&self) -> impl Iterator<Item = (Fault, Outcome)> {
        Fault::ALL.into_iter().zip(self.0)
    }
}

impl Serialize for Promises {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promise_is_found_under_its_fault() {
        let promises = Promises::new(|fault| match fault {
            Fault::DataLost => Outcome::FencedOnly,
            _ => Outcome::Holds,
        });
        assert_eq!(promises.under(Fault::DataLost), Outcome::FencedOnly);
        assert_eq!(promises.under(Fault::NetworkFileSystem), Outcome::Holds);
    }
}
