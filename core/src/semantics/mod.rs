//! What a backend promises, as data: declared here, measured by the conformance suite.

mod fault;

pub use fault::{Fault, Outcome, Promises};

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What one backend promises in one mode. The conformance suite compares each field with what it measures.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Semantics {
    /// The store: `redis`.
    pub backend: &'static str,
    /// How it is used: `single`, `lease`.
    pub mode: &'static str,
    /// The processes between which the lock excludes.
    pub reach: Reach,
    /// What a hold is, to the store.
    pub hold: HoldKind,
    /// The clock that ends a hold which is not renewed.
    pub expiry_clock: ExpiryClock,
    /// In which order waiters are served.
    pub fairness: Fairness,
    /// Whether the store serves shared holds, and how readers and writers take turns.
    pub sharing: Sharing,
    /// How a waiter learns that asking again may help.
    pub wake_up: WakeUp,
    /// How a holder learns that the store took its lock, before its own deadline.
    pub loss_signal: LossSignal,
    /// How long a crashed holder keeps others out.
    pub crash_bound: CrashBound,
    /// The time without a word after which the store ends a session, as it was asked for; `None` where a hold is not a part of one.
    pub session_timeout: Option<Duration>,
    /// What the order of tokens survives.
    pub token: TokenClass,
    /// What is promised under each fault.
    pub promises: Promises,
}

impl Semantics {
    /// A plain lease on a network store: polling, unordered, durable tokens. A backend sets the fields in which it differs.
    pub fn lease(backend: &'static str, mode: &'static str, promises: Promises) -> Self {
        Self {
            backend,
            mode,
            reach: Reach::Network,
            hold: HoldKind::Lease,
            expiry_clock: ExpiryClock::Store,
            fairness: Fairness::Unordered,
            sharing: Sharing::Unsupported,
            wake_up: WakeUp::Poll { at_most: Duration::from_millis(250) },
            loss_signal: LossSignal::Renewal,
            crash_bound: CrashBound::Ttl,
            session_timeout: None,
            token: TokenClass::Durable,
            promises,
        }
    }
}

/// The processes between which a lock excludes.
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

/// The clock that ends a hold which is not renewed.
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
    /// In no order, and no promise against starvation. The tasks of one client stand in line, and after 100 ms of passing a lock
    /// among themselves they pause for other processes.
    Unordered,
    /// First come, first served.
    Fifo,
}

/// Whether a store serves [shared](crate::LockMode::Shared) holds, and how readers and writers take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Sharing {
    /// It serves none: readers and writers are refused before any I/O.
    Unsupported,
    /// No reader is granted while a writer is known to wait. A writer that has released gives way to readers as to any other.
    WriterFirst,
    /// Readers and writers are served in the order of their arrival; readers that follow each other hold together.
    Fifo,
}

/// How a waiter learns that asking again may help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "each way of waking says what its intervals are")]
#[non_exhaustive]
pub enum WakeUp {
    /// It asks, with jitter, at intervals that grow to `at_most`. A release by its own client wakes it sooner.
    Poll { at_most: Duration },
    /// One query serves all waiters of a process, at intervals that grow to `at_most`. A waiter for which no query succeeds
    /// asks by itself at intervals of `fallback`.
    Look { at_most: Duration, fallback: Duration },
    /// The store tells it; if every message is lost, it asks at intervals of `fallback`.
    Push { fallback: Duration },
}

impl WakeUp {
    /// The longest time from a free lock to a waiter's next question, whatever is lost on the way. In
    /// [no order](Fairness::Unordered), a waiter behind a task of its own client that is never polled asks after 500 ms, or after
    /// two of these times, if that is longer.
    pub fn bound(self) -> Duration {
        match self {
            Self::Poll { at_most: bound } | Self::Push { fallback: bound } => bound,
            // A waiter whose query gets no answer waits for that query, and then asks by itself.
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

/// How long a crashed holder keeps others out. A crashed waiter does so for no longer, or for two seconds if its ttl is shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum CrashBound {
    /// For the rest of its lease, one ttl at most.
    Ttl,
    /// Until the store ends its session: after [`session_timeout`](Semantics::session_timeout).
    Session,
    /// Until the store notices that the connection is gone.
    Connection,
}

/// What the order of tokens survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum TokenClass {
    /// Nothing: the order lives as long as the process.
    Process,
    /// Restarts and fail-over. With the store's data the order is lost, and tokens begin anew.
    Stored,
    /// Restarts, fail-over and the loss of the store's data, as long as the store's clock does not go back by more
    /// than the outage.
    Durable,
}
