//! The core of Leasehold: the two contracts, and the client between them.
//!
//! [`DistributedLock`] is for people who *use* locks: a name goes in, a [`LockGuard`] comes out. [`LockBackend`] is for
//! people who *write* backends. [`LockClient`] stands between them and does the hard part once for all backends: one
//! deadline over every step of an acquisition, cleaning up after one that was abandoned, renewing leases, and telling the
//! holder in time that its lock is lost.
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
//! Where each part is: `ARCHITECTURE.md` in the repository.
//!
//! This crate knows no store, no command line and no TLS.

mod admin;
mod backend;
mod claim;
mod client;
mod clock;
mod context;
mod duration;
mod error;
#[doc(hidden)]
pub mod error_within;
mod fallback_runtime;
mod guard;
mod holder;
mod keeper;
mod kinds;
mod lock;
mod lock_ext;
pub mod memory;
mod name;
mod namespace;
mod observer;
mod options;
mod owner;
mod semantics;
mod servers;
mod stall_timeout;
mod suspects;
#[doc(hidden)]
pub mod sync;
mod token;
#[doc(hidden)]
pub mod trial;
mod wait_queue;

pub use admin::{Finding, LockAdmin, LockStatus, Purge, Severity, Waiter};
pub use backend::{Attempt, Busy, Grant, LockBackend, MAX_CLAIMS_PER_RENEWAL, Release, Renewal, renew_each};
pub use claim::{Claim, LockMode};
pub use client::{LockClient, LockClientBuilder};
pub use clock::{Clock, Moment, RuntimeClock, Sleep, SystemClock};
pub use duration::parse_duration;
pub use error::{Error, ErrorKind, Loss, LossCause, Result};
pub use guard::{Health, Hold, HoldStatus, Lease, LockGuard};
pub use holder::HolderInfo;
pub use kinds::{Election, Leader, Leadership, LockSetGuard, Scope, Semaphore};
pub use lock::DistributedLock;
pub use lock_ext::DistributedLockExt;
pub use name::{IntoLockName, LockName};
pub use namespace::Namespace;
pub use observer::{Event, Observer, TracingObserver};
pub use options::{AcquireOptions, Wait};
pub use owner::OwnerId;
pub use semantics::{
    CrashBound, ExpiryClock, Fairness, Fault, HoldKind, LossSignal, Outcome, Promises, Reach, Semantics,
    Sharing, TokenClass, WakeUp,
};
pub use servers::KnownServers;
pub use stall_timeout::StallTimeout;
pub use suspects::Suspects;
pub use token::FencingToken;

use sync::locked;
