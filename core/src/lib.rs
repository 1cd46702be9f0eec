//! The core of Leasehold: what a lock is, to those who use it and to those who serve it.
//!
//! Two contracts meet here. [`DistributedLock`] is for people who *use* locks: a name goes in, a [`LockGuard`] comes
//! out. [`LockBackend`] is for people who *write* backends: eight required methods, and one optional one. [`LockClient`]
//! stands between, and does the hard part once for all backends: one deadline over every stage of an acquisition, taking
//! back what an abandoned one left behind, renewing, and telling the holder in time that it holds no longer.
//!
//! ```
//! # use leasehold_core::{DistributedLockExt, LockClient, memory::MemoryBackend};
//! # use std::sync::Arc;
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> leasehold_core::Result<()> {
//! let locks = LockClient::new(Arc::new(MemoryBackend::new()));
//! let guard = locks.acquire("invoice/42").await?;
//! println!("pass {} to the database, and let it refuse anything older", guard.token()?);
//! guard.release().await?;
//! # Ok(()) }
//! ```
//!
//! # Where things are
//!
//! | looking for | it is in |
//! |---|---|
//! | when a holder has lost its lock | `keeper/loss_rule.rs` |
//! | when leases are renewed | `keeper/mod.rs` |
//! | what happens to an acquisition that is dropped | `client/pending.rs` |
//! | the loop of an acquisition | `client/acquire.rs` |
//! | how tasks of one process take turns | `local_queue/` |
//! | the shortest correct backend | `memory/` |
//!
//! This crate knows no store, no command line and no TLS.

mod admin;
mod backend;
#[cfg(feature = "bench")]
#[doc(hidden)]
pub mod bench;
mod claim;
mod client;
mod clock;
mod drift;
mod duration;
mod error;
mod guard;
mod holder;
mod keeper;
mod listener;
mod local_queue;
mod lock;
pub mod memory;
mod name;
mod namespace;
mod nearest;
mod observer;
mod options;
mod owner;
mod patience;
mod semantics;
mod sync;
mod token;
mod url;

pub use admin::{Finding, LockAdmin, LockStatus, Purge, Severity, Waiter};
pub use backend::{Attempt, Busy, Grant, LockBackend, MAX_CLAIMS_PER_RENEWAL, Release, Renewal, renew_each};
pub use claim::{Claim, LockMode};
pub use client::{LockClient, LockClientBuilder};
pub use clock::{Clock, Moment, RuntimeClock, Sleep, SystemClock};
pub use drift::Drift;
pub use duration::parse_duration;
pub use error::{Error, ErrorKind, Loss, LossCause, Result};
pub use guard::{Health, Hold, HoldStatus, Lease, LockGuard};
pub use holder::HolderInfo;
pub use listener::Listener;
pub use local_queue::LocalQueue;
pub use lock::{DistributedLock, DistributedLockExt};
pub use name::LockName;
pub use namespace::Namespace;
pub use nearest::{did_you_mean, nearest};
pub use observer::{Event, Observer, TracingObserver};
pub use options::{AcquireOptions, Wait};
pub use owner::OwnerId;
pub use patience::Patience;
pub use semantics::{
    CrashBound, ExpiryClock, Fairness, Fault, HoldKind, LossSignal, Outcome, Promises, Reach, Semantics,
    TokenClass, WakeUp,
};
pub use token::FencingToken;
pub use url::{Authority, Endpoint, Query, Secret, StoreUrl};

use sync::locked;
