//! Distributed locks with fencing tokens, and a loss signal in time, on the store you already run.
//!
//! ```
//! use leasehold::DistributedLockExt;
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> leasehold::Result<()> {
//! let locks = leasehold::connect("memory:").await?; // redis://host:6379, zk://z1,z2,z3/app …
//!
//! let guard = locks.acquire("invoice/42").await?; // waits; from then on, the lease is renewed in the background
//! let work = charge(guard.token()?); // pass the token to what the lock protects
//! guard.protect(work).await?; // stopped if the lock is lost
//! guard.release().await?; // says whether the lock covered the work to its end
//! # Ok(()) }
//! # async fn charge(token: leasehold::FencingToken) {}
//! ```
//!
//! To try once, call [`try_acquire`](DistributedLockExt::try_acquire); to wait for a limited time, use
//! [`AcquireOptions::with_wait`]; to acquire, work and release in one call, use
//! [`with_lock`](DistributedLockExt::with_lock). To choose the store by configuration, see [`Config`]. The command
//! `leasehold run NAME -- COMMAND` does the same for any program.
//!
//! What one acquisition is to do otherwise than the others begins with what was configured for all:
//!
//! ```
//! use leasehold::{DistributedLock, LockName};
//! # use std::time::Duration;
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> leasehold::Result<()> {
//! # let locks = leasehold::connect("memory:").await?;
//! let options = locks.defaults().clone().with_wait(Duration::from_secs(2));
//! let guard = locks.acquire_with(&LockName::new("invoice/42")?, &options).await?;
//! # guard.release().await }
//! ```
//!
//! Open a store once and share it: `connect` returns an `Arc`, and every store that is opened has connections of its own. In
//! memory, it has locks of its own as well: what two calls of `connect("memory:")` return does not exclude each other. Share
//! one, or give the store a name: `memory:NAME`.
//!
//! # What is promised
//!
//! * **Exclusion**: in the store's own order of events, a name has at most one owner at any point, and only the owner
//!   can release or renew.
//! * **Loss in time**: [`is_held`](Lease::is_held) turns false no later than the lease ends by the local clock, before it
//!   can end in the store. It is computed from the clock at the call, and so is right even where no task could run.
//!   [`lost`](Lease::lost) is ready by the same time, if the task that awaits it can run; after a suspend of the host, up to
//!   1 s later.
//! * **Fencing tokens**: a later grant of a name has a larger [token](FencingToken), and no two have the same.
//! * **No deadlock**: the lock of a crashed holder is free after its lease, session or connection, without an operator.
//! * **Bounded waits**: an acquisition with a deadline returns by it, whatever the store does.
//! * **Cancel safety**: an acquisition that is dropped at any await leaves nothing behind that outlasts a lease.
//! * **Clean outcomes**: an unknown outcome is reported as [`Indeterminate`](ErrorKind::Indeterminate), never as busy or as
//!   not applied.
//!
//! Which of these promises each store keeps under which fault is available as data, in [`semantics`]; the conformance suite
//! checks it against measurements. Where a fault makes a store itself grant twice (a deleted record, a replica that takes
//! over without the last grant), the first holder learns of it from its next renewal at the latest, and until then believes
//! that it holds the lock.
//!
//! # What no lock gives
//!
//! Exclusion of *effects*. A process that is paused while it holds a lock wakes up later and writes, and no lock service
//! can call that write back (Kleppmann, *How to do distributed locking*, 2016). Only the resource can refuse it: hand it
//! the [fencing token](FencingToken), and let it accept none lower than the highest it has seen. Where it cannot, make the
//! work safe to repeat, and use the lock only to avoid repeating it. The guide `docs/fencing.md` of the repository has both:
//! the `UPDATE` that checks (`FencedWrite` of the crate `leasehold-sql`, whatever store the lock is in), an object store,
//! and what to do with a resource that cannot check.
//!
//! [`protect`](Lease::protect) cannot stop what does not await, nor what was spawned. Give blocking code a clone of the
//! [`lease`](LockGuard::lease), and have it ask for the [`token`](Lease::token) before each effect.
//!
//! Locks here are not re-entrant, and nothing detects a deadlock between two names: take them in the same order everywhere.
//! On ZooKeeper and Redis (not `redlock:`) locks are fair; on the other stores waiters get them in no order. Where many tasks
//! of one process want one name, they can [take turns](Config::local_queue) without asking the store. There are no shared
//! (reader–writer) locks and no semaphores.
//!
//! # Errors
//!
//! The [kind](ErrorKind) of an error says what to do next:
//!
//! ```
//! use leasehold::{DistributedLock, DistributedLockExt, Error, ErrorKind, Lease, Result};
//!
//! enum Next {
//!     Done,
//!     NotOurTurn,
//!     TryAgainLater,
//!     GiveUp(Error),
//! }
//!
//! async fn nightly(locks: &dyn DistributedLock) -> Next {
//!     let error = match locks.with_lock("nightly", |lease| report(lease)).await {
//!         Ok(reported) => match reported {
//!             Ok(()) => return Next::Done,
//!             Err(of_the_work) => of_the_work,
//!         },
//!         Err(of_the_lock) => of_the_lock,
//!     };
//!     match error.kind() {
//!         // Somebody else held it for as long as we would wait.
//!         ErrorKind::Busy | ErrorKind::TimedOut => Next::NotOurTurn,
//!         // It was ours, and is no longer: the work may be half done. Begin again, with a new token.
//!         ErrorKind::Lost => Next::TryAgainLater,
//!         // The store gave no usable answer. What it may have granted is being taken back.
//!         ErrorKind::Unavailable | ErrorKind::Indeterminate => Next::TryAgainLater,
//!         // Denied, Misconfigured, Invalid, Unsupported, Closed: trying again does not help. `error.help()` may.
//!         _ => Next::GiveUp(error),
//!     }
//! }
//! # async fn report(lease: Lease) -> Result<()> { lease.token().map(drop) }
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
//! # assert!(matches!(nightly(&*leasehold::connect("memory:").await?).await, Next::Done));
//! # Ok(()) }
//! ```
//!
//! What no caller waits for (a loss, a renewal that failed, a release that was not confirmed) is an event of `tracing` with
//! the target `leasehold`. For metrics, give a client an [`Observer`](client::Observer) of your own.
//!
//! # Which store, which feature
//!
//! | store | URL | feature | between |
//! |---|---|---|---|
//! | Redis 7, Valkey | `redis://host:6379/0`, `redis+unix:///run/redis.sock` | `redis` | hosts |
//! | … over TLS | `rediss://host:6380/0` | `redis`, `tls` | hosts |
//! | … watched by Sentinels | `redis+sentinel://s1:26379,s2:26379,s3:26379/mymaster` | `redis` | hosts |
//! | … a cluster | `redis+cluster://n1:6379,n2:6379` | `redis` | hosts |
//! | … a majority of nodes | `redlock://r1:6379,r2:6379,r3:6379`, `redlock+tls://…` | `redis`, `tls` | hosts |
//! | ZooKeeper | `zk://z1:2181,z2:2181,z3:2181/app` | `zookeeper` | hosts |
//! | … over TLS | `zk+tls://z1:2281/app` | `zookeeper-tls` | hosts |
//! | MySQL, MariaDB | `mysql://user@host/database`, `mariadb://…` | `mysql`; `tls` unless the server is on this host, or with `sslmode=disable` | hosts |
//! | PostgreSQL | `postgres://user@host/database` | `postgres`; `tls` likewise | hosts |
//! | SQLite | `sqlite:/var/lib/shop/locks.db` | `sqlite` | processes of one host |
//! | memory | `memory:`, `memory:NAME` | none | tasks of one process |
//!
//! `full` is all of these features but `zookeeper-tls`, which links a second crypto library, written in C. No feature is on
//! by default: an application enables the stores that it uses. MySQL, MariaDB and PostgreSQL need their tables made once, by
//! `leasehold init` or [`LockAdmin::init`](admin::LockAdmin::init). To add a store of your own, register a scheme for it in a
//! [`Registry`]. Everything needs a Tokio runtime with I/O and time enabled.
//!
//! # Where to go
//!
//! * to use locks: [`DistributedLock`], [`LockGuard`], [`AcquireOptions`], [`ErrorKind`]
//! * to configure the store: [`Config`]
//! * to see who holds what, and free what is stuck: [`admin`]
//! * to choose a store: the six questions of `docs/choose.md`, and [`semantics`]
//! * to write a backend: [`backend`]; to observe a client, or to choose its clock: [`client`]

#[cfg(feature = "bench")]
#[doc(hidden)]
pub mod bench;
mod config;
mod registry;

pub use config::{Config, ConfigEntry, ConfigSource, ConfigSources};
pub use leasehold_core::{
    AcquireOptions, DistributedLock, DistributedLockExt, Error, ErrorKind, FencingToken, Health, HolderInfo,
    Lease, LocalQueue, LockGuard, LockName, Loss, LossCause, Result, Wait, parse_duration,
};
pub use registry::Registry;

use std::sync::Arc;

/// For operators: looking at locks, and freeing them by hand. Start at [`DistributedLock::admin`].
pub mod admin {
    pub use leasehold_core::{Finding, LockAdmin, LockStatus, Purge, Severity, Waiter};
}

/// For authors of backends: what a store must be able to do, in [`LockBackend`](backend::LockBackend), and the types of
/// that contract. [`MemoryBackend`](backend::MemoryBackend) is the shortest correct one; a [`Registry`] gives yours a
/// scheme.
pub mod backend {
    pub use leasehold_core::memory::MemoryBackend;
    pub use leasehold_core::{
        Attempt, Authority, Busy, Claim, Endpoint, Grant, Hold, HoldStatus, Listener, LockBackend, LockMode,
        MAX_CLAIMS_PER_RENEWAL, Namespace, OwnerId, Patience, Query, Release, Renewal, StoreUrl,
        did_you_mean, nearest, renew_each,
    };
}

/// The client between the two contracts. Build it yourself over a backend from [`Registry::open`] to choose the clock, the
/// observer or the drift allowance.
pub mod client {
    pub use leasehold_core::{
        Clock, Drift, Event, LockClient, LockClientBuilder, Moment, Observer, RuntimeClock, Sleep,
        SystemClock, TracingObserver,
    };
}

/// What each backend promises under which fault, as data. Start at [`DistributedLock::semantics`].
pub mod semantics {
    pub use leasehold_core::{
        CrashBound, ExpiryClock, Fairness, Fault, HoldKind, LossSignal, Outcome, Promises, Reach, Semantics,
        TokenClass, WakeUp,
    };
}

/// The locks of the store at this URL, with the defaults of [`AcquireOptions`]. Reads no file and no environment.
///
/// It opens nothing: the first lock does, and if the store cannot be reached, the first lock fails.
///
/// # Errors
///
/// [`Invalid`](ErrorKind::Invalid) for a URL that cannot be read, [`Misconfigured`](ErrorKind::Misconfigured) for a
/// scheme that no backend serves, with the nearest one or the feature to add.
///
/// # Cancel safety
///
/// Safe to drop: nothing is open yet.
pub async fn connect(url: &str) -> Result<Arc<dyn DistributedLock>> {
    connect_with(&Config::new(url)?).await
}

/// The locks of the configured store.
///
/// ```
/// # use leasehold::{Config, DistributedLockExt};
/// # use std::time::Duration;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> leasehold::Result<()> {
/// let config = Config::new("memory:")?.with_ttl(Duration::from_secs(10)).with_prefix("shop/")?;
/// let locks = leasehold::connect_with(&config).await?;
/// # let _ = locks.try_acquire("a").await?;
/// # Ok(()) }
/// ```
///
/// It opens nothing: the first lock does, and if the store cannot be reached, the first lock fails.
///
/// # Errors
///
/// As [`Registry::connect`].
///
/// # Cancel safety
///
/// Safe to drop: nothing is open yet.
pub async fn connect_with(config: &Config) -> Result<Arc<dyn DistributedLock>> {
    Registry::default().connect(config).await
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

#[cfg(all(doctest, feature = "full"))]
#[doc = include_str!("../docs/choose.md")]
mod choose {}

#[cfg(all(doctest, feature = "sqlite"))]
#[doc = include_str!("../docs/fencing.md")]
mod fencing {}
