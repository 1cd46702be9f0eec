//! What a backend promises, as data: declared here, measured by the conformance suite.

mod fault;

pub use fault::{Fault, Outcome, Promises};

use crate::LocalQueue;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What one backend promises in one mode. For choosing, and for the suite, which holds every word of it against what
/// it measures.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Semantics {
    /// The store: `redis`.
    pub backend: &'static str,
    /// How it is used: `single`, `lease`.
    pub mode: &'static str,
    /// Between whom the lock excludes.
    pub reach: Reach,
    /// What a hold is, to the store.
    pub hold: HoldKind,
    /// Whose clock ends a hold that is not renewed.
    pub expiry_clock: ExpiryClock,
    /// In which order waiters are served.
    pub fairness: Fairness,
    /// How a waiter learns that asking again may help.
    pub wake_up: WakeUp,
    /// How a holder learns that the store took its lock, before its own deadline.
    pub loss_signal: LossSignal,
    /// How long a crashed holder keeps others out.
    pub crash_bound: CrashBound,
    /// What the order of tokens survives.
    pub token: TokenClass,
    /// How tasks of one process take turns with the other processes; `None` if each of them waits for itself. With it,
    /// [`fairness`](Self::fairness) is that of the processes, and within one, tasks are served first come, first served.
    pub local_queue: Option<LocalQueue>,
    /// What is promised under each fault.
    pub promises: Promises,
}

impl Semantics {
    /// The semantics of a plain lease on a network store: polling, unordered, tokens that survive restarts. A backend
    /// then sets the fields in which it differs.
    pub fn lease(backend: &'static str, mode: &'static str, promises: Promises) -> Self {
        Self {
            backend,
            mode,
            reach: Reach::Network,
            hold: HoldKind::Lease,
            expiry_clock: ExpiryClock::Store,
            fairness: Fairness::Unordered,
            wake_up: WakeUp::Poll { at_most: Duration::from_millis(250) },
            loss_signal: LossSignal::Renewal,
            crash_bound: CrashBound::Ttl,
            token: TokenClass::Durable,
            local_queue: None,
            promises,
        }
    }
}

/// Between whom a lock excludes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Reach {
    /// Tasks of one process.
    Process,
    /// Processes of one host.
    Host,
    /// Processes on every host that reaches the store.
    Network,
}

/// What a hold is, to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum HoldKind {
    /// A lease that ends by itself.
    Lease,
    /// A part of the client's session.
    Session,
    /// A part of one connection.
    Connection,
}

/// Whose clock ends a hold that is not renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ExpiryClock {
    /// The store's. Clients' clocks may show what they like.
    Store,
    /// The monotonic clock of the one host that all processes share.
    Host,
}

/// In which order waiters are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Fairness {
    /// In no order: luck, and no promise against starvation.
    Unordered,
    /// First come, first served.
    Fifo,
}

/// How a waiter learns that asking again may help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum WakeUp {
    /// It asks, with jitter, at intervals that grow up to this one.
    Poll {
        /// The longest interval.
        at_most: Duration,
    },
    /// One look for all waiters of a process, at intervals that grow up to one bound; if no look comes about, it asks at
    /// another.
    Look {
        /// The longest interval between two looks.
        at_most: Duration,
        /// The interval at which it asks anyway.
        fallback: Duration,
    },
    /// The store tells it; if every message is lost, it asks at this interval.
    Push {
        /// The interval at which it asks anyway.
        fallback: Duration,
    },
}

impl WakeUp {
    /// The longest time from a free lock to a waiter's next question, whatever is lost on the way.
    pub fn bound(self) -> Duration {
        match self {
            Self::Poll { at_most: bound } | Self::Push { fallback: bound } => bound,
            // Whoever has just come back when a look gets no answer waits for that one, and then for itself.
            Self::Look { at_most, fallback } => at_most.saturating_add(fallback),
        }
    }
}

/// How a holder learns, before its own deadline, that the store took its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum LossSignal {
    /// From its next renewal: within a third of the lease.
    Renewal,
    /// The store tells it.
    Push,
}

/// How long a crashed holder keeps others out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum CrashBound {
    /// For the rest of its lease, one ttl at most.
    Ttl,
    /// Until the store ends its session.
    Session,
    /// Until the store notices that the connection is gone.
    Connection,
}

/// What the order of tokens survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum TokenClass {
    /// Nothing: it lives as long as the process.
    Process,
    /// Restarts and fail-over. With the store's data the order is lost, and tokens begin anew.
    Stored,
    /// Restarts, fail-over and the loss of the store's data, as long as the store's clock does not go back by more
    /// than the outage.
    Durable,
}
